//! Mirrors of sites.

use nightwatt_mirror::pure::reason::Reason;
use nightwatt_report::exposition::Exposition;

use super::{counter, gauge};
use crate::gateway::Gateway;
use crate::status::MirrorStatus;

/// A metric of each mirror.
struct MirrorGauge {
    name: &'static str,
    help: &'static str,
    value: fn(&MirrorStatus) -> f64,
}

const GAUGES: [MirrorGauge; 6] = [
    MirrorGauge {
        name: "nightwatt_mirror_pages",
        help: "Pages and files in the mirror of the site, without errors and redirects.",
        value: |it| it.pages as f64,
    },
    MirrorGauge {
        name: "nightwatt_mirror_bytes",
        help: "Bytes of the mirror's bodies on the disk.",
        value: |it| it.bytes as f64,
    },
    MirrorGauge {
        name: "nightwatt_mirror_max_bytes",
        help: "What the mirror's bodies may be, in bytes.",
        value: |it| it.max_bytes as f64,
    },
    MirrorGauge {
        name: "nightwatt_mirror_oldest_seconds",
        help: "Time since the mirror's oldest answer was confirmed; 0 while it is empty.",
        value: |it| it.oldest_s.unwrap_or(0.0),
    },
    MirrorGauge {
        name: "nightwatt_mirror_due_pages",
        help: "Answers in the mirror, or to come, that are to be fetched before the server sleeps.",
        value: |it| it.due as f64,
    },
    MirrorGauge {
        name: "nightwatt_mirror_coverage_ratio",
        help: "Share of the last week's anonymous GETs of people that the mirror could have answered; 0 without any.",
        value: |it| it.coverage.unwrap_or(0.0),
    },
];

/// What the server uses for each mirror, over all starts.
const COUNTERS: [MirrorGauge; 3] = [
    MirrorGauge {
        name: "nightwatt_mirror_wakeups_total",
        help: "Wake-ups for the mirror alone, over all starts.",
        value: |it| it.own_wakeups as f64,
    },
    MirrorGauge {
        name: "nightwatt_mirror_awake_seconds_total",
        help: "Time for which the server was awake for the mirror alone, over all starts.",
        value: |it| it.own_awake_s,
    },
    MirrorGauge {
        name: "nightwatt_mirror_energy_joules_total",
        help: "Energy of both, beyond sleeping: modelled, and a part of the server's.",
        value: |it| it.own_energy.joules.get(),
    },
];

pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let mirrors = gateway.serving.sites.iter().filter_map(|site| site.mirror.as_ref());
    let all: Vec<MirrorStatus> = mirrors.map(|mirror| mirror.status()).collect();
    if all.is_empty() {
        return;
    }
    for MirrorGauge { name, help, value } in &GAUGES {
        page.family(gauge(name, &["site"], help), |samples| {
            for it in &all {
                samples.add(&[&it.site], value(it));
            }
        });
    }
    for MirrorGauge { name, help, value } in &COUNTERS {
        page.family(counter(name, &["site"], help), |samples| {
            for it in &all {
                samples.add(&[&it.site], value(it));
            }
        });
    }
    let refused = gauge(
        "nightwatt_mirror_refused_pages",
        &["site", "why"],
        "Addresses that are not mirrored, by why.",
    );
    page.family(refused, |samples| {
        for it in &all {
            for reason in Reason::ALL {
                let count = it.not_mirrored.get(reason.token()).copied().unwrap_or(0);
                samples.add(&[&it.site, reason.token()], count);
            }
        }
    });
}
