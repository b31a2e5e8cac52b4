//! Validation: asking the origin whether a stored response still holds, and what its answer changes
//! (RFC 9111, 3.2, 4.3.1, 4.3.3 to 4.3.5).

use crate::conditional::{is_weak, opaque};
use crate::date;
use crate::directives::RequestDirectives;
use crate::fields::strip_hop_by_hop;
use crate::freshness::date_of;
use crate::operator_rules::{Fill, Rules};
use crate::request::RequestHead;
use crate::sharing::{Basis, Filler, Sender};
use crate::stored::Stored;
use crate::storing::NotStorable;
use crate::time::Times;
use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderName, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
    SET_COOKIE, WARNING,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

/// Fields that describe the stored body; an update comes without one.
const OF_THE_BODY: [HeaderName; 6] = [
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    CONTENT_RANGE,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("digest"),
];

/// Makes a client's request one that validates stored responses: their `ETag`s, or the one's
/// `Last-Modified`, in place of the client's own conditions and range. False, and no change, if
/// none of them has a validator.
///
/// One candidate is the rule; where `Vary` keeps several under one key and none matches the
/// request, their tags together let the origin say which of them would do.
pub fn add_validators(headers: &mut HeaderMap, candidates: &[&Stored]) -> bool {
    let tags: Vec<&[u8]> = candidates
        .iter()
        .filter_map(|stored| stored.headers().get(ETAG))
        .map(HeaderValue::as_bytes)
        .collect();
    let tags = HeaderValue::from_bytes(&tags.join(&b", "[..])).ok().filter(|tags| !tags.is_empty());
    let last_modified = match candidates {
        [only] => only.headers().get(LAST_MODIFIED).cloned(),
        _ => None,
    };
    if tags.is_none() && last_modified.is_none() {
        return false;
    }
    for name in [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE] {
        headers.remove(name);
    }
    if let Some(tags) = tags {
        headers.insert(IF_NONE_MATCH, tags);
    }
    if let Some(last_modified) = last_modified {
        headers.insert(IF_MODIFIED_SINCE, last_modified);
    }
    true
}

/// Which of the candidates that were asked about a 304 confirms; `None` if its validators fit none
/// of them, and the request is to be sent again without conditions.
pub fn answered(candidates: &[&Stored], headers: &HeaderMap) -> Option<usize> {
    let latest = |fits: &dyn Fn(&Stored) -> bool| {
        let fitting = candidates.iter().enumerate().filter(|(_, stored)| fits(stored));
        fitting.max_by_key(|(_, stored)| stored.date()).map(|(at, _)| at)
    };
    if let Some(tag) = headers.get(ETAG) {
        return latest(&|stored| has_tag(stored, tag.as_bytes()));
    }
    if let Some(changed) = headers.get(LAST_MODIFIED) {
        return latest(&|stored| match stored.headers().get(LAST_MODIFIED) {
            Some(own) => same_date(stored, own, changed),
            // It was asked about by its tag.
            None => candidates.len() == 1,
        });
    }
    // Many origins leave the validators out. With one candidate there is only one to mean.
    (candidates.len() == 1).then_some(0)
}

/// Whether a response's tag fits: strongly if it is strong, else weakly.
fn has_tag(stored: &Stored, tag: &[u8]) -> bool {
    let Some(own) = stored.headers().get(ETAG).map(HeaderValue::as_bytes) else { return false };
    if is_weak(tag) { opaque(own) == opaque(tag) } else { own.trim_ascii() == tag.trim_ascii() }
}

fn same_date(stored: &Stored, one: &HeaderValue, other: &HeaderValue) -> bool {
    let now = stored.times().received;
    one == other
        || date::parse_value(one, now)
            .is_some_and(|time| date::parse_value(other, now) == Some(time))
}

impl Stored {
    /// This response after a 304 that confirms it: fresh again, with the fields of the 304 in place
    /// of its own.
    ///
    /// `request` is the one the 304 answers, and `filler` sent it. The fields of the 304 are taken over if
    /// a 200 would have been: from a marked response's anonymous request that is no reload, or from the
    /// proxy's own. Else they may be about the client that asked, and only the time counts: of a request
    /// that names its sender if the response is `public`.
    ///
    /// An error means that the result must not be stored; drop what is stored if it [condemns] it, and
    /// answer the client from this response with [`merged`] fields in any case. Cookies that the 304 sets
    /// are for the client that asked and are not taken over.
    ///
    /// [condemns]: NotStorable::condemns_stored
    pub fn freshened(
        &self,
        request: &RequestHead<'_>,
        filler: Filler,
        headers: &HeaderMap,
        times: Times,
        rules: &Rules,
    ) -> Result<Self, NotStorable> {
        let merged = merged(self, headers, times, rules);
        let request = RequestHead { method: &Method::GET, ..*request };
        let sender = Sender::of(&request, rules);
        // Whether the origin still wants it stored, as this request's answer.
        let judged_as = if self.basis() == Basis::OwnRequest { Filler::Proxy } else { filler };
        let updated = Self::assemble(&request, judged_as, self.status(), &merged, times, rules)?;
        let takes_fields = match (self.basis(), filler) {
            (_, Filler::Proxy) => true,
            (Basis::OwnRequest, Filler::Client) => false,
            _ => sender.is_anonymous() && !is_reload(&request),
        };
        Ok(if takes_fields { updated } else { self.confirmed(headers, times, rules) })
    }

    /// This response as the client is to get it whose request the 304 answers, with all that the 304 says to
    /// that client. It must not be stored.
    #[must_use]
    pub fn confirmed_for(&self, headers: &HeaderMap, times: Times, rules: &Rules) -> Self {
        self.confirmed(headers, times, rules).with_headers(merged(self, headers, times, rules))
    }

    /// What the response to a `HEAD` says about this stored response to a `GET`.
    pub fn after_head(
        &self,
        request: &RequestHead<'_>,
        status: StatusCode,
        headers: &HeaderMap,
        times: Times,
        rules: &Rules,
    ) -> HeadEffect {
        let sender = Sender::of(request, rules);
        if !sender.is_anonymous() {
            // What one client is told says nothing of what others would get.
            return HeadEffect::None;
        }
        match status {
            StatusCode::OK if self.status() == StatusCode::OK => {}
            // Found where an error is stored, or gone where it was found.
            StatusCode::OK => return HeadEffect::Outdated,
            StatusCode::NOT_FOUND | StatusCode::GONE if self.status().is_success() => {
                return HeadEffect::Outdated;
            }
            // Refused, overloaded, out of order: says nothing of what a `GET` would get.
            _ => return HeadEffect::None,
        }
        let differs = |name: &HeaderName| {
            headers.get(name).is_some_and(|value| self.headers().get(name) != Some(value))
        };
        if [ETAG, LAST_MODIFIED, CONTENT_LENGTH, CONTENT_ENCODING].iter().any(differs) {
            return HeadEffect::Outdated;
        }
        // Without a validator that both have, the answer may be about something else.
        let is_same =
            [ETAG, LAST_MODIFIED].iter().any(|name| headers.contains_key(name) && !differs(name));
        if !is_same && rules.fill == Fill::OwnRequests {
            return HeadEffect::None;
        }
        match self.freshened(request, Filler::Client, headers, times, rules) {
            Ok(stored) => HeadEffect::Updated(Box::new(stored)),
            Err(why) if why.condemns_stored(sender, status) => HeadEffect::Outdated,
            Err(_) => HeadEffect::None,
        }
    }
}

/// Whether a client asks to have what is stored confirmed: then it chose the moment, and what the 304 says
/// may be made for it.
fn is_reload(request: &RequestHead<'_>) -> bool {
    let asked = RequestDirectives::parse(request.headers);
    asked.no_cache || asked.max_age.is_some() || asked.min_fresh.is_some()
}

/// What the response to a `HEAD` does to a stored response to a `GET`.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadEffect {
    /// Nothing.
    None,
    /// It is confirmed, and this takes its place.
    Updated(Box<Stored>),
    /// It is no longer what a `GET` would get: drop it.
    Outdated,
}

/// The fields of a stored response, updated by those of a 304 or of a response to `HEAD`.
pub fn merged(stored: &Stored, headers: &HeaderMap, times: Times, rules: &Rules) -> HeaderMap {
    let mut new = headers.clone();
    strip_hop_by_hop(&mut new);
    for name in &OF_THE_BODY {
        new.remove(name);
    }
    if !rules.store_set_cookie {
        new.remove(SET_COOKIE);
    }
    // Both tell of the response that was: without them the new one is as old as its `Date`.
    let mut merged = stored.headers().clone();
    merged.remove(AGE);
    merged.remove(WARNING);
    merged.insert(DATE, date::format(date_of(&new, times)));
    new.remove(DATE);
    for name in new.keys() {
        merged.remove(name);
    }
    for (name, value) in &new {
        merged.append(name, value.clone());
    }
    merged
}
