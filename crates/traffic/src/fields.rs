//! Fields of a line, found by whatever format, put together as a request.

use nightwatt_energy::time::Wall;

use crate::clf;
use crate::clf_time;
use crate::client::{self, ClientFrom};
use crate::record::{Escapes, Reason};
use crate::spans::{self, Span, Spans};

/// What a field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The other end of the connection.
    Client,
    /// A chain of addresses that proxies wrote, or one of them.
    Forwarded,
    User,
    /// `GET / HTTP/1.1`.
    Request,
    Method,
    /// Path and query in one.
    Target,
    Path,
    Query,
    Protocol,
    Status,
    Bytes,
    Referer,
    Agent,
    /// What `HAProxy` captured of the request's header, `{a|b}`.
    Captures,
    Other,
}

/// Kinds except `Other`.
const KINDS: usize = Kind::Other as usize;

impl Kind {
    /// Why a text cannot be this, by itself.
    pub(crate) fn objection(self, text: &[u8]) -> Option<Reason> {
        match self {
            _ if is_missing(text) => None,
            Self::Client | Self::Forwarded => {
                client::pick(text, ClientFrom::First).is_none().then_some(Reason::Client)
            }
            Self::Status => status_of(text).is_none().then_some(Reason::Status),
            Self::Bytes => bytes_of(text).is_none().then_some(Reason::Size),
            _ => None,
        }
    }

    /// For errors.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client | Self::Forwarded => "the client's address",
            Self::User => "a user",
            Self::Request => "a request",
            Self::Method => "a method",
            Self::Target | Self::Path => "a path",
            Self::Query => "a query",
            Self::Protocol => "a protocol",
            Self::Status => "a status",
            Self::Bytes => "a size",
            Self::Referer => "a referer",
            Self::Agent => "an agent",
            Self::Captures | Self::Other => "a field",
        }
    }
}

/// Fields of a line as places in it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    spans: [Option<Span>; KINDS],
    pub(crate) time: Option<(Wall, i32)>,
}

/// How the format of a line has its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) escapes: Escapes,
    pub(crate) client_from: ClientFrom,
    /// Targets are whole URLs, of which the path counts.
    pub(crate) has_urls: bool,
}

impl Found {
    pub(crate) fn set(&mut self, kind: Kind, span: Span) {
        if let Some(place) = self.spans.get_mut(kind as usize) {
            *place = Some(span);
        }
    }

    /// Takes in a field of a line. The first one of a kind counts, as the body's size is usually written before
    /// the whole answer's; but a forwarded address that is not public gives way to another.
    pub(crate) fn take(&mut self, kind: Kind, span: Span, line: &[u8]) {
        let gives_way = |before: Span| {
            let picked = client::pick(before.of(line), ClientFrom::Public);
            let is_public = picked.and_then(client::address).is_some_and(client::is_public);
            kind == Kind::Forwarded && !is_public && !is_missing(span.of(line))
        };
        if self.get(kind).is_none_or(gives_way) {
            self.set(kind, span);
        }
    }

    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.get(kind).is_some()
    }

    fn get(&self, kind: Kind) -> Option<Span> {
        self.spans.get(kind as usize).copied().flatten()
    }

    /// One that is neither empty nor `-`.
    fn given(&self, kind: Kind, line: &[u8]) -> Option<Span> {
        self.get(kind).filter(|span| !is_missing(span.of(line)))
    }

    /// The request that this line's fields describe; if they don't describe one, the reason and the byte.
    pub(crate) fn place(&self, line: &[u8], manner: Manner) -> Result<Spans, (Reason, usize)> {
        let start = |kind| self.get(kind).map_or(0, |span| span.from as usize);
        let (at, utc_offset) = self.time.ok_or((Reason::NoTime, 0))?;
        let client = self
            .client(line, manner.client_from)
            .ok_or((Reason::Client, start(Kind::Client).max(start(Kind::Forwarded))))?;
        let status = self.given(Kind::Status, line).and_then(|span| status_of(span.of(line)));
        let status = status.ok_or((Reason::Status, start(Kind::Status)))?;
        let bytes = self.given(Kind::Bytes, line).map_or(Some(0), |span| bytes_of(span.of(line)));
        let bytes = bytes.ok_or((Reason::Size, start(Kind::Bytes)))?;
        let (http, query) = self.http(line, status, manner.has_urls);
        let (referer, agent) = self.referer_and_agent(line);
        let target = http.map_or_else(Span::default, |[_, target, _]| target);
        let escaped = |span: Span, bit| if span.of(line).contains(&b'\\') { bit } else { 0 };
        let mark = |holds: bool, bit| if holds { bit } else { 0 };
        let method = http.map_or_else(Span::default, |[method, ..]| method);
        let in_order = client.to <= method.from
            && method.to <= target.from
            && (referer == Span::default() || target.to <= referer.from);
        Ok(Spans {
            at,
            utc_offset,
            client,
            user: self.given(Kind::User, line).unwrap_or_default(),
            request: self.get(Kind::Request).or(self.get(Kind::Method)).unwrap_or_default(),
            http,
            query,
            status,
            bytes,
            referer,
            agent,
            escaped: escaped(target, spans::TARGET)
                | escaped(referer, spans::REFERER)
                | escaped(agent, spans::AGENT)
                | mark(query != Span::default(), spans::TARGET)
                | mark(!in_order, spans::APART),
            escapes: manner.escapes,
            agent_escapes: manner.escapes,
            has_chain: self.has_chain(line),
        })
    }

    /// The client, or the `-` that stands for it.
    fn client(&self, line: &[u8], from: ClientFrom) -> Option<Span> {
        let text = |kind| self.get(kind).map_or(&b""[..], |span: Span| span.of(line));
        let (peer, chain) = (text(Kind::Client), text(Kind::Forwarded));
        let dash = || [peer, chain].into_iter().find(|text| text.trim_ascii() == b"-");
        client::of(peer, chain, from).or_else(dash).map(|part| Span::within(line, part))
    }

    fn has_chain(&self, line: &[u8]) -> bool {
        let peer = self.get(Kind::Client);
        self.given(Kind::Forwarded, line).is_some()
            || peer.is_some_and(|peer| client::is_chain(peer.of(line)))
    }

    fn http(&self, line: &[u8], status: u16, has_urls: bool) -> (Option<[Span; 3]>, Span) {
        let path_of = |target: Span| if has_urls { behind_host(line, target) } else { target };
        if let Some(request) = self.given(Kind::Request, line) {
            let range = request.from as usize..request.to as usize;
            let http = clf::http_request(line, range, status);
            let http = http.map(|[method, target, protocol]| [method, path_of(target), protocol]);
            return (http, Span::default());
        }
        let method = self.given(Kind::Method, line).filter(|it| clf::is_method(it.of(line)));
        let method = method.or_else(|| (!self.has(Kind::Method)).then(Span::default));
        let target = self.given(Kind::Target, line).or_else(|| self.given(Kind::Path, line));
        let protocol = self.given(Kind::Protocol, line);
        let protocol = protocol.filter(|it| clf::is_protocol(it.of(line))).unwrap_or_default();
        let Some((method, target)) = method.zip(target.map(path_of)) else {
            return (None, Span::default());
        };
        let query = self.given(Kind::Query, line).filter(|_| !target.of(line).contains(&b'?'));
        let query = query.map_or_else(Span::default, |query| {
            let skip = usize::from(query.of(line).starts_with(b"?"));
            Span::new(query.from as usize + skip, query.to as usize)
        });
        (Some([method, target, protocol]), query)
    }

    fn referer_and_agent(&self, line: &[u8]) -> (Span, Span) {
        let (mut referer, mut agent) =
            (self.given(Kind::Referer, line), self.given(Kind::Agent, line));
        if let Some(captures) = self.get(Kind::Captures) {
            let parts = captures.of(line).split(|byte| matches!(byte, b'{' | b'|' | b'}'));
            for part in parts {
                if clf::looks_like_agent(part) {
                    agent = agent.or(Some(Span::within(line, part)));
                } else if clf::looks_like_link(part) {
                    referer = referer.or(Some(Span::within(line, part)));
                }
            }
        }
        (referer.unwrap_or_default(), agent.unwrap_or_default())
    }
}

fn is_missing(text: &[u8]) -> bool {
    matches!(text.trim_ascii(), b"" | b"-")
}

/// A number; 0 where the client went before there was an answer.
fn status_of(text: &[u8]) -> Option<u16> {
    if text == b"-1" {
        return Some(0);
    }
    clf_time::number(text).filter(|&status| status < 1000).map(|status| status as u16)
}

/// A number, with the `+` of `HAProxy` where it logs before the end of the answer.
fn bytes_of(text: &[u8]) -> Option<u64> {
    clf_time::number(text.strip_prefix(b"+").unwrap_or(text))
}

/// The path of a URL; the whole of anything else.
fn behind_host(line: &[u8], target: Span) -> Span {
    let text = target.of(line);
    let schemes: [&[u8]; 4] = [b"http://", b"https://", b"ws://", b"wss://"];
    let Some(scheme) = schemes.into_iter().find(|scheme| text.starts_with(scheme)) else {
        return target;
    };
    match memchr::memchr(b'/', &text[scheme.len()..]) {
        Some(slash) => Span::new(target.from as usize + scheme.len() + slash, target.to as usize),
        None => target,
    }
}
