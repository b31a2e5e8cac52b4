//! How much may be written: memory cards bear only so many writes.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Now};

use super::record::Day;

const DAY: Duration = Duration::from_hours(24);
const DAY_MS: i64 = DAY.as_millis() as i64;

/// What was written today, and what may be. The time and the kernel's count are the caller's.
#[derive(Debug)]
pub struct Budget {
    allowed: u64,
    /// The latest day that there was.
    day: i64,
    /// Since when the clock has stood before that.
    behind: Option<Mono>,
    /// Bytes of the cache today.
    cache: u64,
    /// Bytes of the whole process today, as the kernel counts them.
    whole: u64,
    /// The kernel's count when it was last looked at.
    seen: Option<u64>,
}

impl Budget {
    /// Allows this many bytes a day. `known` is what an earlier process wrote on its last day.
    pub fn new(allowed: u64, known: Option<Day>) -> Self {
        let known = known.unwrap_or_default();
        let (day, cache, whole) = (known.day, known.cache, known.spent());
        Self { allowed, day, behind: None, cache, whole, seen: None }
    }

    /// Updates the time, and the number of bytes that the process has written since it started, if the kernel reports
    /// it.
    pub fn look(&mut self, now: Now, kernel: Option<u64>) {
        let day = now.wall.0.div_euclid(DAY_MS);
        // A board without a battery-backed clock starts in 1970, or when it was last off, and returns to the current
        // day later: that must not give it a second budget. A clock that is behind is believed only after a whole day:
        // otherwise a clock that was once set to a far year would end all budgets.
        let since = (day < self.day).then(|| self.behind.unwrap_or(now.mono));
        self.behind = since;
        if day > self.day || since.is_some_and(|since| now.mono.since(since) >= DAY) {
            (self.day, self.behind) = (day, None);
            (self.cache, self.whole) = (0, 0);
        }
        if let (Some(kernel), Some(seen)) = (kernel, self.seen) {
            self.whole = self.whole.saturating_add(kernel.saturating_sub(seen));
        }
        self.seen = kernel;
    }

    /// The cache has written this many bytes.
    pub const fn wrote(&mut self, bytes: u64) {
        self.cache = self.cache.saturating_add(bytes);
    }

    /// Bytes that the cache may still write today.
    pub const fn left(&self) -> u64 {
        self.allowed.saturating_sub(self.today().spent())
    }

    /// What was written today.
    pub const fn today(&self) -> Day {
        let other = self.whole.saturating_sub(self.cache);
        Day { day: self.day, cache: self.cache, other }
    }

    /// Bytes a day.
    pub const fn allowed(&self) -> u64 {
        self.allowed
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Wall;

    use super::*;

    const fn at(day: i64, hour: i64) -> Now {
        let wall = Wall::from_secs(day * 86_400 + hour * 3600);
        Now { mono: Mono::ZERO, wall, utc_offset: 0 }
    }

    #[test]
    fn the_day_is_spent_by_all_that_is_written_and_the_next_begins_anew() {
        let mut budget = Budget::new(1000, None);
        budget.look(at(10, 1), Some(5000));
        assert_eq!(budget.left(), 1000, "what was written before is not known");
        budget.wrote(300);
        assert_eq!(budget.left(), 700, "at once, before the kernel is asked");
        budget.look(at(10, 2), Some(5000 + 450));
        assert_eq!(budget.today(), Day { day: 10, cache: 300, other: 150 });
        assert_eq!(budget.left(), 550);
        budget.look(at(10, 23), Some(9000));
        assert_eq!(budget.left(), 0);
        budget.look(at(11, 0), Some(9100));
        assert_eq!(budget.today(), Day { day: 11, cache: 0, other: 100 });
    }

    #[test]
    fn a_restart_on_the_same_day_goes_on_and_on_another_does_not() {
        let known = Some(Day { day: 10, cache: 300, other: 500 });
        let mut same = Budget::new(1000, known);
        same.look(at(10, 5), Some(77));
        assert_eq!(same.left(), 200);
        let mut next = Budget::new(1000, known);
        next.look(at(11, 5), Some(77));
        assert_eq!(next.left(), 1000);
    }

    #[test]
    fn a_board_without_a_clock_gets_no_second_day_by_starting_in_1970() {
        for boot in [0, 9] {
            let mut budget = Budget::new(1000, Some(Day { day: 10, cache: 300, other: 500 }));
            budget.look(at(boot, 5), None);
            assert_eq!(budget.left(), 200);
            budget.wrote(50);
            budget.look(at(10, 5), None);
            assert_eq!(budget.today(), Day { day: 10, cache: 350, other: 450 });
            budget.look(at(11, 0), None);
            assert_eq!(budget.left(), 1000);
        }
    }

    #[test]
    fn a_clock_that_stays_behind_for_a_day_is_believed() {
        let after = |hour| Now { mono: Mono::ZERO + Duration::from_hours(hour), ..at(10, 5) };
        let mut budget = Budget::new(1000, Some(Day { day: 30_000, cache: 300, other: 500 }));
        budget.look(after(1), None);
        budget.look(after(24), None);
        assert_eq!((budget.left(), budget.today().day), (200, 30_000));
        budget.look(after(25), None);
        assert_eq!((budget.left(), budget.today().day), (1000, 10));
        budget.wrote(1);
        budget.look(after(26), None);
        assert_eq!(budget.left(), 999);
    }

    #[test]
    fn where_the_kernel_says_nothing_the_cache_counts_alone() {
        let mut budget = Budget::new(1000, None);
        budget.look(at(10, 1), None);
        budget.wrote(400);
        budget.look(at(10, 2), None);
        assert_eq!((budget.left(), budget.today().other), (600, 0));
    }
}
