//! What the comparison came to.

use std::fmt::Write as _;
use std::time::Duration;

use nightwatt_energy::energy::Energy;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::ledger::Bill;
use nightwatt_policy::scenario::Scenario;
use nightwatt_report::Cell;
use nightwatt_traffic::scan::Scan;
use serde::Serialize;

use super::column::{Column, Tally};
use super::delays::DelayPoint;
use super::gaps::GapTail;
use super::site::AlwaysOn;
use super::yardstick::CONFIGURATIONS;
use super::{Crawlers, Pass, PublishedOptions, REPLAY_AFTER};
use crate::warnings::{skipped, warnings};

/// What changed times spoil.
const WRONG_IF_CHANGED: &str =
    "what follows from its pauses (energy, delays, crawlers sent away) is wrong";

/// The five configurations over one log. The JSON of `nightwatt published --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name and number of this form.
    pub schema: &'static str,
    /// The logs, as given.
    pub logs: Vec<String>,
    /// Their lines.
    pub lines: u64,
    /// Lines that could not be read.
    pub malformed: u64,
    /// Lines that are whole, but hold no HTTP request.
    pub bad_requests: u64,
    /// Requests compared on.
    pub requests: u64,
    /// First request, milliseconds since 1970.
    pub from: Wall,
    /// What every configuration is billed for, s: from the first request until the latest possible answer
    /// to the last one.
    pub span_s: f64,
    /// Who counts as a crawler.
    pub crawlers: Crawlers,
    /// Their share of the requests, 0 ..= 1.
    pub crawler_share: f64,
    /// When the sleeping server sleeps.
    pub policy: String,
    /// In the published order.
    pub configurations: Vec<Configuration>,
    /// Long pauses.
    pub gaps: Tails,
    /// What the figures are about.
    pub scenario: Scenario,
    /// Where the figures of energy come from.
    pub provenance: &'static str,
    /// What could not be read, and what to mind.
    pub warnings: Vec<String>,
    /// Lines that were skipped, with the first as it is: for who ran this, not for reports.
    #[serde(skip)]
    pub skipped: Option<String>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Configuration {
    /// As the published table calls it.
    pub name: &'static str,
    /// Who answered what.
    #[serde(flatten)]
    pub tally: Tally,
    /// Longest delay of the server's answers, s; none without any.
    pub max_delay_origin_s: Option<f64>,
    /// Likewise of the proxy's.
    pub max_delay_proxy_s: Option<f64>,
    /// Mean of all answers, s.
    pub mean_delay_all_s: Option<f64>,
    /// Of the server's.
    pub mean_delay_origin_s: Option<f64>,
    /// Of the proxy's.
    pub mean_delay_proxy_s: Option<f64>,
    /// Share of all answers within 50 ms.
    pub within_50ms_share: f64,
    /// Share of all answers within each time, rising.
    pub delays: Vec<DelayPoint>,
    /// Server and proxy, J.
    pub energy_j: f64,
    /// The server, J.
    pub server_j: f64,
    /// The proxy, J.
    pub proxy_j: f64,
    /// 1 - energy / that of the server alone.
    pub saving: f64,
    /// Sleeps begun.
    pub sleeps: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// From sleep commands to wake commands answered, s.
    pub asleep_s: f64,
}

/// Pauses between the requests of four sequences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tails {
    /// All requests.
    pub all: GapTail,
    /// Those that the cache with default settings passes on.
    pub behind_cache: GapTail,
    /// Those that are not of crawlers.
    pub without_crawlers: GapTail,
    /// Those that are neither.
    pub both: GapTail,
}

/// A cell of the table: a count, seconds, or nothing where the configuration has no such thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Figure {
    Count(u64),
    Seconds(f64),
    Nothing,
}

impl Figure {
    pub(super) fn cell(self) -> Cell {
        match self {
            Self::Count(count) => Cell::count(count),
            Self::Seconds(seconds) => Cell::number(seconds, 3),
            Self::Nothing => Cell::Empty,
        }
    }

    /// As it stands in CSV.
    fn text(self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Seconds(seconds) => format!("{seconds:.3}"),
            Self::Nothing => String::new(),
        }
    }
}

/// Blank for a count of zero that cannot be anything else.
const fn count(count: u64, can_be: bool) -> Figure {
    if count > 0 || can_be { Figure::Count(count) } else { Figure::Nothing }
}

fn delay(seconds: Option<f64>) -> Figure {
    seconds.map_or(Figure::Nothing, Figure::Seconds)
}

impl Configuration {
    fn new(name: &'static str, column: &Column, bill: &Bill, scenario: &Scenario) -> Self {
        let states = scenario.power_states();
        let server = bill.server(&states);
        let has_proxy = name != CONFIGURATIONS[0];
        let proxy = if has_proxy { bill.proxy(scenario.proxy_power()).get() } else { 0.0 };
        let energy = server.get() + proxy;
        let delays = column.all.distribution();
        Self {
            name,
            tally: column.tally,
            max_delay_origin_s: column.origin.longest_s(),
            max_delay_proxy_s: column.proxy.longest_s(),
            mean_delay_all_s: column.all.mean_s(),
            mean_delay_origin_s: column.origin.mean_s(),
            mean_delay_proxy_s: column.proxy.mean_s(),
            within_50ms_share: share_within(&delays, 0.05),
            delays,
            energy_j: energy,
            server_j: server.get(),
            proxy_j: proxy,
            saving: 1.0 - energy / bill.always_on(&states).get().max(f64::MIN_POSITIVE),
            sleeps: bill.cycles,
            wakeups: bill.wakeups,
            asleep_s: bill.off.as_secs_f64(),
        }
    }

    /// The column of the table: what the published one has, then our two rows.
    fn rows(&self) -> [(&'static str, Figure); 19] {
        let place = CONFIGURATIONS.iter().position(|name| *name == self.name).unwrap_or(0);
        let (proxy, sleeps, pages) = (place >= 1, place >= 3, place >= 4);
        let tally = &self.tally;
        [
            ("requests", Figure::Count(tally.requests)),
            ("malformed", Figure::Count(tally.malformed)),
            ("served_by_origin", Figure::Count(tally.served_by_origin)),
            ("served_by_proxy", count(tally.served_by_proxy, proxy)),
            ("http_200", Figure::Count(tally.http_200)),
            ("http_404", Figure::Count(tally.http_404)),
            ("http_503", count(tally.http_503, proxy)),
            ("bot_redirection", count(tally.bot_redirection, sleeps)),
            ("served_survey", count(tally.served_survey, pages)),
            ("replayed_200", count(tally.replayed_200, pages)),
            ("replayed_404", count(tally.replayed_404, pages)),
            ("replayed_503", count(tally.replayed_503, pages)),
            ("max_delay_origin_s", delay(self.max_delay_origin_s)),
            ("max_delay_proxy_s", delay(self.max_delay_proxy_s)),
            ("mean_delay_all_s", delay(self.mean_delay_all_s)),
            ("mean_delay_origin_s", delay(self.mean_delay_origin_s)),
            ("mean_delay_proxy_s", delay(self.mean_delay_proxy_s)),
            ("http_other", Figure::Count(tally.http_other)),
            ("replayed_other", count(tally.replayed_other, pages)),
        ]
    }
}

fn share_within(distribution: &[DelayPoint], delay_s: f64) -> f64 {
    let up_to = distribution.iter().take_while(|at| at.delay_s <= delay_s * (1.0 + 1e-9));
    up_to.last().map_or(0.0, |at| at.share)
}

impl Comparison {
    /// Rows of the table: name, and a cell for each configuration. The published ones first.
    pub(super) fn rows(&self) -> Vec<(&'static str, Vec<Figure>)> {
        let columns: Vec<_> = self.configurations.iter().map(Configuration::rows).collect();
        let Some(first) = columns.first() else { return Vec::new() };
        let row = |index: usize| columns.iter().map(|column| column[index].1).collect();
        first.iter().enumerate().map(|(index, (name, _))| (*name, row(index))).collect()
    }

    /// The table in the very form of the published one, as CSV: its rows and columns, no others.
    /// Lines end in LF, seconds have three digits behind the point, what there is not is empty.
    pub fn to_csv(&self) -> String {
        let mut csv = format!("metric,{}\n", CONFIGURATIONS.join(","));
        for (name, cells) in self.rows().into_iter().take(super::yardstick::TABLE.len()) {
            let cells: Vec<String> = cells.into_iter().map(Figure::text).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(csv, "{name},{}", cells.join(","));
        }
        csv
    }

    /// Of the requests, what the proxy answered in this configuration from its cache: of the two
    /// that always run, since the others send crawlers away as well.
    pub fn cache_share(&self, place: usize) -> f64 {
        let Some(it) = self.configurations.get(place) else { return 0.0 };
        it.tally.served_by_proxy as f64 / self.requests.max(1) as f64
    }

    /// What is known of the energy.
    pub(super) fn energy(&self) -> Energy {
        let joules = self.configurations.last().map_or(0.0, |it| it.energy_j);
        let model = "power states of the scenario and the times of the simulation";
        Energy::modelled(
            nightwatt_energy::quantity::Joules(joules),
            self.scenario.server.uncertainty,
            model,
        )
    }
}

/// Ends the pass, and names what came of it.
pub(super) fn draw_up(options: &PublishedOptions, scan: &Scan, pass: Pass) -> Comparison {
    let scenario = &options.scenario;
    let resolution = Duration::from_millis(if scan.summary.fractions { 1 } else { 1_000 });
    let settled = REPLAY_AFTER + scenario.server.sleep_time + scenario.server.wake_time;
    let end: Mono = pass.last + resolution + settled;
    let awake = Bill { on: end.0, ..Bill::default() };
    let always_on = pass.always_on.map(|AlwaysOn { column, .. }| (column, awake));
    let sleeping = pass.sleeping.map(|site| site.finish(end));
    let malformed = scan.counts.malformed + scan.counts.bad_requests;
    let configurations = CONFIGURATIONS
        .into_iter()
        .zip(always_on.into_iter().chain(sleeping))
        .map(|(name, (mut column, bill))| {
            column.malformed(malformed);
            Configuration::new(name, &column, &bill, scenario)
        })
        .collect();
    let sequences = &pass.sequences;
    Comparison {
        schema: "published/1",
        logs: scan.logs.iter().map(|log| log.name.clone()).collect(),
        lines: scan.counts.lines,
        malformed: scan.counts.malformed,
        bad_requests: scan.counts.bad_requests,
        requests: pass.requests,
        from: pass.start,
        span_s: end.as_secs_f64(),
        crawlers: options.crawlers,
        crawler_share: pass.by_crawlers as f64 / pass.requests.max(1) as f64,
        policy: scenario.policy.to_string(),
        configurations,
        gaps: Tails {
            all: sequences.all.figures(),
            behind_cache: sequences.behind_cache.figures(),
            without_crawlers: sequences.without_crawlers.figures(),
            both: sequences.both.figures(),
        },
        scenario: scenario.clone(),
        provenance: "modelled",
        warnings: warnings(scan, &options.reading, WRONG_IF_CHANGED),
        skipped: skipped(&scan.counts),
    }
}
