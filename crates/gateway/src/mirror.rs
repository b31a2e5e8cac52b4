//! The mirror of a site: a copy of its public pages, from which it is answered while its server sleeps.
//!
//! ```text
//! crawl  the task of a site: opens the copy, begins passes, and wakes the server for them (schedule)
//! pass   a pass: fetches what the plan orders (fetch), and updates the plan and the store
//! open   the opened copy: store and plan together
//! base   the scheme and host of the pages
//! answer answers to clients
//! room   memory for the bodies that clients get
//! caches what the mirror knows about the answers of the caches
//! orders orders of the operator (status)
//! ```
//!
//! `nightwatt_mirror` decides, by the rules of `httpcache`. While the server is awake, clients get nothing from the
//! mirror: the caches have what is fresh.
//!
//! Requests use the shared state only: `Mirror` and `OpenMirror`. `crawl`, `pass` and `fetch` send requests to the
//! server, and belong to the layer `renewal`.

mod answer;
pub(crate) mod base;
mod bypassing;
mod caches;
pub(crate) mod crawl;
mod fetch;
pub(crate) mod open;
pub mod orders;
mod pass;
mod room;
mod schedule;
pub mod status;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use http::{HeaderMap, Method, StatusCode};
use nightwatt_clock::Clock;
use nightwatt_httpcache::{
    CacheKey, Filler, RequestHead, Rules, Sender, Stored, Times, Timestamp, invalidation,
};
use nightwatt_mirror::pure::address::Address;
use nightwatt_mirror::pure::plan::PlanRules;
use nightwatt_mirror::store::Bounds;
use nightwatt_policy::scenario::Server;
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::answer::MirrorRequest;
use self::base::Base;
use self::bypassing::Bypassing;
pub(crate) use self::caches::CacheRequest;
use self::open::OpenMirror;
use self::room::Room;
use crate::common::Common;
use crate::config::{MirrorConfig, MirrorUrl, SiteConfig};
use crate::store;

/// Maximum number of bodies that are read and compressed concurrently for clients.
const READS: usize = 8;

/// Of the requests that the memory cache answers on the fast path, every such one is counted for the coverage.
const SAMPLE: u64 = 16;

/// Later than everything: any content may have changed.
const UNKNOWN: u64 = u64::MAX;

/// A request that was answered.
pub(crate) struct AnsweredRequest<'a> {
    /// Its head. The authority is the base of its cache key.
    pub(crate) request: RequestHead<'a>,
    /// Tells clients apart.
    pub(crate) client: u64,
    /// What the request reveals about its sender.
    pub(crate) sender: Sender,
    /// A person sent it.
    pub(crate) is_human: bool,
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// The fields of the answer.
    pub(crate) headers: &'a HeaderMap,
    /// The server has given it for this request.
    pub(crate) is_from_server: bool,
}

/// The mirror of one site. It is empty until [`crawl::run`] has opened the copy on the disk.
#[derive(Debug)]
pub(crate) struct Mirror {
    site: Arc<str>,
    /// Where the pages are, by the configuration.
    pub(crate) url: MirrorUrl,
    /// The same, as the proxies in front have reported it.
    reported: OnceLock<Base>,
    /// It is not known where the pages are: no proxy has reported it yet.
    is_homeless: AtomicBool,
    rules: PlanRules,
    bounds: Bounds,
    folder: PathBuf,
    clock: Clock,
    /// Whether the copy must survive a power cut.
    is_durable: bool,
    open: RwLock<Option<Arc<OpenMirror>>>,
    /// Content has changed while the copy was not open.
    changed_unseen: AtomicBool,
    /// The operator wants what is due to be fetched at once.
    is_urgent: AtomicBool,
    /// Notified when there is something new to do.
    news: Notify,
    reads: Arc<Semaphore>,
    room: Room,
    /// Requests that the memory cache answered on the fast path.
    fast_hits: AtomicU64,
    bypassing: Arc<Bypassing>,
    /// When content last changed, in milliseconds since 1970; [`UNKNOWN`] before the copy is open. It is read for every
    /// hit on the fast path.
    last_change: AtomicU64,
    /// To model what the server uses for the mirror.
    pub(crate) server: Server,
}

impl Mirror {
    /// The mirror of a site, if it has one. `earlier` is the one that it replaces.
    pub(crate) fn of(
        site: &SiteConfig,
        common: &Common<'_>,
        cache: &Rules,
        earlier: Option<&Self>,
    ) -> Option<Arc<Self>> {
        let config = common.config;
        if !site.mirror.is_on(site.kind) {
            return None;
        }
        let url = config.mirror_url(site);
        if url == MirrorUrl::Unknown {
            tracing::warn!(site = %site.name, "{}", MirrorUrl::ADVICE);
            return None;
        }
        Some(Arc::new(Self {
            site: site.name.as_str().into(),
            url,
            reported: OnceLock::new(),
            is_homeless: AtomicBool::default(),
            rules: site.mirror.plan_rules(cache),
            bounds: site.mirror.bounds(),
            folder: MirrorConfig::folder(&config.state_dir, &site.name),
            clock: common.clock.clone(),
            is_durable: common.durable,
            open: RwLock::default(),
            changed_unseen: AtomicBool::default(),
            is_urgent: AtomicBool::default(),
            news: Notify::new(),
            reads: Arc::new(Semaphore::new(READS)),
            room: earlier.map(|it| it.room.clone()).unwrap_or_default(),
            fast_hits: AtomicU64::new(0),
            bypassing: earlier.map(|it| Arc::clone(&it.bypassing)).unwrap_or_default(),
            last_change: AtomicU64::new(UNKNOWN),
            server: config.scenario_of(site).server.clone(),
        }))
    }

    /// The copy, if it is open.
    pub(crate) fn opened(&self) -> Option<Arc<OpenMirror>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_open(&self, open: Option<Arc<OpenMirror>>) -> Option<Arc<OpenMirror>> {
        let mut place = self.open.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, open)
    }

    /// Now, as the cache counts it.
    fn now(&self) -> Timestamp {
        store::timestamp(&self.clock)
    }

    /// Runs `work` on the copy in a thread that may block; returns `None` if the copy is not open.
    async fn on_disk<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&OpenMirror) -> T + Send + 'static,
    ) -> Option<T> {
        let open = self.opened()?;
        let _debt = self.clock.owe();
        tokio::task::spawn_blocking(move || work(&open)).await.ok()
    }

    /// Notes that the server has answered a client's request. After a successful unsafe request, the client bypasses
    /// the mirror for a while, and pages that may have changed are not served before they are confirmed. Returns when
    /// the disk has recorded that.
    pub(crate) async fn after(self: &Arc<Self>, method: &Method, status: StatusCode, client: u64) {
        if invalidation::is_safe(method) || !(status.is_success() || status.is_redirection()) {
            return;
        }
        let now = self.now();
        let site = Arc::clone(&self.site);
        self.bypassing.changed(client, now);
        let changed = self.on_disk(move |open| open.changed(now)).await;
        match changed {
            None => self.changed_unseen().await,
            Some(Err(error)) => tracing::warn!(%site, %error, "the mirror failed"),
            Some(Ok(())) => {}
        }
        self.note_change(now);
        self.news.notify_waiters();
    }

    /// Whether nightwatt may request an address by itself, for the caches too: `exclude` and a group for nightwatt in
    /// robots.txt forbid it.
    pub(crate) fn may_request(&self, target: &str) -> bool {
        let Some(address) = Address::new(target) else { return true };
        match self.opened() {
            Some(open) => !open.plan().is_closed_to_us(&address),
            None => !self.rules.patterns.excludes(&address),
        }
    }

    /// Whether this client has changed something a short time ago: then it gets the server's own answers.
    pub(crate) fn is_bypassed(&self, client: u64) -> bool {
        self.bypassing.is_bypassed(client, || self.now())
    }

    /// Notes where a proxy in front of the site says that a request belongs. Which host has the pages, only the
    /// operator says.
    pub(crate) fn reported(&self, base: &str) {
        let MirrorUrl::OnHost(host) = &self.url else { return };
        if let Some(base) = Base::of_key(base).filter(|it| it.authority == *host) {
            let _ = self.reported.set(base);
        }
    }

    /// Notes that content has changed while the copy was not open. By now it may be open.
    async fn changed_unseen(self: &Arc<Self>) {
        self.changed_unseen.store(true, Ordering::SeqCst);
        if self.opened().is_some() {
            self.take_up_unseen().await;
        }
    }

    /// After changes while the copy was not open, nothing is served before it is confirmed: which pages changed is
    /// unknown.
    async fn take_up_unseen(self: &Arc<Self>) {
        if self.changed_unseen.swap(false, Ordering::SeqCst) {
            let now = self.now();
            self.on_disk(move |open| open.outdate("/", now)).await;
            self.note_change(now);
        }
    }

    /// Learns from an answer of the server or of a cache: the page may be worth mirroring, or is more popular now.
    pub(crate) fn learn(&self, answered: &AnsweredRequest<'_>) {
        let AnsweredRequest { request, client, sender, is_human, status, headers, is_from_server } =
            answered;
        let is_plain = *request.method == Method::GET && sender.is_anonymous();
        let Some(open) = self.opened().filter(|it| is_plain && it.base.is_of(request.authority))
        else {
            return;
        };
        if *is_human {
            self.count(&open, request.path_and_query, 1);
        }
        let Some(address) = Address::new(request.path_and_query) else { return };
        if *is_from_server && status.is_success() {
            self.found_by_client(&open, &address);
        }
        // Clients do not wait for a pass that uses the plan: popularity may be inexact.
        let Some(mut plan) = open.try_plan() else { return };
        let now = self.now();
        let rules = &self.rules.admit.cache;
        let is_good = || {
            let stored =
                Stored::new(request, Filler::Proxy, *status, headers, Times::at(now), rules);
            status.is_success() && stored.is_ok()
        };
        let is_good = plan.page(&address).is_some() || is_good();
        plan.requested(&address, *client, is_good, now);
    }

    /// The server has given a client a page. Should the mirror remember that nothing is there, that is confirmed before
    /// the server sleeps.
    fn found_by_client(&self, open: &OpenMirror, address: &Address) {
        let is_gone = |status: u16| matches!(status, 404 | 410);
        let is_denied = open.store.current().find(address).is_some_and(|it| is_gone(it.status));
        if is_denied && open.plan().found_by_client(address) {
            self.news.notify_waiters();
        }
    }

    /// Counts requests of people for an address, and whether the mirror has it for browsers.
    fn count(&self, open: &OpenMirror, target: &str, requests: u64) {
        let current = open.store.current();
        // Without parameters that only track, as an answer is looked up.
        let now = self.now();
        let is_given =
            |target: &str| current.find_str(target).map(|it| self.for_browsers(it, now).is_ok());
        let is_given_as_key = || {
            let key = self.rules.admit.cache.key.key(&open.base.key(), target);
            key.is_some_and(|key| is_given(key.parts().2) == Some(true))
        };
        let is_covered = is_given(target).unwrap_or_else(is_given_as_key);
        open.coverage().count(requests, is_covered, now);
    }

    /// Notes an anonymous request of a person that the memory cache has answered on the fast path.
    pub(crate) fn answered_fast(&self, secure: bool, authority: &str, target: &str) {
        if !(self.fast_hits.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(SAMPLE) {
            return;
        }
        if let Some(open) = self.opened().filter(|it| it.base.is(secure, authority)) {
            self.count(&open, target, SAMPLE);
        }
    }

    /// Removes the covered pages, from the disk too: they are fetched again when the server is awake. Returns their
    /// number.
    pub(crate) async fn purge(
        self: &Arc<Self>,
        covers: impl Fn(&CacheKey) -> bool + Send + 'static,
    ) -> Result<usize, String> {
        let (now, key) = (self.now(), self.rules.admit.cache.key.clone());
        let purged = self.on_disk(move |open| {
            let base = open.base.key();
            let is_meant = |address: &Address| {
                key.key(&base, address.as_str()).is_some_and(|key| covers(&key))
            };
            open.purge(is_meant, now).map_err(|error| error.to_string())
        });
        let purged = purged.await;
        let mirror = Arc::clone(self);
        // If the process ends before, the next start removes what is left.
        tokio::spawn(async move {
            while mirror.on_disk(|open| open.store.remove_unused_bodies()).await == Some(true) {}
        });
        self.news.notify_waiters();
        if purged.is_none() {
            self.changed_unseen().await;
        }
        purged.unwrap_or(Ok(0))
    }

    /// Fetches what is due at once, and wakes the server for that. The task of the mirror knows what is due: the copy
    /// may not be open yet.
    pub(crate) fn fetch_now(&self) {
        self.is_urgent.store(true, Ordering::SeqCst);
        self.news.notify_waiters();
    }

    /// The operator reports changed content: pages with one of these prefixes are not served before they are confirmed.
    /// Returns their number, if the copy is open.
    pub(crate) async fn outdate(self: &Arc<Self>, prefixes: Arc<[String]>) -> Option<usize> {
        let now = self.now();
        let outdated = self.on_disk(move |open| {
            let pages = open.count(|address| prefixes.iter().any(|it| address.starts_with(it)));
            prefixes.iter().for_each(|prefix| open.outdate(prefix, now));
            pages
        });
        let outdated = outdated.await;
        if outdated.is_none() {
            self.changed_unseen().await;
        }
        self.note_change(now);
        self.news.notify_waiters();
        outdated
    }
}
