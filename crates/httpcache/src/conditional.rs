//! A client's own conditions, checked against a stored response (RFC 9111, 4.3.2; RFC 9110, 13).

use crate::date;
use crate::directives::next_member;
use crate::request::RequestHead;
use crate::stored::Stored;
use crate::time::Timestamp;
use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, HeaderName, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

/// Fields of a stored response that a 304 repeats (RFC 9110, 15.4.5).
const IN_NOT_MODIFIED: [HeaderName; 6] =
    [CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, VARY];

/// What a client's conditions make of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precondition {
    /// There are no conditions, or they do not hold the response back: answer in full, or by range.
    Proceed,
    /// The client has it already: answer 304.
    NotModified,
    /// For the origin alone to judge (`If-Match`, `If-Unmodified-Since`).
    Forward,
}

impl Stored {
    /// Checks a client's conditions. Ask this once the response may be used, before the range.
    pub fn precondition(&self, request: &RequestHead<'_>) -> Precondition {
        let headers = request.headers;
        if headers.contains_key(IF_MATCH) || headers.contains_key(IF_UNMODIFIED_SINCE) {
            return Precondition::Forward;
        }
        // Conditions are about the content: without content, or on an error, they do not apply.
        let applies = self.status().is_success()
            && (*request.method == Method::GET || *request.method == Method::HEAD);
        if !applies {
            return Precondition::Proceed;
        }
        let has_it = if headers.contains_key(IF_NONE_MATCH) {
            is_in_if_none_match(headers, self.headers().get(ETAG).map(HeaderValue::as_bytes))
        } else {
            self.is_unmodified(headers)
        };
        if has_it { Precondition::NotModified } else { Precondition::Proceed }
    }

    /// `If-Modified-Since`: against `Last-Modified`, or `Date` if that is absent.
    fn is_unmodified(&self, headers: &HeaderMap) -> bool {
        let mut lines = headers.get_all(IF_MODIFIED_SINCE).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return false };
        let Some(since) = date::parse_value(line, self.times().received) else { return false };
        let changed = match self.headers().get(LAST_MODIFIED) {
            Some(value) => date::parse_value(value, self.times().received),
            None => Some(self.date()),
        };
        changed.is_some_and(|changed| changed.as_secs() <= since.as_secs())
    }

    /// The fields of a 304 made from this response.
    ///
    /// `Last-Modified` is among them only where there is no `ETag`: it then is all that a client
    /// can tell its copies apart by.
    pub fn not_modified_headers(&self, now: Timestamp) -> HeaderMap {
        let mut sent = HeaderMap::new();
        let last_modified = (!self.headers().contains_key(ETAG)).then_some(&LAST_MODIFIED);
        for name in IN_NOT_MODIFIED.iter().chain(last_modified) {
            for value in self.headers().get_all(name) {
                sent.append(name, value.clone());
            }
        }
        sent.insert(http::header::AGE, self.age_value(now));
        sent
    }
}

/// Whether `If-None-Match` lists the tag of what is there: compared weakly (RFC 9110, 13.1.2).
pub fn is_in_if_none_match(headers: &HeaderMap, own: Option<&[u8]>) -> bool {
    let own = own.map(opaque);
    is_listed(headers, &IF_NONE_MATCH, |tag| Some(opaque(tag)) == own)
}

/// Whether `If-Match` lists the tag of what is there: compared strongly, so that a weak tag is no
/// match (RFC 9110, 13.1.1).
pub fn is_in_if_match(headers: &HeaderMap, own: Option<&[u8]>) -> bool {
    let own = own.map(<[u8]>::trim_ascii).filter(|tag| !is_weak(tag));
    is_listed(headers, &IF_MATCH, |tag| !is_weak(tag) && Some(tag) == own)
}

/// Whether a list of tags is `*`, or has one of these.
fn is_listed(headers: &HeaderMap, field: &HeaderName, is_own: impl Fn(&[u8]) -> bool) -> bool {
    headers.get_all(field).iter().any(|line| {
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            let (member, tail, whole) = next_member(rest);
            // After a quote that never ends there is no telling what is a tag.
            rest = if whole { tail } else { &[] };
            let member = member.trim_ascii();
            if member == b"*" || !member.is_empty() && is_own(member) {
                return true;
            }
        }
        false
    })
}

/// An entity tag without its weakness.
pub(crate) fn opaque(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether an entity tag is weak.
pub(crate) fn is_weak(tag: &[u8]) -> bool {
    tag.trim_ascii().starts_with(b"W/")
}
