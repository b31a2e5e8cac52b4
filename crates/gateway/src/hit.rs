//! Stored answers as clients get them.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use nightwatt_httpcache::{
    CacheStatus, Precondition, RangeAnswer, RequestHead, Timestamp, Usability, range,
};

use crate::body::Answer;
use crate::compress::WholeAnswer;
use crate::facts::Facts;
use crate::store::Object;

/// A stored answer that may be usable.
pub(crate) struct Found {
    pub(crate) object: Arc<Object>,
    pub(crate) usability: Usability,
}

/// The request for the cache's rules.
pub(crate) fn head_of<'a>(facts: &'a Facts, parts: &'a Parts) -> RequestHead<'a> {
    RequestHead {
        method: &facts.method,
        authority: &facts.base,
        path_and_query: &facts.target,
        headers: &parts.headers,
    }
}

/// A stored answer as a client gets it: whole, in part, or as 304.
pub(crate) fn from_store(
    request: &RequestHead<'_>,
    object: &Object,
    now: Timestamp,
    status: &CacheStatus,
) -> Response<Answer> {
    let stored = &object.stored;
    let length = object.body.len() as u64;
    let head_only = *request.method == Method::HEAD;
    let whole_headers = || {
        let mut headers = stored.response_headers(now);
        if !headers.contains_key(CONTENT_LENGTH) && stored.status() != StatusCode::NO_CONTENT {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        headers
    };
    let (code, mut headers, body) = if stored.precondition(request) == Precondition::NotModified {
        (StatusCode::NOT_MODIFIED, stored.not_modified_headers(now), Bytes::new())
    } else {
        match stored.range(request, length) {
            RangeAnswer::Part(part) => {
                let mut headers = stored.response_headers(now);
                range::partial_headers(&mut headers, part, length);
                let body = slice(&object.body, part.first, part.last);
                (StatusCode::PARTIAL_CONTENT, headers, body)
            }
            RangeAnswer::NotSatisfiable => (
                StatusCode::RANGE_NOT_SATISFIABLE,
                range::unsatisfiable_headers(length),
                Bytes::new(),
            ),
            RangeAnswer::Whole => (stored.status(), whole_headers(), object.body.clone()),
        }
    };
    status.append_to(&mut headers);
    if !headers.contains_key(DATE) {
        headers.insert(DATE, nightwatt_httpcache::date::format(now));
    }
    let mut response = Response::new(if head_only { Answer::empty() } else { Answer::whole(body) });
    *response.status_mut() = code;
    *response.headers_mut() = headers;
    if code == StatusCode::NOT_MODIFIED {
        let whole = WholeAnswer { status: stored.status(), headers: whole_headers() };
        response.extensions_mut().insert(whole);
    }
    response
}

fn slice(body: &Bytes, first: u64, last: u64) -> Bytes {
    let at = |place: u64| usize::try_from(place).unwrap_or(body.len()).min(body.len());
    body.slice(at(first)..at(last.saturating_add(1)))
}
