//! Access logs in JSON, one object a line: [`FORMATS`] lists them. Those of Caddy and Traefik are read here,
//! others by [`keys`].

use std::fmt;

use memchr::memmem;
use nightwatt_energy::time::Wall;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::clf::{is_method, is_protocol};
use crate::clf_time;
use crate::client::{self, ClientFrom};
use crate::formats::Format;
use crate::record::{Escapes, Reason};
use crate::spans::{self, Span, Spans};
use crate::when;

pub(crate) mod keys;

/// A format of JSON lines.
pub(crate) struct JsonFormat {
    pub(crate) format: Format,
    /// Whether the line has the keys that only this format has. If `read` alone decides, it is true.
    has_its_keys: fn(&[u8]) -> bool,
    pub(crate) read: fn(&[u8], ClientFrom) -> Result<Spans, Reason>,
}

/// All of them. A line that fits several is in the first.
pub(crate) const FORMATS: &[JsonFormat] = &[
    JsonFormat { format: Format::Traefik, has_its_keys: |_| true, read: traefik },
    JsonFormat { format: Format::Caddy, has_its_keys: |_| true, read: caddy },
    JsonFormat { format: Format::Cloudflare, has_its_keys: is_cloudflare, read: keys::find },
    JsonFormat { format: Format::Ecs, has_its_keys: is_ecs, read: keys::find },
    JsonFormat { format: Format::Json, has_its_keys: |_| true, read: keys::find },
];

/// The format of a line of JSON; `None` if it is in none.
pub(crate) fn detect(line: &[u8]) -> Option<Format> {
    let from = ClientFrom::default();
    let is_in = |it: &&JsonFormat| (it.has_its_keys)(line) && (it.read)(line, from).is_ok();
    FORMATS.iter().find(is_in).map(|it| it.format)
}

fn has(line: &[u8], part: &str) -> bool {
    memmem::find(line, part.as_bytes()).is_some()
}

fn is_cloudflare(line: &[u8]) -> bool {
    has(line, "\"ClientRequestMethod\"") || has(line, "\"EdgeStartTimestamp\"")
}

fn is_ecs(line: &[u8]) -> bool {
    has(line, "\"@timestamp\"")
        && (has(line, "\"http.") || has(line, "\"http\":") || has(line, "\"ecs"))
}

/// What Caddy 2 logs of a request, as far as we need it. Version 2.5 put `remote_ip` in the place
/// of `remote_addr`; `client_ip` (2.7) is the client's behind trusted proxies.
#[derive(Deserialize)]
struct Caddy<'a> {
    #[serde(borrow)]
    ts: Option<&'a RawValue>,
    #[serde(borrow)]
    request: Option<CaddyRequest<'a>>,
    #[serde(borrow)]
    user_id: Option<&'a RawValue>,
    status: Option<Number>,
    size: Option<Number>,
}

#[derive(Deserialize)]
struct CaddyRequest<'a> {
    #[serde(borrow)]
    client_ip: Option<&'a RawValue>,
    #[serde(borrow)]
    remote_ip: Option<&'a RawValue>,
    #[serde(borrow)]
    remote_addr: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    proto: Option<&'a RawValue>,
    #[serde(borrow, default)]
    headers: CaddyHeaders<'a>,
}

#[derive(Deserialize, Default)]
struct CaddyHeaders<'a> {
    #[serde(borrow, rename = "User-Agent", default)]
    agent: First<'a>,
    #[serde(borrow, rename = "Referer", default)]
    referer: First<'a>,
    #[serde(borrow, rename = "X-Forwarded-For", default)]
    forwarded: First<'a>,
    #[serde(borrow, rename = "Cf-Connecting-Ip", default)]
    cloudflare: First<'a>,
    #[serde(borrow, rename = "X-Real-Ip", default)]
    real: First<'a>,
}

/// The first of several values of a header.
#[derive(Default)]
struct First<'a>(Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for First<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FirstVisitor).map(Self)
    }
}

struct FirstVisitor;

impl<'de> Visitor<'de> for FirstVisitor {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let first = values.next_element()?;
        while first.is_some() && values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }
}

/// What Traefik logs of a request, as far as we need it. Headers are there only where the operator
/// keeps them (`accessLog.fields.headers`).
#[derive(Deserialize)]
struct Traefik<'a> {
    #[serde(borrow, rename = "StartUTC")]
    start_utc: Option<&'a RawValue>,
    #[serde(borrow, rename = "StartLocal")]
    start_local: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientHost")]
    client_host: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientAddr")]
    client_addr: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientUsername")]
    user: Option<&'a RawValue>,
    #[serde(borrow, rename = "RequestMethod")]
    method: Option<&'a RawValue>,
    #[serde(borrow, rename = "RequestPath")]
    path: Option<&'a RawValue>,
    #[serde(borrow, rename = "RequestProtocol")]
    protocol: Option<&'a RawValue>,
    #[serde(rename = "DownstreamStatus")]
    status: Option<Number>,
    #[serde(rename = "OriginStatus")]
    origin_status: Option<Number>,
    #[serde(rename = "DownstreamContentSize")]
    size: Option<Number>,
    #[serde(rename = "OriginContentSize")]
    origin_size: Option<Number>,
    #[serde(borrow, rename = "request_User-Agent")]
    agent: Option<&'a RawValue>,
    #[serde(borrow, rename = "request_Referer")]
    referer: Option<&'a RawValue>,
    #[serde(borrow, rename = "request_X-Forwarded-For")]
    forwarded: Option<&'a RawValue>,
    #[serde(borrow, rename = "request_Cf-Connecting-Ip")]
    cloudflare: Option<&'a RawValue>,
    #[serde(borrow, rename = "request_X-Real-Ip")]
    real: Option<&'a RawValue>,
}

/// Fields of either, as they stand in the line.
struct Parts<'a> {
    time: Option<(Wall, i32)>,
    client: Option<&'a str>,
    /// The chain that proxies wrote.
    chain: Option<&'a str>,
    user: Option<&'a str>,
    method: Option<&'a str>,
    target: Option<&'a str>,
    protocol: Option<&'a str>,
    status: Option<u64>,
    bytes: u64,
    referer: Option<&'a str>,
    agent: Option<&'a str>,
}

/// Parses a line of Caddy's.
fn caddy(line: &[u8], from: ClientFrom) -> Result<Spans, Reason> {
    let entry: Caddy<'_> = object(line)?;
    let request = entry.request.ok_or(Reason::NoRequest)?;
    let headers = request.headers;
    let forwarded = [headers.forwarded, headers.cloudflare, headers.real];
    let peer = text(request.remote_ip).or_else(|| text(request.remote_addr));
    // Another than the other end is what Caddy made of the header itself, and of the proxies it trusts.
    let told = text(request.client_ip).filter(|client| Some(*client) != peer);
    let chain = forwarded.into_iter().find_map(|values| text(values.0));
    Parts {
        time: entry.ts.map(|time| caddy_time(time).ok_or(Reason::BadTime)).transpose()?,
        client: told.or(peer),
        chain: chain.filter(|_| told.is_none() || peer.is_none()),
        user: text(entry.user_id),
        method: text(request.method),
        target: text(request.uri),
        protocol: text(request.proto),
        status: Number::of(entry.status)?,
        bytes: Number::of(entry.size)?.unwrap_or_default(),
        referer: text(headers.referer.0),
        agent: text(headers.agent.0),
    }
    .place(line, from)
}

/// Parses a line of Traefik's.
fn traefik(line: &[u8], from: ClientFrom) -> Result<Spans, Reason> {
    let entry: Traefik<'_> = object(line)?;
    if entry.method.is_none() && entry.path.is_none() {
        return Err(Reason::NoRequest);
    }
    let times = [entry.start_local, entry.start_utc, entry.time];
    let time = times.into_iter().find_map(text);
    Parts {
        time: time
            .map(|time| clf_time::parse_iso(time.as_bytes()).ok_or(Reason::BadTime))
            .transpose()?,
        client: text(entry.client_host).or_else(|| text(entry.client_addr)),
        chain: [entry.forwarded, entry.cloudflare, entry.real].into_iter().find_map(text),
        user: text(entry.user),
        method: text(entry.method),
        target: text(entry.path),
        protocol: text(entry.protocol),
        status: Number::of(entry.status.or(entry.origin_status))?,
        bytes: Number::of(entry.size.or(entry.origin_size))?.unwrap_or_default(),
        referer: text(entry.referer),
        agent: text(entry.agent),
    }
    .place(line, from)
}

fn object<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Reason> {
    if line.trim_ascii().is_empty() {
        return Err(Reason::Empty);
    }
    serde_json::from_slice(line).map_err(|_| Reason::Json)
}

/// A string without its quotes, escapes as they are.
fn text(value: Option<&RawValue>) -> Option<&str> {
    value?.get().strip_prefix('"')?.strip_suffix('"')
}

/// A number, in quotes or not; `None` for a text that is no whole number.
#[derive(Clone, Copy)]
struct Number(Option<u64>);

impl Number {
    /// The number of a field that may be missing, or may be `null`.
    fn of(field: Option<Self>) -> Result<Option<u64>, Reason> {
        field.map(|it| it.0.ok_or(Reason::Json)).transpose()
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor).map(Self)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<u64>, E> {
        Ok(Some(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Option<u64>, E> {
        Ok(u64::try_from(number).ok())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, digits: &str) -> Result<Option<u64>, E> {
        Ok(clf_time::number(digits.as_bytes()))
    }
}

/// Seconds since 1970 with a fraction, or whatever else Caddy's `time_format` may be except for a
/// layout of the operator's own. The formats `wall...` do not say their zone: they read as UTC.
fn caddy_time(value: &RawValue) -> Option<(Wall, i32)> {
    match text(Some(value)) {
        Some(text) => when::any(text.as_bytes()),
        None => when::epoch(value.get()).map(|at| (at, 0)),
    }
}

impl Parts<'_> {
    fn place(&self, line: &[u8], from: ClientFrom) -> Result<Spans, Reason> {
        let (at, utc_offset) = self.time.ok_or(Reason::NoTime)?;
        let [peer, chain] = [self.client, self.chain].map(|it| it.unwrap_or_default().as_bytes());
        let client = client::of(peer, chain, from);
        let client = client.or_else(|| (peer == b"-").then_some(peer)).ok_or(Reason::Client)?;
        let status = self.status.filter(|&status| status < 1000).ok_or(Reason::Status)?;
        // Parts of the line, so where they are in it is how far they are from its start.
        let span = |part: Option<&str>| {
            part.map_or_else(Span::default, |part| {
                let from = part.as_ptr().addr() - line.as_ptr().addr();
                Span::new(from, from + part.len())
            })
        };
        let is_given = |part: &&str| !part.trim().is_empty() && *part != "-";
        let method = self.method.filter(is_given).filter(|method| is_method(method.as_bytes()));
        let target = self.target.filter(is_given);
        let protocol = self.protocol.filter(|protocol| is_protocol(protocol.as_bytes()));
        let http = method.and(target).map(|_| [span(method), span(target), span(protocol)]);
        let escaped = |part: Option<&str>, bit| {
            if part.is_some_and(|part| part.contains('\\')) { bit } else { 0 }
        };
        Ok(Spans {
            at,
            utc_offset,
            client: Span::within(line, client),
            user: span(self.user),
            request: span(self.method),
            http,
            query: Span::default(),
            status: status as u16,
            bytes: self.bytes,
            referer: span(self.referer),
            agent: span(self.agent),
            escaped: escaped(self.target, spans::TARGET)
                | escaped(self.referer, spans::REFERER)
                | escaped(self.agent, spans::AGENT),
            escapes: Escapes::Json,
            agent_escapes: Escapes::Json,
            has_chain: !chain.is_empty() || client::is_chain(peer),
        })
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
