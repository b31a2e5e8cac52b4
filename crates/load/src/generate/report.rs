//! What a run of the generator brought, as data.

use std::collections::BTreeMap;
use std::time::Duration;

use nightwatt_energy::histogram::{Histogram, RELATIVE_ERROR};
use serde::Serialize;

use super::sample::Fault;
use super::schedule::Window;
use super::server::ServerReport;
use super::tally::{Counts, Tally};
use super::worker::OWED;
use super::{Plan, limits};
use crate::refusals::Refusals;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// A thread that uses this much of a processor has nothing left for what comes next.
const BUSY: f64 = 0.95;

/// What a run of the generator brought. Only requests that were due between warm-up and cool-down
/// count, but for [`run`](Self::run) and the connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// Version of this form.
    pub schema: u32,
    /// Seed of times and URLs.
    pub seed: u64,
    /// From the start to the last answer, s.
    pub elapsed_s: f64,
    /// The time that counts, s.
    pub counted_s: f64,
    /// It was ended before its time.
    pub ended_early: bool,
    /// Requests of the whole run.
    pub run: Counts,
    /// Requests that count: `due = answered + failed + unsent`.
    pub requests: Counts,
    /// Requests a second.
    pub rate: Rates,
    /// From when a request was due to the last byte of its answer, s.
    pub latency_s: Quantiles,
    /// From when a request was sent to the last byte of its answer, s: what a client that waits for
    /// its turn would call latency.
    pub service_s: Quantiles,
    /// From when a request was due to the first byte of its answer, s.
    pub first_byte_s: Quantiles,
    /// How much later than due requests left, s.
    pub send_lag_s: Quantiles,
    /// Quantiles are at most this share too high, and never too low.
    pub quantile_error: f64,
    /// Whole answers by class of status: `2xx`.
    pub statuses: BTreeMap<String, u64>,
    /// Requests without a whole answer, by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Bytes of the answers' bodies.
    pub body_bytes: u64,
    /// Connections of the whole run.
    pub connections: Connections,
    /// What the client itself used.
    pub client: Client,
    /// What the server used, if it was watched and there.
    pub server: Option<ServerReport>,
    /// What casts doubt on the figures, each with what to try next.
    pub warnings: Vec<String>,
}

/// Requests a second, over the time that counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    /// As the arrivals have it in the long run; null where they have no such rate.
    pub wanted: Option<f64>,
    /// Whose time came.
    pub due: f64,
    /// That left.
    pub sent: f64,
    /// Whose whole answer came.
    pub answered: f64,
}

/// A distribution of times, s; null where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many times.
    pub count: u64,
    /// Requests that count and have no such time, because they failed or were never sent: the figures
    /// are those of the others, and look better than it was.
    pub missing: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90 % are no longer.
    pub p90: Option<f64>,
    /// 99 % are no longer.
    pub p99: Option<f64>,
    /// 99.9 % are no longer.
    pub p99_9: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Quantiles {
    fn of(times: &Histogram, due: u64) -> Self {
        let at = |q| times.quantile(q).map(|time| time.as_secs_f64());
        Self {
            count: times.count(),
            missing: due.saturating_sub(times.count()),
            mean: times.mean().map(|mean| mean.as_secs_f64()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: (times.count() > 0).then(|| times.max().as_secs_f64()),
        }
    }
}

/// Connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// At most so many at once.
    pub limit: usize,
    /// Opened in all.
    pub opened: u64,
    /// Open at once; with several threads at most.
    pub most_open: usize,
    /// Requests that count and had to wait for one.
    pub waited: u64,
    /// Requests that count and were sent again, because a kept connection had died under them.
    pub resent: u64,
}

/// What the client used, and whether it was enough.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Client {
    /// Threads that sent.
    pub threads: usize,
    /// Share of a processor that each of them used.
    pub cpu_share: Vec<f64>,
    /// The same of its busiest second.
    pub busiest_cpu_share: Vec<f64>,
    /// Descriptors that may be open.
    pub descriptors: u64,
    /// Did something of the client's own, and not the server, make the figures what they are?
    pub was_the_bottleneck: bool,
    /// What: `send_lag`, `cpu`, `descriptors`, `ports`, `connections`, `rate`.
    pub limits: Vec<&'static str>,
}

impl LoadReport {
    pub(super) fn of(
        plan: &Plan,
        window: Window,
        tallies: &[Tally],
        descriptors: u64,
        elapsed: Duration,
        ended_early: bool,
    ) -> Self {
        let mut tally = Tally::default();
        for one in tallies {
            tally.join(one);
        }
        let times = |times: &Histogram| Quantiles::of(times, tally.counted.due);
        let counted = window.length(elapsed, tally.stopped);
        let per_second = |count: u64| match counted.as_secs_f64() {
            0.0 => 0.0,
            seconds => count as f64 / seconds,
        };
        let busiest: Vec<f64> = tallies.iter().map(|one| one.cpu.busiest).collect();
        let found = found(plan, &tally, &busiest);
        let mut warnings: Vec<String> = found.iter().map(|(_, text)| text.clone()).collect();
        warnings.extend(doubts(&tally, ended_early));
        Self {
            schema: SCHEMA,
            seed: plan.seed,
            elapsed_s: elapsed.as_secs_f64(),
            counted_s: counted.as_secs_f64(),
            ended_early,
            run: tally.all,
            requests: tally.counted,
            rate: Rates {
                wanted: plan.arrivals.mean_rate(),
                due: per_second(tally.counted.due),
                sent: per_second(tally.sent_within),
                answered: per_second(tally.answered_within),
            },
            latency_s: times(&tally.latency),
            service_s: times(&tally.service),
            first_byte_s: times(&tally.first_byte),
            send_lag_s: times(&tally.lag),
            quantile_error: RELATIVE_ERROR,
            statuses: by_class(&tally),
            errors: by_kind(&tally),
            body_bytes: tally.bytes,
            connections: Connections {
                limit: plan.connections,
                opened: tally.opened,
                most_open: tally.most_open,
                waited: tally.waited,
                resent: tally.resent,
            },
            client: Client {
                threads: tallies.len(),
                cpu_share: tallies.iter().map(|one| one.cpu.share).collect(),
                busiest_cpu_share: busiest,
                descriptors,
                was_the_bottleneck: !found.is_empty(),
                limits: found.iter().map(|(limit, _)| *limit).collect(),
            },
            server: None,
            warnings,
        }
    }

    /// Connections if the user sets no number: 1024, or what the system allows.
    pub fn usual_connections() -> usize {
        limits::usual_connections()
    }
}

fn by_class(tally: &Tally) -> BTreeMap<String, u64> {
    let classes = tally.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
    classes.map(|(class, count)| (format!("{class}xx"), *count)).collect()
}

fn by_kind(tally: &Tally) -> BTreeMap<&'static str, u64> {
    let kinds = Fault::ALL.into_iter().zip(tally.faults).filter(|(_, count)| *count > 0);
    kinds.map(|(fault, count)| (fault.as_str(), count)).collect()
}

/// The client's limits that were met, with what to try.
fn found(plan: &Plan, tally: &Tally, busiest: &[f64]) -> Vec<(&'static str, String)> {
    const WAS: &str = "the client was the bottleneck";
    let mut found = Vec::new();
    let lag = Quantiles::of(&tally.own_lag, tally.counted.due);
    if lag.p99.is_some_and(|p99| p99 > plan.lag_limit.as_secs_f64()) {
        let them = if tally.waited == 0 { "requests" } else { "requests that found a connection" };
        found.push(("send_lag", format!(
            "{WAS}: of 100 {them} one left {:.2} ms late or later, the latest {:.2} ms; lower the \
             rate, give it a processor of its own, or send from another machine",
            lag.p99.unwrap_or(0.0) * 1e3,
            lag.max.unwrap_or(0.0) * 1e3
        )));
    }
    let most = busiest.iter().copied().fold(0.0, f64::max);
    if most >= BUSY {
        found.push((
            "cpu",
            format!(
                "{WAS}: a thread of it used {:.0} % of a processor in its busiest second; use more \
             `--threads`, or send from several machines",
                most * 100.0
            ),
        ));
    }
    if tally.descriptors > 0 {
        found.push(("descriptors", format!(
            "{WAS}: for {} requests this machine had no descriptor or memory left; raise the limit \
             of open files (`ulimit -n`, fs.file-max), or use fewer `--connections`",
            tally.descriptors
        )));
    }
    if tally.ports > 0 {
        found.push(("ports", format!(
            "{WAS}: for {} requests this machine had no port left; keep connections alive, or widen \
             net.ipv4.ip_local_port_range",
            tally.ports
        )));
    }
    if tally.waited > 0 {
        let share = share_of(tally.waited, tally.counted.due);
        found.push(("connections", format!(
            "the client was the bottleneck, or the server slower than the rate: {} requests \
             ({:.1} %) waited for one of the {} connections; raise `--connections`, or lower the rate",
            tally.waited,
            share * 100.0,
            plan.connections
        )));
    }
    let mut beyond = Vec::new();
    if tally.skipped > 0 {
        let skipped = tally.skipped;
        beyond.push(format!("{skipped} requests were skipped, since {OWED} waited already"));
    }
    if tally.left_behind {
        beyond.push("more was due than could even be gone through".to_owned());
    }
    if !beyond.is_empty() {
        let beyond = beyond.join(", and ");
        let text =
            format!("{WAS}, or the server much slower than the rate: {beyond}; lower the rate");
        found.push(("rate", text));
    }
    found
}

fn share_of(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}

/// What else casts doubt on the figures.
fn doubts(tally: &Tally, ended_early: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    let Counts { due, failed, unsent, .. } = tally.counted;
    if due == 0 {
        doubts.push(
            "no request was due in the time that counts; make the run longer, or warm-up \
                     and cool-down shorter"
                .to_owned(),
        );
    }
    if failed + unsent > 0 {
        doubts.push(format!(
            "{} of {due} requests ({:.2} %) have no whole answer: the percentiles are those of the \
             others, and look better than it was",
            failed + unsent,
            100.0 * share_of(failed + unsent, due)
        ));
    }
    let closed = [Fault::Closed, Fault::Reset].map(|fault| tally.faults[fault as usize]);
    let closed = closed.into_iter().sum();
    doubts.extend(Refusals { closed, limited: tally.refused }.warnings());
    if ended_early {
        doubts.push("it was ended early: these are the figures up to then".to_owned());
    }
    doubts
}

#[cfg(test)]
mod tests {
    use nightwatt_policy::arrivals::{Arrivals, Rate};

    use super::*;
    use crate::generate::{Carrier, Mix, MixEntry, RequestDefaults, Sample, Until};

    const MS: Duration = Duration::from_millis(1);

    /// A request that was due at a time, left so much later and was answered 5 ms after that.
    fn answered(intended: Duration, lag: Duration, waited: bool) -> Sample {
        let sent = intended + lag;
        Sample {
            number: 0,
            wanted: 0,
            intended,
            sent: Some(sent),
            first_byte: Some(sent + 4 * MS),
            end: sent + 5 * MS,
            status: 200,
            bytes: 2,
            fault: None,
            carrier: Carrier::Kept,
            waited,
            counted: true,
        }
    }

    fn report(samples: &[Sample]) -> LoadReport {
        let mix =
            Mix::weighted(&[MixEntry::page("http://127.0.0.1:9/")], &RequestDefaults::default())
                .unwrap();
        let plan = Plan {
            arrivals: Arrivals::Constant(Rate::new(1000.0).unwrap()),
            mix,
            seed: 1,
            until: Until { time: Some(Duration::from_secs(1)), requests: None },
            warm_up: Duration::ZERO,
            cool_down: Duration::ZERO,
            timeout: Duration::from_secs(1),
            connections: 64,
            keep_alive: true,
            threads: None,
            lag_limit: MS,
        };
        let window = Window::of(&plan, plan.until.time);
        let mut tally = Tally::default();
        for sample in samples {
            tally.due(true);
            tally.add(sample, window);
        }
        LoadReport::of(&plan, window, &[tally], 1024, Duration::from_secs(1), false)
    }

    fn every_ms(lag: impl Fn(u64) -> (Duration, bool)) -> Vec<Sample> {
        let one = |n| {
            let (lag, waited) = lag(n);
            answered(Duration::from_millis(n), lag, waited)
        };
        (0..1000).map(one).collect()
    }

    #[test]
    fn percentiles_of_those_answered_say_so_if_a_single_one_was_not() {
        let mut samples = every_ms(|_| (MS / 10, false));
        let all = report(&samples);
        assert_eq!((all.latency_s.missing, all.send_lag_s.missing, all.warnings.len()), (0, 0, 0));
        assert!(!super::super::text(&all).contains('*'), "{}", super::super::text(&all));
        // One was sent and began to be answered, one was never sent.
        samples[3].fault = Some(Fault::Short);
        let unsent =
            Sample { sent: None, first_byte: None, fault: Some(Fault::Unsent), ..samples[4] };
        samples[4] = unsent;
        let most = report(&samples);
        let missing = [&most.latency_s, &most.service_s, &most.first_byte_s, &most.send_lag_s];
        assert_eq!(
            missing.map(|it| (it.count, it.missing)),
            [(998, 2), (998, 2), (999, 1), (999, 1)]
        );
        assert!(most.warnings[0].starts_with("2 of 1000 requests (0.20 %) have no whole answer"));
        let text = super::super::text(&most);
        assert!(text.contains("\nlatency, from due *"), "{text}");
        assert!(
            text.contains("\n* of those that have such a time: 2 of 1,000 requests failed"),
            "{text}"
        );
    }

    #[test]
    fn one_request_that_waits_for_a_connection_does_not_hide_that_all_leave_late() {
        let late = every_ms(|n| (3 * MS, n == 500));
        assert_eq!(report(&late).client.limits, ["send_lag", "connections"]);
        assert!(report(&late).warnings[0].contains("requests that found a connection"));
        // Those that wait are late by the server's doing, and say nothing of this machine.
        let waiting = every_ms(|n| if n % 2 == 0 { (9 * MS, true) } else { (MS / 10, false) });
        let waiting = report(&waiting);
        assert_eq!(waiting.client.limits, ["connections"]);
        assert!(waiting.send_lag_s.p99.unwrap() >= 0.009, "{:?}", waiting.send_lag_s);
        // 1 % later than the limit is what is allowed.
        let few = |late| report(&every_ms(|n| (if n < late { 3 * MS } else { MS / 10 }, false)));
        assert_eq!(few(10).client.limits, [""; 0]);
        assert_eq!(few(11).client.limits, ["send_lag"]);
    }

    #[test]
    fn what_a_limit_for_one_client_may_have_refused_is_said() {
        let mut tally = Tally::default();
        tally.counted.due = 10;
        assert_eq!(doubts(&tally, false), [""; 0]);
        tally.faults[Fault::Closed as usize] = 3;
        tally.faults[Fault::Reset as usize] = 1;
        tally.refused = 2;
        let told = doubts(&tally, false);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("4 connections") && told[0].contains("connections_per_client"));
        assert!(told[1].starts_with("2 requests") && told[1].contains("trusted_proxies"));
    }
}
