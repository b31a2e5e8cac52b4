//! `/metrics`: everything that `status` knows and more, for Prometheus.
//!
//! Only what [`tally`] counts is kept for it: the rest is collected at each scrape. No label has a value that a client
//! can choose, so the configuration determines the number of series.

mod compression;
mod containers;
mod disk;
mod in_use;
mod jobs;
mod machines;
mod magic_packets;
mod mirrors;
mod pools;
mod process;
mod sla;
mod tally;
mod tcp;
mod tls;
mod udp;

use std::fmt::Display;

use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::lifecycle::Phase;

pub(crate) use self::tally::{
    ConnectionTally, RequestTally, ServerTally, WarmUpTally, WarmedUp, Why,
};
use crate::access_log::Answered;
use crate::gateway::Gateway;
use crate::site::Site;
use crate::status::{LedgerStatus, MeterStatus, Parts, SiteStatus};
use nightwatt_report::exposition::{Exposition, Family, MetricKind};

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: MetricKind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: MetricKind::Gauge, labels, help }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: MetricKind::Histogram, labels, help }
}

/// A site at a scrape.
struct Scraped<'a> {
    site: &'a Site,
    status: SiteStatus,
    /// The ledger since the start, as far as it is settled.
    since_start: LedgerStatus,
}

impl<'a> Scraped<'a> {
    fn of(gateway: &Gateway, site: &'a Site) -> Self {
        let own = site.supervisor.bill_since_start();
        let since_start = site.whole_ledger(&own, |it| it.supervisor.bill_since_start());
        Self { site, status: gateway.site_status(site), since_start }
    }

    fn name(&self) -> &str {
        &self.site.name
    }

    /// Whether there is a meter of the `server`, or of the `proxy`.
    fn has_meter(&self, of: &str) -> bool {
        self.status.meters.iter().any(|meter| meter.of == of)
    }
}

impl Gateway {
    /// The page for Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let sites: Vec<Scraped<'_>> =
            self.serving.sites.iter().map(|site| Scraped::of(self, site)).collect();
        let mut page = Exposition::default();
        write_info(&mut page, self, &sites);
        write_servers(&mut page, &sites);
        write_wakeups(&mut page, &sites);
        write_requests(&mut page, self);
        write_delayed(&mut page, &sites);
        write_delays(&mut page, &sites);
        sla::write(&mut page, &sites);
        write_caches(&mut page, &sites);
        disk::write(&mut page, self);
        mirrors::write(&mut page, self);
        compression::write(&mut page, self);
        in_use::write(&mut page, &sites);
        containers::write(&mut page, self);
        write_energy(&mut page, &sites);
        if sites.iter().any(|it| !it.status.meters.is_empty()) {
            write_meters(&mut page, &sites);
        }
        write_ledgers(&mut page, &sites);
        machines::write(&mut page, self);
        pools::write(&mut page, &sites);
        if self.serving.observe {
            write_shadows(&mut page, &sites);
        }
        write_connections(&mut page, self);
        tls::write(&mut page, self);
        jobs::write(&mut page, self);
        magic_packets::write(&mut page, self);
        tcp::write(&mut page, self);
        udp::write(&mut page, self);
        process::write(&mut page);
        page.into_text()
    }

    /// Requests by site; those for no site have the empty name, which equals no such label.
    fn tallies(&self) -> impl Iterator<Item = (&str, &RequestTally)> {
        let of_sites = self.serving.sites.iter().map(|site| (&*site.name, &site.counters.requests));
        of_sites.chain([("", &*self.serving.unsited)])
    }
}

/// A family with one sample for each site.
fn per_site<V: Display>(
    page: &mut Exposition,
    family: Family,
    sites: &[Scraped<'_>],
    value: impl Fn(&Scraped<'_>) -> V,
) {
    page.family(family, |samples| {
        for it in sites {
            samples.add(&[it.name()], value(it));
        }
    });
}

fn write_info(page: &mut Exposition, gateway: &Gateway, sites: &[Scraped<'_>]) {
    let build = gauge("nightwatt_build_info", &["version"], "1; the version that runs.");
    page.family(build, |samples| samples.add(&[env!("CARGO_PKG_VERSION")], 1));
    let site = gauge("nightwatt_site_info", &["site", "policy"], "1; the site's sleep policy.");
    page.family(site, |samples| {
        for it in sites {
            samples.add(&[it.name(), &it.status.policy], 1);
        }
    });
    let learned = gauge(
        "nightwatt_policy_learned_seconds",
        &["site"],
        "For how long the sleep policy has watched requests to learn from them, all starts together; \
         0 if it does not learn.",
    );
    per_site(page, learned, sites, |it| it.status.learned_from_s.unwrap_or(0.0));
    let observe = "1 in shadow mode (`--observe`), where servers are left alone; else 0.";
    let observe = gauge("nightwatt_shadow_mode", &[], observe);
    page.single(observe, u8::from(gateway.serving.observe));
    let healthy = gauge(
        "nightwatt_site_healthy",
        &["site"],
        "1 if the site is up, its server awake or not; 0 if the server has failed to wake.",
    );
    per_site(page, healthy, sites, |it| u8::from(it.site.health(gateway.serving.observe).healthy));
    let started = gauge(
        "process_start_time_seconds",
        &[],
        "When the proxy started, in seconds since 1970; counters began then.",
    );
    page.single(started, gateway.started.wall.0 as f64 / 1000.0);
}

fn write_servers(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let state = gauge(
        "nightwatt_server_state",
        &["site", "state"],
        "1 for the state that the server is in, 0 for every other.",
    );
    page.family(state, |samples| {
        for it in sites {
            let all = Phase::ALL.map(Phase::as_str);
            samples.states(&[it.name()], all, &it.status.state);
        }
    });
    let seconds = counter(
        "nightwatt_server_seconds_total",
        &["site", "billed"],
        "Time by how it is billed: `awake`, `asleep` (from sleep commands to wake commands \
         answered), or `unobserved`. Counted once settled: it stands still while the server falls \
         asleep.",
    );
    page.family(seconds, |samples| {
        for it in sites {
            for (billed, seconds) in times(&it.since_start) {
                samples.add(&[it.name(), billed], seconds);
            }
        }
    });
    let exchanges =
        gauge("nightwatt_server_exchanges", &["site"], "Exchanges with the server under way.");
    per_site(page, exchanges, sites, |it| it.status.in_flight);
    let held = gauge(
        "nightwatt_requests_held",
        &["site"],
        "Requests held now, until the server is awake.",
    );
    per_site(page, held, sites, |it| it.status.held);
}

fn times(ledger: &LedgerStatus) -> [(&'static str, f64); 3] {
    [("awake", ledger.awake_s), ("asleep", ledger.asleep_s), ("unobserved", ledger.unobserved_s)]
}

fn write_wakeups(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let sleeps = counter(
        "nightwatt_sleeps_total",
        &["site"],
        "Sleeps begun, without those that came to nothing.",
    );
    per_site(page, sleeps, sites, |it| it.since_start.sleeps);
    let wakeups = counter(
        "nightwatt_wakeups_total",
        &["site", "cause"],
        "Wake-ups begun, by cause: `request`, `crawl-window`, `awake-hours`, `policy`, `refresh`, `job`, `magic-packet`, `operator`, `pool`, `guest`.",
    );
    page.family(wakeups, |samples| {
        for it in sites {
            for (cause, count) in it.site.supervisor.tally().wakeups() {
                samples.add(&[it.name(), cause], count);
            }
        }
    });
    let failures = counter(
        "nightwatt_wakeup_failures_total",
        &["site"],
        "Times that the server was given up as failed: it did not wake, or went away at once.",
    );
    per_site(page, failures, sites, |it| it.site.supervisor.tally().failures());
    let took = histogram(
        "nightwatt_wake_duration_seconds",
        &["site"],
        "From the wake command to the server's first answer; only wake-ups that succeeded.",
    );
    page.family(took, |samples| {
        for it in sites {
            samples.histogram(&[it.name()], &it.site.supervisor.tally().wake_times());
        }
    });
    let expected = gauge(
        "nightwatt_expected_wake_seconds",
        &["site"],
        "What the next wake-up is expected to take: the mean of the last ones, before any as configured.",
    );
    per_site(page, expected, sites, |it| it.status.wake_time_s);
    let loops = counter(
        "nightwatt_wake_loops_total",
        &["site"],
        "Times that the server was woken three times within 15 minutes without serving a request, and left \
         awake for an hour.",
    );
    per_site(page, loops, sites, |it| it.status.wake_loops);
    let changes = counter(
        "nightwatt_server_changes_total",
        &["site", "change"],
        "What happened to the server, by the names that the ledger has for it.",
    );
    page.family(changes, |samples| {
        for it in sites {
            for (change, count) in it.site.supervisor.tally().changes() {
                samples.add(&[it.name(), change], count);
            }
        }
    });
}

fn write_requests(page: &mut Exposition, gateway: &Gateway) {
    let requests = counter(
        "nightwatt_requests_total",
        &["site", "answer", "class"],
        "Requests by how they were answered and by class of client, as in the access log; `site` is \
         empty for requests to no site. Requests that are refused before they are classified count as \
         `api`.",
    );
    page.family(requests, |samples| {
        for (site, tally) in gateway.tallies() {
            for answered in Answered::ALL {
                for class in ClientClass::ALL {
                    let count = tally.requests(answered, class);
                    samples.add(&[site, answered.as_str(), class.as_str()], count);
                }
            }
        }
    });
    let responses = counter(
        "nightwatt_responses_total",
        &["site", "code"],
        "Answers by the hundreds of their status, as in the access log: a client that left before \
         it was answered counts as `4xx` (499).",
    );
    page.family(responses, |samples| {
        for (site, tally) in gateway.tallies() {
            for (code, count) in tally.statuses() {
                samples.add(&[site, code], count);
            }
        }
    });
    let refused = counter(
        "nightwatt_refused_requests_total",
        &["site", "reason"],
        "Requests that the proxy did not accept, by reason; heads that cannot be read are counted \
         here alone.",
    );
    page.family(refused, |samples| {
        for (site, tally) in gateway.tallies() {
            for (reason, count) in tally.refused() {
                samples.add(&[site, reason], count);
            }
        }
    });
}

fn write_delayed(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let requests = counter(
        "nightwatt_delayed_requests_total",
        &["site"],
        "Requests of people and their programs that a sleep delayed.",
    );
    per_site(page, requests, sites, |it| it.status.delayed_requests);
    let visits =
        counter("nightwatt_visits_total", &["site"], "Visits of people and their programs.");
    per_site(page, visits, sites, |it| it.status.visits);
    let delayed =
        counter("nightwatt_delayed_visits_total", &["site"], "Visits that a sleep delayed.");
    per_site(page, delayed, sites, |it| it.status.delayed_visits);
}

fn write_delays(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let delay = histogram(
        "nightwatt_request_delay_seconds",
        &["site", "answer"],
        "From the head of a request to the head of its answer, by how it was answered.",
    );
    page.family(delay, |samples| {
        for it in sites {
            for answered in Answered::ALL {
                let delays = it.site.counters.requests.delays(answered);
                samples.histogram(&[it.name(), answered.as_str()], &delays);
            }
        }
    });
}

fn write_caches(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let objects = gauge("nightwatt_cache_objects", &["site"], "Resources in the cache.");
    per_site(page, objects, sites, |it| it.status.cache.0);
    let bytes = gauge("nightwatt_cache_bytes", &["site"], "What the cache holds, in bytes.");
    per_site(page, bytes, sites, |it| it.status.cache.1);
    let most = gauge("nightwatt_cache_max_bytes", &["site"], "What the cache may hold, in bytes.");
    per_site(page, most, sites, |it| it.site.scenario.cache.size_mb << 20);
    let warm_ups = counter(
        "nightwatt_warmups_total",
        &["site", "why", "result"],
        "Requests of the proxy's own while the server was awake, so that its cache lasts while that \
         sleeps: what was `stale`, or the `wish` of a crawler; and what came of them.",
    );
    page.family(warm_ups, |samples| {
        for it in sites {
            for (why, result, count) in it.site.counters.warm_ups.counts() {
                samples.add(&[it.name(), why, result], count);
            }
        }
    });
}

/// Server, proxy, and a server always on: joules measured and modelled, and their uncertainty. The last cannot be
/// measured.
fn energies(ledger: &LedgerStatus) -> [(&'static str, Parts); 3] {
    let always_on = Parts {
        modelled_j: ledger.always_on.joules.get(),
        modelled_uncertainty_j: ledger.always_on.uncertainty.get(),
        ..Parts::default()
    };
    [("server", ledger.server_parts), ("proxy", ledger.proxy_parts), ("always-on", always_on)]
}

/// Energy in joules, of the bill that `ledger` picks.
fn write_joules(
    page: &mut Exposition,
    family: Family,
    sites: &[Scraped<'_>],
    ledger: impl Fn(&Scraped<'_>) -> Option<LedgerStatus>,
) {
    page.family(family, |samples| {
        for it in sites {
            let Some(ledger) = ledger(it) else { continue };
            for (of, parts) in energies(&ledger) {
                samples.add(&[it.name(), of, "modelled"], parts.modelled_j);
                if it.has_meter(of) || parts.measured_s > 0.0 {
                    samples.add(&[it.name(), of, "measured"], parts.measured_j);
                }
            }
        }
    });
}

fn write_energy(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let joules = counter(
        "nightwatt_energy_joules_total",
        &["site", "of", "provenance"],
        "Energy since the start: of the `server`, of the `proxy`, and what a server `always-on` \
         without a proxy would have used. What was `measured` and what is `modelled` are two parts of \
         the same and add up. Counted once settled.",
    );
    write_joules(page, joules, sites, |it| Some(it.since_start.clone()));
    let uncertainty = gauge(
        "nightwatt_energy_uncertainty_ratio",
        &["site"],
        "How far modelled joules of the site may be off, at 95 %, as a share of them.",
    );
    per_site(page, uncertainty, sites, |it| it.site.scenario.server.uncertainty);
}

/// For sites with a meter.
fn write_meters(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let metered = counter(
        "nightwatt_energy_measured_seconds_total",
        &["site", "of"],
        "With a meter: time in which it measured the `server` or the `proxy`; the rest is modelled. \
         Counted once settled.",
    );
    page.family(metered, |samples| {
        for it in sites {
            let ledger = &it.since_start;
            for (of, parts) in [("server", ledger.server_parts), ("proxy", ledger.proxy_parts)] {
                if it.has_meter(of) {
                    samples.add(&[it.name(), of], parts.measured_s);
                }
            }
        }
    });
    let mut of_meters = |family: Family, value: fn(&MeterStatus) -> Option<f64>| {
        page.family(family, |samples| {
            for it in sites {
                for meter in &it.status.meters {
                    if let Some(value) = value(meter) {
                        samples.add(&[it.name(), &meter.of], value);
                    }
                }
            }
        });
    };
    let watts = gauge(
        "nightwatt_meter_power_watts",
        &["site", "of"],
        "With a meter: mean power between its last two readings; none before.",
    );
    of_meters(watts, |meter| meter.watts);
    let age = gauge(
        "nightwatt_meter_reading_age_seconds",
        &["site", "of"],
        "With a meter: time since its last reading; none before.",
    );
    of_meters(age, |meter| meter.read_s_ago);
    let errors = counter(
        "nightwatt_meter_errors_total",
        &["site", "of"],
        "With a meter: times that it could not be opened or read.",
    );
    of_meters(errors, |meter| Some(meter.errors as f64));
}

/// The same figures as in `nightwatt status`. These are gauges, since they continue where an earlier process ended, and
/// a crash may lose the last minutes.
fn write_ledgers(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let seconds = gauge(
        "nightwatt_ledger_seconds",
        &["site", "billed"],
        "The ledger of all starts together: time by how it is billed.",
    );
    page.family(seconds, |samples| {
        for it in sites {
            for (billed, seconds) in times(&it.status.ledger) {
                samples.add(&[it.name(), billed], seconds);
            }
        }
    });
    let cycles = gauge(
        "nightwatt_ledger_switches",
        &["site", "what"],
        "The ledger of all starts together: `sleeps` begun and `wakeups` answered.",
    );
    page.family(cycles, |samples| {
        for it in sites {
            samples.add(&[it.name(), "sleeps"], it.status.ledger.sleeps);
            samples.add(&[it.name(), "wakeups"], it.status.ledger.wakeups);
        }
    });
    let joules = gauge(
        "nightwatt_ledger_energy_joules",
        &["site", "of", "provenance"],
        "The ledger of all starts together: energy, as in `nightwatt_energy_joules_total`.",
    );
    write_joules(page, joules, sites, |it| Some(it.status.ledger.clone()));
    let saving = gauge(
        "nightwatt_ledger_saving_ratio",
        &["site"],
        "The ledger of all starts together: 1 - (server + proxy) / always-on. Absent while it is too early to \
         tell: the server has not slept and woken yet, or the ledger is only seconds long.",
    );
    let savings = sites.iter().filter_map(|it| Some((it.name(), it.status.ledger.saving?)));
    let savings: Vec<_> = savings.collect();
    if !savings.is_empty() {
        page.family(saving, |samples| {
            for (name, saving) in savings {
                samples.add(&[name], saving);
            }
        });
    }
}

/// Shadow mode: what the policy would have done.
fn write_shadows(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let joules = gauge(
        "nightwatt_shadow_energy_joules",
        &["site", "of", "provenance"],
        "Shadow mode only: energy since the start, had the server been let sleep.",
    );
    write_joules(page, joules, sites, |it| Some(it.status.shadow.as_ref()?.ledger.clone()));
    let requests = counter(
        "nightwatt_shadow_requests_total",
        &["site", "delayed"],
        "Shadow mode only: requests of people and their programs, by whether a sleep would have \
         delayed them.",
    );
    page.family(requests, |samples| {
        for it in sites {
            let Some(shadow) = &it.status.shadow else { continue };
            let at_once = shadow.requests.saturating_sub(shadow.delayed_requests);
            samples.add(&[it.name(), "no"], at_once);
            samples.add(&[it.name(), "yes"], shadow.delayed_requests);
        }
    });
    let visits = counter(
        "nightwatt_shadow_visits_total",
        &["site", "delayed"],
        "Shadow mode only: their visits, likewise.",
    );
    page.family(visits, |samples| {
        for it in sites {
            let Some(shadow) = &it.status.shadow else { continue };
            let at_once = shadow.visits.saturating_sub(shadow.delayed_visits);
            samples.add(&[it.name(), "no"], at_once);
            samples.add(&[it.name(), "yes"], shadow.delayed_visits);
        }
    });
}

fn write_connections(page: &mut Exposition, gateway: &Gateway) {
    let (open, accepted, refused) = gateway.serving.connections.counts();
    let family = gauge("nightwatt_connections_open", &[], "Connections of clients open now.");
    page.single(family, open);
    let family =
        counter("nightwatt_connections_total", &[], "Connections of clients that were served.");
    page.single(family, accepted);
    let family = counter(
        "nightwatt_connections_refused_total",
        &[],
        "Connections closed as they came, since their client had `connections_per_client` open.",
    );
    page.single(family, refused);
    let family = counter(
        "nightwatt_unreadable_clients_total",
        &[],
        "Requests for which a proxy in `trusted_proxies` named no client that can be read: the proxy itself \
         counted as the client.",
    );
    page.single(family, gateway.serving.unreadable_clients.total());
    let about = "Memory for the bodies of requests that wait; at most `limits.spool_total_bytes`.";
    let family = gauge("nightwatt_spool_bytes", &[], about);
    page.single(family, gateway.serving.client_limits.spooled());
}
