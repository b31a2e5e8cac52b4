//! When a meter is to be read: absolute deadlines, so that lateness does not add up.

use std::time::Duration;

use nightwatt_energy::time::Mono;

/// Deadlines at even distances from a start.
#[derive(Debug, Clone)]
pub struct Schedule {
    interval: Duration,
    next: Mono,
    missed: u64,
}

impl Schedule {
    /// The first deadline is `start`.
    pub const fn new(start: Mono, interval: Duration) -> Self {
        Self { interval, next: start, missed: 0 }
    }

    /// The next deadline.
    pub const fn next(&self) -> Mono {
        self.next
    }

    /// Deadlines that passed before the one before them was done with.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// The next deadline is the first after `now`; what lies before is not missed.
    pub fn skip_to(&mut self, now: Mono) {
        let missed = self.missed;
        self.kept(now);
        if self.next <= now {
            self.next = self.next + self.interval;
        }
        self.missed = missed;
    }

    /// A deadline has been kept, and it is `now`: those that have passed by now are missed.
    pub fn kept(&mut self, now: Mono) {
        self.next = self.next + self.interval;
        let late = now.since(self.next).as_nanos();
        if now > self.next {
            let missed = late / self.interval.as_nanos().max(1);
            let missed = u32::try_from(missed).unwrap_or(u32::MAX);
            // The one that is due now is not missed yet: it comes late.
            self.missed += u64::from(missed);
            self.next = self.next + self.interval.saturating_mul(missed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Mono {
        Mono(Duration::from_millis(millis))
    }

    #[test]
    fn lateness_does_not_add_up() {
        let mut schedule = Schedule::new(ms(100), Duration::from_millis(10));
        for tick in 0..1000 {
            assert_eq!(schedule.next(), ms(100 + 10 * tick));
            schedule.kept(ms(100 + 10 * tick + 9));
        }
        assert_eq!(schedule.missed(), 0);
    }

    #[test]
    fn what_passes_while_a_meter_is_away_is_not_missed() {
        let mut schedule = Schedule::new(ms(0), Duration::from_millis(10));
        schedule.kept(ms(1));
        schedule.skip_to(ms(60_003));
        assert_eq!((schedule.missed(), schedule.next()), (0, ms(60_010)));
        schedule.kept(ms(60_011));
        assert_eq!((schedule.missed(), schedule.next()), (0, ms(60_020)));
    }

    #[test]
    fn deadlines_that_pass_are_missed_and_counted() {
        let mut schedule = Schedule::new(ms(0), Duration::from_millis(10));
        // Kept 35 ms late: 10 and 20 have passed, 30 is due and late.
        schedule.kept(ms(35));
        assert_eq!((schedule.missed(), schedule.next()), (2, ms(30)));
        schedule.kept(ms(36));
        assert_eq!((schedule.missed(), schedule.next()), (2, ms(40)));
        // A day late.
        schedule.kept(ms(86_400_000));
        assert_eq!(schedule.missed() + 3, 86_400_000 / 10, "those at 0, 30 and 40 ms were kept");
        assert_eq!(schedule.next(), ms(86_400_000));
    }
}
