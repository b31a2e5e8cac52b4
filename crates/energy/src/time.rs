//! Time as an argument.
//!
//! [`Mono`] counts from an origin of the driver's choice and never steps; [`Wall`] is civil time (seconds
//! since 1970, UTC) and may step when the clock is set. Intervals are always taken between two `Mono`; `Wall`
//! is for schedules, logs and people.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on the monotonic time line of one driver.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(pub Duration);

impl Mono {
    /// The driver's origin.
    pub const ZERO: Self = Self(Duration::ZERO);
    /// Later than anything that happens.
    pub const NEVER: Self = Self(Duration::MAX);

    /// A point some seconds after the origin.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// Seconds since the origin.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// Time passed since `earlier`; nothing when that lies in the future.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Mono {
    type Output = Self;
    /// Saturates at [`Mono::NEVER`].
    #[inline]
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl Sub<Duration> for Mono {
    type Output = Self;
    /// Saturates at [`Mono::ZERO`].
    #[inline]
    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }
}

/// A point on the same line in whole nanoseconds since the origin: for state machines and simulations
/// in which an event is a matter of nanoseconds itself.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens: after 584 years.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many seconds after the origin, to the nearest nanosecond; what is below 0 or no number is the
    /// origin itself.
    #[inline]
    pub fn from_secs(secs: f64) -> Self {
        Self((secs * 1e9 + 0.5) as u64)
    }
}

impl From<Mono> for Nanos {
    /// Saturates at [`Nanos::NEVER`].
    #[inline]
    fn from(at: Mono) -> Self {
        let secs = at.0.as_secs().saturating_mul(1_000_000_000);
        Self(secs.saturating_add(u64::from(at.0.subsec_nanos())))
    }
}

impl From<Nanos> for Mono {
    #[inline]
    fn from(at: Nanos) -> Self {
        if at == Nanos::NEVER { Self::NEVER } else { Self(Duration::from_nanos(at.0)) }
    }
}

/// The beginning of 2020: this program is younger.
const LEAST_SET: Wall = Wall::from_secs(1_577_836_800);

/// Civil time: milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Wall(pub i64);

impl Wall {
    /// From whole seconds since 1970.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Whole seconds since 1970, rounded down.
    #[inline]
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Whether the clock can be right. A board without a battery starts in 1970, until it has asked for the time.
    pub const fn is_set(self) -> bool {
        self.0 >= LEAST_SET.0
    }
}

impl Add<Duration> for Wall {
    type Output = Self;
    #[inline]
    fn add(self, time: Duration) -> Self {
        let millis =
            time.as_secs().saturating_mul(1000).saturating_add(time.subsec_millis().into());
        Self(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }
}

/// The present, as the driver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// For intervals and timers.
    pub mono: Mono,
    /// For schedules and logs.
    pub wall: Wall,
    /// Local time minus UTC, in seconds, at this moment.
    pub utc_offset: i32,
}

impl Now {
    /// Seconds since local midnight, 0 ..= 86399.
    #[inline]
    pub fn second_of_day(&self) -> u32 {
        let local = self.wall.secs() + i64::from(self.utc_offset);
        u32::try_from(local.rem_euclid(86_400)).unwrap_or(0)
    }

    /// Days since 1970-01-01 in local time.
    #[inline]
    pub const fn local_day(&self) -> i64 {
        (self.wall.secs() + self.utc_offset as i64).div_euclid(86_400)
    }

    /// Hour of the local week, 0 ..= 167; 0 is Monday 00:00 to 01:00.
    pub fn hour_of_week(&self) -> u32 {
        // 1970-01-01 was a Thursday: three days after a Monday.
        let local = self.wall.secs() + i64::from(self.utc_offset) + 3 * 86_400;
        u32::try_from(local.div_euclid(3600).rem_euclid(168)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hour_of_the_week_starts_on_monday_local_time() {
        // 2026-11-23 00:30 UTC is a Monday; in New York (-5 h) it is still Sunday 19:30.
        let monday = Wall::from_secs(1_795_393_800);
        let at = |utc_offset| Now { mono: Mono::ZERO, wall: monday, utc_offset };
        assert_eq!(at(0).hour_of_week(), 0);
        assert_eq!(at(-5 * 3600).hour_of_week(), 6 * 24 + 19);
        assert_eq!(at(0).second_of_day(), 1800);
    }

    #[test]
    fn intervals_never_run_backwards() {
        assert_eq!(Mono::from_secs(1).since(Mono::from_secs(2)), Duration::ZERO);
        assert_eq!(Mono::NEVER + Duration::from_secs(1), Mono::NEVER);
    }
}
