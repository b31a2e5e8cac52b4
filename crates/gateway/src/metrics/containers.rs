//! Containers whose labels describe sites, on the page.

use nightwatt_report::exposition::Exposition;

use super::gauge;
use crate::gateway::Gateway;
use crate::status::ContainerOutcome;

/// Nothing without `[containers]`.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let serving = &gateway.serving;
    let Some(status) = gateway.found.status(&serving.config, serving.clock.now()) else { return };
    let containers = gauge(
        "nightwatt_containers",
        &["outcome"],
        "Containers with labels of nightwatt, by what became of them.",
    );
    page.family(containers, |samples| {
        for outcome in ContainerOutcome::ALL {
            let count = status.containers.iter().filter(|it| it.outcome == outcome).count();
            samples.add(&[outcome.as_str()], count);
        }
    });
    let up = gauge(
        "nightwatt_containers_daemon_up",
        &[],
        "1 while the daemon of `[containers]` answers, else 0: sites of containers stay as they are.",
    );
    page.single(up, u8::from(status.up));
    let lost = gauge(
        "nightwatt_containers_daemon_lost_timestamp_seconds",
        &[],
        "Since when the daemon of `[containers]` does not answer, in seconds since 1970; 0 while it does.",
    );
    page.single(lost, status.lost_ms.unwrap_or(0) as f64 / 1000.0);
}
