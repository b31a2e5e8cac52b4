//! The mirror of a site: a copy of its public pages, from which it is answered while its server sleeps.
//!
//! ```text
//! crawl  the task: opens the copy; when to begin a pass, and when to wake the server for one (schedule)
//! pass   a pass: what the plan orders is fetched (fetch) and given to the plan and the store
//! open   the copy, opened: store and plan together
//! base   by which scheme and host the pages are asked for
//! answer answers to clients
//! orders what the operator asks (status)
//! ```
//!
//! What is decided is decided in `nightwatt_mirror`, by the rules of `httpcache`. While the server is awake, clients
//! get nothing from here: the caches have what is fresh.

mod answer;
pub(crate) mod base;
pub(crate) mod crawl;
mod fetch;
pub(crate) mod open;
pub mod orders;
mod pass;
mod schedule;
pub mod status;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderMap, Method, StatusCode};
use nightwatt_clock::Clock;
use nightwatt_httpcache::{
    CacheKey, Filler, RequestHead, Rules, Sender, Stored, Times, Timestamp, invalidation,
};
use nightwatt_mirror::pure::address::Address;
use nightwatt_mirror::pure::plan::PlanRules;
use nightwatt_mirror::store::Bounds;
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::answer::Asking;
use self::open::OpenMirror;
use crate::config::{Config, MirrorConfig, SiteConfig};

/// Bodies that are read and packed at once, for clients.
const READS: usize = 8;

/// An answer that a client was given.
pub(crate) struct Given<'a> {
    /// To which request, with what its cache key begins with as authority.
    pub(crate) request: RequestHead<'a>,
    /// Tells clients apart.
    pub(crate) client: u64,
    /// What the request says of its sender.
    pub(crate) sender: Sender,
    /// The status.
    pub(crate) status: StatusCode,
    /// The fields.
    pub(crate) headers: &'a HeaderMap,
}

/// The mirror of one site. It is empty until [`crawl::run`] has opened the copy on the disk.
#[derive(Debug)]
pub(crate) struct Mirror {
    site: Arc<str>,
    /// As the operator has it, or nothing: clients say it.
    url: Option<String>,
    rules: PlanRules,
    bounds: Bounds,
    folder: PathBuf,
    clock: Clock,
    open: RwLock<Option<Arc<OpenMirror>>>,
    /// Content has changed while the copy was not open.
    changed_unseen: AtomicBool,
    /// There is something new to do.
    news: Notify,
    reads: Arc<Semaphore>,
}

impl Mirror {
    /// The mirror of a site that has one.
    pub(crate) fn of(
        site: &SiteConfig,
        config: &Config,
        cache: &Rules,
        clock: &Clock,
    ) -> Option<Arc<Self>> {
        site.mirror.is_on(site.kind).then(|| {
            Arc::new(Self {
                site: site.name.as_str().into(),
                url: site.mirror.url.clone().or_else(|| base::configured(site, config)),
                rules: site.mirror.plan_rules(cache),
                bounds: site.mirror.bounds(),
                folder: MirrorConfig::folder(&config.state_dir, &site.name),
                clock: clock.clone(),
                open: RwLock::default(),
                changed_unseen: AtomicBool::default(),
                news: Notify::new(),
                reads: Arc::new(Semaphore::new(READS)),
            })
        })
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
        Timestamp::from_millis(u64::try_from(self.clock.now().wall.0).unwrap_or(0))
    }

    /// Works on the copy in a thread that may wait for the disk; nothing if it is not open.
    async fn on_disk<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&OpenMirror) -> T + Send + 'static,
    ) -> Option<T> {
        let open = self.opened()?;
        let _debt = self.clock.owe();
        tokio::task::spawn_blocking(move || work(&open)).await.ok()
    }

    /// A client's request has been answered by the server: if it was an unsafe one, and successful, the client
    /// bypasses the mirror for a while, and what may have changed is not given before it is confirmed. Returns when
    /// the disk knows.
    pub(crate) async fn after(self: &Arc<Self>, method: &Method, status: StatusCode, client: u64) {
        if invalidation::is_safe(method) || !(status.is_success() || status.is_redirection()) {
            return;
        }
        let now = self.now();
        let site = Arc::clone(&self.site);
        let changed = self.on_disk(move |open| open.changed_by(client, now)).await;
        match changed {
            None => self.changed_unseen().await,
            Some(Err(error)) => tracing::warn!(%site, %error, "the mirror"),
            Some(Ok(())) => {}
        }
        self.news.notify_waiters();
    }

    /// Content has changed while the copy was not open; it may be by now.
    async fn changed_unseen(self: &Arc<Self>) {
        self.changed_unseen.store(true, Ordering::SeqCst);
        if self.opened().is_some() {
            self.take_up_unseen().await;
        }
    }

    /// What has changed while the copy was not open is not known: nothing is given before it is confirmed.
    async fn take_up_unseen(self: &Arc<Self>) {
        if self.changed_unseen.swap(false, Ordering::SeqCst) {
            self.on_disk(|open| open.outdate("/")).await;
        }
    }

    /// A client was answered by the server or from a cache: the page may come to be mirrored, or be more popular.
    pub(crate) fn learn(&self, given: &Given<'_>) {
        let Given { request, client, sender, status, headers } = given;
        let is_plain = *request.method == Method::GET && sender.is_anonymous();
        let Some(open) = self.opened().filter(|it| is_plain && it.base.is_of(request.authority))
        else {
            return;
        };
        let Some(address) = Address::new(request.path_and_query) else { return };
        // A pass that holds the plan does not hold clients up: how popular a page is matters roughly.
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

    /// Forgets what is covered, on the disk too: it is fetched again when the server is awake. Returns how many
    /// pages went.
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
        self.news.notify_waiters();
        if purged.is_none() {
            self.changed_unseen().await;
        }
        purged.unwrap_or(Ok(0))
    }

    /// Content has changed, as the operator says: what begins so is not given before it is confirmed.
    pub(crate) async fn outdate(self: &Arc<Self>, prefix: String) {
        if self.on_disk(move |open| open.outdate(&prefix)).await.is_none() {
            self.changed_unseen().await;
        }
        self.news.notify_waiters();
    }
}
