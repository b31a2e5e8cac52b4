//! One pass over the requests of a log, in the order of time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::{self, Cached, ClientClass, Want};
use nightwatt_policy::awake_budget::UNLIMITED;
use nightwatt_sim::{
    CacheModel, CacheSettings, Extent, LoggedRequest, MirrorModel, Resource, Slots, Visit,
    VisitBook,
};
use nightwatt_traffic::scan::Logged;
use nightwatt_traffic::summary::Hours;
use nightwatt_traffic::traits::Rules;
use nightwatt_traffic::{Classifier, ClientKey, CrawlerTable, Suspects};

use super::holes::Pauses;
use super::names::{self, Names, remember};
use super::url_rules::{UrlRules, holds};
use super::what_if::Trace;
use super::worker_pool::{Event, Job, WorkerPool};
use super::zones::Zones;
use super::{AnalyzeOptions, jobs};
use crate::gaps::Gaps;
use crate::resources::resource_of;

/// Grace of the cache that is reported beside the default one.
const GRACE: Duration = Duration::from_hours(1);

/// What browsers ask every site for: no user waits for it, so it wakes no server.
const ICONS: [&str; 3] =
    ["/favicon.ico", "/apple-touch-icon.png", "/apple-touch-icon-precomposed.png"];

/// The gaps of four sequences.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    pub(super) all: Gaps,
    pub(super) without_crawlers: Gaps,
    pub(super) behind_cache: Gaps,
    pub(super) both: Gaps,
}

/// Requests that two caches would have answered.
#[derive(Debug)]
struct Caches {
    default: CacheModel,
    grace: CacheModel,
    /// With the scenario's grace: the one behind which policies are compared.
    asleep: CacheModel,
    /// Beside it, for the limit of what a mirror can do.
    mirror: MirrorModel,
    by_default: u64,
    with_grace: u64,
}

/// Requests by hour, put into the table when the hour is over.
#[derive(Debug, Default)]
struct HourOfCrawlers {
    hours: Hours,
    now: Option<(i64, i32, u64)>,
}

/// The pass.
pub(super) struct Pass {
    /// When the first request came.
    pub(super) start: Wall,
    /// Local time minus UTC then, s.
    pub(super) utc_offset: i32,
    pub(super) last: Mono,
    pub(super) requests: u64,
    pub(super) classes: BTreeMap<ClientClass, u64>,
    pub(super) crawlers: HashMap<&'static str, u64, FixedState>,
    pub(super) suspects: Suspects,
    pub(super) gaps: Sequences,
    pub(super) pauses: Pauses,
    pub(super) resources: Names,
    pub(super) clients: Names,
    zones: Zones,
    classifier: Classifier,
    crawler_names: HashMap<u64, &'static str, FixedState>,
    crawler_hours: HourOfCrawlers,
    caches: Caches,
    visits: VisitBook,
    slots: Slots,
    url_rules: UrlRules,
    trace: Trace,
    worker_pool: WorkerPool,
}

/// What is left of the pass when it has ended.
pub(super) struct PassResult {
    pub(super) crawler_hours: Hours,
    pub(super) jobs: Vec<Job>,
    pub(super) resources: Names,
    pub(super) clients: Names,
    pub(super) trace: Trace,
    pub(super) zones: Zones,
}

impl Pass {
    pub(super) fn begin(options: &AnalyzeOptions, rules: &Arc<Rules>, first: &Logged<'_>) -> Self {
        let rule = &options.scenario.cache;
        let cache = |grace| {
            CacheModel::new(CacheSettings { grace, warm_up: false, ..CacheSettings::of(rule) })
        };
        let (start, utc_offset) = (first.at, first.utc_offset);
        Self {
            start,
            utc_offset,
            last: Mono::ZERO,
            requests: 0,
            classes: BTreeMap::new(),
            crawlers: HashMap::default(),
            suspects: Suspects::new(),
            gaps: Sequences::default(),
            pauses: Pauses::default(),
            resources: Names::default(),
            clients: Names::default(),
            zones: Zones::begin(start, utc_offset),
            classifier: Classifier::with_rules(Arc::clone(rules)),
            crawler_names: HashMap::default(),
            crawler_hours: HourOfCrawlers::default(),
            caches: Caches {
                default: cache(Duration::ZERO),
                grace: cache(GRACE),
                asleep: cache(rule.grace_asleep),
                mirror: MirrorModel::new(Extent::Complete),
                by_default: 0,
                with_grace: 0,
            },
            visits: VisitBook::default(),
            slots: Slots::default(),
            url_rules: UrlRules::default(),
            trace: Trace::default(),
            worker_pool: WorkerPool::begin(jobs(options, start, utc_offset)),
        }
    }

    /// When a request came, since the first.
    pub(super) fn time_of(&self, at: Wall) -> Mono {
        Mono(Duration::from_millis(u64::try_from(at.0 - self.start.0).unwrap_or(0)))
    }

    pub(super) fn request(&mut self, logged: &Logged<'_>) {
        let at = self.time_of(logged.at);
        self.last = at;
        self.requests += 1;
        self.pauses.request(at);
        let utc_offset = self.zones.line(at, logged.utc_offset);
        let decided = logged.traits.decided().is_some();
        let class = self.classifier.class_of(at, &logged.traits);
        let judged = self.classifier.judge_beside_paths(at, &logged.traits);
        let beside_paths = judged.class();
        self.classifier.learn_of(at, &logged.traits, logged.status);
        *self.classes.entry(class).or_default() += 1;
        self.suspects.observe(logged);
        if class == ClientClass::Crawler {
            self.crawler(logged);
        }
        let mut resource = resource_of(logged);
        let may_be_mirrored = logged.method == "GET" && holds(logged).is_some();
        resource.slot = self.slots.of(resource.key, resource.storable || may_be_mirrored);
        resource.mirror = self.url_rules.of(logged, resource.slot);
        let cached = self.caches.ask(&resource, at);
        self.sequences(at, class, cached);
        let want = want_of(logged, class);
        let client = logged.traits.client;
        let needs_server = self.caches.needs_server(class, want, &resource, at);
        let needs_server_behind_mirror =
            self.caches.needs_server_behind_mirror(needs_server, &resource, client, at);
        let visitor = logged.visitor;
        let mut visit = Visit::default();
        // A policy's own cache may lack what this one has: every client that may wake the server is named.
        if class.is_admitted() || beside_paths.is_admitted() {
            visit = self.visits.of(at, visitor);
            remember(&mut self.resources, resource.key, logged.target);
            remember(&mut self.clients, logged.traits.client, logged.client);
        }
        let number = self.requests;
        let asked = LoggedRequest {
            number,
            at,
            visitor,
            visit,
            client,
            class: beside_paths,
            recognised: judged.recognised || is_local(logged.client),
            scanner_rules: if decided { 0 } else { logged.traits.scanner_rules() },
            succeeded: matches!(logged.status, 200..=399 | 401),
            want,
            resource,
            is_pinned: false,
        };
        self.trace.push(asked);
        let wall = self.start + at.0;
        let local_day = (wall.secs() + i64::from(utc_offset)).div_euclid(86_400);
        self.worker_pool.push(Event {
            asked,
            class,
            needs_server,
            needs_server_behind_mirror,
            utc_offset,
            local_day,
        });
    }

    fn sequences(&mut self, at: Mono, class: ClientClass, cached: bool) {
        let gaps = &mut self.gaps;
        let is_crawler = class == ClientClass::Crawler;
        gaps.all.request(at);
        if !is_crawler {
            gaps.without_crawlers.request(at);
        }
        if !cached {
            gaps.behind_cache.request(at);
        }
        if !is_crawler && !cached {
            gaps.both.request(at);
        }
    }

    fn crawler(&mut self, logged: &Logged<'_>) {
        let agent = logged.agent.unwrap_or_default();
        if self.crawler_names.len() >= names::MOST {
            self.crawler_names.clear();
        }
        let name = self.crawler_names.entry(logged.traits.agent).or_insert_with(|| {
            CrawlerTable::shared().lookup(agent).map_or("by behaviour", |found| found.name)
        });
        *self.crawlers.entry(name).or_default() += 1;
        self.crawler_hours.add(logged.at, logged.utc_offset);
    }

    /// Requests that a cache would have answered: by default rules, with an hour of grace.
    pub(super) const fn answered_by_cache(&self) -> (u64, u64) {
        (self.caches.by_default, self.caches.with_grace)
    }

    /// Ends the pass.
    pub(super) fn end(self) -> PassResult {
        PassResult {
            crawler_hours: self.crawler_hours.end(),
            jobs: self.worker_pool.end(),
            resources: self.resources,
            clients: self.clients,
            trace: self.trace,
            zones: self.zones,
        }
    }
}

impl Caches {
    /// Counts whether a cache would have answered; says so for the one with an hour of grace.
    fn ask(&mut self, resource: &Resource, at: Mono) -> bool {
        let answers = |cache: &mut CacheModel, answered: &mut u64| {
            let hit = cache.lookup(resource, at) != Cached::Nothing;
            if hit {
                *answered += 1;
            } else {
                cache.answered(resource, at);
            }
            hit
        };
        answers(&mut self.default, &mut self.by_default);
        answers(&mut self.grace, &mut self.with_grace)
    }

    /// Can only the server answer this request of an admitted client? Only admitted clients fill this
    /// cache: the requests of others do not reach a server that sleeps.
    fn needs_server(
        &mut self,
        class: ClientClass,
        want: Want,
        resource: &Resource,
        at: Mono,
    ) -> bool {
        if !class.is_admitted() || matches!(want, Want::Icon | Want::Health) {
            return false;
        }
        let needs = self.asleep.lookup(resource, at) == Cached::Nothing;
        if needs {
            self.asleep.answered(resource, at);
        }
        needs
    }

    /// The same with a mirror that holds all that is ever asked for.
    fn needs_server_behind_mirror(
        &mut self,
        needs_server: bool,
        resource: &Resource,
        client: u64,
        at: Mono,
    ) -> bool {
        let needs = needs_server && !self.mirror.answers(resource, client, at);
        self.mirror.answered(resource, client, at);
        needs
    }
}

impl HourOfCrawlers {
    fn add(&mut self, at: Wall, utc_offset: i32) {
        let hour = (at.secs() + i64::from(utc_offset)).div_euclid(3600);
        match &mut self.now {
            Some((now, offset, requests)) if (*now, *offset) == (hour, utc_offset) => {
                *requests += 1;
            }
            _ => {
                self.flush();
                self.now = Some((hour, utc_offset, 1));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((hour, utc_offset, requests)) = self.now.take() {
            let begins = Wall::from_secs(hour * 3600 - i64::from(utc_offset));
            self.hours.add(begins, utc_offset, requests);
        }
    }

    fn end(mut self) -> Hours {
        self.flush();
        self.hours
    }
}

/// Whether it is a client in a private network, which shares no budget with strangers.
fn is_local(client: &str) -> bool {
    ClientKey::from(client).network() == UNLIMITED
}

fn want_of(logged: &Logged<'_>, class: ClientClass) -> Want {
    let path = logged.target.split('?').next().unwrap_or_default();
    if logged.traits.is_health_check() {
        Want::Health
    } else if ICONS.contains(&path) {
        Want::Icon
    } else if class == ClientClass::Human && logged.method == "GET" && !logged.traits.is_part() {
        Want::Page
    } else if admission::is_proof(path) {
        Want::Proof
    } else {
        Want::Other
    }
}
