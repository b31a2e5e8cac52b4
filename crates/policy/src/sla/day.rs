//! The local calendar day, in which an SLA counts.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_energy::zone::Zone;

/// s.
const DAY_S: i64 = 86_400;

/// The local calendar day, and what happened on it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Today {
    /// First and last moment, s of local time.
    seconds: (i64, i64),
    pub(super) seen: u64,
    pub(super) delayed: u64,
}

impl Today {
    /// A day, in days since 1970, on which this many were delayed.
    pub(super) fn resumed(day: i32, delayed: u64) -> Self {
        let midnight = i64::from(day) * DAY_S;
        Self { seconds: (midnight, midnight + DAY_S), seen: delayed, delayed }
    }

    /// This day, or the one that has begun since.
    pub(super) fn at(&mut self, now: Now) -> &mut Self {
        let local = now.wall.secs() + i64::from(now.utc_offset);
        // Clocks that go back over midnight do not start yesterday, and then today, again.
        if local < self.seconds.0 - DAY_S || local >= self.seconds.1 {
            let midnight = local - local.rem_euclid(DAY_S);
            *self = Self { seconds: (midnight, midnight + DAY_S), ..Self::default() };
        }
        self
    }

    /// In days since 1970.
    pub(super) fn day(&self) -> i32 {
        i32::try_from(self.seconds.0.div_euclid(DAY_S)).unwrap_or_default()
    }

    /// When the next day begins, also if clocks are changed before.
    pub(super) fn ends(&self, now: Now, zone: &Zone) -> Mono {
        let midnight = zone.first_at(self.seconds.1, now.utc_offset);
        let left = midnight.0.saturating_sub(now.wall.0);
        now.mono + Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}
