//! A pass over the site, within one exchange, which keeps the server awake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use nightwatt_clock::Clock;
use nightwatt_httpcache::sharing::may_be_prefetched;
use nightwatt_httpcache::{CacheKey, Timestamp};
use nightwatt_mirror::pure::address::Address;
use nightwatt_mirror::pure::admit::Answer;
use nightwatt_mirror::pure::entry::Entry;
use nightwatt_mirror::pure::plan::{Next, Order, PassReport};
use nightwatt_mirror::store::StoreError;
use tokio::sync::Notify;

use super::fetch::{Fetcher, NoAnswer};
use super::open::OpenMirror;
use crate::exchange::Exchange;
use crate::serving::Serving;
use crate::store;

/// A request that had taken this long when the pass was given up is not sent again before the next whole pass.
const SLOW: Duration = Duration::from_secs(5);

/// A pass that is under way.
pub(super) struct Pass<'a> {
    serving: &'a Arc<Serving>,
    site: usize,
    open: &'a Arc<OpenMirror>,
    exchange: Arc<Exchange>,
    /// No further requests are begun.
    is_stopped: AtomicBool,
    /// Those that are under way are given up.
    is_given_up: AtomicBool,
    /// Notified when an answer has come, and when the pass is stopped.
    news: Notify,
    report: Mutex<Option<PassReport>>,
}

impl<'a> Pass<'a> {
    /// A pass over the site with this index.
    pub(super) fn new(
        serving: &'a Arc<Serving>,
        site: usize,
        open: &'a Arc<OpenMirror>,
        exchange: Arc<Exchange>,
    ) -> Self {
        Self {
            serving,
            site,
            open,
            exchange,
            is_stopped: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            news: Notify::new(),
            report: Mutex::default(),
        }
    }

    /// Carries out the plan's orders, until the pass is over or stopped. Returns the report if it is over.
    pub(super) async fn run(&self) -> Option<PassReport> {
        // The plan allows two requests at a time.
        tokio::join!(self.work(), self.work());
        self.report.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Begins no further requests.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.news.notify_waiters();
    }

    /// Begins no further requests, and gives up those that are under way.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Returns when the pass is given up.
    async fn given_up(&self) {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            if self.is_given_up.load(Ordering::Relaxed) {
                return;
            }
            news.await;
        }
    }

    async fn work(&self) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            let now = self.serving.timestamp();
            let next = self.open.plan().next(now);
            match next {
                Next::Fetch(order) => self.carry_out(order).await,
                Next::WaitForAnswer => news.await,
                Next::WaitUntil(then) => {
                    tokio::select! {
                        () = news => {}
                        () = self.serving.clock.sleep(then.since(now)) => {}
                    }
                }
                Next::Done(report) => {
                    self.open.drop_forgotten();
                    *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
                    return self.stop();
                }
                Next::Idle => return,
            }
        }
    }

    async fn carry_out(&self, order: Order) {
        let _debt = self.serving.clock.owe();
        let before = self.open.store.current().find(&order.address).cloned();
        let fields = order.fields(before.as_deref(), self.open.plan().rules());
        let underway = Underway::new(self, order, before);
        let unshared = underway.order.first.is_some();
        let (fetcher, begun) = (self.fetcher(), self.serving.clock.now().mono);
        let answer = tokio::select! {
            biased;
            answer = fetcher.fetch(&underway.order.address, fields, unshared) => answer,
            () = self.given_up() => Err(NoAnswer::GivenUp),
        };
        match answer {
            Ok(answer) => {
                let now = self.serving.timestamp();
                let taken = tokio::task::spawn_blocking(move || underway.take(&answer, now)).await;
                // Fails only if the runtime is ending.
                if let Ok(taken) = taken {
                    self.taken(taken).await;
                }
            }
            Err(why) => underway.unanswered(why, self.serving.clock.now().mono.since(begun)),
        }
        self.news.notify_waiters();
    }

    async fn taken(&self, TakenAnswer { forgotten, stored }: TakenAnswer) {
        let site = &self.serving.sites[self.site];
        // Under all hosts that clients use.
        let bases: Vec<String> =
            site.prefetch_queue.bases().into_iter().chain([self.open.base.key()]).collect();
        let keys = forgotten.iter().flat_map(|address| {
            bases.iter().filter_map(|base| site.rules.key.key(base, address.as_str()))
        });
        let keys: Vec<CacheKey> = keys.collect();
        if let Err(error) = site.store.forget(&keys, None).settled().await {
            self.serving.warn_of(site, "", "the disk fails", &error);
        }
        if let Err(error) = stored {
            self.serving.warn_of(site, "", "the mirror cannot be written", &error);
            self.stop();
        }
    }

    fn fetcher(&self) -> Fetcher<'_> {
        Fetcher {
            serving: self.serving,
            site: self.site,
            base: &self.open.base,
            exchange: &self.exchange,
            page_size: self.open.plan().rules().admit.page_size,
        }
    }

    /// Requests one path that clients were told does not exist, or would have been.
    pub(super) async fn sample(&self) {
        let now = self.serving.timestamp();
        let Some(address) = self.open.plan().sample(now) else { return };
        if !may_be_prefetched(address.as_str()) {
            return;
        }
        let _debt = self.serving.clock.owe();
        let answer = self.fetcher().fetch(&address, HeaderMap::new(), false).await;
        if let Ok(answer) = answer {
            self.sampled(&address, answer.status).await;
        }
    }

    async fn sampled(&self, address: &Address, status: StatusCode) {
        if !self.open.plan().sampled(address, status) {
            return;
        }
        let site = &self.serving.sites[self.site];
        tracing::warn!(
            site = %site.name, %address,
            "a path exists that no page links to: `mirror.complete` is suspended until a page links to it"
        );
        // At once: after a crash, the path would be denied again.
        let open = Arc::clone(self.open);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || open.save()).await {
            self.serving.warn_of(site, "", "the mirror cannot be written", &error);
        }
    }
}

/// What the mirror has made of an answer.
struct TakenAnswer {
    /// Addresses of which caches must forget what they have.
    forgotten: Vec<Address>,
    stored: Result<(), StoreError>,
}

/// An order that is being carried out. If it is dropped without an answer, it counts as failed.
struct Underway {
    open: Arc<OpenMirror>,
    clock: Clock,
    order: Order,
    before: Option<Arc<Entry>>,
    /// Number of changes of content when it began.
    changes: u64,
    is_taken: bool,
}

impl Underway {
    fn new(pass: &Pass<'_>, order: Order, before: Option<Arc<Entry>>) -> Self {
        let (open, clock) = (Arc::clone(pass.open), pass.serving.clock.clone());
        let changes = open.changes();
        Self { open, clock, order, before, changes, is_taken: false }
    }

    /// No answer has come, in this time.
    fn unanswered(mut self, why: NoAnswer, time: Duration) {
        self.is_taken = true;
        let now = store::timestamp(&self.clock);
        let mut plan = self.open.plan();
        match why {
            NoAnswer::Failed => plan.failed(&self.order, now),
            NoAnswer::GivenUp if time < SLOW => plan.put_back(&self.order),
            NoAnswer::GivenUp | NoAnswer::TimedOut => plan.timed_out(&self.order, now),
        }
    }

    /// Updates the plan and the store with the answer; blocks.
    fn take(mut self, answer: &Answer, now: Timestamp) -> TakenAnswer {
        self.is_taken = true;
        let (mut taken, is_outdated) = {
            let mut plan = self.open.plan();
            let taken = plan.take(&self.order, answer, self.before.as_deref(), now);
            // Requested before a change of content: the answer confirms nothing.
            let is_outdated = self.open.changes() != self.changes;
            if is_outdated {
                plan.outdate(self.order.address.as_str());
            }
            (taken, is_outdated)
        };
        // Before the store has the answer: after a crash nothing else says that it is outdated.
        if is_outdated {
            self.open.mark();
        }
        if let Some(reason) = taken.refused {
            tracing::debug!(page = %self.order.address, why = reason.token(), "not mirrored");
        }
        let forgotten = std::mem::take(&mut taken.forgotten);
        TakenAnswer { forgotten, stored: self.open.take(taken, now) }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if !self.is_taken {
            self.open.plan().failed(&self.order, store::timestamp(&self.clock));
        }
    }
}
