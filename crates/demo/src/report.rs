//! The bill of a play, and everything one wants to know of it.

use std::collections::{BTreeMap, HashSet};

use nightwatt_energy::stats::Summary;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::ledger_file::WakeCause;
use nightwatt_gateway::status::Status;
use nightwatt_load::summary::ContentDelay;
use nightwatt_load::{Answer, Outcome, RequestKind, Run, ServiceTime};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::lifecycle::Change;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::visit::{Visitor, Visits};
use serde::Serialize;

use super::records::Records;
use super::{DAY, DemoOptions, Script, yardstick};

/// The report of a demo. Two runs with the same options are equal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoReport {
    /// Version of this form.
    pub schema: u32,
    /// Where the requests came from.
    pub source: String,
    /// Seconds that the bill covers.
    pub span_s: f64,
    /// Of a log: lines that held a request, no HTTP request, nothing readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogLines>,
    /// Requests of the log or the generator.
    pub requests: u64,
    /// Their first answers by who gave them; the sum is `requests`.
    pub answers: BTreeMap<String, u64>,
    /// What clients sent because of an answer.
    pub follow_ups: FollowUps,
    /// Requests missing from a record that should have them.
    pub lost: u64,
    /// Requests that a record has twice.
    pub doubled: u64,
    /// Wake commands within the span.
    pub wakeups: u64,
    /// These by cause: `request`, `crawl-window`.
    pub wakeup_causes: BTreeMap<&'static str, u64>,
    /// Those caused by requests, by the class of the client then.
    pub wakeups_by_class: BTreeMap<String, u64>,
    /// Of those, by clients that later turned out to be crawlers, monitors or scanners.
    pub wakeups_by_clients_classed_later: u64,
    /// Requests of people and programs.
    pub admitted: u64,
    /// Of those, delayed because the server slept.
    pub delayed_requests: u64,
    /// Their visits.
    pub visits: u64,
    /// Of those, delayed.
    pub delayed_visits: u64,
    /// Waiting pages shown.
    pub waiting_pages: u64,
    /// Requests of people that were refused.
    pub human_refused: u64,
    /// Requests refused as a scanner's that the logged site had answered with success (2xx, 3xx):
    /// break-ins that it let try, or people wronged.
    pub refused_though_logged_well: u64,
    /// Crawlers that were told to come back.
    pub crawlers: Returned,
    /// Seconds until the content was there, waiting pages sat out; all requests.
    pub delay_s: Summary,
    /// The same by class of client, as the proxy saw it then.
    pub delay_s_by_class: BTreeMap<String, Summary>,
    /// Seconds until the first answer, a waiting page counting as one.
    pub first_answer_s: Summary,
    /// Energy in joules.
    pub energy_j: EnergyFigures,
    /// Expanded uncertainty (95 %) of those.
    pub energy_uncertainty_j: EnergyFigures,
    /// 1 - (server + proxy) / always on.
    pub saving: f64,
    /// The same with the oracle's server.
    pub oracle_saving: f64,
    /// With a mirror: the same requests without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_mirror: Option<Box<DemoReport>>,
    /// What the figures are about.
    pub scenario: Scenario,
    /// Where the figures come from.
    pub provenance: Provenance,
}

/// Lines of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LogLines {
    /// All.
    pub lines: u64,
    /// Parsed, but no HTTP request in it; not played.
    pub bad_requests: u64,
    /// Not parsed; not played.
    pub malformed: u64,
}

/// What clients sent because of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FollowUps {
    /// Pages reopened after a waiting page.
    pub reopened: u64,
    /// Crawlers that came back.
    pub crawler_retries: u64,
    /// Questions of waiting pages.
    pub polls: u64,
    /// How all of these were answered.
    pub answers: BTreeMap<String, u64>,
}

/// Crawlers that were told to come back.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Returned {
    /// Their requests.
    pub sent_away: u64,
    /// Of those, answered by the site when they came back.
    pub served: u64,
    /// Of those, within 24 hours.
    pub served_within_24_h: u64,
    /// The longest wait of those served, in seconds.
    pub longest_s: f64,
}

/// The four figures of the bill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EnergyFigures {
    /// The server as it was.
    pub server: f64,
    /// The proxy.
    pub proxy: f64,
    /// A server always on, without a proxy.
    pub always_on: f64,
    /// The server with perfect knowledge and without delayed requests.
    pub oracle: f64,
}

/// Where the figures come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// `modelled`: no meter was there.
    pub energy: &'static str,
    /// From what.
    pub model: String,
    /// `virtual` or `real`.
    pub time: &'static str,
    /// What is added to each delay, as virtual time stands still while an answer is made.
    pub service_time_s: ServiceSeconds,
}

/// Seconds added to each delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServiceSeconds {
    /// To answers of the server.
    pub server: f64,
    /// To answers of the proxy.
    pub proxy: f64,
}

impl DemoReport {
    /// Draws it up from what client, proxy and server wrote.
    pub(super) fn draw_up(
        options: &DemoOptions,
        script: &Script,
        run: &Run,
        records: &Records,
        status: &Status,
        begin: Mono,
        end: Mono,
    ) -> Self {
        let scenario = &options.scenario;
        let service = service_time(options);
        let traced: Vec<&Outcome> =
            run.outcomes.iter().filter(|outcome| outcome.kind == RequestKind::Trace).collect();
        let reconciled = records.reconcile(run);
        let wakes = Wakes::count(records, run.started.wall + script.span);
        let people = People::count(&traced, script, records, scenario);
        let seen = nightwatt_load::summary::content_delays(run, service);
        let (energy_j, energy_uncertainty_j) = energy(scenario, run, records, status, begin, end);
        let after = |server: f64| 1.0 - (server + energy_j.proxy) / energy_j.always_on;
        Self {
            schema: 1,
            source: script.name.clone(),
            span_s: script.span.as_secs_f64(),
            log: script.counts.as_ref().map(|counts| LogLines {
                lines: counts.lines,
                bad_requests: counts.bad_requests,
                malformed: counts.malformed,
            }),
            requests: traced.len() as u64,
            answers: answers(traced.iter().copied()),
            follow_ups: FollowUps::count(run),
            lost: reconciled.lost,
            doubled: reconciled.doubled,
            wakeups: wakes.causes.values().sum(),
            wakeup_causes: wakes.causes,
            wakeups_by_class: wakes.by_class,
            wakeups_by_clients_classed_later: wakes.classed_later,
            admitted: people.admitted,
            delayed_requests: people.delayed,
            visits: people.visits.visits(),
            delayed_visits: people.visits.delayed(),
            waiting_pages: people.waiting_pages,
            human_refused: people.refused,
            refused_though_logged_well: refused_though_logged_well(&traced, script),
            crawlers: Returned::count(run),
            delay_s: Summary::of(seen.iter().filter_map(|seen| seen.delay_s).collect()),
            delay_s_by_class: delays_by_class(&seen, &traced, records),
            first_answer_s: Summary::of(
                traced.iter().filter_map(|outcome| service.delay_of(outcome)).collect(),
            ),
            saving: after(energy_j.server),
            oracle_saving: after(energy_j.oracle),
            energy_j,
            energy_uncertainty_j,
            without_mirror: None,
            scenario: scenario.clone(),
            provenance: Provenance {
                energy: "modelled",
                model: "power states of the scenario x times in the proxy's ledger".to_owned(),
                time: if options.real_time { "real" } else { "virtual" },
                service_time_s: ServiceSeconds {
                    server: service.origin.as_secs_f64(),
                    proxy: service.proxy.as_secs_f64(),
                },
            },
        }
    }

    /// Whether every request is accounted for exactly once.
    pub fn is_sound(&self) -> bool {
        let is_sound = self.lost == 0 && self.doubled == 0;
        is_sound && self.without_mirror.as_ref().is_none_or(|it| it.is_sound())
    }
}

fn service_time(options: &DemoOptions) -> ServiceTime {
    if options.real_time {
        return ServiceTime::default();
    }
    ServiceTime {
        origin: options.scenario.server.service_time,
        proxy: options.scenario.proxy.service_time,
    }
}

/// By the class that the proxy saw. What could not be sent has none.
fn delays_by_class(
    seen: &[ContentDelay],
    traced: &[&Outcome],
    records: &Records,
) -> BTreeMap<String, Summary> {
    let classes: BTreeMap<usize, &str> = traced
        .iter()
        .filter_map(|it| Some((it.arrival, records.line(&it.id)?.class.as_str())))
        .collect();
    let mut delays: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for seen in seen {
        if let Some(&class) = classes.get(&seen.arrival) {
            delays.entry(class.to_owned()).or_default().extend(seen.delay_s);
        }
    }
    delays.into_iter().map(|(class, delays)| (class, Summary::of(delays))).collect()
}

fn refused_though_logged_well(traced: &[&Outcome], script: &Script) -> u64 {
    let refused = traced.iter().filter(|it| it.answer == Some(Answer::Scanner));
    refused.filter(|it| script.arrivals[it.arrival].status < 400).count() as u64
}

/// How requests were answered, by name; those without an answer by what went wrong.
fn answers<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> BTreeMap<String, u64> {
    let mut answers = BTreeMap::new();
    for outcome in outcomes {
        let name = match (&outcome.answer, outcome.error) {
            (Some(answer), _) => answer.as_str().to_owned(),
            (None, Some(error)) => error.as_str().to_owned(),
            (None, None) => "none".to_owned(),
        };
        *answers.entry(name).or_default() += 1;
    }
    answers
}

impl FollowUps {
    fn count(run: &Run) -> Self {
        let of = |kind| run.outcomes.iter().filter(|it| it.kind == kind).count() as u64;
        Self {
            reopened: of(RequestKind::Reopened),
            crawler_retries: of(RequestKind::CrawlerRetry),
            polls: of(RequestKind::Poll),
            answers: answers(run.outcomes.iter().filter(|it| it.kind != RequestKind::Trace)),
        }
    }
}

impl Returned {
    fn count(run: &Run) -> Self {
        let mut returned = Self::default();
        for outcomes in run.outcomes.chunk_by(|a, b| a.arrival == b.arrival) {
            let is_sent_away = |it: &&Outcome| it.answer == Some(Answer::Crawler);
            let first =
                outcomes.iter().find(|it| it.kind == RequestKind::Trace).filter(is_sent_away);
            let Some(first) = first else { continue };
            returned.sent_away += 1;
            let served = outcomes.iter().find(|it| {
                it.kind == RequestKind::CrawlerRetry && it.answer.as_ref().is_some_and(is_the_sites)
            });
            if let Some(answered) = served.and_then(|it| it.answered) {
                let waited = answered.since(first.intended);
                returned.served += 1;
                returned.served_within_24_h += u64::from(waited <= DAY);
                returned.longest_s = returned.longest_s.max(waited.as_secs_f64());
            }
        }
        returned
    }
}

/// Given by the site itself, now or earlier.
fn is_the_sites(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Server
            | Answer::Held
            | Answer::Cache
            | Answer::Stale
            | Answer::NotModified
            | Answer::Mirror
    )
}

/// Wake-ups within the span.
#[derive(Default)]
struct Wakes {
    causes: BTreeMap<&'static str, u64>,
    by_class: BTreeMap<String, u64>,
    classed_later: u64,
}

impl Wakes {
    fn count(records: &Records, end: nightwatt_energy::time::Wall) -> Self {
        let robots = records.robots();
        let mut wakes = Self::default();
        for class in ClientClass::ALL {
            wakes.by_class.insert(class.as_str().to_owned(), 0);
        }
        let within = records.ledger.iter().filter(|it| it.at < end);
        for record in within.filter(|it| it.change == Some(Change::Waking)) {
            let cause = match &record.cause {
                Some(cause) => {
                    if let WakeCause::Request { class, client, .. } = cause {
                        *wakes.by_class.entry(class.clone()).or_default() += 1;
                        wakes.classed_later += u64::from(robots.contains(client.as_str()));
                    }
                    cause.as_str()
                }
                None => "unknown",
            };
            *wakes.causes.entry(cause).or_default() += 1;
        }
        wakes
    }
}

impl Records {
    /// Addresses that the proxy took for a crawler, monitor or scanner at some time.
    fn robots(&self) -> HashSet<&str> {
        let lines = self.proxy.values().flatten();
        lines
            .filter(|line| matches!(line.class.as_str(), "crawler" | "monitor" | "scanner"))
            .map(|line| line.client.as_str())
            .collect()
    }
}

/// What people and their programs saw.
#[derive(Default)]
struct People {
    admitted: u64,
    delayed: u64,
    visits: Visits,
    waiting_pages: u64,
    refused: u64,
}

impl People {
    fn count(traced: &[&Outcome], script: &Script, records: &Records, scenario: &Scenario) -> Self {
        let mut people = Self::default();
        let mut ordered = traced.to_vec();
        ordered.sort_by_key(|outcome| outcome.intended);
        for outcome in ordered {
            let Some(line) = records.line(&outcome.id) else { continue };
            if !matches!(line.class.as_str(), "human" | "api") {
                continue;
            }
            let refused = matches!(
                outcome.answer,
                Some(
                    Answer::Timeout
                        | Answer::Budget
                        | Answer::Limited
                        | Answer::Unavailable
                        | Answer::Scanner
                        | Answer::Crawler
                )
            );
            let waiting_page = outcome.answer == Some(Answer::WaitingPage);
            let held_long = outcome.answer == Some(Answer::Held)
                && outcome.delay().is_some_and(|delay| delay > scenario.sla.delay);
            let delayed = refused || waiting_page || held_long;
            people.admitted += 1;
            people.delayed += u64::from(delayed);
            people.waiting_pages += u64::from(waiting_page);
            people.refused += u64::from(refused && line.class == "human");
            let arrival = &script.arrivals[outcome.arrival];
            let visitor = Visitor::new(&arrival.client, arrival.agent.as_deref());
            people.visits.request(outcome.intended, visitor, delayed);
        }
        people
    }
}

fn energy(
    scenario: &Scenario,
    run: &Run,
    records: &Records,
    status: &Status,
    begin: Mono,
    end: Mono,
) -> (EnergyFigures, EnergyFigures) {
    let ledger = &status.sites[0].ledger;
    let saved = yardstick::oracle_saving(scenario, run, records, begin, end);
    let figures = EnergyFigures {
        server: ledger.server.joules.get(),
        proxy: ledger.proxy.joules.get(),
        always_on: ledger.always_on.joules.get(),
        oracle: (ledger.always_on.joules - saved).get(),
    };
    let uncertainty = EnergyFigures {
        server: ledger.server.uncertainty.get(),
        proxy: ledger.proxy.uncertainty.get(),
        always_on: ledger.always_on.uncertainty.get(),
        oracle: figures.oracle * scenario.server.uncertainty,
    };
    (figures, uncertainty)
}
