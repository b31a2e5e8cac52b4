//! `nightwatt published`: the comparison of the published work, over any log.
//!
//! Five configurations, each from an empty cache: the server alone; behind a cache; behind a cache
//! with an hour of grace; the same while the server sleeps and crawlers are sent away; and with a
//! waiting page besides, whose reader asks again after 15 s. O'Dwyer replayed a log against a test
//! bed; here the log runs through the simulator, whose power manager is that of `serve`.
//! `docs/published-comparison.md` says what that models and what a log cannot show.
//!
//! Memory does not grow with the log: besides the scan's own bounds there are four caches of the
//! scenario's size, counts of delays at fixed points, 2^16 agents, and the requests of the last
//! 15 s that wait.

mod column;
mod delays;
mod gaps;
mod page;
mod result;
mod site;
mod yardstick;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::scenario::Scenario;
use nightwatt_sim::VisitBook;
use nightwatt_traffic::classifier::ClassifierConfig;
use nightwatt_traffic::crawlers::PUBLISHED;
use nightwatt_traffic::scan::{self, Logged, Progress};
use nightwatt_traffic::traits::Rules;
use nightwatt_traffic::{Classifier, Reading};
use serde::Serialize;

pub use self::column::Tally;
pub use self::delays::DelayPoint;
pub use self::gaps::GapTail;
use self::gaps::Tail;
pub use self::result::{Comparison, Configuration, Tails};
use self::site::{AlwaysOn, PublishedRequest, Sleeping};
use crate::error::Error;
use crate::resources::resource_of;

/// Grace of the caches that have some.
const GRACE: Duration = Duration::from_hours(1);

/// What the reader of a waiting page waits before asking again.
const REPLAY_AFTER: Duration = Duration::from_secs(15);

/// The proxy gives up a server that does not answer in this time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Agents remembered.
const AGENTS: usize = 1 << 16;

/// Who counts as a crawler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Crawlers {
    /// Whose agent holds one of the nine published strings.
    #[default]
    Published,
    /// Whom the classifier of `serve` and `analyze` takes for one.
    Classifier,
}

/// What to compare on.
#[derive(Debug, Clone, Default)]
pub struct PublishedOptions {
    /// Logs; `-` is standard input.
    pub logs: Vec<PathBuf>,
    /// How all logs are to be read.
    pub reading: Reading,
    /// Server, proxy, SLA, cache, policy.
    pub scenario: Scenario,
    /// Who counts as a crawler.
    pub crawlers: Crawlers,
}

/// Reads the logs and compares.
///
/// # Errors
/// A scenario that cannot be true, a log that cannot be read, or logs without a request.
pub fn run(
    options: &PublishedOptions,
    progress: impl FnMut(Progress),
) -> Result<Comparison, Error> {
    options.scenario.check()?;
    let rules = Arc::new(Rules::new(ClassifierConfig::default()));
    let scan_options =
        scan::Options { reading: options.reading.clone(), ..scan::Options::default() };
    let mut pass: Option<Pass> = None;
    let mut scan = scan::scan(&options.logs, &rules, &scan_options, progress, |logged| {
        pass.get_or_insert_with(|| Pass::begin(options, &rules, &logged)).request(&logged);
        ControlFlow::Continue(())
    });
    let Some(pass) = pass else {
        return Err(Error::nothing_asked(&options.reading, scan));
    };
    scan.refuse()?;
    Ok(result::draw_up(options, &scan, pass))
}

/// Pauses of four sequences.
#[derive(Debug, Default)]
struct Sequences {
    all: Tail,
    behind_cache: Tail,
    without_crawlers: Tail,
    both: Tail,
}

/// One pass over the requests, in the order of time.
struct Pass {
    start: Wall,
    last: Mono,
    requests: u64,
    by_crawlers: u64,
    sequences: Sequences,
    crawlers: Crawlers,
    classifier: Classifier,
    agents: HashMap<u64, bool, FixedState>,
    visits: VisitBook,
    always_on: [AlwaysOn; 3],
    sleeping: [Sleeping; 2],
}

impl Pass {
    fn begin(options: &PublishedOptions, rules: &Arc<Rules>, first: &Logged<'_>) -> Self {
        let scenario = &options.scenario;
        let (start, utc_offset) = (first.at, first.utc_offset);
        Self {
            start,
            last: Mono::ZERO,
            requests: 0,
            by_crawlers: 0,
            sequences: Sequences::default(),
            crawlers: options.crawlers,
            classifier: Classifier::with_rules(Arc::clone(rules)),
            agents: HashMap::default(),
            visits: VisitBook::default(),
            always_on: [
                AlwaysOn::without_proxy(scenario),
                AlwaysOn::behind_cache(scenario, Duration::ZERO),
                AlwaysOn::behind_cache(scenario, GRACE),
            ],
            sleeping: [
                Sleeping::begin(scenario, false, start, utc_offset),
                Sleeping::begin(scenario, true, start, utc_offset),
            ],
        }
    }

    fn request(&mut self, logged: &Logged<'_>) {
        let since = u64::try_from(logged.at.0 - self.start.0).unwrap_or(0);
        let at = Mono(Duration::from_millis(since));
        let is_crawler = self.is_crawler(logged, at);
        self.last = at;
        self.requests += 1;
        self.by_crawlers += u64::from(is_crawler);
        let asked = PublishedRequest {
            number: self.requests,
            at,
            visitor: logged.visitor,
            visit: self.visits.of(at, logged.visitor),
            client: logged.traits.client,
            is_crawler,
            resource: resource_of(logged),
            status: logged.status,
        };
        let [alone, default, grace] = &mut self.always_on;
        alone.ask(&asked);
        let by_cache = default.ask(&asked);
        grace.ask(&asked);
        self.sleeping.iter_mut().for_each(|site| site.ask(&asked));
        self.sequences.request(at, is_crawler, by_cache);
    }

    fn is_crawler(&mut self, logged: &Logged<'_>, at: Mono) -> bool {
        match self.crawlers {
            Crawlers::Published => {
                if self.agents.len() >= AGENTS {
                    self.agents.clear();
                }
                let agent = logged.agent.unwrap_or_default();
                let listed = || PUBLISHED.iter().any(|part| agent.contains(part));
                *self.agents.entry(logged.traits.agent).or_insert_with(listed)
            }
            Crawlers::Classifier => {
                let class = self.classifier.class_of(at, &logged.traits);
                self.classifier.learn_of(at, &logged.traits, logged.status);
                class == ClientClass::Crawler
            }
        }
    }
}

impl Sequences {
    fn request(&mut self, at: Mono, is_crawler: bool, by_cache: bool) {
        let counted = [
            (&mut self.all, true),
            (&mut self.behind_cache, !by_cache),
            (&mut self.without_crawlers, !is_crawler),
            (&mut self.both, !by_cache && !is_crawler),
        ];
        for (tail, _) in counted.into_iter().filter(|(_, counts)| *counts) {
            tail.request(at);
        }
    }
}
