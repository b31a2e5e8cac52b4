//! One request after the other through one configuration.

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::{self, Cached, ClientClass, Route, Want};
use nightwatt_policy::ledger::Bill;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::SleepPolicy;
use nightwatt_policy::visit::Visitor;
use nightwatt_sim::{CacheModel, CacheSettings, Demand, Resource, Run, Visit, World};

use super::column::{Column, PublishedAnswer, Responder};
use super::{GRACE, REPLAY_AFTER, TIMEOUT};

/// A request of the log, and the answer that it got there.
#[derive(Debug, Clone, Copy)]
pub(super) struct PublishedRequest {
    pub(super) number: u64,
    pub(super) at: Mono,
    pub(super) visitor: Visitor,
    pub(super) visit: Visit,
    pub(super) client: u64,
    pub(super) is_crawler: bool,
    pub(super) resource: Resource,
    pub(super) status: u16,
}

/// What answers take without waiting.
#[derive(Debug, Clone, Copy)]
struct Service {
    origin: Duration,
    proxy: Duration,
}

impl Service {
    const fn of(scenario: &Scenario) -> Self {
        Self { origin: scenario.server.service_time, proxy: scenario.proxy.service_time }
    }
}

/// A server that is always on, alone or behind a cache.
#[derive(Debug)]
pub(super) struct AlwaysOn {
    pub(super) column: Column,
    cache: Option<CacheModel>,
    service: Service,
}

/// What the published caches had: no renewal ahead of need. `grace` counts whether the server is
/// awake or not, since there it was a setting of a cache that knew nothing of sleep.
fn cache(scenario: &Scenario, grace: Duration) -> CacheModel {
    let settings = CacheSettings::of(&scenario.cache);
    CacheModel::new(CacheSettings { grace, warm_up: false, ..settings })
}

impl AlwaysOn {
    pub(super) fn without_proxy(scenario: &Scenario) -> Self {
        Self { column: Column::default(), cache: None, service: Service::of(scenario) }
    }

    pub(super) fn behind_cache(scenario: &Scenario, grace: Duration) -> Self {
        Self { cache: Some(cache(scenario, grace)), ..Self::without_proxy(scenario) }
    }

    /// A request, not before the last one; says whether the cache answered it.
    pub(super) fn ask(&mut self, asked: &PublishedRequest) -> bool {
        let Service { origin, proxy } = self.service;
        let answer = PublishedAnswer::Status(asked.status);
        let Some(cache) = &mut self.cache else {
            self.column.enter(Responder::Origin, answer, origin, false);
            return false;
        };
        let by_cache = cache.lookup(&asked.resource, asked.at) != Cached::Nothing;
        if by_cache {
            self.column.enter(Responder::Proxy, answer, proxy, false);
        } else {
            cache.answered(&asked.resource, asked.at);
            self.column.enter(Responder::Origin, answer, proxy + origin, false);
        }
        by_cache
    }
}

/// A server that sleeps behind a cache with grace.
pub(super) struct Sleeping {
    pub(super) column: Column,
    run: Run<Box<dyn SleepPolicy + Send>>,
    cache: CacheModel,
    service: Service,
    waiting_page: bool,
    /// Maximum wait for a server that obeys.
    longest: Duration,
    held: Vec<(PublishedRequest, bool)>,
    /// Pages to be asked for again, and when.
    replays: VecDeque<PublishedRequest>,
}

impl Sleeping {
    /// Begins with an empty cache and a server that is awake.
    ///
    /// The published scheme knows no budget of wake-ups by client, so it refuses no client for one. Its
    /// waiting page reloads after a fixed time, not as soon as the server is awake: this type does that,
    /// and to the power manager a reload is one more request that waits.
    pub(super) fn begin(
        scenario: &Scenario,
        waiting_page: bool,
        start: Wall,
        utc_offset: i32,
    ) -> Self {
        let settings = Settings {
            waiting_page: false,
            wake_budget: (u32::MAX, Duration::from_hours(1)),
            ..Settings::of(scenario)
        };
        let world = World { states: scenario.power_states(), settings, start, utc_offset };
        Self {
            column: Column::default(),
            run: world.begin(scenario.policy.build(&scenario.terms())),
            cache: cache(scenario, GRACE),
            service: Service::of(scenario),
            waiting_page,
            longest: scenario.server.sleep_time + scenario.server.wake_time,
            held: Vec::new(),
            replays: VecDeque::new(),
        }
    }

    /// A request, not before the last one.
    pub(super) fn ask(&mut self, asked: &PublishedRequest) {
        self.advance(asked.at);
        self.one(asked, false);
    }

    /// Ends at a time by which no request waits any more.
    pub(super) fn finish(mut self, end: Mono) -> (Column, Bill) {
        self.advance(end);
        (self.column, self.run.finish(end).bill)
    }

    /// Lets time pass. A reload that is due together with a request is older and goes first.
    fn advance(&mut self, to: Mono) {
        while let Some(asked) = self.replays.pop_front_if(|asked| asked.at <= to) {
            self.pass(asked.at);
            self.one(&asked, true);
        }
        self.pass(to);
    }

    /// Lets time pass without requests. Stops by the time at which the held requests are forwarded: later,
    /// that wake-up could not be told from a later one.
    fn pass(&mut self, to: Mono) {
        if let Some((first, _)) = self.held.first() {
            let asked_at = first.at;
            self.run.until(to.min(asked_at + self.longest));
            let woke = self.run.awakenings().woke.filter(|&woke| woke > asked_at);
            if let Some(woke) = woke {
                self.let_through(woke);
            }
        }
        self.run.until(to);
    }

    /// The same for a server that needs no time to wake. By then it may sleep again already.
    fn woke_at_once(&mut self, asked: &PublishedRequest, before: Option<Mono>) {
        self.run.until(asked.at);
        let now = *self.run.awakenings();
        let is_new = before != now.woke || now.by == Some(asked.number);
        if now.woke == Some(asked.at) && is_new {
            self.let_through(asked.at);
        }
    }

    fn let_through(&mut self, woke: Mono) {
        let Service { origin, proxy } = self.service;
        for (asked, again) in std::mem::take(&mut self.held) {
            let waited = woke.since(asked.at);
            if waited > TIMEOUT {
                self.column.enter(
                    Responder::Proxy,
                    PublishedAnswer::Status(503),
                    TIMEOUT + proxy,
                    again,
                );
            } else {
                self.cache.answered(&asked.resource, woke);
                let answer = PublishedAnswer::Status(asked.status);
                self.column.enter(Responder::Origin, answer, waited + proxy + origin, again);
            }
        }
    }

    fn one(&mut self, asked: &PublishedRequest, again: bool) {
        let Service { origin, proxy } = self.service;
        let status = PublishedAnswer::Status(asked.status);
        let before = self.run.awakenings().woke;
        match self.route(asked) {
            Route::Forward => {
                self.cache.answered(&asked.resource, asked.at);
                self.column.enter(Responder::Origin, status, proxy + origin, again);
            }
            // A page cannot repeat a request that changes something. Nor is there a second page for a
            // client that finds the server asleep again.
            Route::Hold if self.waiting_page && asked.resource.is_read && !again => {
                self.column.enter(Responder::Proxy, PublishedAnswer::WaitingPage, proxy, again);
                self.replays.push_back(PublishedRequest { at: asked.at + REPLAY_AFTER, ..*asked });
            }
            Route::Hold => {
                self.held.push((*asked, again));
                self.woke_at_once(asked, before);
            }
            Route::Later(_) => {
                self.column.enter(Responder::Proxy, PublishedAnswer::Later, proxy, again);
            }
            Route::Cache | Route::Stale => {
                self.column.enter(Responder::Proxy, status, proxy, again);
            }
            Route::WaitingPage
            | Route::Refuse
            | Route::State
            | Route::OverBudget { .. }
            | Route::Unavailable(_) => {
                self.column.enter(Responder::Proxy, PublishedAnswer::Status(503), proxy, again);
            }
        }
    }

    /// What the power manager says.
    ///
    /// A crawler is sent away without an appointment: the published scheme makes none, and wakes
    /// the server for no crawler.
    fn route(&mut self, asked: &PublishedRequest) -> Route {
        let cached = match self.cache.lookup(&asked.resource, asked.at) {
            Cached::Nothing => Cached::Nothing,
            Cached::Fresh | Cached::Stale => Cached::Fresh,
        };
        let class = if asked.is_crawler { ClientClass::Crawler } else { ClientClass::Human };
        let request = admission::Request { class, want: Want::Other, cached };
        if asked.is_crawler && !self.run.is_awake() {
            return admission::route(&request, Phase::Asleep, false, Duration::ZERO);
        }
        let PublishedRequest { number, at, visitor, visit, client, .. } = *asked;
        self.run.demand(&Demand { number, at, visitor, visit, client, request, recognised: true })
    }
}
