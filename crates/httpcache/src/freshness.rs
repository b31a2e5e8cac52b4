//! How long a response is fresh, and how old it is (RFC 9111, 4.2).

use crate::date;
use crate::directives::{ResponseDirectives, delta_seconds};
use crate::operator_rules::Rules;
use crate::sharing::Basis;
use crate::time::{Times, Timestamp};
use http::header::{AGE, DATE, EXPIRES, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};
use std::time::Duration;

/// Where a lifetime comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// `s-maxage`.
    SMaxage,
    /// `max-age`.
    MaxAge,
    /// `Expires` less `Date`.
    Expires,
    /// A share of the time since `Last-Modified`.
    Heuristic,
    /// `default_ttl` or `negative_ttl`.
    Operator,
    /// Nowhere: stale from the start.
    Unknown,
}

impl Source {
    /// Whether the origin set the lifetime.
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::SMaxage | Self::MaxAge | Self::Expires)
    }
}

/// A clock that is set back by no more than this has been corrected, not wrong. (And a response may come in a
/// moment after the time that is compared with it was read.)
const STEP: Duration = Duration::from_secs(1);

/// The figures of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// How long it is fresh, from when the origin made it.
    pub lifetime: Duration,
    /// Where the lifetime comes from.
    pub source: Source,
    /// How old it was when it came in (`corrected_initial_age`).
    pub initial_age: Duration,
    /// When it came in.
    pub received: Timestamp,
}

impl Freshness {
    /// The figures of a response; `targeted` says that `directives` come from
    /// `CDN-Cache-Control`, next to which `Expires` does not count.
    pub fn new(
        status: StatusCode,
        headers: &HeaderMap,
        directives: &ResponseDirectives,
        targeted: bool,
        times: Times,
        rules: &Rules,
    ) -> Self {
        let (lifetime, source) = explicit_lifetime(headers, directives, targeted, times)
            .unwrap_or_else(|| {
                let open = is_heuristically_cacheable(status) || directives.public;
                let guess =
                    if open { guessed_lifetime(status, headers, times, rules) } else { None };
                guess.unwrap_or((Duration::ZERO, Source::Unknown))
            });
        Self {
            lifetime,
            source,
            initial_age: initial_age(headers, times),
            received: times.received,
        }
    }

    /// The same for a response that is kept on this basis. What is kept for crawlers only is never fresh: it is
    /// given while the server sleeps, and no lifetime is assumed for it.
    pub(crate) fn of_basis(self, basis: Basis) -> Self {
        match basis {
            Basis::ForCrawlers => {
                Self { lifetime: Duration::ZERO, source: Source::Unknown, ..self }
            }
            _ => self,
        }
    }

    /// How old the response is (`current_age`).
    ///
    /// One that came in later than now came in while the clock was ahead: its age is not known, and it counts as
    /// stale for as long as the clock was ahead.
    pub fn age(&self, now: Timestamp) -> Duration {
        match self.ahead(now) {
            Some(ahead) => self.lifetime.max(self.initial_age).saturating_add(ahead),
            None => self.initial_age.saturating_add(now.since(self.received)),
        }
    }

    /// Whether it did not come in later than now.
    pub fn is_in_time(&self, now: Timestamp) -> bool {
        self.ahead(now).is_none()
    }

    /// How far the clock was ahead of `now` when the response came in, if it was.
    fn ahead(&self, now: Timestamp) -> Option<Duration> {
        let ahead = self.received.since(now);
        (ahead > STEP).then_some(ahead)
    }

    /// When it stops being fresh; at that very moment it is stale.
    pub fn expiry(&self) -> Timestamp {
        match self.lifetime.checked_sub(self.initial_age) {
            Some(left) if !left.is_zero() => self.received.plus(left),
            _ => Timestamp::default(),
        }
    }

    /// How long it has been stale at `now`; zero while it is fresh.
    pub fn staleness(&self, now: Timestamp) -> Duration {
        self.age(now).saturating_sub(self.lifetime)
    }
}

/// Statuses whose responses may be kept without a word from the origin (RFC 9110, 15.1).
pub fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// The time in `Date`, or when the response came in if it has none that can be read.
pub(crate) fn date_of(headers: &HeaderMap, times: Times) -> Timestamp {
    let date = headers.get(DATE).and_then(|value| date::parse_value(value, times.received));
    date.unwrap_or(times.received)
}

fn explicit_lifetime(
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    targeted: bool,
    times: Times,
) -> Option<(Duration, Source)> {
    if let Some(lifetime) = directives.s_maxage {
        return Some((lifetime, Source::SMaxage));
    }
    if let Some(lifetime) = directives.max_age {
        return Some((lifetime, Source::MaxAge));
    }
    if targeted {
        return None;
    }
    let mut lines = headers.get_all(EXPIRES).iter();
    let first = lines.next()?;
    // An invalid date is one that has passed, `Expires: 0` above all (RFC 9111, 5.3). Several
    // are invalid too: which one is meant cannot be known.
    let expires = match lines.next() {
        None => date::parse_value(first, times.received),
        Some(_) => None,
    };
    let lifetime = expires.map_or(Duration::ZERO, |at| at.since(whole_second(headers, times)));
    Some((lifetime, Source::Expires))
}

/// `Date` to compare with other dates. Where the time of arrival stands in for it, cut to the second
/// as a date would be.
fn whole_second(headers: &HeaderMap, times: Times) -> Timestamp {
    Timestamp::from_secs(date_of(headers, times).as_secs())
}

fn guessed_lifetime(
    status: StatusCode,
    headers: &HeaderMap,
    times: Times,
    rules: &Rules,
) -> Option<(Duration, Source)> {
    let is_error = status.is_client_error() || status.is_server_error();
    if is_error && let Some(lifetime) = rules.negative_ttl {
        return Some((lifetime, Source::Operator));
    }
    let changed = headers.get(LAST_MODIFIED).and_then(|at| date::parse_value(at, times.received));
    if let (Some(heuristic), Some(changed)) = (rules.heuristic, changed) {
        let unchanged = whole_second(headers, times).since(changed).as_secs();
        let share = Duration::from_secs(unchanged.saturating_mul(heuristic.percent.into()) / 100);
        return Some((share.min(heuristic.longest), Source::Heuristic));
    }
    let lifetime = if is_error { None } else { rules.default_ttl };
    lifetime.map(|lifetime| (lifetime, Source::Operator))
}

/// `corrected_initial_age`.
fn initial_age(headers: &HeaderMap, times: Times) -> Duration {
    // Whole seconds: the date was cut to one, and is up to a second older than the response.
    let apparent = times.received.as_secs().saturating_sub(date_of(headers, times).as_secs());
    let corrected = age_value(headers).saturating_add(times.delay());
    Duration::from_secs(apparent).max(corrected)
}

/// `Age`, as the caches before this one give it: the first member of the first line; zero if that is
/// anything but digits (RFC 9111, 5.1).
fn age_value(headers: &HeaderMap) -> Duration {
    let first = headers.get(AGE).and_then(|line| line.as_bytes().split(|&b| b == b',').next());
    first.and_then(|value| delta_seconds(value.trim_ascii())).unwrap_or_default()
}
