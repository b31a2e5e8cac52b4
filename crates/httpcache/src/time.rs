//! Points in time, handed in by the caller.

use std::time::Duration;

/// Milliseconds since the start of 1970 (UTC).
///
/// HTTP counts in whole seconds, but an `Age` summed from rounded seconds can be a second off in
/// either direction; milliseconds keep a response with `max-age=1` fresh for one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From milliseconds since 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// From whole seconds since 1970.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// Time from `earlier` to `self`; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// `self` later by `span`, held at the end of time.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// When an exchange with the origin took place (RFC 9111, 4.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// When the request was sent (`request_time`).
    pub requested: Timestamp,
    /// When the head of the response had come in (`response_time`).
    pub received: Timestamp,
}

impl Times {
    /// An exchange that took no time.
    pub const fn at(when: Timestamp) -> Self {
        Self { requested: when, received: when }
    }

    /// How long the origin took: added to the age, since the response may be that old already.
    pub const fn delay(self) -> Duration {
        self.received.since(self.requested)
    }
}
