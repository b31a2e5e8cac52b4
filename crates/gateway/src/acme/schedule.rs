//! When to obtain a certificate: pure.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

use crate::tls::validity::Validity;

/// Pause after the first failure; each further failure doubles it. Authorities count failures per hour.
const FIRST_PAUSE: Duration = Duration::from_mins(5);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_hours(12);

/// Pause after the cause may have been fixed: still within four attempts per hour.
const SHORT_PAUSE: Duration = Duration::from_mins(15);

/// Attempts at a certificate since the last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attempts {
    failures: u32,
    /// When the last one failed, in ms since 1970.
    failed_at_ms: i64,
    pause_s: u64,
}

impl Attempts {
    /// When the next attempt is due, for a certificate that is due for renewal after `wait`.
    pub(super) fn next(&self, wait: Duration, now: Now) -> Mono {
        let pause = Duration::from_secs(self.pause_s);
        let since = now.wall.0.saturating_sub(self.failed_at_ms);
        // If the clock was set back, the elapsed time is unknown: the pause begins now.
        let since = Duration::from_millis(u64::try_from(since).unwrap_or(0));
        now.mono + wait.max(pause.saturating_sub(since))
    }

    /// An attempt failed. Returns the pause before the next one, at least `least`.
    pub(super) fn failed(&mut self, now: Wall, least: Duration) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
        let pause = doubled.min(LONGEST_PAUSE).max(least);
        self.failures = self.failures.saturating_add(1);
        (self.failed_at_ms, self.pause_s) = (now.0, pause.as_secs());
        pause
    }

    /// The cause of the failures may have been fixed: shortens the pause.
    pub(super) fn hurry(&mut self) {
        // Longer pauses are not for failures, and stay.
        if self.pause_s <= LONGEST_PAUSE.as_secs() {
            self.pause_s = self.pause_s.min(SHORT_PAUSE.as_secs());
        }
    }
}

/// When a certificate is due for renewal, in seconds since 1970: when two thirds of its lifetime are over, as authorities
/// advise.
pub(super) fn moment(validity: Validity) -> i64 {
    let Validity { from, until } = validity;
    until.saturating_sub(until.saturating_sub(from) / 3)
}

/// How long until a moment, in seconds since 1970.
pub(super) fn left(moment: i64, now: Wall) -> Duration {
    let seconds = moment.saturating_sub(now.0.div_euclid(1000));
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// How long until a certificate is due for renewal. A missing one is due at once.
pub(super) fn wait(validity: Option<Validity>, now: Wall) -> Duration {
    validity.map_or(Duration::ZERO, |it| left(moment(it), now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn at(mono: u64, wall: i64) -> Now {
        Now { mono: Mono::from_secs(mono), wall: Wall(wall * 1000), utc_offset: 0 }
    }

    #[test]
    fn ninety_days_are_renewed_after_sixty() {
        let validity = Some(Validity { from: 0, until: 90 * DAY });
        let waits = |day: i64| wait(validity, Wall(day * DAY * 1000)).as_secs() / DAY as u64;
        assert_eq!([waits(0), waits(10), waits(59), waits(60), waits(100)], [60, 50, 1, 0, 0]);
        assert_eq!(wait(None, Wall(0)), Duration::ZERO);
    }

    #[test]
    fn failures_are_tried_again_ever_later_and_no_more_than_five_times_in_an_hour() {
        for hurries in [false, true] {
            let (mut attempts, mut seconds) = (Attempts::default(), 0);
            let mut times: Vec<u64> = Vec::new();
            for _ in 0..20 {
                times.push(seconds);
                let wall = i64::try_from(seconds).unwrap();
                attempts.failed(Wall::from_secs(wall), Duration::ZERO);
                if hurries {
                    attempts.hurry();
                }
                let next = attempts.next(Duration::ZERO, at(seconds, wall));
                seconds = next.0.as_secs();
            }
            for (index, time) in times.iter().enumerate() {
                let within = times[index..].iter().take_while(|it| *it - time < 3600);
                assert!(within.count() <= 5, "{times:?}");
            }
            let last = if hurries { SHORT_PAUSE } else { LONGEST_PAUSE };
            assert_eq!(times[19] - times[18], last.as_secs());
        }
    }

    #[test]
    fn a_pause_outlasts_a_restart_and_a_clock_that_is_set_back() {
        let mut attempts = Attempts::default();
        let pause = attempts.failed(Wall::from_secs(1000), Duration::from_hours(34));
        assert_eq!(pause, Duration::from_hours(34));
        attempts.hurry();
        let text = serde_json::to_string(&attempts).unwrap();
        let kept: Attempts = serde_json::from_str(&text).unwrap();
        // Another process, whose clock started from zero.
        assert_eq!(kept.next(Duration::ZERO, at(7, 1000 + 3600)), Mono::from_secs(7 + 33 * 3600));
        assert_eq!(kept.next(Duration::ZERO, at(7, 0)), Mono::from_secs(7 + 34 * 3600));
    }

    #[test]
    fn a_clock_that_is_wrong_by_decades_does_no_harm() {
        let validity = Some(Validity { from: i64::MIN, until: i64::MAX });
        assert!(wait(validity, Wall(i64::MAX)) > Duration::ZERO);
        let next = Attempts::default().next(wait(validity, Wall(0)), at(5, 0));
        assert!(next > Mono::from_secs(5));
    }
}
