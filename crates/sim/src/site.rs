//! A site behind the sleeping proxy: power manager and cache together, as `serve` has them.

use std::collections::VecDeque;

use nightwatt_energy::time::Mono;
use nightwatt_policy::admission::{Cached, ClientClass, Request, Route, Want};
use nightwatt_policy::electricity::EnergyByHour;
use nightwatt_policy::sleep::SleepPolicy;
use nightwatt_policy::visit::Visitor;

use crate::cache::{CacheModel, CacheSettings};
use crate::days::Days;
use crate::mirror::{Extent, MirrorModel};
use crate::refresh::RefreshRule;
use crate::resource::{Resource, Shows};
use crate::visits::Visit;
use crate::world::{Awakenings, Demand, Outcome, Run, World};

/// Addresses remembered that crawlers asked for in vain, as many as the gateway remembers.
const PREFETCH_QUEUE: usize = 1_024;

/// The bit of the operator's own rules: no answer proves them wrong.
const OWN_RULE: u64 = 1 << 63;

/// A request as a log tells it.
#[derive(Debug, Clone, Copy)]
pub struct LoggedRequest {
    /// A number for it, of the caller's choice.
    pub number: u64,
    /// When, since the start of the run.
    pub at: Mono,
    /// Whose.
    pub visitor: Visitor,
    /// In which of their visits, if they may wake the server at all.
    pub visit: Visit,
    /// Whose wake budget it draws on.
    pub client: u64,
    /// What kind of client, whatever it asks for.
    pub class: ClientClass,
    /// As in [`AdmissionRequest::recognised`](nightwatt_policy::manager::AdmissionRequest::recognised).
    pub recognised: bool,
    /// Rules that make a scanner of it until the site has answered such a path with success, a bit for
    /// each. None where the client's class is certain.
    pub scanner_rules: u64,
    /// Answered with success.
    pub succeeded: bool,
    /// For what kind of thing.
    pub want: Want,
    /// For which.
    pub resource: Resource,
    /// The cache has it, however old (`analyze` asks what that would save).
    pub is_pinned: bool,
}

/// A run of one policy over the requests of a log, under way.
#[derive(Debug)]
pub struct SiteRun<P> {
    run: Run<P>,
    cache: CacheModel,
    /// Where the proxy has one.
    mirror: Option<Box<MirrorModel>>,
    /// Scanners' rules that the site has shown to be wrong.
    wrong_rules: u64,
    seen: Awakenings,
    /// What the server will be asked once it is awake: held requests, and renewals of what was
    /// answered stale.
    on_waking: Vec<Waiting>,
    /// What crawlers asked for in vain, if that is to be fetched.
    prefetch_queue: VecDeque<Resource>,
}

/// What the server will be asked, and for whom.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    resource: Resource,
    client: u64,
}

impl<P: SleepPolicy> SiteRun<P> {
    /// Begins with an empty cache and a server that is awake.
    pub fn begin(world: &World, cache: CacheSettings, policy: P) -> Self {
        Self {
            run: world.begin(policy),
            cache: CacheModel::new(cache),
            mirror: None,
            wrong_rules: 0,
            seen: Awakenings::default(),
            on_waking: Vec::new(),
            prefetch_queue: VecDeque::new(),
        }
    }

    /// As [`Run::with_hours`].
    #[must_use]
    pub fn with_hours(mut self) -> Self {
        self.run = self.run.with_hours();
        self
    }

    /// The same with a mirror of the site beside the cache.
    #[must_use]
    pub fn with_mirror(mut self, extent: Extent, rule: RefreshRule) -> Self {
        self.run = self.run.with_refresh(rule);
        self.mirror = Some(Box::new(MirrorModel::new(extent)));
        self
    }

    /// As [`Run::local_time`].
    #[inline]
    pub fn local_time(&mut self, at: Mono, utc_offset: i32) {
        self.run.local_time(at, utc_offset);
    }

    /// As [`Run::saved_by_hour`].
    pub fn saved_by_hour(&mut self, end: Mono) -> Option<EnergyByHour> {
        self.run.saved_by_hour(end)
    }

    /// A request, not before the last one; returns how it is answered.
    pub fn ask(&mut self, logged: &LoggedRequest) -> Route {
        let LoggedRequest {
            number, at, visitor, visit, client, recognised, want, resource, ..
        } = *logged;
        let class = self.class_of(logged);
        self.run.until(at);
        self.catch_up();
        let in_cache =
            if logged.is_pinned { Cached::Fresh } else { self.cache.lookup(&resource, at) };
        let cached = self.or_in_mirror(in_cache, logged);
        let request = Request { class, want, cached };
        let demand = Demand { number, at, visitor, visit, client, request, recognised };
        if class.is_admitted() && self.run.waits_for_page(visitor) {
            self.run.follow(&demand);
            self.learn(logged);
            if cached != Cached::Fresh {
                self.queue_for_waking(logged);
            }
            return Route::Forward;
        }
        let route = self.run.demand(&demand);
        match route {
            Route::Forward => {
                if self.answered(&Waiting { resource, client }, at) {
                    self.run.site_changed();
                }
                self.learn(logged);
            }
            // What the mirror has is renewed by its passes.
            Route::Stale if in_cache == Cached::Nothing => {}
            Route::Hold | Route::WaitingPage | Route::Stale => {
                self.queue_for_waking(logged);
            }
            Route::Later(_)
                if self.cache.prefetches_refused()
                    && cached == Cached::Nothing
                    && resource.is_read =>
            {
                if self.prefetch_queue.len() == PREFETCH_QUEUE {
                    self.prefetch_queue.pop_front();
                }
                self.prefetch_queue.push_back(resource);
            }
            _ => {}
        }
        route
    }

    /// The server answers it as soon as it is awake.
    fn queue_for_waking(&mut self, logged: &LoggedRequest) {
        let LoggedRequest { resource, client, .. } = *logged;
        if resource.mirror.shows == Shows::Change {
            self.run.site_changed();
        }
        self.on_waking.push(Waiting { resource, client });
    }

    /// What there is for a request: in the cache, or else while the server sleeps in the mirror.
    fn or_in_mirror(&self, in_cache: Cached, logged: &LoggedRequest) -> Cached {
        match (in_cache, &self.mirror) {
            (Cached::Nothing, Some(mirror))
                if mirror.answers(&logged.resource, logged.client, logged.at) =>
            {
                Cached::Stale
            }
            _ => in_cache,
        }
    }

    /// The server answered; returns whether that changed the site.
    fn answered(&mut self, waiting: &Waiting, at: Mono) -> bool {
        let Waiting { resource, client } = waiting;
        self.cache.answered(resource, at);
        let Some(mirror) = &mut self.mirror else { return false };
        let before = mirror.counts();
        let changed = mirror.answered(resource, *client, at);
        if mirror.counts() != before {
            self.run.mirror_holds(mirror.counts());
        }
        changed
    }

    /// The class that the proxy would give the client: it knows only those answers of the site that it
    /// has passed on.
    fn class_of(&self, logged: &LoggedRequest) -> ClientClass {
        if logged.scanner_rules & !self.wrong_rules == 0 {
            logged.class
        } else {
            ClientClass::Scanner
        }
    }

    fn learn(&mut self, logged: &LoggedRequest) {
        if logged.succeeded {
            self.wrong_rules |= logged.scanner_rules & !OWN_RULE;
        }
    }

    /// Tells the cache what happened to the server since the last request.
    #[inline]
    fn catch_up(&mut self) {
        if self.run.awakenings().changes != self.seen.changes {
            self.take_in_changes();
        }
    }

    fn take_in_changes(&mut self) {
        let now = *self.run.awakenings();
        // Of several sleeps since the last request only the last two matter.
        if now.woke != self.seen.woke {
            if let Some(at) = now.slept_before {
                self.cache.sleeps(at);
            }
            if let Some(at) = now.woke {
                self.wake(at);
            }
        }
        if let Some(at) = now.slept.filter(|_| now.slept > now.woke) {
            self.cache.sleeps(at);
        }
        self.seen = now;
    }

    fn wake(&mut self, at: Mono) {
        self.cache.wakes(at);
        for waiting in std::mem::take(&mut self.on_waking) {
            self.answered(&waiting, at);
        }
        for resource in std::mem::take(&mut self.prefetch_queue) {
            self.answered(&Waiting { resource, client: 0 }, at);
        }
    }

    /// The number of the request that last woke the server.
    pub const fn woken_by(&self) -> Option<u64> {
        self.run.awakenings().by
    }

    /// Requests by day, of those whose answer is settled.
    pub const fn days(&self) -> &Days {
        self.run.days()
    }

    /// Ends the run.
    pub fn finish(self, end: Mono) -> Outcome {
        self.run.finish(end)
    }
}
