//! What the proxy reads from a request's head, before anything is decided.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_LENGTH, HOST, REFERER, TRANSFER_ENCODING, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use nightwatt_energy::time::{Now, Wall};
use nightwatt_httpcache::{SECURE, normal_authority};
use nightwatt_policy::visit::Visitor;
use nightwatt_traffic::{Arrival, ClientFacts, ClientKey, Fetch};

use crate::accept::Accept;
use crate::access_log::Raw;
use crate::authority::{Authority, host_name};
use crate::client_facts::{self, Posted};
use crate::config::Config;
use crate::forwarded::SpokenFor;
use crate::request_rules::path_of;

pub(crate) const REQUEST_ID_NAME: &str = "x-request-id";
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static(REQUEST_ID_NAME);
pub(crate) const FORWARDED_PROTO_NAME: &str = "x-forwarded-proto";
pub(crate) const FORWARDED_PROTO: HeaderName = HeaderName::from_static(FORWARDED_PROTO_NAME);

/// Identifies a request, also across restarts: by its arrival time and a count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId {
    pub(crate) at: Wall,
    pub(crate) number: u64,
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.at.0, self.number)
    }
}

/// The peer of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) ip: IpAddr,
    /// Over TLS.
    pub(crate) secure: bool,
    /// The authorities that vouch for its certificate, if it has shown one.
    pub(crate) vouchers: Option<Arc<[u64]>>,
}

impl Peer {
    /// The peer of a connection without TLS.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self { ip: address.ip(), secure: false, vouchers: None }
    }
}

/// The client, and what it requests.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Facts {
    /// For the log, and to find this request in the server's log.
    pub(crate) id: String,
    /// The same, for the manager.
    pub(crate) number: u64,
    pub(crate) arrived: Now,
    pub(crate) client: IpAddr,
    /// The same as text.
    pub(crate) address: String,
    /// The peer of the connection: the client, or the last proxy before us.
    pub(crate) peer: IpAddr,
    /// The peer is a trusted proxy.
    pub(crate) trusted: bool,
    /// That proxy named its client in a form that cannot be parsed.
    pub(crate) is_unreadable: bool,
    /// That proxy named its client, and by one address: see [`Facts::certain_client`].
    pub(crate) is_certain: bool,
    /// The authority that vouches for the certificate of the peer, if it has shown one.
    pub(crate) vouchers: Option<Arc<[u64]>>,
    /// The client uses TLS: by the word of a trusted proxy, else on this connection.
    pub(crate) secure: bool,
    /// Host and port of the target, else of the `Host` field; in normal form, as sent to the server.
    pub(crate) authority: String,
    /// The same as a prefix of cache keys, which keeps TLS apart.
    pub(crate) base: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) method: Method,
    pub(crate) agent: Option<String>,
    pub(crate) referer: Option<String>,
    /// The values of these that are not UTF-8.
    pub(crate) raw: Raw,
    /// The client is a browser that opens a page.
    pub(crate) accepts_html: bool,
    /// The client is a program that reads JSON, not a browser.
    pub(crate) wants_json: bool,
    /// Its credentials, as a keyed hash.
    pub(crate) credential: Option<u64>,
    /// The values of `Sec-Fetch-*`.
    pub(crate) fetch: Fetch,
    /// Facts of a POST.
    pub(crate) posted: Option<Posted>,
    /// Address and agent.
    pub(crate) visitor: Visitor,
    /// The address alone (for IPv6, its first 64 bits), which has the wake budget and the request rate.
    pub(crate) budget: u64,
    /// Its network, which has a wake budget too.
    pub(crate) network: u64,
}

/// Why a request is rejected without further processing.
pub(crate) type Refusal = (StatusCode, &'static str);

impl Facts {
    /// Reads the head of a request. `number` is unique in this process.
    pub(crate) fn of(config: &Config, peer: Peer, parts: &Parts, now: Now, number: u64) -> Self {
        let proxies = &config.trusted_proxies;
        let trusted = proxies.iter().any(|network| network.contains(peer.ip));
        let spoken = if trusted {
            SpokenFor::of(proxies, config.client_field, peer.ip, &parts.headers)
        } else {
            SpokenFor::itself(peer.ip)
        };
        Self::with_spoken_for(peer, trusted, spoken, parts, now, number)
    }

    /// The same, when it is known whether the peer is trusted, and which client it speaks for.
    pub(crate) fn with_spoken_for(
        peer: Peer,
        trusted: bool,
        spoken: SpokenFor,
        parts: &Parts,
        now: Now,
        number: u64,
    ) -> Self {
        let text = |name: &HeaderName| {
            let value = parts.headers.get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let given_id = if trusted { text(&REQUEST_ID) } else { None };
        let id = given_id
            .filter(|id| is_plain_id(id))
            .unwrap_or_else(|| RequestId { at: now.wall, number }.to_string());
        let authority = parts.uri.authority().map(|authority| authority.as_str().to_owned());
        let authority = authority.or_else(|| text(&HOST)).unwrap_or_default();
        let Peer { ip: peer, secure, vouchers } = peer;
        let told = trusted.then(|| parts.headers.get(FORWARDED_PROTO)).flatten();
        let told = told.map(|told| is_https(told.as_bytes())).or(spoken.secure);
        let secure = told.unwrap_or(secure);
        // An authority that cannot be parsed stays unchanged, and is rejected later.
        let authority = match Authority::parse(&authority) {
            Some(parsed) if !parsed.is_normal(&authority, secure) => {
                normal_authority(secure, &authority)
            }
            _ => authority,
        };
        let client = spoken.client;
        let address = client.to_string();
        let (agent, referer) = (text(&USER_AGENT), text(&REFERER));
        let accept = parts.headers.get(ACCEPT).map(HeaderValue::as_bytes).and_then(Accept::text);
        let accepts_html = accept.is_some_and(Accept::opens_page);
        let accept = accept.map(Accept::read).unwrap_or_default();
        let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let target = parts.uri.path_and_query().map_or("/", |it| it.as_str()).to_owned();
        Self {
            id,
            number,
            arrived: now,
            client,
            peer: peer.to_canonical(),
            trusted,
            is_unreadable: spoken.is_unreadable,
            is_certain: spoken.is_certain,
            vouchers,
            secure,
            base: base(secure, &authority),
            authority,
            target,
            method: parts.method.clone(),
            visitor: Visitor::new(&address, agent.as_deref()),
            address,
            budget: ClientKey::from(client).number(),
            network: ClientKey::from(client).network(),
            raw: Raw {
                referer: unreadable(referer.as_deref(), parts, &REFERER),
                agent: unreadable(agent.as_deref(), parts, &USER_AGENT),
            },
            agent,
            referer,
            accepts_html,
            wants_json: accept.json(),
            credential: client_facts::credential(fields),
            posted: (parts.method == Method::POST).then(|| Posted::of(&parts.headers)),
            fetch: client_facts::fetch(|name| parts.headers.get(name).map(HeaderValue::as_bytes)),
        }
    }

    /// Why a request must not reach a server, if so.
    pub(crate) fn refusal(&self, parts: &Parts, most_body: u64) -> Option<Refusal> {
        let headers = &parts.headers;
        if let Some(text) = self.host_refusal(parts) {
            return Some((StatusCode::BAD_REQUEST, text));
        }
        if parts.method == Method::TRACE {
            // TRACE would reveal what proxies add on the way.
            return Some((StatusCode::METHOD_NOT_ALLOWED, "TRACE is not answered here."));
        }
        if parts.method == Method::CONNECT {
            return Some((StatusCode::METHOD_NOT_ALLOWED, "This is no forward proxy: no CONNECT."));
        }
        let scheme = parts.uri.scheme_str();
        let is_known = |it: &str| ["http", "https"].iter().any(|own| it.eq_ignore_ascii_case(own));
        if parts.uri.authority().is_some() && !scheme.is_some_and(is_known) {
            // A target without a scheme is `host:port`, the form of CONNECT.
            let text = "The request target must be a path, or an address of http.";
            return Some((StatusCode::BAD_REQUEST, text));
        }
        if !self.target.starts_with('/') {
            return Some((StatusCode::BAD_REQUEST, "The request target must begin with a slash."));
        }
        let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
        let coding = codings.next().map_or(&b"chunked"[..], HeaderValue::as_bytes);
        if !coding.eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
            // hyper decodes the chunks and ignores any coding within them.
            return Some((StatusCode::NOT_IMPLEMENTED, "The only transfer coding is chunked."));
        }
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|it| it > most_body) {
            let text = "The request's body is larger than this site accepts.";
            return Some((StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        None
    }

    /// Why it is unclear which host the request is for (RFC 9112, 3.2). The target of a request in absolute form takes
    /// precedence over its `Host` field, but both must be valid.
    fn host_refusal(&self, parts: &Parts) -> Option<&'static str> {
        let mut fields = parts.headers.get_all(HOST).iter();
        let field = fields.next();
        if fields.next().is_some() {
            return Some("More than one Host field.");
        }
        let needed = parts.version >= http::Version::HTTP_11;
        if needed && (field.is_none() || self.authority.is_empty()) {
            return Some("HTTP/1.1 needs a Host field.");
        }
        let is_right = |text: &str| {
            let is_host = |it: Authority<'_>| {
                it.host != "." && !it.host.ends_with("..") && !it.is_misspelt_address()
            };
            text.is_empty() || Authority::parse(text).is_some_and(is_host)
        };
        let field = field.map_or(Ok(""), HeaderValue::to_str);
        let is_field_right = |field: &str| field == self.authority || is_right(field);
        if !is_right(&self.authority) || !field.is_ok_and(is_field_right) {
            return Some("The Host field and the target's host must be `host` or `host:port`.");
        }
        None
    }

    /// The address of the client, for what depends on its network. Nothing if a trusted proxy does not name it, or its
    /// fields name two.
    pub(crate) fn certain_client(&self) -> Option<IpAddr> {
        self.is_certain.then_some(self.client)
    }

    pub(crate) fn path(&self) -> &str {
        path_of(&self.target)
    }

    /// Host without port, lower case.
    pub(crate) fn host(&self) -> String {
        host_name(&self.authority)
    }

    /// The facts for the classifier.
    pub(crate) fn for_classifier(&self) -> ClientFacts<'_> {
        ClientFacts {
            client: ClientKey::from(self.client),
            agent: self.agent.as_deref(),
            method: self.method.as_str(),
            target: &self.target,
            host: Some(&self.authority),
            referer: self.referer.as_deref(),
            accepts_html: Some(self.accepts_html),
            credential: self.credential,
            fetch: self.fetch,
        }
    }

    /// The entry for the access log.
    pub(crate) fn to_arrival(&self, status: StatusCode) -> Arrival {
        Arrival {
            at: self.arrived.wall,
            utc_offset: self.arrived.utc_offset,
            client: self.address.clone(),
            method: self.method.as_str().to_owned(),
            target: self.target.clone(),
            status: status.as_u16(),
            bytes: 0,
            referer: self.referer.clone(),
            agent: self.agent.clone(),
        }
    }
}

/// The bytes of a field whose `text` does not hold its full value.
fn unreadable(text: Option<&str>, parts: &Parts, name: &HeaderName) -> Option<Vec<u8>> {
    let is_replaced = text?.contains(char::REPLACEMENT_CHARACTER);
    let value = is_replaced.then(|| parts.headers.get(name)).flatten()?.as_bytes();
    std::str::from_utf8(value).is_err().then(|| value.to_vec())
}

/// The prefix of cache keys.
pub(crate) fn base(secure: bool, authority: &str) -> String {
    if secure { format!("{SECURE}{authority}") } else { authority.to_owned() }
}

/// Whether `X-Forwarded-Proto` says that the client used TLS. The first proxy comes first. Some proxies send `wss` for
/// WebSocket connections.
pub(crate) fn is_https(told: &[u8]) -> bool {
    let first = told.split(|byte| *byte == b',').next().unwrap_or_default();
    let first = first.trim_ascii();
    first.eq_ignore_ascii_case(b"https") || first.eq_ignore_ascii_case(b"wss")
}

/// Whether an id is short, and free of anything that could break a log line or a header.
pub(crate) fn is_plain_id(id: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (1..=128).contains(&id.len()) && id.bytes().all(plain)
}
