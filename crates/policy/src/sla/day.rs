//! The local calendar day, in which an SLA counts.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_energy::zone::Zone;

/// s.
const DAY_S: i64 = 86_400;

/// A clock that moves this much further than time does was set: ms.
const SET_BY_MS: i64 = DAY_S * 1000;

/// Days stored of a later year than 2243 are not believed.
const LATEST: i64 = 100_000;

/// The local calendar day, and what happened on it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Today {
    /// First and last moment, s of local time.
    seconds: (i64, i64),
    pub(super) seen: u64,
    pub(super) delayed: u64,
    /// When it began.
    began: Mono,
    /// The last look at the clock.
    looked: Option<Now>,
    /// The day that was resumed and its delays, while the clock is behind it.
    ahead: Option<(i64, u64)>,
}

impl Today {
    /// A day, in days since 1970, on which this many were delayed.
    pub(super) fn resumed(day: i32, delayed: u64) -> Self {
        let midnight = i64::from(day) * DAY_S;
        Self { seconds: (midnight, midnight + DAY_S), seen: delayed, delayed, ..Self::default() }
    }

    /// This day, or the one that has begun since.
    ///
    /// A board without a battery starts in 1970, or when it was last off, and learns the time later. What was counted
    /// until then belongs to the day that it then is: a clock that is set begins no day.
    pub(super) fn at(&mut self, now: Now) -> &mut Self {
        let local = now.wall.secs() + i64::from(now.utc_offset);
        // Clocks that go back over midnight do not start yesterday, and then today, again.
        if local < self.seconds.0 - DAY_S || local >= self.seconds.1 {
            let midnight = local - local.rem_euclid(DAY_S);
            *self = Self {
                seconds: (midnight, midnight + DAY_S),
                began: now.mono - Duration::from_secs(local.abs_diff(midnight)),
                ..self.carried(now, local)
            };
        }
        self.looked = Some(now);
        self
    }

    /// What of the day before belongs to the day of now, since only the clock says that it is another.
    fn carried(&self, now: Now, local: i64) -> Self {
        let Self { seconds, seen, delayed, .. } = *self;
        let kept = Self { seen, delayed, ..Self::default() };
        match (self.looked, self.ahead) {
            // A day that was stored cannot be later than now: the clock is behind.
            (None, _) if local < seconds.0 && seconds.0 <= LATEST * DAY_S => {
                Self { ahead: Some((seconds.0, delayed)), ..kept }
            }
            // It was stored before the clock was set.
            (None, _) if now.wall.is_set() && !Wall::from_secs(seconds.0).is_set() => kept,
            (Some(looked), ahead) if was_set(looked, now) => {
                // The day that was resumed may be over.
                let over =
                    ahead.filter(|(day, _)| *day + DAY_S <= local).map_or(0, |(_, then)| then);
                Self {
                    seen: seen.saturating_sub(over),
                    delayed: delayed.saturating_sub(over),
                    ..kept
                }
            }
            _ => Self::default(),
        }
    }

    /// Counts a delay of a request that arrived `then`: on its own day, which may be over.
    pub(super) fn delayed(&mut self, now: Now, then: Now) {
        let today = self.at(now);
        if then.mono >= today.began {
            today.delayed += 1;
        }
    }

    /// In days since 1970: the day that was resumed, while the clock is behind it.
    pub(super) fn day(&self) -> i32 {
        let begins = self.ahead.map_or(self.seconds.0, |(day, _)| day);
        i32::try_from(begins.div_euclid(DAY_S)).unwrap_or_default()
    }

    /// When the next day begins, also if clocks are changed before.
    pub(super) fn ends(&self, now: Now, zone: &Zone) -> Mono {
        let midnight = zone.first_at(self.seconds.1, now.utc_offset);
        let left = midnight.0.saturating_sub(now.wall.0);
        now.mono + Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}

/// Whether the clock moved by far more or less than the time that has passed.
fn was_set(before: Now, now: Now) -> bool {
    let passed = i64::try_from(now.mono.since(before.mono).as_millis()).unwrap_or(i64::MAX);
    let moved = now.wall.0.saturating_sub(before.wall.0);
    moved.saturating_sub(passed).saturating_abs() > SET_BY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon of day 20,780 (23 November 2026), in s.
    const NOON: i64 = 20_780 * DAY_S + DAY_S / 2;

    /// `since` seconds after the start, with the clock at `wall`.
    fn at(since: u64, wall: i64) -> Now {
        Now { mono: Mono::from_secs(since), wall: Wall::from_secs(wall), utc_offset: 0 }
    }

    fn delay(today: &mut Today, now: Now, times: u64) {
        for _ in 0..times {
            today.delayed(now, now);
        }
    }

    #[test]
    fn what_was_counted_in_1970_is_on_the_day_that_the_clock_is_set_to() {
        let mut today = Today::default();
        delay(&mut today, at(10, 10), 2);
        delay(&mut today, at(60, NOON), 1);
        assert_eq!((today.at(at(61, NOON + 1)).delayed, today.day()), (3, 20_780));
        let midnight = NOON + DAY_S / 2;
        assert_eq!(today.at(at(61 + 43_200, midnight)).delayed, 0, "a day later it is over");
    }

    #[test]
    fn a_day_that_was_stored_outlives_a_start_in_1970() {
        let mut today = Today::resumed(20_780, 4);
        delay(&mut today, at(5, 5), 1);
        assert_eq!(today.at(at(6, 6)).delayed, 5, "spent is spent");
        assert_eq!(today.day(), 20_780, "stored again, it is still that day");
        let mut same = today;
        assert_eq!(same.at(at(60, NOON)).delayed, 5);
        // It was off over night: only what was counted since counts.
        let next = NOON + DAY_S;
        assert_eq!(today.at(at(60, next)).delayed, 1);
        assert_eq!(today.day(), 20_781);
    }

    #[test]
    fn a_day_that_was_stored_in_1970_is_the_day_of_the_first_right_clock() {
        let mut today = Today::resumed(0, 3);
        assert_eq!((today.at(at(0, NOON)).delayed, today.day()), (3, 20_780));
        // One of last year is over, and one that is impossibly late is not believed.
        assert_eq!(Today::resumed(20_400, 3).at(at(0, NOON)).delayed, 0);
        assert_eq!(Today::resumed(i32::MAX, 3).at(at(0, NOON)).delayed, 0);
    }

    #[test]
    fn a_clock_that_goes_on_begins_days_as_always() {
        let mut today = Today::default();
        delay(&mut today, at(0, NOON), 3);
        // The host slept for 20 hours, which its monotonic clock has not seen.
        assert_eq!(today.at(at(60, NOON + 72_000)).delayed, 0);
    }
}
