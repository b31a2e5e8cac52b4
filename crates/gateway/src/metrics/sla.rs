//! How much of each site's SLA is used.

use nightwatt_policy::sla::Sla;

use super::{Exposition, Family, Scraped, gauge};

/// Every form that a site has.
pub(super) fn write(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let slas: Vec<_> = sites.iter().filter_map(|it| Some((it, it.site.scenario.sla()?))).collect();
    let mut family = |family: Family, value: &dyn Fn(&Scraped<'_>, &Sla) -> Option<f64>| {
        let of = |(it, sla): &(&Scraped<'_>, Sla)| Some((it.name().to_owned(), value(it, sla)?));
        let values: Vec<_> = slas.iter().filter_map(of).collect();
        if values.is_empty() {
            return;
        }
        page.family(family, |samples| {
            for (name, value) in &values {
                samples.add(&[name], *value);
            }
        });
    };
    let gauge = |name, help| gauge(name, &["site"], help);
    let requests = |it: &Scraped<'_>, sla: &Sla| it.status.sla.filter(|_| sla.share.is_some());
    family(
        gauge(
            "nightwatt_sla_window_requests",
            "Requests that the SLA covers in its rolling window; none without an SLA.",
        ),
        &|it, sla| Some(requests(it, sla)?.0 as f64),
    );
    family(
        gauge("nightwatt_sla_window_delayed_requests", "Of these, requests that a sleep delayed."),
        &|it, sla| Some(requests(it, sla)?.1 as f64),
    );
    family(
        gauge(
            "nightwatt_sla_allowed_ratio",
            "The share of requests in the window that the SLA allows to be delayed.",
        ),
        &|it, sla| requests(it, sla).and(sla.share.map(|it| it.share)),
    );
    family(
        gauge(
            "nightwatt_sla_delayed_visits_today",
            "Visits that a sleep delayed on this calendar day, if the SLA limits their number.",
        ),
        &|it, _| Some(it.status.sla_visits_today?.0 as f64),
    );
    family(
        gauge(
            "nightwatt_sla_allowed_visits_per_day",
            "Visits a day that the SLA allows to be delayed.",
        ),
        &|_, sla| sla.visits_per_day.map(f64::from),
    );
    family(
        gauge(
            "nightwatt_sla_longest_wait_seconds",
            "The server sleeps only while it is expected to wake within this; see `nightwatt_expected_wake_seconds`.",
        ),
        &|_, sla| sla.longest_wait.map(|most| most.as_secs_f64()),
    );
}
