//! Compresses files, and answers of the server on their way to clients, where that gives no secret away.
//!
//! The length of a compressed page tells whether two of its parts are alike. If one is a secret of the client, and a
//! stranger chooses the other (by a link, or a script of another site), the stranger finds the secret by guesses (BREACH,
//! 2013). So an answer is compressed only if it holds no secret of a client, or nothing that a stranger chooses:
//! see `Compressor::why_not`.

pub mod accepted;
mod encoder;
mod stream;
mod tally;

use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, SET_COOKIE, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body::Body;
use nightwatt_httpcache::Sender;
use tokio::sync::Semaphore;

use self::encoder::Encoder;
use self::stream::Compressing;
pub(crate) use self::tally::Tally;
use crate::body::Answer;
use crate::config::{CompressionConfig, SiteConfig};

/// Answers that are compressed at the same time, each of which needs about a megabyte: others pass as they are.
const AT_ONCE: usize = 64;

/// Types that shrink. Pictures, sound, archives and most fonts are compressed already.
const SHRINK: [&str; 30] = [
    "application/atom+xml",
    "application/dash+xml",
    "application/geo+json",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/problem+json",
    "application/rss+xml",
    "application/vnd.apple.mpegurl",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/xhtml+xml",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/svg+xml",
    "text/calendar",
    "text/css",
    "text/csv",
    "text/html",
    "text/javascript",
    "text/markdown",
    "text/plain",
    "text/vcard",
    "text/vtt",
    "text/xml",
];

/// Of these, the parts of which pages are made: they hold no secrets.
const PARTS_OF_PAGES: [&str; 9] = [
    "application/javascript",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "font/otf",
    "font/ttf",
    "image/svg+xml",
    "text/css",
    "text/javascript",
];

/// Fields with a checksum or signature of the body: with another body they would be wrong.
const CHECKSUMS: [&str; 6] =
    ["content-digest", "content-md5", "digest", "repr-digest", "signature", "sourcemap-digest"];

/// Why an answer passes as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhyNot {
    /// Its status or method has no body to compress, or only a part of one.
    Status,
    /// It is compressed already, or forbids changes.
    Fixed,
    /// It is of a type that does not shrink, or that is read as it comes.
    Kind,
    /// It is short.
    Short,
    /// It may hold a secret of the client beside what a stranger chose.
    Secret,
}

/// Status and fields of the stored answer, beside a 304 that has few of them.
#[derive(Debug, Clone)]
pub(crate) struct WholeAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

/// Compresses answers of a site.
pub(crate) struct Compressor {
    config: CompressionConfig,
    /// What is stored or public may still be a secret to strangers: the site has rules of access.
    is_closed: bool,
    room: Arc<Semaphore>,
    pub(crate) tally: Arc<Tally>,
}

impl Compressor {
    /// For a site that compresses; counters continue.
    pub(crate) fn of(site: &SiteConfig, before: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let config = site.compression.clone();
        let is_closed = site.access.is_some();
        if let Some(before) = before
            && (before.config == config && before.is_closed == is_closed)
        {
            return Some(Arc::clone(before));
        }
        config.enabled.then(|| {
            let room = before.map_or_else(
                || Arc::new(Semaphore::new(AT_ONCE)),
                |before| Arc::clone(&before.room),
            );
            let tally = before.map(|before| Arc::clone(&before.tally)).unwrap_or_default();
            Arc::new(Self { config, is_closed, room, tally })
        })
    }

    /// Notes in an answer, which may be a stored one, that clients get it in different codings (RFC 9110, 12.5.5): all
    /// answers to `GET` and `HEAD` have the `Vary` that the whole answer has (9.3.2, 15.3.7, 15.4.5).
    pub(crate) fn mark(&self, parts: &Parts, target: &str, response: &mut Response<Answer>) {
        let is_known = response.status() == StatusCode::NOT_MODIFIED;
        if is_known && asks_weakly(&parts.headers, response.headers()) {
            weaken(response.headers_mut());
        }
        let whole = response.extensions_mut().remove::<WholeAnswer>();
        let (status, headers) = (response.status(), response.headers());
        let varies = matches!(parts.method, Method::GET | Method::HEAD)
            && match whole {
                Some(whole) => self.varies(target, whole.status, &whole.headers),
                None => self.varies(target, status, headers),
            };
        if varies {
            add_vary(response.headers_mut());
        }
    }

    /// Whether other clients get the answer to a `GET` in another coding, by the status and fields of an answer to `GET`
    /// or `HEAD`. Clients without a name get more than others compressed.
    pub(crate) fn varies(&self, target: &str, status: StatusCode, headers: &HeaderMap) -> bool {
        let request =
            CompressionRequest { method: &Method::GET, target, sender: Sender::ANONYMOUS };
        let value = |name| headers.get(name).and_then(|it: &HeaderValue| it.to_str().ok());
        let length = match status {
            StatusCode::PARTIAL_CONTENT => {
                value(CONTENT_RANGE).and_then(|range| range.rsplit_once('/')).map(|it| it.1)
            }
            // A server's 304 names no type: then the answer may be one that shrinks.
            StatusCode::NOT_MODIFIED if !headers.contains_key(CONTENT_TYPE) => {
                return !is_fixed(headers);
            }
            StatusCode::NOT_MODIFIED => None,
            _ if !has_body(status) || headers.contains_key(CONTENT_RANGE) => return false,
            _ => value(CONTENT_LENGTH),
        };
        let length = length.and_then(|it| it.parse().ok());
        self.why_not_whole(&request, headers, length).is_none()
    }

    /// The answer of the server, or a file, as its client gets it; it is marked already.
    pub(crate) fn pass(
        &self,
        parts: &Parts,
        target: &str,
        sender: Sender,
        mut response: Response<Answer>,
    ) -> Response<Answer> {
        let request = CompressionRequest { method: &parts.method, target, sender };
        let length = response.body().size_hint().exact();
        if self.why_not(&request, response.status(), response.headers(), length).is_some() {
            return response;
        }
        // Also if this client gets it as it is: another would not.
        add_vary(response.headers_mut());
        let accepted = parts.headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes);
        let Some(coding) = accepted::best(accepted) else { return response };
        let place = Arc::clone(&self.room).try_acquire_owned();
        let (Ok(place), Ok(encoder)) = (place, Encoder::new(coding)) else {
            self.tally.no_room();
            return response;
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
        headers.remove(CONTENT_LENGTH);
        // Parts of it would be parts of another body.
        headers.remove(ACCEPT_RANGES);
        weaken(headers);
        self.tally.begun(coding);
        let tally = Arc::clone(&self.tally);
        response.map(|body| Answer::other(Compressing::new(body, coding, encoder, tally, place)))
    }

    /// Why an answer is not compressed; nothing if it may be.
    pub(crate) fn why_not(
        &self,
        request: &CompressionRequest<'_>,
        status: StatusCode,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Option<WhyNot> {
        let is_part = !has_body(status) || status == StatusCode::PARTIAL_CONTENT;
        if *request.method == Method::HEAD || is_part || headers.contains_key(CONTENT_RANGE) {
            return Some(WhyNot::Status);
        }
        self.why_not_whole(request, headers, length)
    }

    /// Why an answer that is whole is not compressed; nothing if it may be.
    fn why_not_whole(
        &self,
        request: &CompressionRequest<'_>,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Option<WhyNot> {
        if is_fixed(headers) {
            return Some(WhyNot::Fixed);
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !self.shrinks(&kind) {
            return Some(WhyNot::Kind);
        }
        if length.is_some_and(|length| length < self.config.min_bytes) {
            return Some(WhyNot::Short);
        }
        (!self.config.personal && self.may_be_secret(request, &kind, headers))
            .then_some(WhyNot::Secret)
    }

    fn shrinks(&self, kind: &str) -> bool {
        // Readers of a stream wait for each event.
        if kind.is_empty() || kind == "text/event-stream" {
            return false;
        }
        match &self.config.types {
            None => SHRINK.contains(&kind),
            Some(types) => types.iter().any(|known| match known.strip_suffix('*') {
                Some(start) => {
                    let kind = kind.as_bytes();
                    kind.get(..start.len())
                        .is_some_and(|it| it.eq_ignore_ascii_case(start.as_bytes()))
                }
                None => known.eq_ignore_ascii_case(kind),
            }),
        }
    }

    /// Whether an answer may hold a secret of its client beside something that a stranger chose.
    fn may_be_secret(
        &self,
        request: &CompressionRequest<'_>,
        kind: &str,
        headers: &HeaderMap,
    ) -> bool {
        if headers.contains_key(SET_COOKIE) {
            // Pages of a new session hold its tokens.
            return true;
        }
        let is_query_free = !request.target.contains('?') || has_directive(headers, "immutable");
        let is_private = ["private", "no-store"].iter().any(|it| has_directive(headers, it));
        let is_part = PARTS_OF_PAGES.contains(&kind) && is_query_free && request.has_no_content();
        if is_part && !is_private {
            return false;
        }
        let is_public = has_directive(headers, "public") && !is_private;
        self.is_closed || !request.sender.is_anonymous() && !is_public
    }
}

/// The request whose answer may be compressed.
pub(crate) struct CompressionRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    pub(crate) sender: Sender,
}

impl CompressionRequest<'_> {
    /// A form could choose a part of the answer.
    fn has_no_content(&self) -> bool {
        *self.method == Method::GET && !self.sender.has(Sender::CONTENT)
    }
}

/// Whether answers with a status have a body.
fn has_body(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 100..=199 | 204 | 205 | 304)
}

/// Whether an answer is compressed already, or must not be changed.
fn is_fixed(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_ENCODING)
        || has_directive(headers, "no-transform")
        || CHECKSUMS.iter().any(|name| headers.contains_key(*name))
}

/// Adds `Accept-Encoding` to the fields that the answer depends on, unless it is there.
pub(crate) fn add_vary(headers: &mut HeaderMap) {
    let values = headers.get_all(VARY).iter();
    let mut names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let is_there = names.any(|name| {
        let name = name.trim_ascii();
        name == b"*" || name.eq_ignore_ascii_case(ACCEPT_ENCODING.as_str().as_bytes())
    });
    if !is_there {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// Whether `Cache-Control` has a directive. One with a value (`private="x"`) counts too.
fn has_directive(headers: &HeaderMap, name: &str) -> bool {
    let values = headers.get_all(CACHE_CONTROL).iter();
    let directives = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    directives.map(<[u8]>::trim_ascii).any(|directive| {
        let own = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
        own.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
    })
}

/// Two bodies must not have the same strong tag (RFC 9110, 8.8.3.3).
fn weaken(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(ETAG).filter(|it| it.as_bytes().starts_with(b"\"")) else { return };
    let weak = [b"W/", tag.as_bytes()].concat();
    if let Ok(weak) = HeaderValue::from_bytes(&weak) {
        headers.insert(ETAG, weak);
    }
}

/// Whether a client asks by the weak form of the strong tag of this 304: it has the compressed body.
fn asks_weakly(request: &HeaderMap, answer: &HeaderMap) -> bool {
    let Some(tag) = answer.get(ETAG).filter(|it| it.as_bytes().starts_with(b"\"")) else {
        return false;
    };
    let weak = [b"W/", tag.as_bytes()].concat();
    let named = request.get_all(IF_NONE_MATCH).iter();
    named.flat_map(|it| it.as_bytes().split(|byte| *byte == b',')).any(|it| it.trim_ascii() == weak)
}

#[cfg(test)]
mod tests;
