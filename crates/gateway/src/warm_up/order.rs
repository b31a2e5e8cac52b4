//! The proxy's own requests to the server, and their order.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nightwatt_httpcache::{CacheKey, Occasion, Rules, Timestamp, Usability};

use crate::hit::Found;
use crate::metrics::{WarmedUp, Why};
use crate::own_request::{Fields, fields_for, fields_of};
use crate::prefetch_queue::Prefetch;
use crate::store::Object;

/// A request of the proxy's own.
pub(super) struct Order {
    pub(super) key: CacheKey,
    pub(super) reason: FetchReason,
    popularity: u64,
    stale_for: Duration,
}

pub(super) enum FetchReason {
    /// For a stored answer.
    Renew(Arc<Object>),
    /// For a page that is not stored.
    Grant(Prefetch),
    /// For a file that crawlers request first, in this coding.
    Fetch(&'static str),
}

impl Order {
    pub(super) fn renew(key: CacheKey, object: Arc<Object>, now: Timestamp) -> Self {
        let popularity = object.popularity.get();
        let stale_for = object.stored.freshness().staleness(now);
        Self { key, reason: FetchReason::Renew(object), popularity, stale_for }
    }

    pub(super) fn grant(wish: Prefetch) -> Self {
        let (key, popularity) = (wish.key.clone(), wish.popularity());
        Self { key, reason: FetchReason::Grant(wish), popularity, stale_for: Duration::ZERO }
    }

    pub(super) fn fetch(key: CacheKey, coding: &'static str) -> Self {
        let reason = FetchReason::Fetch(coding);
        Self { key, reason, popularity: u64::MAX, stale_for: Duration::ZERO }
    }

    pub(super) const fn is_renewal(&self) -> bool {
        matches!(self.reason, FetchReason::Renew(_))
    }
}

impl FetchReason {
    pub(super) const fn why(&self) -> Why {
        match self {
            Self::Renew(_) => Why::Stale,
            Self::Grant(_) | Self::Fetch(_) => Why::Prefetch,
        }
    }

    /// The fields of the request; nothing if they may identify a sender.
    pub(super) fn fields(&self) -> Option<Fields> {
        match self {
            Self::Renew(object) => fields_of(object),
            Self::Grant(wish) => Some(fields_for(wish.encoding)),
            Self::Fetch(coding) => Some(fields_for(coding)),
        }
    }

    /// Whether it is still needed, now that `found` is in the cache.
    pub(super) fn is_needed(&self, found: Option<&Found>) -> bool {
        match (self, found) {
            // Otherwise it has been renewed or forgotten since the check.
            (Self::Renew(object), Some(found)) => Arc::ptr_eq(&found.object, object),
            (Self::Renew(_), None) => false,
            (Self::Grant(_), Some(found)) => !found.usability.allows(Occasion::OriginAsleep),
            (Self::Grant(_) | Self::Fetch(_), None) => true,
            (Self::Fetch(_), Some(found)) => !matches!(found.usability, Usability::Fresh { .. }),
        }
    }

    /// The result: `object` is what the cache has now.
    pub(super) fn result(&self, object: Option<&Arc<Object>>, answered: bool) -> WarmedUp {
        match (self, object) {
            (Self::Renew(old), Some(new)) if Arc::ptr_eq(old, new) => WarmedUp::Failed,
            (Self::Renew(old), Some(new)) if old.body.as_ptr() == new.body.as_ptr() => {
                WarmedUp::Confirmed
            }
            (_, Some(_)) => WarmedUp::Stored,
            (_, None) if answered => WarmedUp::Dropped,
            (_, None) => WarmedUp::Failed,
        }
    }
}

/// Keeps those that come first: the most popular; of these, those that have been overdue for longest.
pub(super) fn keep_first(orders: &mut Vec<Order>, most: usize) {
    orders.sort_by_key(|order| Reverse((order.popularity, order.stale_for)));
    orders.truncate(most);
}

/// When a stored answer has to be renewed; nothing: never.
pub(super) fn due_in(object: &Object, now: Timestamp, rules: &Rules) -> Option<Duration> {
    let stored = &object.stored;
    let is_meant = object.popularity.get() > 0
        && stored.serves_asleep(rules)
        && stored.selecting().is_anonymous();
    let half = rules.grace_while_asleep / 2;
    let age_then = stored.freshness().lifetime.saturating_add(half);
    let due = age_then.saturating_sub(stored.age(now));
    let again = match object.tried.load(Ordering::Relaxed) {
        0 => Duration::ZERO,
        // Tried while the clock was ahead: the time of that is unknown.
        tried if tried > now.as_millis() => Duration::ZERO,
        tried => again_in(rules).saturating_sub(now.since(Timestamp::from_millis(tried))),
    };
    is_meant.then_some(due.max(again))
}

/// The pause after a renewal that failed.
pub(super) fn again_in(rules: &Rules) -> Duration {
    rules.grace_while_asleep / 8
}
