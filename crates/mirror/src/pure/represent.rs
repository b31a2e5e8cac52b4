//! Mirrored answers as clients get them: in which coding, whole or in part, or as 304.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    DATE, ETAG, EXPIRES, PRAGMA, RANGE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use nightwatt_httpcache::{
    CacheStatus, Mismatch, Occasion, Precondition, RangeAnswer, RequestDirectives, RequestHead,
    Rules, Sender, Stored, Timestamp, Usability, range,
};

use super::admit::has_no_transform;
use super::entry::Entry;
use super::negotiate::Accepted;
use super::refresh::RefreshRules;
use crate::coding::{Coding, Effort, pack, unpack};

/// How many seconds browsers may keep an answer whose server says nothing: else they would guess, for days.
const KEPT_BY_BROWSERS: u64 = 60;

/// A body as it lies in the store.
#[derive(Clone, Debug)]
pub struct StoredBody {
    /// How it is packed. A `Content-Encoding` of the answer itself is within.
    pub coding: Coding,
    /// The packed bytes.
    pub bytes: Bytes,
    /// The length of the unpacked bytes.
    pub length: u64,
}

impl StoredBody {
    /// No bytes.
    pub const EMPTY: Self = Self { coding: Coding::Identity, bytes: Bytes::new(), length: 0 };
}

/// What a client gets.
#[derive(Clone, Debug)]
pub struct Represented {
    /// The status.
    pub status: StatusCode,
    /// The fields, `Cache-Status` and `Content-Length` among them.
    pub headers: HeaderMap,
    /// The body; empty for `HEAD` and for 304.
    pub body: Bytes,
}

/// Why a mirrored answer is not given to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotGiven {
    /// The method is neither `GET` nor `HEAD`.
    Method,
    /// The request identifies its sender, or has content.
    Sender,
    /// Its fields select another variant.
    Variant,
    /// It is older than it may be, or not fresh while the server is awake.
    TooOld,
    /// It has a condition that only the server can judge.
    Condition,
    /// It accepts no coding that the answer can be given in.
    Coding,
    /// What is stored is damaged.
    Damaged,
}

impl NotGiven {
    /// One word, for logs and metrics.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Sender => "sender",
            Self::Variant => "variant",
            Self::TooOld => "too-old",
            Self::Condition => "condition",
            Self::Coding => "coding",
            Self::Damaged => "damaged",
        }
    }
}

/// Whether the server is asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// The mirror answers what is fresh by RFC 9111 and nothing else.
    Awake,
    /// The mirror answers what is not older than `max_age`.
    Asleep,
}

/// A request for which a mirrored answer was found.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The request; its fields are those that the server would get.
    pub request: RequestHead<'a>,
    /// Whether the server is asleep.
    pub server: Server,
    /// When.
    pub now: Timestamp,
    /// The site's rules, as for admission.
    pub rules: &'a Rules,
    /// How old answers may be.
    pub refresh: &'a RefreshRules,
}

impl Question<'_> {
    /// Whether an entry may answer: then this is it, as the rules see it. No body is needed for that.
    pub fn may_have(&self, entry: &Entry) -> Result<Stored, NotGiven> {
        let request = &self.request;
        if *request.method != Method::GET && *request.method != Method::HEAD {
            return Err(NotGiven::Method);
        }
        let stored = entry.stored(self.rules).map_err(|_| NotGiven::TooOld)?;
        let sender = Sender::of(request, self.rules);
        let rules = Rules { grace_while_asleep: self.refresh.max_age, ..self.rules.clone() };
        let asked = RequestDirectives::parse(request.headers);
        let usability = stored.usability_for(sender, request, &asked, self.now, &rules);
        match usability {
            Usability::Unusable(Mismatch::Sender) => return Err(NotGiven::Sender),
            Usability::Unusable(_) => return Err(NotGiven::Variant),
            _ => {}
        }
        let is_given = match self.server {
            Server::Awake => matches!(usability, Usability::Fresh { .. }),
            Server::Asleep => {
                let is_fresh = stored.is_fresh(self.now);
                let is_too_old = self.refresh.is_too_old(entry.confirmed(), self.now);
                usability.allows(Occasion::OriginAsleep) && (is_fresh || !is_too_old)
            }
        };
        if !is_given {
            return Err(NotGiven::TooOld);
        }
        let condition = stored.precondition(request);
        if condition == Precondition::Forward { Err(NotGiven::Condition) } else { Ok(stored) }
    }

    /// The answer to the request. `stored` comes from [`Question::may_have`].
    pub fn answer(
        &self,
        entry: &Entry,
        stored: &Stored,
        body: &StoredBody,
    ) -> Result<Represented, NotGiven> {
        let form = Form::choose(self, entry, stored, body).ok_or(NotGiven::Coding)?;
        let status = CacheStatus::hit().ttl(stored.ttl(self.now)).detail("mirror");
        let mut represented = match self.range_of(stored, &form, body) {
            _ if stored.precondition(&self.request) == Precondition::NotModified => {
                not_modified(&form.headers)
            }
            RangeAnswer::Part(part) => {
                let whole = unpacked(body).ok_or(NotGiven::Damaged)?;
                let mut headers = form.headers;
                range::partial_headers(&mut headers, part, body.length);
                headers.remove("content-digest");
                headers.remove("content-md5");
                let slice = slice(&whole, part).ok_or(NotGiven::Damaged)?;
                Represented { status: StatusCode::PARTIAL_CONTENT, headers, body: slice }
            }
            RangeAnswer::NotSatisfiable => Represented {
                status: StatusCode::RANGE_NOT_SATISFIABLE,
                headers: range::unsatisfiable_headers(body.length),
                body: Bytes::new(),
            },
            RangeAnswer::Whole => whole(entry, form, body).ok_or(NotGiven::Damaged)?,
        };
        if *self.request.method == Method::HEAD {
            represented.body = Bytes::new();
        }
        status.append_to(&mut represented.headers);
        Ok(represented)
    }

    /// A range counts for the body as the server sent it, known by a strong tag.
    fn range_of(&self, stored: &Stored, form: &Form, body: &StoredBody) -> RangeAnswer {
        if form.is_ranged { stored.range(&self.request, body.length) } else { RangeAnswer::Whole }
    }
}

/// How an answer is given: its coding, and the fields that follow from it.
struct Form {
    coding: Coding,
    headers: HeaderMap,
    /// Ranges count.
    is_ranged: bool,
}

impl Form {
    fn choose(
        question: &Question<'_>,
        entry: &Entry,
        stored: &Stored,
        body: &StoredBody,
    ) -> Option<Self> {
        let sent = entry.headers();
        let request = question.request.headers;
        let accepted = Accepted::of(request);
        // A coding that could not be undone, or must not be.
        let own_coding = sent.contains_key(CONTENT_ENCODING);
        let is_fixed = own_coding || has_no_transform(&sent);
        let is_strong = is_strong(&sent) && !entry.was_coded;
        let is_ranged = is_strong && asks_for_range(&question.request);
        let coding = if is_fixed || is_ranged {
            let is_taken = match Coding::of_answer(&sent) {
                Some(coding) => accepted.accepts(coding),
                None => false,
            };
            if !is_taken {
                return None;
            }
            Coding::Identity
        } else {
            accepted.choose(body.coding)?
        };
        let mut headers = stored.response_headers(question.now);
        for name in [CACHE_CONTROL, EXPIRES, PRAGMA, VARY, CONTENT_ENCODING] {
            restore(&mut headers, &sent, &name);
        }
        // The origin's own, whatever its clock is worth.
        if sent.contains_key(DATE) {
            restore(&mut headers, &sent, &DATE);
        }
        let is_silent = ![CACHE_CONTROL, EXPIRES, PRAGMA].iter().any(|it| sent.contains_key(it));
        if is_silent {
            headers.insert(CACHE_CONTROL, silent(stored.age(question.now)));
        }
        if coding != Coding::Identity {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.token()));
        }
        if coding != Coding::Identity || entry.was_coded {
            weaken(&mut headers);
            remove_digests(&mut headers);
        }
        if !is_fixed && body.coding != Coding::Identity {
            add_vary(&mut headers);
        }
        if !(is_strong && coding == Coding::Identity) {
            headers.remove(ACCEPT_RANGES);
        }
        Some(Self { coding, headers, is_ranged })
    }
}

/// What browsers may do with an answer whose server says nothing. They subtract its age (RFC 9111, 4.2).
fn silent(age: Duration) -> HeaderValue {
    let seconds = age.as_secs().saturating_add(KEPT_BY_BROWSERS);
    HeaderValue::try_from(format!("max-age={seconds}"))
        .unwrap_or_else(|_| HeaderValue::from_static("no-cache"))
}

/// They are of the bytes that the server sent (RFC 9530).
fn remove_digests(headers: &mut HeaderMap) {
    for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
        headers.remove(name);
    }
}

fn asks_for_range(request: &RequestHead<'_>) -> bool {
    *request.method == Method::GET && request.headers.contains_key(RANGE)
}

fn restore(headers: &mut HeaderMap, sent: &HeaderMap, name: &http::HeaderName) {
    headers.remove(name);
    for value in sent.get_all(name) {
        headers.append(name, value.clone());
    }
}

fn is_strong(headers: &HeaderMap) -> bool {
    headers.get(ETAG).is_some_and(|tag| tag.as_bytes().trim_ascii().starts_with(b"\""))
}

/// Makes a strong tag weak: the content is the same, the bytes are not.
fn weaken(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(ETAG).filter(|_| is_strong(headers)) else { return };
    let weak = [b"W/", tag.as_bytes().trim_ascii()].concat();
    if let Ok(weak) = HeaderValue::from_bytes(&weak) {
        headers.insert(ETAG, weak);
    }
}

fn add_vary(headers: &mut HeaderMap) {
    let names =
        headers.get_all(VARY).iter().flat_map(|line| line.as_bytes().split(|it| *it == b','));
    let is_there = names
        .map(<[u8]>::trim_ascii)
        .any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"));
    if !is_there {
        headers.append(VARY, HeaderValue::from(ACCEPT_ENCODING));
    }
}

/// The fields that a 304 repeats (RFC 9110, 15.4.5), of the form that a 200 would have had.
fn not_modified(form: &HeaderMap) -> Represented {
    let mut headers = form.clone();
    for name in [
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_RANGE,
        http::header::CONTENT_TYPE,
        http::header::CONTENT_LANGUAGE,
        ACCEPT_RANGES,
    ] {
        headers.remove(name);
    }
    if headers.contains_key(ETAG) {
        headers.remove(http::header::LAST_MODIFIED);
    }
    Represented { status: StatusCode::NOT_MODIFIED, headers, body: Bytes::new() }
}

fn whole(entry: &Entry, form: Form, body: &StoredBody) -> Option<Represented> {
    let bytes = if form.coding == body.coding {
        body.bytes.clone()
    } else {
        let whole = unpacked(body)?;
        match form.coding {
            Coding::Identity => whole,
            coding => pack(coding, &whole, Effort::Answer)?.into(),
        }
    };
    let mut headers = form.headers;
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    Some(Represented { status: entry.status(), headers, body: bytes })
}

fn unpacked(body: &StoredBody) -> Option<Bytes> {
    if body.coding == Coding::Identity {
        return Some(body.bytes.clone());
    }
    let whole = unpack(body.coding, &body.bytes, body.length).ok()?;
    (whole.len() as u64 == body.length).then(|| whole.into())
}

fn slice(body: &Bytes, part: range::ByteRange) -> Option<Bytes> {
    let first = usize::try_from(part.first).ok()?;
    let last = usize::try_from(part.last).ok()?;
    let part = (first <= last && last < body.len()).then(|| body.slice(first..=last))?;
    // A small part does not keep the whole in memory until it is sent.
    let is_small = part.len() < body.len() / 2;
    Some(if is_small { Bytes::copy_from_slice(&part) } else { part })
}

/// 404 for a path that does not exist for all the mirror knows. It is not to be kept by anyone: the path may come
/// to exist.
pub fn absent() -> Represented {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
    CacheStatus::hit().detail("complete").append_to(&mut headers);
    Represented { status: StatusCode::NOT_FOUND, headers, body: Bytes::new() }
}

/// The same for crawlers: 404 would make them forget the path.
pub fn absent_for_crawlers(retry_after_secs: u64) -> Represented {
    let mut absent = absent();
    absent.status = StatusCode::SERVICE_UNAVAILABLE;
    absent.headers.insert(http::header::RETRY_AFTER, HeaderValue::from(retry_after_secs));
    absent
}

#[cfg(test)]
mod tests;
