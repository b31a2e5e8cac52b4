//! May this answer be mirrored?
//!
//! The rules of sharing in `httpcache` decide first; then what a copy for all visitors must not have: cookies,
//! nonces, tokens of forms, and content that differs from fetch to fetch. What may be for one visitor is fetched twice.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, EXPIRES, LOCATION, PRAGMA,
    SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use nightwatt_httpcache::{
    NotStorable, ResponseDirectives, Rules, Sender, Times, Timestamp, update,
};

use super::address::Address;
use super::entry::{BodyHash, BodyRef, Entry, EntryParts};
use super::reason::Reason;
use super::refused_addresses::{leads_to_log_in, may_name_session, names};
use crate::coding::{Coding, CodingError, unpack};
use crate::discover::html::has_nonce;
use crate::discover::{Document, Found, discover};

/// Bytes of the longest body that is kept, unless the operator says otherwise.
pub const PAGE_SIZE: u64 = 64 << 20;

/// What the operator decides about answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmitRules {
    /// The site's rules for its cache. That unmarked answers are assumed to be the same for everyone is what a
    /// mirror is: `kind = "pages"` says so.
    pub cache: Rules,
    /// Bodies that are longer are not kept, without content coding.
    pub page_size: u64,
    /// Paths whose answers are mirrored although their server says `private`, `no-cache` or
    /// `must-revalidate`. `*` stands for any text.
    pub overrides: Vec<String>,
}

impl AdmitRules {
    /// The rules that a site's own lead to.
    pub fn new(cache: &Rules, page_size: u64, overrides: Vec<String>) -> Self {
        let cache = Rules { assumes: true, store_set_cookie: false, ..cache.clone() };
        Self { cache, page_size, overrides }
    }

    /// Whether the operator names this address in `override`.
    pub fn may_override(&self, address: &Address) -> bool {
        names(&self.overrides, address)
    }
}

/// An answer to one of the mirror's own requests.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The fields that were sent, beside `Host` and `User-Agent`.
    pub asked: HeaderMap,
    /// The status.
    pub status: StatusCode,
    /// The fields as they came in.
    pub headers: HeaderMap,
    /// The body as it came in.
    pub body: Bytes,
    /// How the body ended.
    pub ended: Ended,
    /// When.
    pub times: Times,
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As its framing says.
    Whole,
    /// The connection broke before.
    Torn,
    /// The fetcher stopped, because it was longer than `page_size`.
    TooLong,
}

/// What is known from before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before<'a> {
    /// What is mirrored under the address.
    pub entry: Option<&'a Entry>,
    /// What the first of two fetches gave.
    pub first: Option<Digest>,
}

/// What two fetches must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(BodyHash);

impl Digest {
    fn of(status: StatusCode, location: &[u8], body: &BodyHash) -> Self {
        let text = [status.as_str().as_bytes(), b"\n", location, b"\n", body.as_bytes()].concat();
        Self(BodyHash::of(&text))
    }

    /// Of what is mirrored.
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        let hash = entry.body.map_or_else(|| BodyHash::of(b""), |body| body.hash);
        let location = entry.headers().get(LOCATION).map(|it| it.as_bytes().to_vec());
        Self::of(entry.status(), &location.unwrap_or_default(), &hash)
    }
}

/// What becomes of an answer.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Keep it.
    Keep(Box<Kept>),
    /// What is mirrored is confirmed: this entry takes its place, and the body stays.
    Confirmed(Box<Entry>),
    /// Fetch it a second time, on a fresh connection, and give this to [`Before::first`].
    Again(Digest),
    /// Do not keep it. If the reason [deletes](Reason::deletes), what is mirrored goes.
    Refused {
        /// Why.
        reason: Reason,
        /// Links that were found in it nevertheless.
        found: Option<Box<Found>>,
    },
}

/// An answer to keep.
#[derive(Clone, Debug)]
pub struct Kept {
    /// All but its body.
    pub entry: Entry,
    /// The body without content coding, to which [`Entry::body`] refers.
    pub body: Bytes,
    /// What it leads to.
    pub found: Found,
}

impl Verdict {
    fn refused(reason: Reason) -> Self {
        Self::Refused { reason, found: None }
    }
}

/// Decides about an answer.
pub fn admit(
    address: &Address,
    answer: &Answer,
    before: &Before<'_>,
    rules: &AdmitRules,
) -> Verdict {
    if answer.status == StatusCode::NOT_MODIFIED {
        return confirm(answer, before, rules);
    }
    if let Some(reason) = by_status(answer) {
        return Verdict::refused(reason);
    }
    match answer.ended {
        Ended::Whole => {}
        Ended::Torn => return Verdict::refused(Reason::Torn),
        Ended::TooLong => return Verdict::refused(Reason::TooLarge),
    }
    let content = match content_of(answer, rules) {
        Ok(content) => content,
        Err(reason) => return Verdict::refused(reason),
    };
    let found = discover(&answer.headers, address.path(), &content.body);
    if let Some(reason) = by_content(answer, &found) {
        return Verdict::Refused { reason, found: Some(Box::new(found)) };
    }
    let hash = BodyHash::of(&content.body);
    let length = content.body.len() as u64;
    let parts = EntryParts {
        address,
        asked: &answer.asked,
        status: answer.status,
        headers: &answer.headers,
        times: answer.times,
        body: (length > 0).then_some(BodyRef { hash, length }),
        was_coded: content.was_coded,
        overridden: is_overridden(address, &answer.headers, rules),
        is_page: Document::of(&answer.headers, address.path()) == Document::Html,
    };
    let entry = match entry_of(&parts, rules, answer.times.received) {
        Ok(entry) => entry,
        Err(reason) => return Verdict::Refused { reason, found: Some(Box::new(found)) },
    };
    let digest = Digest::of_entry(&entry);
    if is_to_be_proved(answer, &found, before) && !is_proved(digest, before) {
        return match before.first {
            None => Verdict::Again(digest),
            Some(_) => Verdict::Refused { reason: Reason::Differs, found: Some(Box::new(found)) },
        };
    }
    Verdict::Keep(Box::new(Kept { entry, body: content.body, found }))
}

/// Whether an answer may be for one visitor: it sets a cookie, has a random hidden field, or leads to addresses that may name
/// a session. So may one that was fetched for the second time, whatever it is now.
fn is_to_be_proved(answer: &Answer, found: &Found, before: &Before<'_>) -> bool {
    let target = answer.headers.get(LOCATION).and_then(|it| it.to_str().ok());
    let references = found.links.iter().map(|link| link.reference.as_str());
    before.first.is_some()
        || answer.headers.contains_key(SET_COOKIE)
        || found.has_random_field
        || references.chain(target).any(may_name_session)
}

/// Whether two fetches gave the same: two in this pass, or one and what is mirrored.
fn is_proved(digest: Digest, before: &Before<'_>) -> bool {
    match before.first {
        Some(first) => first == digest,
        None => before.entry.is_some_and(|it| Digest::of_entry(it) == digest),
    }
}

/// What an answer says about its address, by its status alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusKind {
    /// The page is in the body.
    Page,
    /// The page is elsewhere.
    Redirect,
    /// There is no page.
    Gone,
    /// Such an answer is not mirrored.
    Refused(Reason),
}

impl StatusKind {
    /// The kind of a status.
    pub const fn of(status: u16) -> Self {
        match status {
            200 | 203 => Self::Page,
            301 | 302 | 303 | 307 | 308 => Self::Redirect,
            404 | 410 => Self::Gone,
            401 | 403 | 407 => Self::Refused(Reason::Refused),
            // It has too much to do, or meets with trouble: that says nothing about the page.
            408 | 425 | 429 | 500..=599 => Self::Refused(Reason::ServerError),
            _ => Self::Refused(Reason::Status),
        }
    }
}

/// Why an answer with this status is not mirrored.
fn by_status(answer: &Answer) -> Option<Reason> {
    match StatusKind::of(answer.status.as_u16()) {
        StatusKind::Page | StatusKind::Gone => None,
        StatusKind::Redirect => {
            let target = answer.headers.get(LOCATION).map(HeaderValue::as_bytes);
            let Some(target) = target.and_then(|it| std::str::from_utf8(it).ok()) else {
                return Some(Reason::Status);
            };
            leads_to_log_in(target).then_some(Reason::Refused)
        }
        StatusKind::Refused(reason) => Some(reason),
    }
}

struct Content {
    body: Bytes,
    was_coded: bool,
}

/// The body without its coding. Where it must not be changed, it stays as it is.
fn content_of(answer: &Answer, rules: &AdmitRules) -> Result<Content, Reason> {
    let is_too_long = answer.body.len() as u64 > rules.page_size;
    if is_too_long {
        return Err(Reason::TooLarge);
    }
    let as_it_is = Content { body: answer.body.clone(), was_coded: false };
    match Coding::of_answer(&answer.headers) {
        Some(Coding::Identity) => Ok(as_it_is),
        _ if has_no_transform(&answer.headers) => Ok(as_it_is),
        None => Err(Reason::Coding),
        Some(coding) => match unpack(coding, &answer.body, rules.page_size) {
            Ok(body) => Ok(Content { body: body.into(), was_coded: true }),
            Err(CodingError::TooLong) => Err(Reason::TooLarge),
            Err(CodingError::Broken) => Err(Reason::Coding),
        },
    }
}

/// Whether `Cache-Control` forbids changing the content (RFC 9111, 5.2.2.6).
pub fn has_no_transform(headers: &HeaderMap) -> bool {
    headers.get_all(CACHE_CONTROL).iter().any(|line| {
        let mut directives = line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        directives.any(|it| it.eq_ignore_ascii_case(b"no-transform"))
    })
}

/// Why the content is not for a copy.
fn by_content(answer: &Answer, found: &Found) -> Option<Reason> {
    let policies = answer.headers.get_all(CONTENT_SECURITY_POLICY).iter();
    if found.has_nonce || policies.into_iter().any(|policy| has_nonce(policy.as_bytes())) {
        return Some(Reason::Nonce);
    }
    found.has_form_token.then_some(Reason::FormToken)
}

/// Whether the operator permits what the server does not: `private`, `no-cache`, `must-revalidate`,
/// lifetimes of nothing. Never `no-store`.
fn is_overridden(address: &Address, headers: &HeaderMap, rules: &AdmitRules) -> bool {
    let is_named = rules.may_override(address);
    let speaks = [CACHE_CONTROL, EXPIRES, PRAGMA].iter().any(|name| headers.contains_key(name));
    is_named && speaks && !ResponseDirectives::parse(headers).no_store
}

/// The entry, if the rules of sharing permit it and it could ever be given.
fn entry_of(parts: &EntryParts<'_>, rules: &AdmitRules, now: Timestamp) -> Result<Entry, Reason> {
    let entry = Entry::new(parts, &rules.cache).map_err(reason_of)?;
    let stored = entry.stored(&rules.cache).map_err(reason_of)?;
    // Its server is to be asked each time, from the start.
    if stored.must_revalidate() && !stored.answers_plainly(Sender::ANONYMOUS, now, &rules.cache) {
        return Err(Reason::Revalidate);
    }
    Ok(entry)
}

fn reason_of(why: NotStorable) -> Reason {
    match why {
        NotStorable::Useless => Reason::Revalidate,
        why => Reason::of_rules(why),
    }
}

/// 304: what is mirrored is what the server has.
fn confirm(answer: &Answer, before: &Before<'_>, rules: &AdmitRules) -> Verdict {
    // Our request had no condition: a server that answers 304 is broken.
    let Some(entry) = before.entry else { return Verdict::refused(Reason::Status) };
    let Ok(stored) = entry.stored(&rules.cache) else {
        return Verdict::refused(Reason::NotStorable);
    };
    if update::answered(&[&stored], &answer.headers).is_none() {
        return Verdict::refused(Reason::Status);
    }
    let mut headers = update::merged(&stored, &answer.headers, answer.times, &rules.cache);
    // What the rules were not shown of the entry stays, unless the server says it again.
    for (name, value) in &entry.headers() {
        let was_hidden = [CACHE_CONTROL, EXPIRES, PRAGMA, VARY].contains(name);
        if *name == CONTENT_ENCODING || was_hidden && !answer.headers.contains_key(name) {
            headers.remove(name);
            headers.append(name, value.clone());
        }
    }
    let asked = entry.asked();
    let parts = EntryParts {
        address: &entry.address,
        asked: &asked,
        status: entry.status(),
        headers: &headers,
        times: answer.times,
        body: entry.body,
        was_coded: entry.was_coded,
        overridden: is_overridden(&entry.address, &headers, rules),
        is_page: entry.is_page,
    };
    match entry_of(&parts, rules, answer.times.received) {
        Ok(entry) => Verdict::Confirmed(Box::new(entry)),
        Err(reason) => Verdict::refused(reason),
    }
}

#[cfg(test)]
mod tests;
