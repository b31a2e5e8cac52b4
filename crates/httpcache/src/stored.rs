//! A stored response, less its body.

use crate::content_range;
use crate::date;
use crate::directives::ResponseDirectives;
use crate::fields::{self, strip_hop_by_hop};
use crate::freshness::{Freshness, Source, date_of, is_heuristically_cacheable};
use crate::operator_rules::Rules;
use crate::request::RequestHead;
use crate::sharing::{Basis, Filler, Sender};
use crate::storing::{Candidate, NotStorable, is_for_all, judge};
use crate::targeted;
use crate::time::{Times, Timestamp};
use crate::vary::{Selecting, Vary};
use http::header::{
    ACCEPT_ENCODING, AGE, CONTENT_ENCODING, CONTENT_LENGTH, DATE, ETAG, LAST_MODIFIED,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::time::Duration;

/// What the cache keeps of a response besides the body.
///
/// All that depends on the fields is worked out once, here; asking whether the response is fresh
/// compares two numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    status: StatusCode,
    headers: HeaderMap,
    selecting: Selecting,
    times: Times,
    freshness: Freshness,
    expiry: Timestamp,
    date: Timestamp,
    basis: Basis,
    pub(crate) constraints: Constraints,
}

/// What bears on the use of a stored response once it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one per directive of the protocol")]
pub(crate) struct Constraints {
    /// `no-cache`.
    pub(crate) validate_always: bool,
    /// `must-revalidate`, `proxy-revalidate` or `s-maxage`.
    pub(crate) validate_stale: bool,
    pub(crate) stale_while_revalidate: Option<Duration>,
    pub(crate) stale_if_error: Option<Duration>,
    /// `public`.
    pub(crate) public: bool,
    /// Its path is one of [`Rules::pinned`].
    pub(crate) pinned: bool,
}

impl Stored {
    /// Decides whether a response may be stored and, if so, what of it. `filler` sent the request.
    ///
    /// `headers` are the response's as they came in. Those that may be sent again are kept: no hop-by-hop
    /// fields, nothing that `Connection`, `no-cache="..."` or `private="..."` lists. `Date` is added where it
    /// is missing or can't be parsed. A 206 with the whole representation, which media players ask for by
    /// `bytes=0-`, is kept as the 200 it might have been.
    pub fn new(
        request: &RequestHead<'_>,
        filler: Filler,
        status: StatusCode,
        headers: &HeaderMap,
        times: Times,
        rules: &Rules,
    ) -> Result<Self, NotStorable> {
        if let Some(whole) = content_range::whole(status, headers) {
            return Self::assemble(request, filler, StatusCode::OK, &whole, times, rules);
        }
        Self::assemble(request, filler, status, headers, times, rules)
    }

    /// A response that a cache on disk has kept: `request` is a `GET` with the selecting fields.
    ///
    /// `trusted` says that it was stored under the present rules ([`fingerprint`](crate::sharing::fingerprint)). One that was
    /// not is taken for the answer to a request that names its sender, and is restored only if that may be
    /// shared.
    pub fn restored(
        request: &RequestHead<'_>,
        basis: Basis,
        trusted: bool,
        status: StatusCode,
        headers: &HeaderMap,
        times: Times,
        rules: &Rules,
    ) -> Result<Self, NotStorable> {
        let directives = directives_of(headers, rules).0;
        if !basis.is_allowed(rules) {
            return Err(NotStorable::Unmarked);
        }
        if !trusted && !is_for_all(&directives, rules) {
            return Err(NotStorable::Authorization);
        }
        let filler = match basis {
            Basis::OwnRequest | Basis::ForCrawlers => Filler::Proxy,
            Basis::Marked | Basis::ClientRequest => Filler::Client,
        };
        let stored = Self::new(request, filler, status, headers, times, rules)?;
        // Of a selecting field that names its sender the request repeats the value.
        Ok(Self { basis, ..stored })
    }

    /// As [`Stored::new`], for an answer or for what a validation made of one.
    pub(crate) fn assemble(
        request: &RequestHead<'_>,
        filler: Filler,
        status: StatusCode,
        headers: &HeaderMap,
        times: Times,
        rules: &Rules,
    ) -> Result<Self, NotStorable> {
        let (directives, targeted) = directives_of(headers, rules);
        let vary = vary_of(headers);
        let freshness = Freshness::new(status, headers, &directives, targeted, times, rules);
        let candidate = Candidate {
            request,
            filler,
            status,
            headers,
            directives: &directives,
            vary: &vary,
            freshness: &freshness,
        };
        let basis = judge(&candidate, rules)?;
        let freshness = freshness.of_basis(basis);
        let Vary::On(names) = &vary else { return Err(NotStorable::VaryAny) };
        let selecting = Selecting::new(names, request.headers, &rules.cookies);
        let date = date_of(headers, times);
        let mut kept = headers.clone();
        strip_hop_by_hop(&mut kept);
        for name in &directives.withheld {
            kept.remove(name);
        }
        kept.insert(DATE, date::format(date));
        let kept = fields::compact(&kept);
        let constraints = Constraints {
            validate_always: directives.no_cache,
            validate_stale: directives.forbids_stale(),
            stale_while_revalidate: directives.stale_while_revalidate,
            stale_if_error: directives.stale_if_error,
            public: directives.public,
            pinned: rules.is_pinned(request.path_and_query),
        };
        let expiry = freshness.expiry();
        let stored = Self {
            status,
            headers: kept,
            selecting,
            times,
            freshness,
            expiry,
            date,
            basis,
            constraints,
        };
        if stored.could_be_used(rules) { Ok(stored) } else { Err(NotStorable::Useless) }
    }

    /// The same response, confirmed by a 304 of which only the age counts.
    pub(crate) fn confirmed(&self, by: &HeaderMap, times: Times, rules: &Rules) -> Self {
        let mut headers = self.headers.clone();
        headers.remove(AGE);
        headers.extend(by.get(AGE).map(|age| (AGE, age.clone())));
        headers.insert(DATE, date::format(date_of(by, times)));
        let (directives, targeted) = directives_of(&headers, rules);
        let freshness = Freshness::new(self.status, &headers, &directives, targeted, times, rules)
            .of_basis(self.basis);
        let (expiry, date) = (freshness.expiry(), date_of(&headers, times));
        Self { headers, times, freshness, expiry, date, ..self.clone() }
    }

    pub(crate) fn with_headers(self, headers: HeaderMap) -> Self {
        Self { headers, ..self }
    }

    /// Why it may be shared.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Whether it is an error without a lifetime of its own, or one that speaks of its request: it says little
    /// of later ones.
    pub(crate) fn is_bare_error(&self) -> bool {
        let has_own =
            self.freshness.source.is_explicit() || self.freshness.source == Source::Operator;
        self.status.is_client_error() && !(has_own && is_heuristically_cacheable(self.status))
    }

    /// Whether it may be given to the sender of a request, whatever its age.
    pub fn is_for(&self, sender: Sender, request: &RequestHead<'_>, rules: &Rules) -> bool {
        let wants_another_form = || {
            let varies: Vec<HeaderName> =
                self.selecting.iter().map(|(name, _)| name.clone()).collect();
            Sender::beyond(&varies, request, rules).has(Sender::FRAGMENT)
        };
        self.basis.is_for(sender, rules) && !(sender.has(Sender::FRAGMENT) && wants_another_form())
    }

    /// Whether any later request could be answered with it: fresh, after validation, or stale.
    fn could_be_used(&self, rules: &Rules) -> bool {
        let usable_fresh = self.expiry > Timestamp::default() && !self.constraints.validate_always;
        if self.status.is_server_error() || self.is_bare_error() && self.basis != Basis::OwnRequest
        {
            return usable_fresh || self.has_validator();
        }
        let bound = self.must_revalidate();
        let window = |given: Option<Duration>| given.is_some_and(|window| !window.is_zero());
        let usable_stale = !bound
            && (window(self.constraints.stale_while_revalidate)
                || window(self.constraints.stale_if_error)
                || !rules.stale_if_error.is_zero());
        let usable_asleep = (!bound || !rules.respect_must_revalidate)
            && (self.constraints.pinned || !rules.grace_while_asleep.is_zero());
        usable_fresh || self.has_validator() || usable_stale || usable_asleep
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The fields that are kept; `Age` among them is the one the response came with.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Whether a body of this many bytes can be this response's: `Content-Length` may not say otherwise.
    pub fn is_whole_with(&self, bytes: u64) -> bool {
        let length = self.headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
        length.is_none_or(|length| length == bytes.to_string().as_bytes())
    }

    /// The request fields it was chosen by.
    pub fn selecting(&self) -> &Selecting {
        &self.selecting
    }

    /// When it was asked for and came in.
    pub fn times(&self) -> Times {
        self.times
    }

    /// The figures of its freshness.
    pub fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// `Date`: of several responses to one request the latest is to be used.
    pub fn date(&self) -> Timestamp {
        self.date
    }

    /// When it stops being fresh; the start of 1970 if it never was. While the clock is behind the time at which
    /// it came in, [`Stored::is_fresh`] knows better.
    pub fn expiry(&self) -> Timestamp {
        self.expiry
    }

    /// Whether it is fresh. That alone does not permit its use: see [`Stored::usability`].
    ///
    /// [`Stored::usability`]: crate::Stored::usability
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.expiry && self.freshness.is_in_time(now)
    }

    /// Whether it answers a `GET` without conditions, ranges and directives as it is: the fast path
    /// for what is asked for most. The selecting fields must match besides.
    pub fn answers_plainly(&self, sender: Sender, now: Timestamp, rules: &Rules) -> bool {
        if !self.basis.is_for(sender, rules) || sender.has(Sender::FRAGMENT) {
            return false;
        }
        let with_body = !matches!(self.status.as_u16(), 204 | 206 | 304);
        with_body && self.is_fresh(now) && !self.constraints.validate_always
    }

    /// How old it is.
    pub fn age(&self, now: Timestamp) -> Duration {
        self.freshness.age(now)
    }

    /// Seconds until it is stale, negative afterwards: `ttl` of `Cache-Status`.
    pub fn ttl(&self, now: Timestamp) -> i64 {
        let signed = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let left = signed(self.freshness.lifetime).saturating_sub(signed(self.age(now)));
        left.div_euclid(1000)
    }

    /// Whether it can be validated: it has an `ETag` or a `Last-Modified`.
    pub fn has_validator(&self) -> bool {
        self.headers.contains_key(ETAG) || self.headers.contains_key(LAST_MODIFIED)
    }

    /// Whether it must not be used stale without the origin's consent.
    pub fn must_revalidate(&self) -> bool {
        self.constraints.validate_stale || self.constraints.validate_always
    }

    /// Whether it should stay while other responses go ([`Rules::pinned`]).
    pub fn is_pinned(&self) -> bool {
        self.constraints.pinned
    }

    /// The fields to send with it now: those kept, with its present `Age`.
    pub fn response_headers(&self, now: Timestamp) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(AGE, self.age_value(now));
        headers
    }

    /// Its present age as a field value.
    pub fn age_value(&self, now: Timestamp) -> HeaderValue {
        HeaderValue::from(self.age(now).as_secs())
    }
}

/// What a response varies on. One with a content coding varies on what codings were asked for, whether its
/// server says so or not.
fn vary_of(headers: &HeaderMap) -> Vary {
    let mut vary = Vary::parse(headers);
    if let Vary::On(names) = &mut vary
        && headers.contains_key(CONTENT_ENCODING)
        && !names.contains(&ACCEPT_ENCODING)
    {
        names.push(ACCEPT_ENCODING);
    }
    vary
}

/// The directives that hold for this cache, and whether they come from `CDN-Cache-Control`.
fn directives_of(headers: &HeaderMap, rules: &Rules) -> (ResponseDirectives, bool) {
    let targeted = if rules.cdn_cache_control { targeted::parse(headers) } else { None };
    match targeted {
        Some(directives) => (directives, true),
        None => (ResponseDirectives::parse(headers), false),
    }
}
