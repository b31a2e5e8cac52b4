//! The SLA that counts people: at most a number of visits a day waits.

use nightwatt_energy::time::{Mono, Now};
use nightwatt_energy::zone::Zone;
use serde::{Deserialize, Serialize};

use super::day::Today;
use crate::visit::{OpenVisits, Visitor};

/// How fast the number of visits that one sleep delays is relearnt: a new sleep counts a fifth.
const GAIN: f64 = 0.2;

/// The delayed visits of a local calendar day, and how many more one sleep is expected to add.
#[derive(Debug)]
pub(super) struct DelayedVisits {
    /// Visits a day that may be delayed.
    most: u32,
    today: Today,
    /// Whether each visit in progress was delayed already.
    open: OpenVisits<bool>,
    this_sleep: u32,
    per_sleep: f64,
}

/// Delayed visits of a day, for storing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayedToday {
    /// The local calendar day, in days since 1970.
    pub day: i32,
    /// Its delayed visits.
    pub visits: u64,
}

impl DelayedVisits {
    /// With what an earlier process counted.
    pub(super) fn new(most: u32, before: Option<DelayedToday>) -> Self {
        let today = before.map(|before| Today::resumed(before.day, before.visits));
        Self {
            most,
            today: today.unwrap_or_default(),
            open: OpenVisits::default(),
            this_sleep: 0,
            per_sleep: 1.0,
        }
    }

    pub(super) const fn most(&self) -> u32 {
        self.most
    }

    /// From now on another number may be delayed. Those counted stay.
    pub(super) fn set_most(&mut self, most: u32) {
        self.most = most;
    }

    /// A visitor's request arrived.
    pub(super) fn saw(&mut self, now: Now, visitor: Visitor) {
        self.open.of(now.mono, visitor);
    }

    /// The request that arrived `then` was delayed: one more visit is, unless this one was already. A visit counts on
    /// the day on which its first delayed request arrived.
    pub(super) fn delayed(&mut self, now: Now, then: Now, visitor: Visitor) {
        let was_delayed = self.open.of(now.mono, visitor);
        if !std::mem::replace(was_delayed, true) {
            self.today.delayed(now, then);
            self.this_sleep += 1;
        }
    }

    /// A sleep begins.
    pub(super) fn sleeps(&mut self) {
        self.this_sleep = 0;
    }

    /// A sleep is over: how many visits has it delayed?
    pub(super) fn woke(&mut self) {
        let seen = f64::from(self.this_sleep);
        self.per_sleep = (self.per_sleep + GAIN * (seen - self.per_sleep)).max(1.0);
    }

    /// Today's delayed visits.
    pub(super) fn today(&mut self, now: Now) -> u64 {
        self.today.at(now).delayed
    }

    /// The share of today's delayed visits that would be used after one more sleep, if that delays as many as sleeps
    /// do on average; up to 1 the SLA holds.
    ///
    /// A sleep is never expected to delay more than a whole day may: after a few sleeps that delayed many visits at
    /// once, the server would never sleep again, and never learn that sleeps delay fewer by now.
    pub(super) fn used(&mut self, now: Now) -> f64 {
        let most = f64::from(self.most);
        let more = self.per_sleep.min(most).max(1.0);
        (self.today(now) as f64 + more) / most.max(f64::MIN_POSITIVE)
    }

    /// When more may be delayed without a request: at midnight.
    pub(super) fn changes_at(&self, now: Now, zone: &Zone) -> Mono {
        let mut today = self.today;
        if self.most == 0 { Mono::NEVER } else { today.at(now).ends(now, zone) }
    }

    /// What is to survive a restart.
    pub(super) fn stored(&self, now: Now) -> DelayedToday {
        let mut today = self.today;
        let today = today.at(now);
        DelayedToday { day: today.day(), visits: today.delayed }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nightwatt_energy::time::Wall;
    use nightwatt_energy::zone::OffsetChange;
    use proptest::prelude::*;

    use super::*;

    fn at(second: u64) -> Now {
        let wall = Wall::from_secs(second.cast_signed());
        Now { mono: Mono::from_secs(second), wall, utc_offset: 0 }
    }

    fn allows(visits: &mut DelayedVisits, now: Now) -> bool {
        visits.used(now) <= 1.0
    }

    #[test]
    fn three_visits_a_day_may_wait_and_the_fourth_may_not() {
        let mut visits = DelayedVisits::new(3, None);
        for n in 0..3 {
            let now = at(n * 3600);
            // (0 + 1) / 3, (1 + 1) / 3, (2 + 1) / 3.
            assert!((visits.used(now) - (n as f64 + 1.0) / 3.0).abs() < 1e-9);
            visits.delayed(now, now, Visitor(n));
        }
        assert!(!allows(&mut visits, at(86_399)));
        assert_eq!(visits.changes_at(at(86_000), &Zone::default()), Mono::from_secs(86_400));
        assert!(allows(&mut visits, at(86_400)), "at midnight the next day begins");
        assert_eq!(visits.today(at(86_400)), 0);
    }

    #[test]
    fn a_visitor_delayed_twice_in_a_visit_counts_once_and_in_the_next_visit_again() {
        let mut visits = DelayedVisits::new(3, None);
        for second in [0, 60, 1800] {
            visits.delayed(at(second), at(second), Visitor(1));
        }
        assert_eq!(visits.today(at(1800)), 1, "no pause of half an hour");
        // Requests that do not wait carry the visit on.
        visits.saw(at(3000), Visitor(1));
        visits.delayed(at(4000), at(4000), Visitor(1));
        assert_eq!(visits.today(at(4000)), 1);
        visits.delayed(at(4000 + 1800), at(4000 + 1800), Visitor(1));
        assert_eq!(visits.today(at(5800)), 2);
    }

    #[test]
    fn a_visit_that_was_delayed_before_midnight_is_not_delayed_again_after_it() {
        let mut visits = DelayedVisits::new(3, None);
        visits.delayed(at(86_390), at(86_390), Visitor(1));
        visits.delayed(at(86_410), at(86_410), Visitor(1));
        assert_eq!(visits.today(at(86_410)), 0);
    }

    #[test]
    fn sleeps_that_delay_many_visits_at_once_are_expected_to_do_so_again() {
        let mut visits = DelayedVisits::new(10, None);
        visits.sleeps();
        for visitor in 0..6 {
            visits.delayed(at(10), at(10), Visitor(visitor));
        }
        visits.woke();
        // 1 + (6 - 1) / 5 = 2 more: 6 + 2 = 8 of 10.
        assert!((visits.used(at(11)) - 0.8).abs() < 1e-9);
        visits.delayed(at(20), at(20), Visitor(7));
        visits.delayed(at(20), at(20), Visitor(8));
        assert!((visits.used(at(21)) - 1.0).abs() < 1e-9);
        visits.delayed(at(22), at(22), Visitor(9));
        assert!(!allows(&mut visits, at(23)), "9 + 2 > 10");
    }

    #[test]
    fn a_crowd_once_does_not_end_all_sleep() {
        let mut visits = DelayedVisits::new(1, None);
        visits.sleeps();
        for visitor in 0..50 {
            visits.delayed(at(10), at(10), Visitor(visitor));
        }
        visits.woke();
        assert!(!allows(&mut visits, at(11)));
        assert!(allows(&mut visits, at(86_400)), "10.8 are expected, but a day may try one sleep");
    }

    #[test]
    fn none_a_day_means_no_sleep() {
        assert!(!allows(&mut DelayedVisits::new(0, None), at(0)));
    }

    #[test]
    fn the_count_of_today_outlives_a_restart_and_that_of_yesterday_does_not() {
        let mut visits = DelayedVisits::new(2, None);
        let noon = 20_000 * 86_400 + 43_200;
        visits.delayed(at(noon), at(noon), Visitor(1));
        visits.delayed(at(noon), at(noon), Visitor(2));
        let stored = visits.stored(at(noon));
        assert_eq!(stored, DelayedToday { day: 20_000, visits: 2 });
        assert!(!allows(&mut DelayedVisits::new(2, Some(stored)), at(noon + 60)));
        assert!(allows(&mut DelayedVisits::new(2, Some(stored)), at(noon + 43_200)));
    }

    #[test]
    fn a_visit_counts_on_the_day_on_which_its_first_delayed_request_arrived() {
        // It arrives 2 s before midnight, and the server wakes 3 s after it.
        let mut visits = DelayedVisits::new(3, None);
        visits.delayed(at(86_403), at(86_398), Visitor(1));
        assert_eq!(visits.today(at(86_403)), 0, "it is on yesterday's count");
        // Another arrives 1 s after midnight: the first look at the new day is later than that.
        let mut visits = DelayedVisits::new(3, None);
        visits.delayed(at(86_398), at(86_398), Visitor(1));
        visits.delayed(at(86_405), at(86_401), Visitor(2));
        assert_eq!(visits.today(at(86_405)), 1);
    }

    #[test]
    fn a_visit_over_midnight_counts_on_its_day_also_when_clocks_change_then() {
        // Havana: at 01:00 of 1 November 2026 clocks go back to 00:00 (05:00 UTC), so midnight comes twice.
        let midnight = 1_793_505_600;
        let local = |second: u64| Now {
            utc_offset: if second < midnight + 3600 { -4 * 3600 } else { -5 * 3600 },
            ..at(second)
        };
        let mut visits = DelayedVisits::new(9, None);
        visits.delayed(local(midnight - 5), local(midnight - 9), Visitor(1));
        assert_eq!(visits.today(local(midnight - 5)), 1);
        visits.delayed(local(midnight + 3), local(midnight - 2), Visitor(2));
        assert_eq!(visits.today(local(midnight + 3)), 0, "2 counts on 31 October");
        // Held over the second midnight: it is the same day.
        visits.delayed(local(midnight + 3605), local(midnight + 3595), Visitor(3));
        assert_eq!(visits.today(local(midnight + 3605)), 1);
        // Berlin: the day on which clocks go forward at 02:00 begins an hour further from then.
        let zone = berlin();
        let berlin = |second: u64| Now {
            utc_offset: zone.offset_at(Wall::from_secs(second.cast_signed()), 0),
            ..at(second)
        };
        let midnight = 1_774_738_800;
        let mut visits = DelayedVisits::new(9, None);
        visits.delayed(berlin(midnight - 60), berlin(midnight - 65), Visitor(1));
        visits.delayed(berlin(midnight + 3 * 3600), berlin(midnight + 3 * 3600 - 5), Visitor(2));
        assert_eq!(visits.today(berlin(midnight + 3 * 3600)), 1);
    }

    /// Central European time in 2026: summer begins on 29 March and ends on 25 October, both at 01:00 UTC.
    fn berlin() -> Zone {
        let change = |at: i64, utc_offset| OffsetChange { at: Wall::from_secs(at), utc_offset };
        Zone::new(vec![change(0, 3600), change(1_774_746_000, 7200), change(1_792_890_000, 3600)])
    }

    #[test]
    fn days_on_which_clocks_change_last_23_and_25_hours() {
        let zone = berlin();
        // 28 March, 23:30 local time; 24 October, 23:30.
        for (evening, hours) in [(1_774_737_000, 23), (1_792_877_400, 25)] {
            let mut visits = DelayedVisits::new(1, None);
            let local = |second: u64| Now {
                utc_offset: zone.offset_at(Wall::from_secs(second.cast_signed()), 0),
                ..at(second)
            };
            visits.delayed(local(evening), local(evening), Visitor(1));
            let midnight = evening + 1800;
            assert_eq!(visits.changes_at(local(evening), &zone), Mono::from_secs(midnight));
            assert!(
                !allows(&mut visits, local(midnight - 1)) && allows(&mut visits, local(midnight))
            );
            visits.delayed(local(midnight), local(midnight), Visitor(2));
            let next = midnight + hours * 3600;
            assert_eq!(visits.changes_at(local(midnight), &zone), Mono::from_secs(next));
            assert!(!allows(&mut visits, local(next - 1)), "{hours} h");
            assert!(allows(&mut visits, local(next)), "{hours} h");
        }
    }

    proptest! {
        #[test]
        fn never_more_a_day_than_may_while_each_wake_up_delays_one_visit(
            most in 0_u32..6,
            gaps in prop::collection::vec(1_u64..20_000, 1..200),
            restart_every in 1_usize..50,
        ) {
            let mut visits = DelayedVisits::new(most, None);
            let (mut second, mut by_day) = (0, std::collections::BTreeMap::<u64, u64>::new());
            for (n, gap) in gaps.iter().enumerate() {
                let asleep = allows(&mut visits, at(second));
                if asleep {
                    visits.sleeps();
                }
                second += gap;
                if asleep {
                    visits.delayed(at(second), at(second), Visitor(n as u64));
                    visits.woke();
                    *by_day.entry(second / 86_400).or_default() += 1;
                }
                if n % restart_every == 0 {
                    let stored = visits.stored(at(second));
                    visits = DelayedVisits::new(most, Some(stored));
                }
            }
            prop_assert!(by_day.values().all(|&delayed| delayed <= u64::from(most)), "{by_day:?}");
        }
    }

    #[test]
    fn a_day_far_away_is_read_as_another_day() {
        let far = DelayedToday { day: i32::MAX, visits: u64::MAX };
        let mut visits = DelayedVisits::new(1, Some(far));
        assert_eq!(visits.today(at(0)), 0);
        assert_eq!(
            visits.changes_at(at(0), &Zone::default()),
            Mono::ZERO + Duration::from_hours(24)
        );
    }
}
