//! Compresses answers of the server on their way to clients, where that gives no secret away.
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
const SHRINK: [&str; 23] = [
    "application/atom+xml",
    "application/geo+json",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/problem+json",
    "application/rss+xml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/xhtml+xml",
    "application/xml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/svg+xml",
    "text/css",
    "text/csv",
    "text/html",
    "text/javascript",
    "text/plain",
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

    /// The answer as its client gets it.
    pub(crate) fn pass(
        &self,
        parts: &Parts,
        target: &str,
        sender: Sender,
        mut response: Response<Answer>,
    ) -> Response<Answer> {
        let is_known = response.status() == StatusCode::NOT_MODIFIED;
        if is_known && asks_weakly(&parts.headers, response.headers()) {
            weaken(response.headers_mut());
        }
        let asked = Asked { method: &parts.method, target, sender };
        let length = response.body().size_hint().exact();
        if self.why_not(&asked, response.status(), response.headers(), length).is_some() {
            return response;
        }
        // Also if this client gets it as it is: another would not.
        response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
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
        response.map(|body| Answer::other(Compressing::new(body, encoder, tally, place)))
    }

    /// Why an answer is not compressed; nothing if it may be.
    pub(crate) fn why_not(
        &self,
        asked: &Asked<'_>,
        status: StatusCode,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Option<WhyNot> {
        let has_body = !matches!(status.as_u16(), 100..=199 | 204 | 205 | 206 | 304);
        if *asked.method == Method::HEAD || !has_body || headers.contains_key(CONTENT_RANGE) {
            return Some(WhyNot::Status);
        }
        let is_fixed = headers.contains_key(CONTENT_ENCODING)
            || has_directive(headers, "no-transform")
            || CHECKSUMS.iter().any(|name| headers.contains_key(*name));
        if is_fixed {
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
        (!self.config.personal && self.may_be_secret(asked, &kind, headers))
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
    fn may_be_secret(&self, asked: &Asked<'_>, kind: &str, headers: &HeaderMap) -> bool {
        if headers.contains_key(SET_COOKIE) {
            // Pages of a new session hold its tokens.
            return true;
        }
        let is_query_free = !asked.target.contains('?') || has_directive(headers, "immutable");
        let is_private = ["private", "no-store"].iter().any(|it| has_directive(headers, it));
        let is_part = PARTS_OF_PAGES.contains(&kind) && is_query_free && asked.has_no_content();
        if is_part && !is_private {
            return false;
        }
        let is_public = has_directive(headers, "public") && !is_private;
        self.is_closed || !asked.sender.is_anonymous() && !is_public
    }
}

/// What was asked for.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    pub(crate) sender: Sender,
}

impl Asked<'_> {
    /// A form could choose a part of the answer.
    fn has_no_content(&self) -> bool {
        *self.method == Method::GET && !self.sender.has(Sender::CONTENT)
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
