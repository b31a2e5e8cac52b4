//! The proxy's own requests to a server, to fill and renew the cache.
//!
//! They are anonymous by construction: they have the host of the cache key, the proxy's own fields, and none that a
//! client sent. Only for answers that the server marked as cacheable, they repeat the fields that `Vary` selected, if
//! none of them can identify a sender.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use nightwatt_energy::time::Now;
use nightwatt_httpcache::sharing::may_be_prefetched;
use nightwatt_httpcache::{CacheKey, Rules};
use nightwatt_policy::visit::Visitor;
use nightwatt_traffic::Fetch;

use crate::access_log::Raw;
use crate::body::Answer;
use crate::facts::{Facts, base};
use crate::store::Object;
use crate::supervisor::Supervisor;

/// Prefix of the ids of the proxy's own requests.
pub const REFRESH_ID: &str = "nightwatt-refresh-";

/// Time limit of such a request: it keeps the server awake.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// The agent, unless `Vary` requires another one.
const AGENT: HeaderValue = HeaderValue::from_static(concat!(
    "nightwatt/",
    env!("CARGO_PKG_VERSION"),
    " (keeps pages at hand while their server sleeps)"
));

/// The client address that the server sees. No host has it (RFC 5737): many servers show more to their own network, and
/// these answers are for everyone.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The fields of a request besides `Host`; nothing for those that must not be sent.
pub(crate) type Fields = Vec<(HeaderName, Option<HeaderValue>)>;

/// The fields for renewing a stored answer; nothing if they may identify a sender.
pub(crate) fn fields_of(object: &Object) -> Option<Fields> {
    let selecting = object.stored.selecting();
    let value = |value: &[u8]| HeaderValue::from_bytes(value).ok();
    let fields = selecting.iter().map(|(name, it)| (name.clone(), it.and_then(value)));
    selecting.is_anonymous().then(|| fields.collect())
}

/// The fields for requesting an answer in this coding, one of
/// [`OWN_ENCODINGS`](nightwatt_httpcache::vary::OWN_ENCODINGS).
pub(crate) fn fields_for(encoding: &'static str) -> Fields {
    vec![(ACCEPT_ENCODING, Some(HeaderValue::from_static(encoding)))]
}

/// The target of the proxy's own request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnTarget<'a> {
    /// As if a client spoke TLS.
    pub(crate) secure: bool,
    /// Host and port, in normal form.
    pub(crate) authority: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
}

/// A request of the proxy's own.
pub(crate) struct OwnRequest {
    pub(crate) facts: Facts,
    pub(crate) parts: Parts,
}

impl OwnRequest {
    /// A request for this key; none if there cannot be one, or if it might have side effects.
    pub(crate) fn new(key: &CacheKey, fields: Fields, rules: &Rules, now: Now) -> Option<Self> {
        let (secure, authority, target) = key.parts();
        if !may_be_prefetched(target) || rules.key.key(&base(secure, authority), target)? != *key {
            return None;
        }
        Self::at(&OwnTarget { secure, authority, target }, fields, now)
    }

    /// A request for this target; none if there cannot be one. The caller checks that it has no side effects.
    pub(crate) fn at(at: &OwnTarget<'_>, fields: Fields, now: Now) -> Option<Self> {
        let OwnTarget { secure, authority, target } = *at;
        let mut request = Request::new(());
        *request.uri_mut() = target.parse().ok()?;
        let (mut parts, ()) = request.into_parts();
        let headers = &mut parts.headers;
        headers.insert(HOST, HeaderValue::from_str(authority).ok()?);
        headers.insert(USER_AGENT, AGENT);
        for (name, value) in fields {
            match value {
                Some(value) => drop(headers.insert(name, value)),
                None => drop(headers.remove(name)),
            }
        }
        let number = Supervisor::next_id();
        let agent = headers.get(USER_AGENT).and_then(|it| it.to_str().ok()).map(str::to_owned);
        let address = CLIENT.to_string();
        let facts = Facts {
            id: format!("{REFRESH_ID}{number:x}"),
            number,
            arrived: now,
            client: CLIENT,
            peer: CLIENT,
            trusted: false,
            is_unreadable: false,
            is_certain: true,
            vouchers: None,
            secure,
            authority: authority.to_owned(),
            base: base(secure, authority),
            target: target.to_owned(),
            method: Method::GET,
            visitor: Visitor::new(&address, agent.as_deref()),
            address,
            budget: 0,
            network: 0,
            agent,
            referer: None,
            raw: Raw::default(),
            accepts_html: false,
            wants_json: false,
            credential: None,
            fetch: Fetch::Unknown,
            posted: None,
        };
        Some(Self { facts, parts })
    }
}

/// Reads the answer to the proxy's own request if it is being stored, up to what the cache could hold; returns its
/// length.
pub(crate) async fn read_what_is_stored(response: Response<Answer>, largest: u64) -> u64 {
    if !is_stored(response.headers()) {
        return 0;
    }
    let mut body = response.into_body();
    let mut bytes = 0;
    while bytes <= largest
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes += frame.data_ref().map_or(0, bytes::Bytes::len) as u64;
    }
    bytes
}

/// Whether the answer is being stored, by our own `Cache-Status`.
fn is_stored(headers: &HeaderMap) -> bool {
    // The last member is ours (RFC 9211, 2).
    let ours = headers.get_all("cache-status").iter().next_back();
    ours.is_some_and(|it| it.as_bytes().split(|byte| *byte == b';').any(|it| it == b" stored"))
}
