//! What an analysis says.

use std::collections::BTreeMap;

use nightwatt_energy::energy::Energy;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::scenario::{Scenario, Server};
use nightwatt_policy::sleep::Plan;
use nightwatt_sim::{Day, Days, Extent, Outcome, RefreshCost, RefreshRule};
use nightwatt_traffic::reader::Sample;
use nightwatt_traffic::scan::Scan;
use nightwatt_traffic::summary::{Hours, Sizes, Typical};
use nightwatt_traffic::suspected_crawlers::Suspect;
use serde::Serialize;

use super::bills::{self, Bills};
use super::costs::{CostTable, FrontierPoint, PolicyCost, table};
use super::holes::{self, Hole};
use super::pass::{Pass, PassResult, Sequences};
use super::policy_figures::{OracleFigures, PolicyFigures};
use super::sla::{SlaFigures, SlaRun, SlaRuns};
use super::wakers::{ROWS, WakerFigures, Wakers, rules};
use super::what_if::try_each;
use super::worker_pool::{Job, Purpose, SiteJob};
use super::year::{Used, YearFigures};
use super::zones::Zones;
use super::{AnalyzeOptions, DAY, Tables};
use crate::error::Error;
use crate::gaps::{GapFigures, Gaps, THRESHOLDS};
use crate::warnings::{empty, skipped, warnings};

/// What changed times spoil.
const WRONG_IF_CHANGED: &str = "its gaps and all that follows from them are wrong";

/// A day with fewer admitted requests says nothing about a share of them.
const BUSY_DAY: u64 = 30;

/// What is known of a log, and what each policy would have made of it.
///
/// `schema` rises when a key changes its meaning or goes; new keys come without that.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// Version of this form.
    pub schema: u32,
    /// Logs read, and how.
    pub logs: Vec<LogFigures>,
    /// Lines.
    pub lines: u64,
    /// Lines that could not be read.
    pub malformed: u64,
    /// The first of them.
    pub malformed_samples: Vec<Sample>,
    /// Lines that are whole, but hold no HTTP request.
    pub bad_requests: u64,
    /// The first of them.
    pub bad_request_samples: Vec<Sample>,
    /// Lines of another time than was asked for, or years apart from all others.
    pub outside: u64,
    /// Lines logged before the line in front of them.
    pub unsorted: u64,
    /// Of those, requests too late to be put where they belong.
    pub late: u64,
    /// First request, milliseconds since 1970.
    pub from: Wall,
    /// Seconds from the first request to the last, and the one in which that came.
    pub span_s: f64,
    /// How fine the log's times are, s. Gaps below that are not known.
    pub resolution_s: f64,
    /// Pauses that are absurd against all others, 64 at most: the log, or the site, was away.
    pub holes: Vec<Hole>,
    /// Requests analysed.
    pub requests: u64,
    /// By class of client.
    pub classes: BTreeMap<ClientClass, u64>,
    /// Share of crawlers.
    pub crawler_share: f64,
    /// Crawlers by name, the busiest first.
    pub crawlers: Vec<(String, u64)>,
    /// Agents on no list that behave like crawlers or monitors, with what gave them away.
    pub suspects: Vec<Suspect>,
    /// Requests by method.
    pub methods: BTreeMap<String, u64>,
    /// Requests by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Distinct targets, about.
    pub targets: u64,
    /// Sizes of answers, bytes.
    pub sizes: SizeFigures,
    /// Requests per hour.
    pub hours: HourFigures,
    /// Share of requests that a cache would have answered.
    pub cache_share: CacheShare,
    /// Gaps between requests, of four sequences.
    pub gaps: BySequence<GapFigures>,
    /// Threshold in seconds -> energy with perfect knowledge, J, proxy included; none of a sequence
    /// without gaps.
    pub ideal: BTreeMap<u32, BySequence<Option<f64>>>,
    /// Energy of a server always on, without a proxy, J.
    pub always_on_j: f64,
    /// What that costs, each hour at its price, in the scenario's currency.
    pub always_on_bill: f64,
    /// What the scenario's policy comes to in a year; none if less than a day was logged.
    pub year: Option<YearFigures>,
    /// The policy of the scenario.
    pub default_policy: String,
    /// What each policy would have done, as `serve` would have run it.
    pub policies: BTreeMap<String, PolicyFigures>,
    /// What a mirror of the site would make of the scenario's policy.
    pub mirror: MirrorFigures,
    /// The scenario's policy without its SLA; none if it has none.
    pub without_sla: Option<PolicyFigures>,
    /// What the scenario's policy does under other SLAs, beside its own and none; the strictest first.
    pub sla: Vec<SlaFigures>,
    /// The yardstick.
    pub oracle: OracleFigures,
    /// Price in joules per delayed visit -> policy -> joules.
    pub costs: BTreeMap<u32, BTreeMap<String, f64>>,
    /// The best fixed time-out at each price, s; none is never.
    pub best_fixed_timeout_s: BTreeMap<u32, Option<f64>>,
    /// Requests that reach the server in that comparison.
    pub reach_server: u64,
    /// Saving against delays, every policy.
    pub frontier: Vec<FrontierPoint>,
    /// Who and what wakes the server under the scenario's policy.
    pub wakers: WakerFigures,
    /// What the figures are about.
    pub scenario: Scenario,
    /// Whether the server's watts are the defaults, so that figures of energy are those of another server.
    pub watts_assumed: bool,
    /// Where the scenario is from.
    #[serde(skip)]
    pub tables: Option<Tables>,
    /// The site is an application, which has no mirror.
    #[serde(skip)]
    pub is_app: bool,
    /// Where the figures of energy come from.
    pub provenance: &'static str,
    /// What could not be read, and what to mind.
    pub warnings: Vec<String>,
}

/// A log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogFigures {
    /// As given.
    pub name: String,
    /// As what it was read.
    pub format: Option<String>,
    /// What its lines are packed in one by one, from the outside in: `syslog`.
    pub containers: Vec<String>,
    /// Its lines.
    pub lines: u64,
}

/// Sizes of answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeFigures {
    /// Of all together.
    pub total: u64,
    /// Half are no larger; 25 % above the truth at most.
    pub p50: u64,
    /// Nine in ten are no larger; likewise.
    pub p90: u64,
    /// Answers by size.
    pub histogram: Vec<SizeBand>,
}

/// Answers of about one size. In JSON, these are three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "(u64, u64, u64)")]
pub struct SizeBand {
    /// The smallest size.
    pub from: u64,
    /// The largest size.
    pub to: u64,
    /// How many there were.
    pub answers: u64,
}

impl From<SizeBand> for (u64, u64, u64) {
    fn from(band: SizeBand) -> Self {
        (band.from, band.to, band.answers)
    }
}

impl SizeFigures {
    pub(crate) fn of(sizes: &Sizes) -> Self {
        let band = |(&bin, &answers): (&u8, &u64)| {
            let (from, to) = Sizes::bounds(bin);
            SizeBand { from, to, answers }
        };
        Self {
            total: sizes.total,
            p50: sizes.quantile(0.5).unwrap_or(0),
            p90: sizes.quantile(0.9).unwrap_or(0),
            histogram: sizes.bins.iter().map(band).collect(),
        }
    }
}

/// Requests per hour, local time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HourFigures {
    /// Hour of the day -> all requests.
    pub of_day: Vec<Typical>,
    /// Hour of the week, from Monday midnight -> all requests.
    pub of_week: Vec<Typical>,
    /// Hour of the day -> crawlers.
    pub crawlers_of_day: Vec<Typical>,
    /// Hour of the week -> crawlers.
    pub crawlers_of_week: Vec<Typical>,
}

/// Share of requests that a cache would have answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CacheShare {
    /// While fresh only.
    pub default: f64,
    /// Up to an hour longer.
    pub grace: f64,
}

/// Something of each of the four sequences of requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BySequence<T> {
    /// Every request.
    pub all: T,
    /// Without those of crawlers.
    pub without_crawlers: T,
    /// Those that a cache with an hour of grace could not answer.
    pub behind_cache: T,
    /// Without both.
    pub both: T,
}

impl BySequence<()> {
    fn of<T>(gaps: &Sequences, figure: impl Fn(&Gaps) -> T) -> BySequence<T> {
        BySequence {
            all: figure(&gaps.all),
            without_crawlers: figure(&gaps.without_crawlers),
            behind_cache: figure(&gaps.behind_cache),
            both: figure(&gaps.both),
        }
    }
}

/// Draws it up.
pub(super) fn draw_up(
    options: &AnalyzeOptions,
    scan: Scan,
    pass: Option<Pass>,
) -> Result<Analysis, Error> {
    let Some(pass) = pass else { return Err(nothing_asked(options, scan)) };
    let resolution_s = if scan.summary.fractions { 0.001 } else { 1.0 };
    let (scenario, end) = (&options.scenario, end_of(&pass, options, resolution_s));
    let (crawler_share, cache_share) = shares(&pass);
    let (ideal, gaps) = (ideal(&pass.gaps, scenario), BySequence::of(&pass.gaps, Gaps::figures));
    let (crawlers, classes) = (crawlers(&pass), pass.classes.clone());
    let (requests, from, utc_offset) = (pass.requests, pass.start, pass.utc_offset);
    let suspects: Vec<Suspect> = pass.suspects.list().into_iter().take(ROWS).collect();
    let (holes, hole) = holes(&pass, end);
    let PassResult { crawler_hours, jobs, resources, clients, trace, zones } = pass.end();
    let bills = Bills::of(scenario, &zones, end);
    let done = JobResults::of(jobs, scenario, &bills, &zones, end);
    let rules = rules(&done.seen);
    let (tried, span_s) = try_each(trace, &rules, scenario, from, utc_offset, end);
    let always_on = bills.always_on((scenario.power_states().on * end.0).get());
    Ok(Analysis {
        schema: 1,
        warnings: all_warnings(&scan, options, hole),
        logs: logs(&scan),
        lines: scan.counts.lines,
        malformed: scan.counts.malformed,
        malformed_samples: scan.counts.malformed_samples.clone(),
        bad_requests: scan.counts.bad_requests,
        bad_request_samples: scan.counts.bad_request_samples.clone(),
        outside: scan.counts.outside,
        unsorted: scan.unsorted(),
        late: scan.late,
        from,
        span_s: end.0.as_secs_f64(),
        resolution_s,
        holes,
        requests,
        crawler_share,
        classes,
        crawlers,
        suspects,
        methods: methods(&scan),
        statuses: scan.summary.statuses.clone(),
        targets: scan.summary.targets.estimate(),
        sizes: SizeFigures::of(&scan.summary.sizes),
        hours: hours(&scan.summary.hours, &crawler_hours),
        cache_share,
        gaps,
        ideal,
        always_on_j: always_on.joules,
        always_on_bill: always_on.bill,
        year: year(done.policies.get(&scenario.policy.to_string()), scenario, always_on, end),
        sla: done.sla,
        default_policy: scenario.policy.to_string(),
        policies: done.policies,
        mirror: done.mirror,
        without_sla: done.without_sla,
        oracle: done.oracle,
        costs: done.costs.by_price,
        best_fixed_timeout_s: done.costs.best_timeout_s,
        reach_server: done.costs.reach_server,
        frontier: done.costs.frontier,
        wakers: WakerFigures::of(&done.seen, &resources, &clients, &rules, &tried, span_s),
        scenario: scenario.clone(),
        watts_assumed: watts_assumed(scenario),
        tables: options.tables.clone(),
        is_app: options.is_app,
        provenance: "modelled from the scenario's power states; traffic and classes from the log",
    })
}

/// Whether no one has set what the server draws: figures that are the defaults count as assumed.
fn watts_assumed(scenario: &Scenario) -> bool {
    let default = Scenario::default().server;
    let drawn = |it: &Server| (it.on_w, it.off_w, it.uncertainty);
    drawn(&scenario.server) == drawn(&default)
}

/// Of all requests: those of crawlers, and those that a cache would have answered.
fn shares(pass: &Pass) -> (f64, CacheShare) {
    let share = |part: u64| part as f64 / pass.requests.max(1) as f64;
    let (by_default, with_grace) = pass.answered_by_cache();
    let crawlers = pass.classes.get(&ClientClass::Crawler).copied().unwrap_or(0);
    (share(crawlers), CacheShare { default: share(by_default), grace: share(with_grace) })
}

/// Holes, and what is to be said of them.
fn holes(pass: &Pass, end: Mono) -> (Vec<Hole>, Option<String>) {
    let (holes, ordinary) = pass.pauses.holes(pass.start);
    let warning = holes::warning(&holes, ordinary, pass.start, end.as_secs_f64());
    (holes, warning)
}

fn nothing_asked(options: &AnalyzeOptions, scan: Scan) -> Error {
    Error::nothing_asked(&options.reading, scan)
}

fn all_warnings(scan: &Scan, options: &AnalyzeOptions, hole: Option<String>) -> Vec<String> {
    let warnings = warnings(scan, &options.reading, WRONG_IF_CHANGED).into_iter();
    warnings.chain(empty(scan)).chain(skipped(&scan.counts)).chain(hole).collect()
}

fn year(
    own: Option<&PolicyFigures>,
    scenario: &Scenario,
    always_on: Used,
    end: Mono,
) -> Option<YearFigures> {
    let own = own?;
    let used = Used { joules: own.energy_j, bill: own.bill };
    YearFigures::of(scenario, always_on, used, end)
}

fn ideal(gaps: &Sequences, scenario: &Scenario) -> BTreeMap<u32, BySequence<Option<f64>>> {
    let row = |threshold| {
        (threshold, BySequence::of(gaps, |gaps| gaps.ideal(scenario, threshold as usize)))
    };
    (0..=THRESHOLDS as u32).map(row).collect()
}

fn crawlers(pass: &Pass) -> Vec<(String, u64)> {
    let mut crawlers: Vec<(String, u64)> =
        pass.crawlers.iter().map(|(name, &count)| ((*name).to_owned(), count)).collect();
    crawlers.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    crawlers
}

fn methods(scan: &Scan) -> BTreeMap<String, u64> {
    let methods = scan.summary.methods.sorted().into_iter();
    methods.map(|(method, requests)| (method.to_owned(), requests)).collect()
}

/// The last request's moment; as `demo` has it, so that both speak of the same span.
fn end_of(pass: &Pass, options: &AnalyzeOptions, resolution_s: f64) -> Mono {
    let logged = pass.last + std::time::Duration::from_secs_f64(resolution_s);
    options.days.map_or(logged, |days| Mono((DAY * days).min(logged.0.max(DAY))))
}

/// What the jobs came to.
struct JobResults {
    policies: BTreeMap<String, PolicyFigures>,
    mirror: MirrorFigures,
    without_sla: Option<PolicyFigures>,
    sla: Vec<SlaFigures>,
    oracle: OracleFigures,
    costs: CostTable,
    /// Who wakes the server under the scenario's policy.
    seen: Wakers,
}

impl JobResults {
    fn of(
        jobs: Vec<Job>,
        scenario: &Scenario,
        bills: &Bills<'_>,
        zones: &Zones,
        end: Mono,
    ) -> Self {
        let (mut sites, mut costs, mut bank) = (Vec::new(), Vec::new(), None);
        for job in jobs {
            match job {
                Job::Site(job) => sites.push(*job),
                Job::Cost(job) => costs.push(*job),
                Job::Bank(job) => bank = Some(job),
            }
        }
        let bank = bank.expect("`jobs` makes one");
        costs.sort_by_key(PolicyCost::order);
        let rules = scenario.constraints();
        let costs = table(costs, &bank, scenario, &rules, end);
        let always_on = rules.states.on * end.0;
        let proxy_j = (scenario.proxy_power() * end.0).get();
        let of_plan = |plan: &Plan| {
            let by_hour = bills::by_hour(scenario);
            let saved = by_hour.then(|| bills::planned(plan, &rules.states, zones, end));
            let energy_j = (always_on - plan.saved).get() + proxy_j;
            OracleFigures {
                energy_j,
                bill: bills.of_both(energy_j, saved.as_ref()),
                saving: 1.0 - energy_j / always_on.get(),
            }
        };
        let oracle = of_plan(&bank.plan_ahead(end, &rules));
        let limit = of_plan(&bank.plan_ahead_behind_mirror(end, &rules));
        let (mut wakers, mut policies) = (Wakers::default(), BTreeMap::new());
        let (mut mirrors, mut slas) = (Vec::new(), SlaRuns::default());
        for SiteJob { purpose, mut run, wakers: seen, delayed_visits, .. } in sites {
            if let Some(seen) = seen {
                wakers = seen;
            }
            let days = run.days().clone();
            let saved = run.saved_by_hour(end);
            let outcome = run.finish(end);
            let own = purpose.scenario(scenario);
            let mut figures = policy_figures(&outcome, &days, &own, oracle.energy_j - proxy_j, end);
            figures.bill = bills.of_both(figures.energy_j, saved.as_ref());
            let run = SlaRun::of(&figures, delayed_visits);
            match purpose {
                Purpose::Policies(names) => {
                    if names.contains(&scenario.policy.to_string()) {
                        slas.own = Some(run);
                    }
                    policies.extend(names.into_iter().map(|name| (name, figures.clone())));
                }
                Purpose::WithoutSla => slas.without = Some(run),
                Purpose::Sla(tried) => slas.tried.push((tried, run)),
                Purpose::Mirror(extent) => {
                    mirrors.push((extent, MirrorRun::new(figures, &outcome.refresh, scenario)));
                }
            }
        }
        let mirror = MirrorFigures::of(mirrors, limit, scenario);
        let sla = slas.together(scenario);
        let without_sla = slas.without.map(|run| run.figures);
        Self { policies, mirror, without_sla, sla, oracle, costs, seen: wakers }
    }
}

/// What the scenario's policy would do with a mirror of the site beside the cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MirrorFigures {
    /// The mirror holds what this log had asked for before: the lower estimate.
    pub remembered: MirrorRun,
    /// It holds all that the log shows to exist: the upper estimate.
    pub crawled: MirrorRun,
    /// It also knows every path where there is nothing (`complete = true`).
    pub complete: MirrorRun,
    /// Behind that mirror, with a known future: no visit waits.
    pub limit: OracleFigures,
    /// No copy gets older while the server sleeps, s.
    pub max_age_s: f64,
}

impl MirrorFigures {
    /// Of runs with each extent of a mirror.
    fn of(
        mut mirrors: Vec<(Extent, MirrorRun)>,
        limit: OracleFigures,
        scenario: &Scenario,
    ) -> Self {
        let mut of = |extent: Extent| {
            let place = mirrors.iter().position(|(of, _)| *of == extent);
            mirrors.swap_remove(place.expect("`jobs` makes one of each")).1
        };
        Self {
            remembered: of(Extent::Remembered),
            crawled: of(Extent::Crawled),
            complete: of(Extent::Complete),
            limit,
            max_age_s: refresh_rule(scenario).rules.max_age.as_secs_f64(),
        }
    }
}

/// What the scenario's policy does with one kind of mirror.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MirrorRun {
    /// As of a policy.
    #[serde(flatten)]
    pub figures: PolicyFigures,
    /// Wake-ups without a request: copies had to be checked again.
    pub refresh_wakeups: u64,
    /// Energy of these, and of the sleeps that waited for copies to be looked at, J; part of `energy_j`.
    pub refresh_j: f64,
}

impl MirrorRun {
    pub(super) fn new(figures: PolicyFigures, refresh: &RefreshCost, scenario: &Scenario) -> Self {
        let refresh_j = refresh.energy(&scenario.power_states()).get();
        Self { figures, refresh_wakeups: refresh.wakeups, refresh_j }
    }
}

/// How mirrors are kept fresh here.
pub(super) fn refresh_rule(scenario: &Scenario) -> RefreshRule {
    RefreshRule::of(scenario.server.service_time)
}

fn policy_figures(
    outcome: &Outcome,
    by_day: &Days,
    scenario: &Scenario,
    oracle_j: f64,
    end: Mono,
) -> PolicyFigures {
    let states = scenario.power_states();
    let bill = &outcome.bill;
    let server = bill.server(&states);
    let energy = Energy::modelled(
        server + bill.proxy(scenario.proxy_power()),
        scenario.server.uncertainty,
        "power states of the scenario",
    );
    let always_on = bill.always_on(&states).get();
    let best = always_on - oracle_j;
    let days = end.0.as_secs_f64() / DAY.as_secs_f64();
    let busy = || by_day.iter().map(|(_, day)| day).filter(|day| day.admitted >= BUSY_DAY);
    // Without a share, as many as there are may wait.
    let share = scenario.sla.share.unwrap_or(1.0);
    let is_over = |day: &Day| day.delayed as f64 > share * day.admitted as f64 + 1e-9;
    let later = by_day.iter().skip(1).fold((0, 0), |(admitted, delayed), (_, day)| {
        (admitted + day.admitted, delayed + day.delayed)
    });
    PolicyFigures {
        days: busy().count() as u64,
        days_over: busy().filter(is_over).count() as u64,
        delayed_share_after_first_day: (later.0 > 0).then(|| later.1 as f64 / later.0 as f64),
        energy_j: energy.joules.get(),
        energy_uncertainty_j: energy.uncertainty.get(),
        bill: 0.0,
        saving: bill.saving(&states, scenario.proxy_power()),
        wakeups_per_day: bill.wakeups as f64 / days,
        admitted: outcome.admitted,
        from_copies: outcome.answers.from_copies,
        delayed_requests: outcome.delayed_requests,
        visits: outcome.visits,
        delayed_visits: outcome.delayed_visits,
        oracle_share: (best > 0.0).then(|| (always_on - server.get()) / best),
    }
}

fn hours(all: &Hours, crawlers: &Hours) -> HourFigures {
    HourFigures {
        of_day: all.of_day().to_vec(),
        of_week: all.of_week().to_vec(),
        crawlers_of_day: crawlers.of_day().to_vec(),
        crawlers_of_week: crawlers.of_week().to_vec(),
    }
}

fn logs(scan: &Scan) -> Vec<LogFigures> {
    let log = |log: &nightwatt_traffic::scan::LogReport| LogFigures {
        name: log.name.clone(),
        format: log.format.map(|format| format.to_string()),
        containers: log.containers.iter().map(ToString::to_string).collect(),
        lines: log.lines,
    };
    scan.logs.iter().map(log).collect()
}
