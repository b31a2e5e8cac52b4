//! Probes of use past the proxy, on the page.

use nightwatt_report::exposition::Exposition;

use super::{Scraped, counter, gauge};
use crate::status::InUseStatus;

/// Nothing for a configuration without one.
pub(super) fn write(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let all = || {
        let probes = |it: &'_ Scraped<'_>| it.status.in_use.clone();
        sites.iter().flat_map(move |it| probes(it).into_iter().map(|probe| (it.name(), probe)))
    };
    if all().next().is_none() {
        return;
    }
    let keeps =
        |it: &InUseStatus| u8::from(matches!(&*it.state, "in-use" | "unknown" | "not-asked"));
    let is_silent = |it: &InUseStatus| u8::from(matches!(&*it.state, "unknown" | "ignored"));
    for (name, help, value) in [
        (
            "nightwatt_in_use",
            "1 while a probe of use past the proxy keeps the server awake, also without an answer; else 0.",
            keeps as fn(&InUseStatus) -> u8,
        ),
        (
            "nightwatt_in_use_silent",
            "1 while a probe of use past the proxy gets no answer that makes sense; else 0.",
            is_silent,
        ),
    ] {
        page.family(gauge(name, &["site", "probe"], help), |samples| {
            for (site, probe) in all() {
                samples.add(&[site, &probe.name], value(&probe));
            }
        });
    }
    let asked = counter(
        "nightwatt_in_use_questions_total",
        &["site", "probe", "found"],
        "Questions whether the server is in use past the proxy, by what was found.",
    );
    page.family(asked, |samples| {
        for (site, probe) in all() {
            let InUseStatus { name, used, idle, failed, .. } = &probe;
            for (found, count) in [("in-use", used), ("idle", idle), ("unknown", failed)] {
                samples.add(&[site, name, found], *count);
            }
        }
    });
}
