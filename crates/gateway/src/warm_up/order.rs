//! What is to be asked of the server by nobody's asking, in which order, and as whom.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, HOST, ORIGIN, USER_AGENT,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request};
use nightwatt_httpcache::vary::Selecting;
use nightwatt_httpcache::{CacheKey, Occasion, Rules, Timestamp};
use nightwatt_model::visit::Visitor;

use crate::facts::{Facts, base};
use crate::gateway::Gateway;
use crate::hit::Found;
use crate::metrics::{WarmedUp, Why};
use crate::refresh::REFRESH_ID;
use crate::store::Object;
use crate::supervisor::Supervisor;
use crate::wishes::Wish;

/// Who asks, unless `Vary` wants another word.
const AGENT: HeaderValue = HeaderValue::from_static(concat!(
    "nightwatt/",
    env!("CARGO_PKG_VERSION"),
    " (cache warm-up: keeps pages at hand while their server sleeps)"
));

/// Whom the server is told that it is for. Nobody has this address (RFC 5737): many a server shows more
/// to its own network, and what it shows is for everybody here.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Fields that answers may depend on and that say nothing about who asks; `sec-` and what begins so
/// besides. What depends on any other that was sent is for whoever sent it.
const HARMLESS: [HeaderName; 10] = [
    ACCEPT,
    ACCEPT_CHARSET,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    HOST,
    ORIGIN,
    USER_AGENT,
    HeaderName::from_static("dnt"),
    HeaderName::from_static("save-data"),
    HeaderName::from_static("x-requested-with"),
];

/// Something to ask the server for.
pub(super) struct Order {
    pub(super) key: CacheKey,
    pub(super) errand: Errand,
    popularity: u64,
    stale_for: Duration,
}

pub(super) enum Errand {
    /// Of what is stored.
    Renew(Arc<Object>),
    /// Of what is not.
    Grant(Wish),
}

impl Order {
    pub(super) fn renew(key: CacheKey, object: Arc<Object>, now: Timestamp) -> Self {
        let popularity = object.popularity.get();
        let stale_for = object.stored.freshness().staleness(now);
        Self { key, errand: Errand::Renew(object), popularity, stale_for }
    }

    pub(super) fn grant(wish: Wish) -> Self {
        let (key, popularity) = (wish.key.clone(), wish.popularity());
        Self { key, errand: Errand::Grant(wish), popularity, stale_for: Duration::ZERO }
    }

    pub(super) const fn is_renewal(&self) -> bool {
        matches!(self.errand, Errand::Renew(_))
    }
}

impl Errand {
    pub(super) const fn why(&self) -> Why {
        match self {
            Self::Renew(_) => Why::Stale,
            Self::Grant(_) => Why::Wish,
        }
    }

    /// The fields that the answer is chosen by; nothing for those that must not be sent.
    fn fields(&self) -> Vec<(HeaderName, Option<HeaderValue>)> {
        match self {
            Self::Renew(object) => {
                let fields = object.stored.selecting().iter();
                let value = |value: &[u8]| HeaderValue::from_bytes(value).ok();
                fields.map(|(name, it)| (name.clone(), it.and_then(value))).collect()
            }
            Self::Grant(wish) => {
                let fields = wish.accepts.iter().cloned();
                fields.map(|(name, value)| (name, Some(value))).collect()
            }
        }
    }

    /// Is it still, now that this is `found` in the cache?
    pub(super) fn is_needed(&self, found: Option<&Found>) -> bool {
        match (self, found) {
            // Else it has been renewed or forgotten since it was looked at.
            (Self::Renew(object), Some(found)) => Arc::ptr_eq(&found.object, object),
            (Self::Renew(_), None) => false,
            (Self::Grant(_), Some(found)) => !found.usability.allows(Occasion::OriginAsleep),
            (Self::Grant(_), None) => true,
        }
    }

    /// What came of it: `object` is what the cache has now.
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

/// Keeps those that come first: the most popular; of these, what is overdue for longest.
pub(super) fn keep_first(orders: &mut Vec<Order>, most: usize) {
    orders.sort_by_key(|order| Reverse((order.popularity, order.stale_for)));
    orders.truncate(most);
}

/// In how long a stored answer is to be renewed; nothing: never.
pub(super) fn due_in(object: &Object, now: Timestamp, rules: &Rules) -> Option<Duration> {
    let stored = &object.stored;
    let is_meant = object.popularity.get() > 0
        && stored.serves_asleep(rules)
        && is_anybodys(stored.selecting());
    let half = rules.grace_while_asleep / 2;
    let age_then = stored.freshness().lifetime.saturating_add(half);
    let due = age_then.saturating_sub(stored.age(now));
    let again = match object.tried.load(Ordering::Relaxed) {
        0 => Duration::ZERO,
        tried => again_in(rules).saturating_sub(now.since(Timestamp::from_millis(tried))),
    };
    is_meant.then_some(due.max(again))
}

/// After a renewal that came to nothing.
pub(super) fn again_in(rules: &Rules) -> Duration {
    rules.grace_while_asleep / 8
}

/// Does nothing that it was chosen by say who asked?
pub(crate) fn is_anybodys(selecting: &Selecting) -> bool {
    let is_harmless =
        |name: &HeaderName| HARMLESS.contains(name) || name.as_str().starts_with("sec-");
    selecting.iter().all(|(name, value)| value.is_none() || is_harmless(name))
}

/// A request of nobody's: without cookies, credentials and conditions.
pub(super) struct Plain {
    pub(super) facts: Facts,
    pub(super) parts: Parts,
}

impl Plain {
    /// A request for what has this key; none if there cannot be one.
    pub(super) fn new(key: &CacheKey, errand: &Errand, site: (&Gateway, &Rules)) -> Option<Self> {
        let (gateway, rules) = site;
        let (secure, authority, target) = key.parts();
        let base = base(secure, authority);
        if rules.key.key(&base, target)? != *key {
            return None;
        }
        let mut request = Request::new(());
        *request.uri_mut() = target.parse().ok()?;
        let (mut parts, ()) = request.into_parts();
        let headers = &mut parts.headers;
        headers.insert(HOST, HeaderValue::from_str(authority).ok()?);
        headers.insert(USER_AGENT, AGENT);
        for (name, value) in errand.fields() {
            match value {
                Some(value) => drop(headers.insert(name, value)),
                None => drop(headers.remove(name)),
            }
        }
        let number = Supervisor::next_id();
        let agent = headers.get(USER_AGENT).and_then(|it| it.to_str().ok()).map(str::to_owned);
        let facts = Facts {
            id: format!("{REFRESH_ID}{number:x}"),
            number,
            arrived: gateway.clock.now(),
            client: NOBODY,
            peer: NOBODY,
            trusted: false,
            secure,
            authority: authority.to_owned(),
            base,
            target: target.to_owned(),
            method: Method::GET,
            visitor: Visitor::new(&NOBODY.to_string(), agent.as_deref()),
            budget: 0,
            agent,
            referer: None,
            accepts_html: false,
            wants_json: false,
        };
        Some(Self { facts, parts })
    }
}
