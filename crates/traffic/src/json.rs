//! The JSON access logs of Caddy and Traefik: one object a line.

use nightwatt_model::time::Wall;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::civil;
use crate::clf::{is_method, is_protocol};
use crate::record::{Escapes, Reason};
use crate::spans::{self, Span, Spans};

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
    status: Option<u16>,
    size: Option<u64>,
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
    agent: Vec<&'a RawValue>,
    #[serde(borrow, rename = "Referer", default)]
    referer: Vec<&'a RawValue>,
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
    status: Option<u16>,
    #[serde(rename = "OriginStatus")]
    origin_status: Option<u16>,
    #[serde(rename = "DownstreamContentSize")]
    size: Option<u64>,
    #[serde(rename = "OriginContentSize")]
    origin_size: Option<u64>,
    #[serde(borrow, rename = "request_User-Agent")]
    agent: Option<&'a RawValue>,
    #[serde(borrow, rename = "request_Referer")]
    referer: Option<&'a RawValue>,
}

/// Fields of either, as they stand in the line.
struct Parts<'a> {
    time: Option<(Wall, i32)>,
    client: Option<&'a str>,
    user: Option<&'a str>,
    method: Option<&'a str>,
    target: Option<&'a str>,
    protocol: Option<&'a str>,
    status: Option<u16>,
    bytes: u64,
    referer: Option<&'a str>,
    agent: Option<&'a str>,
}

/// Parses a line of Caddy's.
pub(crate) fn caddy(line: &[u8]) -> Result<Spans, Reason> {
    let entry: Caddy<'_> = object(line)?;
    let request = entry.request.ok_or(Reason::NoRequest)?;
    let address = || text(request.remote_addr).map(without_port);
    let first = |values: Vec<_>| values.into_iter().next();
    Parts {
        time: entry.ts.map(|time| caddy_time(time).ok_or(Reason::BadTime)).transpose()?,
        client: text(request.client_ip).or_else(|| text(request.remote_ip)).or_else(address),
        user: text(entry.user_id),
        method: text(request.method),
        target: text(request.uri),
        protocol: text(request.proto),
        status: entry.status,
        bytes: entry.size.unwrap_or_default(),
        referer: text(first(request.headers.referer)),
        agent: text(first(request.headers.agent)),
    }
    .place(line)
}

/// Parses a line of Traefik's.
pub(crate) fn traefik(line: &[u8]) -> Result<Spans, Reason> {
    let entry: Traefik<'_> = object(line)?;
    if entry.method.is_none() && entry.path.is_none() {
        return Err(Reason::NoRequest);
    }
    let times = [entry.start_local, entry.start_utc, entry.time];
    let time = times.into_iter().find_map(text);
    Parts {
        time: time
            .map(|time| civil::parse_iso(time.as_bytes()).ok_or(Reason::BadTime))
            .transpose()?,
        client: text(entry.client_host).or_else(|| text(entry.client_addr).map(without_port)),
        user: text(entry.user),
        method: text(entry.method),
        target: text(entry.path),
        protocol: text(entry.protocol),
        status: entry.status.or(entry.origin_status),
        bytes: entry.size.or(entry.origin_size).unwrap_or_default(),
        referer: text(entry.referer),
        agent: text(entry.agent),
    }
    .place(line)
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

/// `10.0.0.7` of `10.0.0.7:50123`, `::1` of `[::1]:50123`.
fn without_port(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Seconds since 1970 with a fraction, or whatever else Caddy's `time_format` may be but for a
/// layout of the operator's own. The formats `wall...` do not say their zone: they read as UTC.
fn caddy_time(value: &RawValue) -> Option<(Wall, i32)> {
    match text(Some(value)) {
        None => epoch(value.get()).map(|at| (at, 0)),
        Some(text) if text.as_bytes().get(2) == Some(&b'/') => {
            civil::parse(&[text.as_bytes(), b"]"].concat())
        }
        Some(text) => civil::parse_iso(text.as_bytes()),
    }
}

/// Seconds, milliseconds or nanoseconds, whichever of them makes a year up to 5138.
fn epoch(number: &str) -> Option<Wall> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let count = i64::try_from(civil::number(whole.as_bytes())?).ok()?;
    let at = match count {
        0..100_000_000_000 => count * 1000 + i64::from(civil::millis(fraction.as_bytes())?),
        100_000_000_000..100_000_000_000_000 => count,
        _ => count / 1_000_000,
    };
    Some(Wall(at))
}

impl Parts<'_> {
    fn place(&self, line: &[u8]) -> Result<Spans, Reason> {
        let (at, utc_offset) = self.time.ok_or(Reason::NoTime)?;
        let is_name =
            |client: &&str| !client.is_empty() && client.is_ascii() && !client.contains('\\');
        let client = self.client.filter(is_name).ok_or(Reason::Client)?;
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
            client: span(Some(client)),
            user: span(self.user),
            request: span(self.method),
            http,
            query: Span::default(),
            status,
            bytes: self.bytes,
            referer: span(self.referer),
            agent: span(self.agent),
            escaped: escaped(self.target, spans::TARGET)
                | escaped(self.referer, spans::REFERER)
                | escaped(self.agent, spans::AGENT),
            escapes: Escapes::Json,
            agent_escapes: Escapes::Json,
        })
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
