//! When a certificate is got: pure.

use std::time::Duration;

use nightwatt_model::time::{Mono, Now, Wall};

use crate::tls::validity::Validity;

/// After the first failure; each further one doubles it. Authorities count failures by the hour.
const FIRST_PAUSE: Duration = Duration::from_mins(5);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_hours(12);

/// How attempts at a certificate went since the last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    failures: u32,
    not_before: Mono,
}

impl Attempts {
    /// When the next one is due, for a certificate that is valid so, or is not there.
    pub(super) fn next(&self, validity: Option<Validity>, now: Now) -> Mono {
        (now.mono + wait(validity, now.wall)).max(self.not_before)
    }

    /// One came to nothing. Gives the pause before the next.
    pub(super) fn failed(&mut self, now: Mono) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
        let pause = doubled.min(LONGEST_PAUSE);
        self.failures += 1;
        self.not_before = now + pause;
        pause
    }
}

/// How long a certificate is good enough: until two thirds of its time are over, as authorities advise. None
/// at all is not.
pub(super) fn wait(validity: Option<Validity>, now: Wall) -> Duration {
    let Some(Validity { from, until }) = validity else { return Duration::ZERO };
    let third = until.saturating_sub(from) / 3;
    let renewal = until.saturating_sub(third);
    let seconds = renewal.saturating_sub(now.0.div_euclid(1000));
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
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
        let mut attempts = Attempts::default();
        let mut now = Mono::ZERO;
        let mut times = Vec::new();
        for _ in 0..20 {
            times.push(now);
            attempts.failed(now);
            now = attempts.next(None, Now { mono: now, ..at(0, 0) });
        }
        for (index, time) in times.iter().enumerate() {
            let within = times[index..].iter().take_while(|it| it.since(*time).as_secs() < 3600);
            assert!(within.count() <= 5);
        }
        let last = times[19].since(times[18]);
        assert_eq!(last, LONGEST_PAUSE);
    }

    #[test]
    fn a_clock_that_is_wrong_by_decades_does_no_harm() {
        let validity = Some(Validity { from: i64::MIN, until: i64::MAX });
        assert!(wait(validity, Wall(i64::MAX)) > Duration::ZERO);
        let next = Attempts::default().next(validity, at(5, 0));
        assert!(next > Mono::from_secs(5));
    }
}
