//! Warm-up: while the server is awake, stored answers are renewed without a request, and pages that crawlers did not
//! get are fetched, so that a sleep begins with answers that last.
//!
//! The rule, with `G` the grace while asleep (`grace_asleep`) and `n` the limit `warm_up`:
//!
//! * A stored answer is **due** once it has been stale for `G / 2`, if it may be served while the server sleeps, any
//!   client may have it, and its [popularity](crate::store::Popularity) is not zero. If a renewal failed, not before
//!   another `G / 8`.
//! * A second after the server has woken, and later when something is due, all that is due and the whole
//!   [prefetch queue](crate::prefetch_queue) are put in order of popularity; of equals, what has been overdue for
//!   longer goes first, and prefetches come last. The first `n` of them are requested. Per awake period, and again
//!   after each `G / 2` of it, `n` in all.
//! * Before that, `/robots.txt` and the sitemaps that it names are fetched, of sites with a `kind`
//!   ([`crawler_files`]).
//! * Two at a time, each begun only while no client's request is at the server, and none once the server is about to
//!   sleep. They do not count as use: see `PowerManager::begin_background`.
//!
//! So a server that is awake for long, or often, goes to sleep with answers that can be served for another `G / 2` at
//! least (less the `G / 64`, ten minutes at most, between two checks), as far as `n` permits. Shadow mode does none of
//! this.

mod crawler_files;
mod order;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nightwatt_httpcache::{CacheKey, Filler, RequestDirectives, Sender};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::lifecycle::Phase;
use tokio::sync::watch;

use self::order::{FetchReason, Order};
use crate::exchange::Exchange;
use crate::forward::Forwarding;
use crate::hit::{Found, head_of};
use crate::hold::Spool;
use crate::live::Live;
use crate::metrics::WarmedUp;
use crate::own_request::{LONGEST, OwnRequest, fields_for, read_what_is_stored};
use crate::request_body::Kept;
use crate::serving::Serving;
use crate::site::Site;
use crate::store::Requester;

/// Requests that waited for the server go first.
const AFTER_WAKING: Duration = Duration::from_secs(1);

/// Answers that are checked at once, before other tasks run.
const LOOKED_AT: usize = 512;

/// All prefetches of one awake period fill at most this part of the cache (1/4).
const WISHED: u64 = 4;

/// Warms up the site's cache whenever its server is awake.
pub(crate) async fn run(
    mut live: Live<Serving>,
    site: Arc<str>,
    mut phase: watch::Receiver<Phase>,
) {
    while phase.wait_for(|it| *it == Phase::Awake).await.is_ok() {
        let serving = live.now();
        let Some((site, served)) = serving.site_named(&site) else { return };
        let period = Period::new(&serving, site);
        let warms_up = served.warms_up();
        tokio::select! {
            biased;
            _ = phase.wait_for(|it| *it != Phase::Awake) => {}
            // The present configuration applies.
            () = live.changed() => {}
            () = period.run(warms_up), if served.shadow.is_none() => {}
        }
    }
}

/// From a wake-up to the sleep after it.
struct Period<'a> {
    serving: &'a Arc<Serving>,
    index: usize,
    /// Bytes that prefetches have stored.
    wished: AtomicU64,
}

impl<'a> Period<'a> {
    fn new(serving: &'a Arc<Serving>, index: usize) -> Self {
        Self { serving, index, wished: AtomicU64::new(0) }
    }

    fn site(&self) -> &'a Site {
        &self.serving.sites[self.index]
    }

    /// Runs until it is dropped.
    async fn run(&self, warms_up: bool) {
        let (clock, rule) = (&self.serving.clock, &self.site().scenario.cache);
        let most = usize::try_from(rule.warm_up).unwrap_or(usize::MAX);
        let half = self.site().rules.grace_while_asleep / 2;
        let spacing = (half / 32).clamp(Duration::from_secs(1), Duration::from_mins(10));
        clock.sleep(AFTER_WAKING).await;
        if self.site().rules.crawler_files {
            Box::pin(self.fetch_crawler_files()).await;
        }
        if !warms_up {
            return std::future::pending().await;
        }
        self.bring_up(most).await;
        let (mut left, mut next_half) = (most, clock.now().mono + half);
        loop {
            let now = clock.now().mono;
            if now >= next_half {
                (left, next_half) = (most, now + half);
            }
            let (orders, next) = self.look(left).await;
            left -= orders.len();
            Box::pin(self.carry_out(orders)).await;
            let due = next.map_or(next_half, |next| now + next);
            let due = if left == 0 { next_half } else { due.min(next_half) };
            clock.sleep_until(due.max(clock.now().mono + spacing)).await;
        }
    }

    /// Reads the most popular answers from the disk into memory, where they are checked.
    async fn bring_up(&self, most: usize) {
        let site = self.site();
        let popular = site.store.disk().map(|disk| disk.popular(most)).unwrap_or_default();
        for key in popular {
            site.store.bring_up(&key, self.serving.timestamp(), &site.rules).await;
        }
    }

    /// What to request first, at most `most`, and when something else is due.
    async fn look(&self, most: usize) -> (VecDeque<Order>, Option<Duration>) {
        let (now, rules) = (self.serving.timestamp(), &self.site().rules);
        let mut orders = Vec::new();
        let mut next = None;
        let mut all = self.site().store.all();
        loop {
            let mut looked_at = 0;
            for (key, object) in all.by_ref().take(LOOKED_AT) {
                looked_at += 1;
                let Some(due) = order::due_in(&object, now, rules) else { continue };
                if due.is_zero() {
                    orders.push(Order::renew(key, object, now));
                } else {
                    next = Some(next.map_or(due, |next: Duration| next.min(due)));
                }
            }
            if orders.len() > LOOKED_AT.max(2 * most) {
                order::keep_first(&mut orders, most);
            }
            if looked_at < LOOKED_AT {
                break;
            }
            tokio::task::yield_now().await;
        }
        if self.site().scenario.cache.warm_up_crawlers {
            orders.extend(self.site().prefetch_queue.all().into_iter().map(Order::grant));
        }
        order::keep_first(&mut orders, most);
        if orders.iter().any(Order::is_renewal) {
            // An answer whose renewal fails is due again.
            let again = order::again_in(rules);
            next = Some(next.map_or(again, |next| next.min(again)));
        }
        (orders.into(), next)
    }

    /// Carries out orders, two at a time.
    async fn carry_out(&self, orders: VecDeque<Order>) {
        let orders = Mutex::new(orders);
        tokio::join!(self.work(&orders), self.work(&orders));
    }

    async fn work(&self, orders: &Mutex<VecDeque<Order>>) {
        let next = || orders.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(order) = next() {
            let exchange = self.begin().await;
            let _debt = self.serving.clock.owe();
            let why = order.reason.why();
            if let Some(result) = self.ask(order, exchange).await {
                self.site().counters.warm_ups.count(why, result);
            }
        }
    }

    /// Begins an exchange as soon as that disturbs no client.
    async fn begin(&self) -> Arc<Exchange> {
        let supervisor = &self.site().supervisor;
        let mut free = supervisor.free();
        loop {
            if free.wait_for(|free| *free).await.is_err() {
                // The supervisor has ended, and so will this task.
                std::future::pending::<()>().await;
            }
            if let Some(exchange) = self.site().begin_background() {
                return exchange;
            }
            if self.site().pool.is_some() {
                // No server of the pool has a place to spare, and no event reports when one has.
                self.serving.clock.sleep(AFTER_WAKING).await;
            }
        }
    }

    /// Sends the request to the server; returns the result, or nothing if no request was needed.
    async fn ask(&self, order: Order, exchange: Arc<Exchange>) -> Option<WarmedUp> {
        let (serving, site) = (self.serving, self.site());
        let Order { key, reason, .. } = order;
        let requester = match &reason {
            FetchReason::Renew(object) => {
                object.tried.store(serving.timestamp().as_millis(), Ordering::Relaxed);
                Requester::Renewal
            }
            FetchReason::Grant(_) if self.is_sated() => return None,
            FetchReason::Grant(_) => {
                site.prefetch_queue.remove(&key);
                Requester::Of(ClientClass::Crawler)
            }
            FetchReason::Fetch(_) => {
                if site.store.is_on_disk_only(&key, serving.timestamp()) {
                    site.store.bring_up(&key, serving.timestamp(), &site.rules).await;
                }
                Requester::Of(ClientClass::Crawler)
            }
        };
        if !site.may_request(&key) {
            return None;
        }
        let request = OwnRequest::new(&key, reason.fields()?, &site.rules, serving.clock.now())?;
        let find = || self.find(&key, &request);
        // Another request is fetching it already, or another variant of it.
        if let Some(mut other) = site.shared_fetches.other(&key) {
            let _ = serving.clock.parked(serving.clock.timeout(LONGEST, other.changed())).await;
        }
        let found = find();
        if !reason.is_needed(found.as_ref()) {
            return None;
        }
        let shared_fetch = Mutex::new(site.shared_fetches.join(&key).first());
        let (site_index, key) = (self.index, Some(key.clone()));
        let OwnRequest { facts, parts } = &request;
        let forwarding = Forwarding {
            serving,
            site: site_index,
            facts,
            parts,
            key,
            found,
            shared_fetch,
            requester,
            filler: Filler::Proxy,
            expected: None,
        };
        let sending = forwarding.run(Spool::again(Kept::default()), exchange, false);
        let answered = async {
            let response = sending.await.ok()?;
            Some(read_what_is_stored(response, site.store.largest()).await)
        };
        let read = Box::pin(serving.clock.timeout(LONGEST, answered)).await.ok().flatten();
        if matches!(reason, FetchReason::Grant(_)) {
            self.wished.fetch_add(read.unwrap_or(0), Ordering::Relaxed);
        }
        drop(forwarding);
        Some(reason.result(find().as_ref().map(|found| &found.object), read.is_some()))
    }

    /// What is stored that would answer the proxy's own request.
    fn find(&self, key: &CacheKey, request: &OwnRequest) -> Option<Found> {
        let (site, now) = (self.site(), self.serving.timestamp());
        let (head, asked) = (head_of(&request.facts, &request.parts), RequestDirectives::default());
        let found = site.store.find(key, Sender::ANONYMOUS, &head, &asked, now, &site.rules);
        found.map(|(object, usability)| Found { object, usability })
    }

    /// What is stored in this coding.
    fn stored(&self, key: &CacheKey, coding: &'static str) -> Option<Found> {
        let rules = &self.site().rules;
        let now = self.serving.clock.now();
        self.find(key, &OwnRequest::new(key, fields_for(coding), rules, now)?)
    }

    /// Prefetches have stored enough: more would evict each other, and more.
    fn is_sated(&self) -> bool {
        self.wished.load(Ordering::Relaxed) > self.site().store.room() / WISHED
    }
}
