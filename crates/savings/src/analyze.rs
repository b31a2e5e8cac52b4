//! `nightwatt analyze`: what sleeping would save on a log, and whom it would delay.
//!
//! ```text
//! traffic::scan ── requests in the order of time ──► Pass ── events ──► WorkerPool: one job per policy
//!    (all cores)                                      │ classes, gaps,        (all cores)
//!    sums that merge                                  │ caches
//!                                                     ▼
//!                                                  Analysis ──► text, JSON, HTML
//! ```
//!
//! Memory does not grow with the log: besides the scan's own bounds, the pass keeps 2^17 names of
//! addresses and of clients, the agents that `Suspects` watches, three caches of the scenario's
//! size, what mirrors hold of 2^17 URLs, histograms, the newest 2^16 requests, and of each pause that
//! could hold a sleep 64 bytes (there is at most one in five seconds).

mod amounts;
mod apart;
mod bills;
mod charts;
mod costs;
mod doubts;
mod hide;
mod holes;
mod mirror;
mod names;
mod odd;
mod page;
mod pass;
mod policy_figures;
mod result;
mod sla;
mod sla_table;
mod tables;
mod url_rules;
mod wakers;
mod what_if;
mod worker_pool;
mod year;
mod zones;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_sim::{CacheSettings, Extent, SiteRun, World};
use nightwatt_traffic::Reading;
use nightwatt_traffic::classifier::ClassifierConfig;
use nightwatt_traffic::scan::{self, Between, Progress, Scan};
use nightwatt_traffic::traits::Rules;

use self::costs::Costs;
pub use self::costs::{CostTable, FrontierPoint};
pub use self::holes::Hole;
use self::pass::Pass;
pub use self::policy_figures::PolicyFigures;
pub use self::result::{Analysis, MirrorFigures, MirrorRun, SizeBand, SizeFigures};
pub use self::sla::SlaFigures;
use self::wakers::Wakers;
pub use self::wakers::{Caused, Waker, WakerFigures};
pub use self::what_if::WhatIf;
use self::worker_pool::{Job, Purpose, SiteJob};
pub use self::year::YearFigures;
use crate::error::Error;
pub use crate::gaps::{GapBand, GapFigures};

const DAY: Duration = Duration::from_hours(24);

/// What to analyse.
#[derive(Debug, Clone, Default)]
pub struct AnalyzeOptions {
    /// Logs; `-` is standard input.
    pub logs: Vec<PathBuf>,
    /// What reports and errors call logs that have another name than their path.
    pub names: BTreeMap<PathBuf, String>,
    /// How all logs are to be read.
    pub reading: Reading,
    /// Only requests of this time.
    pub between: Between,
    /// Only this many days from the first request on.
    pub days: Option<u32>,
    /// What time it is, if a log that ends later is to be warned of.
    pub now: Option<Wall>,
    /// Server, proxy, SLA, cache, policy.
    pub scenario: Scenario,
    /// What the operator says about clients.
    pub classes: ClassifierConfig,
    /// The configuration that the scenario is from; none: it is from a file of its own, or the default.
    pub tables: Option<Tables>,
    /// The site is an application: it has no mirror, whatever its server answers.
    pub is_app: bool,
}

/// Where in a configuration the figures of a scenario stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// The path of the configuration, as given.
    pub file: String,
    /// The table of its server, as it is written: `[scenario.server]`.
    pub server: String,
    /// The table of prices.
    pub electricity: String,
}

/// Policies that are compared as `serve` would run them, beside the scenario's own.
fn compared(scenario: &Scenario) -> Vec<PolicyChoice> {
    let timeout = |secs| PolicyChoice::Timeout { idle: Duration::from_secs(secs) };
    let each = |choice| match choice {
        PolicyChoice::Timeout { .. } => [5, 30, 120, 300].map(timeout).to_vec(),
        other => vec![other],
    };
    let mut choices: Vec<_> = PolicyChoice::EXAMPLES.into_iter().flat_map(each).collect();
    if !choices.contains(&scenario.policy) {
        choices.insert(0, scenario.policy.clone());
    }
    choices
}

/// The shortest time-out that does what this choice does. No policy is asked before the minimum on time
/// and the quiet time are over, so all time-outs that are over by then do the same.
fn same_as(choice: &PolicyChoice, scenario: &Scenario) -> PolicyChoice {
    let idle = match choice {
        PolicyChoice::Timeout { idle } => *idle,
        PolicyChoice::SkiRental => scenario.power_states().break_even(),
        PolicyChoice::Learned | PolicyChoice::Window | PolicyChoice::AlwaysOn => {
            return choice.clone();
        }
    };
    let asked = scenario.server.min_on.min(scenario.server.quiet);
    PolicyChoice::Timeout { idle: if idle <= asked { Duration::ZERO } else { idle } }
}

/// All that is to be done with every request.
fn jobs(options: &AnalyzeOptions, start: Wall, utc_offset: i32) -> Vec<Job> {
    let scenario = &options.scenario;
    let shared_budget = (options.classes.unrecognised_wakes_per_hour, Duration::from_hours(1));
    let settings = Settings { shared_budget, ..Settings::of(scenario) };
    let world = World { states: scenario.power_states(), settings, start, utc_offset };
    let run = |choice: &PolicyChoice, world: &World| {
        let cache = CacheSettings::of(&scenario.cache);
        let run = SiteRun::begin(world, cache, choice.build(&scenario.terms()));
        if bills::by_hour(scenario) { run.with_hours() } else { run }
    };
    let site = |(does, choices): (PolicyChoice, Vec<PolicyChoice>)| {
        let wakers = choices.contains(&scenario.policy).then(Wakers::default);
        let names = choices.iter().map(ToString::to_string).collect();
        SiteJob::new(Purpose::Policies(names), run(&does, &world), wakers)
    };
    let own = same_as(&scenario.policy, scenario);
    let mirror = |extent| {
        let run = run(&own, &world).with_mirror(extent, result::refresh_rule(scenario));
        SiteJob::new(Purpose::Mirror(extent), run, None)
    };
    let with_sla = |sla, purpose| {
        let settings = Settings { sla, ..world.settings.clone() };
        let world = World { settings, ..world.clone() };
        SiteJob::new(purpose, run(&own, &world), None)
    };
    let without_sla = scenario.sla.enabled.then(|| with_sla(None, Purpose::WithoutSla));
    let others = sla::others(scenario)
        .map(|tried| with_sla(tried.in_scenario(scenario).sla(), Purpose::Sla(tried)));
    let mirrors = [Extent::Remembered, Extent::Crawled, Extent::Complete].map(mirror);
    let costs = Costs::begin(scenario, start, utc_offset);
    let sites =
        alike(scenario).into_iter().map(site).chain(mirrors).chain(without_sla).chain(others);
    let mut jobs: Vec<Job> = sites.map(|job| Job::Site(Box::new(job))).collect();
    jobs.push(Job::Bank(Box::new(costs.bank)));
    jobs.extend(costs.policies.into_iter().map(|cost| Job::Cost(Box::new(cost))));
    jobs
}

/// The policies that are compared, by what they do.
fn alike(scenario: &Scenario) -> Vec<(PolicyChoice, Vec<PolicyChoice>)> {
    let mut alike: Vec<(PolicyChoice, Vec<PolicyChoice>)> = Vec::new();
    for choice in compared(scenario) {
        let does = same_as(&choice, scenario);
        match alike.iter_mut().find(|(known, _)| *known == does) {
            Some((_, choices)) => choices.push(choice),
            None => alike.push((does, vec![choice])),
        }
    }
    alike
}

/// Reads the logs and draws up the analysis. `progress` may stop it by `Break`.
///
/// A few requests that lie years apart from all others are left out: the logs are then read a second time.
pub fn run(
    options: &AnalyzeOptions,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Analysis, Error> {
    options.scenario.check()?;
    let mut options = Cow::Borrowed(options);
    let (mut scan, mut pass) = read(&options, &mut progress)?;
    let mut warnings = Vec::new();
    let main_part = pass.as_ref().and_then(|pass| odd::main_part(&options, pass));
    if let Some(between) = main_part {
        drop(pass);
        options.to_mut().between = between;
        let whole = scan;
        (scan, pass) = read(&options, &mut progress)?;
        warnings.extend(odd::left_out(&scan, &whole, &between));
    }
    warnings.extend(odd::later_than_now(&options, &scan));
    warnings.extend(odd::same_twice(&options.logs, &scan));
    let mut analysis = result::draw_up(&options, scan, pass)?;
    analysis.warnings.extend(warnings);
    Ok(analysis)
}

/// Reads the logs once.
fn read(
    options: &AnalyzeOptions,
    progress: &mut impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Scan, Option<Pass>), Error> {
    let rules = Arc::new(Rules::new(options.classes.clone()));
    let scan_options = scan::Options {
        reading: options.reading.clone(),
        names: options.names.clone(),
        between: options.between,
        ..scan::Options::default()
    };
    let mut pass: Option<Pass> = None;
    let until = options.days.map(|days| Mono(DAY * days));
    let goes_on = Cell::new(true);
    let report = |at| goes_on.set(goes_on.get() && progress(at).is_continue());
    let mut scan = scan::scan(&options.logs, &rules, &scan_options, report, |logged| {
        if !goes_on.get() {
            return ControlFlow::Break(());
        }
        let pass = pass.get_or_insert_with(|| Pass::begin(options, &rules, &logged));
        let at = pass.time_of(logged.at);
        if until.is_some_and(|until| at >= until) {
            pass.pauses.apart.ends_before(at);
            return ControlFlow::Break(());
        }
        pass.request(&logged);
        ControlFlow::Continue(())
    });
    if !goes_on.get() {
        return Err(Error::Stopped);
    }
    scan.refuse()?;
    Ok((scan, pass))
}
