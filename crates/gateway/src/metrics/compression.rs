//! What was compressed on its way to clients.

use nightwatt_report::exposition::Exposition;

use super::counter;
use crate::gateway::Gateway;
use crate::status::CompressionStatus;

pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let sites = gateway.serving.sites.iter();
    let all: Vec<(&str, CompressionStatus)> = sites
        .filter_map(|site| Some((&*site.name, site.compressor.as_ref()?.tally.status())))
        .collect();
    if all.is_empty() {
        return;
    }
    let answers = counter(
        "nightwatt_compressed_answers_total",
        &["site", "coding"],
        "Answers and files that were compressed for the client.",
    );
    page.family(answers, |samples| {
        for (site, status) in &all {
            for (coding, count) in &status.answers {
                samples.add(&[site, coding], *count);
            }
        }
    });
    for (name, help, value) in [
        (
            "nightwatt_compressed_bytes_before_total",
            "Bytes of these before compression.",
            (|it| it.bytes_before) as fn(&CompressionStatus) -> u64,
        ),
        ("nightwatt_compressed_bytes_after_total", "Bytes of these as clients got them.", |it| {
            it.bytes_after
        }),
        (
            "nightwatt_compression_refused_total",
            "Answers that passed as they were, since too many others were being compressed.",
            |it| it.no_room,
        ),
    ] {
        page.family(counter(name, &["site"], help), |samples| {
            for (site, status) in &all {
                samples.add(&[site], value(status));
            }
        });
    }
}
