//! The disk behind the caches.

use nightwatt_report::exposition::Exposition;

use super::{counter, gauge};
use crate::gateway::Gateway;

pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let Some(status) = gateway.disk.as_ref().map(|disk| disk.status()) else { return };
    let gauges = [
        ("nightwatt_disk_cache_answers", "Answers in the disk cache.", status.answers),
        ("nightwatt_disk_cache_bytes", "Bytes of the disk cache's files.", status.bytes),
        (
            "nightwatt_disk_cache_max_bytes",
            "What the disk cache's files may be, in bytes.",
            status.max_bytes,
        ),
        (
            "nightwatt_disk_cache_allowed_bytes",
            "Bytes that the proxy may write a day before its cache writes no more.",
            status.allowed_a_day_bytes,
        ),
        (
            "nightwatt_disk_cache_waiting_answers",
            "Answers that were worth being written when that was last looked at, and did not fit into \
             the day.",
            status.waiting,
        ),
    ];
    for (name, help, value) in gauges {
        page.single(gauge(name, &[], help), value);
    }
    let today = gauge(
        "nightwatt_disk_cache_written_today_bytes",
        &["of"],
        "Bytes that were written since midnight (UTC): of the `cache`, and of `others`: ledgers and logs, \
         as the kernel counts them.",
    );
    page.family(today, |samples| {
        samples.add(&["cache"], status.written_today_bytes);
        samples.add(&["others"], status.others_today_bytes);
    });
    let counters = [
        ("nightwatt_disk_cache_writes_total", "Answers written to the disk cache.", status.written),
        ("nightwatt_disk_cache_reads_total", "Answers read from the disk cache.", status.read),
        (
            "nightwatt_disk_cache_spoilt_total",
            "Answers in the disk cache that were not as they had been written, and were not used.",
            status.spoilt,
        ),
        (
            "nightwatt_disk_cache_failed_writes_total",
            "Writes to the disk cache that failed.",
            status.failed_writes,
        ),
    ];
    for (name, help, value) in counters {
        page.single(counter(name, &[], help), value);
    }
}
