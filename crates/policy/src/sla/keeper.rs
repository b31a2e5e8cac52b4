//! All forms of an SLA kept together.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_energy::zone::Zone;

use super::visits::DelayedVisits;
use super::{DelayedToday, Sla, SlaWindow};
use crate::sleep::{SlaBudget, Unit};
use crate::visit::Visitor;

const DAY: Duration = Duration::from_hours(24);

/// What the SLA of a server allows: each of its forms that is given.
#[derive(Debug, Default)]
pub struct SlaKeeper {
    share: Option<SlaWindow>,
    visits: Option<DelayedVisits>,
    longest_wait: Option<Duration>,
}

/// How much of each form is used, to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlaUse {
    /// Admitted and delayed requests in the window of the share.
    pub requests: Option<(u64, u64)>,
    /// Today's delayed visits, where their number is limited.
    pub visits_today: Option<u64>,
}

/// The form that forbids another sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Too large a share of the requests would wait.
    Share,
    /// Too many visits would wait today.
    Visits {
        /// Delayed today.
        today: u64,
        /// May be.
        most: u32,
    },
    /// It would take too long to wake.
    LongestWait {
        /// How long it is expected to take.
        expected: Duration,
        /// May take.
        most: Duration,
    },
}

impl SlaKeeper {
    /// With the delayed visits that an earlier process counted.
    pub fn new(sla: Option<Sla>, before: Option<DelayedToday>) -> Self {
        let sla = sla.unwrap_or_default();
        Self {
            share: sla.share.map(SlaWindow::new),
            visits: sla.visits_per_day.map(|most| DelayedVisits::new(most, before)),
            longest_wait: sla.longest_wait,
        }
    }

    /// Keeps another SLA from now on. Today's delayed visits stay counted; a changed share starts again.
    pub fn retune(&mut self, sla: Option<Sla>) {
        let sla = sla.unwrap_or_default();
        if sla.share != self.share.as_ref().map(|window| *window.sla()) {
            self.share = sla.share.map(SlaWindow::new);
        }
        match (sla.visits_per_day, &mut self.visits) {
            (Some(most), Some(visits)) => visits.set_most(most),
            (most, visits) => *visits = most.map(|most| DelayedVisits::new(most, None)),
        }
        self.longest_wait = sla.longest_wait;
    }

    /// An admitted request arrived. One that was counted before is `again`.
    pub fn saw(&mut self, now: Now, visitor: Visitor, again: bool) {
        if let Some(share) = self.share.as_mut().filter(|_| !again) {
            share.saw(now);
        }
        if let Some(visits) = &mut self.visits {
            visits.saw(now, visitor);
        }
    }

    /// One of those that arrived was delayed, since `then`. No visitor is delayed where a whole server waits for
    /// another.
    pub fn delayed(&mut self, now: Now, then: Now, visitor: Option<Visitor>) {
        if let Some(share) = &mut self.share {
            share.delayed(now, then);
        }
        if let Some((visits, visitor)) = self.visits.as_mut().zip(visitor) {
            visits.delayed(now, then, visitor);
        }
    }

    /// A sleep begins.
    pub fn sleeps(&mut self) {
        self.visits.iter_mut().for_each(DelayedVisits::sleeps);
    }

    /// A sleep that requests could end is over.
    pub fn woke(&mut self) {
        self.visits.iter_mut().for_each(DelayedVisits::woke);
    }

    /// Whether the server would take too long to wake.
    pub fn is_too_slow(&self, expected: Duration) -> Option<Broken> {
        let most = self.longest_wait.filter(|&most| expected > most)?;
        Some(Broken::LongestWait { expected, most })
    }

    /// What would be used after one more sleep that delays `requests`, by the form of which most would be; nothing if
    /// no form counts delays.
    pub fn after_one_more(&mut self, now: Now, requests: f64) -> Result<Option<SlaBudget>, Broken> {
        let [share, visits] = self.each(now, requests);
        if visits.is_some_and(|visits| visits.used > 1.0) {
            return Err(self.visits.as_mut().map_or(Broken::Share, |visits| Broken::Visits {
                today: visits.today(now),
                most: visits.most(),
            }));
        }
        if share.is_some_and(|share| share.used > 1.0) {
            return Err(Broken::Share);
        }
        Ok(most_used([share, visits]))
    }

    /// What is used by a sleep that goes on, which was allowed before: nothing.
    pub fn unused(&mut self, now: Now) -> Option<SlaBudget> {
        most_used(self.each(now, 0.0)).map(|budget| SlaBudget { used: 0.0, ..budget })
    }

    fn each(&mut self, now: Now, requests: f64) -> [Option<SlaBudget>; 2] {
        let share = self.share.as_mut().map(|share| SlaBudget {
            used: share.used(now, requests),
            delays: share.allowed(now),
            window: share.sla().window,
            unit: Unit::Request,
        });
        let visits = self.visits.as_mut().map(|visits| SlaBudget {
            used: visits.used(now),
            delays: f64::from(visits.most()),
            window: DAY,
            unit: Unit::Visit,
        });
        [share, visits]
    }

    /// When a form may allow more without a request: nothing else changes it.
    pub fn changes_at(&self, now: Now, zone: &Zone, broken: Broken) -> Mono {
        let share = self.share.as_ref().map(|share| share.changes_at(now, zone));
        let visits = self.visits.as_ref().map(|visits| visits.changes_at(now, zone));
        match broken {
            Broken::Share => share.unwrap_or(Mono::NEVER),
            Broken::Visits { .. } => visits.unwrap_or(Mono::NEVER),
            // Another wake-up would show that it is faster.
            Broken::LongestWait { .. } => Mono::NEVER,
        }
    }

    /// How much is used.
    pub fn in_use(&mut self, now: Now) -> SlaUse {
        SlaUse {
            requests: self.share.as_mut().map(|share| share.counts(now)),
            visits_today: self.visits.as_mut().map(|visits| visits.today(now)),
        }
    }

    /// What is to survive a restart.
    pub fn stored(&self, now: Now) -> Option<DelayedToday> {
        self.visits.as_ref().map(|visits| visits.stored(now))
    }
}

fn most_used(forms: [Option<SlaBudget>; 2]) -> Option<SlaBudget> {
    forms.into_iter().flatten().max_by(|one, other| one.used.total_cmp(&other.used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sla::RequestShare;

    const TENTH: RequestShare =
        RequestShare { share: 0.1, delay: Duration::from_millis(50), window: DAY };

    fn keeper(share: Option<RequestShare>, visits_per_day: Option<u32>) -> SlaKeeper {
        SlaKeeper::new(Some(Sla { share, visits_per_day, longest_wait: None }), None)
    }

    fn seen(mut keeper: SlaKeeper, requests: u64) -> SlaKeeper {
        for visitor in 0..requests {
            keeper.saw(Now::default(), Visitor(visitor), false);
        }
        keeper
    }

    #[test]
    fn the_form_that_is_used_most_gives_the_price() {
        // After one more of 40 requests: 1 / (0.1 x 41) = 0.24 of the share.
        let share = 1.0 / 4.1;
        for (most, used, unit) in [(2, 0.5, Unit::Visit), (100, share, Unit::Request)] {
            let mut both = seen(keeper(Some(TENTH), Some(most)), 40);
            let budget = both.after_one_more(Now::default(), 1.0).unwrap().unwrap();
            assert!((budget.used - used).abs() < 1e-9, "{budget:?}");
            assert_eq!((budget.unit, budget.window), (unit, DAY));
        }
        let mut visits = keeper(None, Some(4));
        let budget = visits.after_one_more(Now::default(), 1.0).unwrap().unwrap();
        assert!((budget.delays - 4.0).abs() < 1e-9 && (budget.used - 0.25).abs() < 1e-9);
    }

    #[test]
    fn each_form_that_is_given_must_hold() {
        let after = |keeper: &mut SlaKeeper| keeper.after_one_more(Now::default(), 1.0);
        assert_eq!(after(&mut seen(keeper(Some(TENTH), Some(3)), 8)), Err(Broken::Share), "1 of 9");
        let mut both = seen(keeper(Some(TENTH), Some(1)), 100);
        both.delayed(Now::default(), Now::default(), Some(Visitor(1)));
        assert_eq!(after(&mut both), Err(Broken::Visits { today: 1, most: 1 }));
        assert_eq!(after(&mut keeper(None, None)), Ok(None), "no form counts");
    }

    #[test]
    fn a_server_that_wakes_in_the_longest_wait_itself_may_sleep() {
        let most = Duration::from_secs(10);
        let sla = Sla { longest_wait: Some(most), ..Sla::default() };
        let keeper = SlaKeeper::new(Some(sla), None);
        assert_eq!(keeper.is_too_slow(most), None);
        let expected = Duration::from_millis(10_001);
        assert_eq!(keeper.is_too_slow(expected), Some(Broken::LongestWait { expected, most }));
    }

    #[test]
    fn a_reload_keeps_what_was_counted_of_forms_that_stay() {
        let now = Now::default();
        let mut keeper = seen(keeper(Some(TENTH), Some(3)), 10);
        keeper.delayed(now, now, Some(Visitor(1)));
        keeper.retune(Some(Sla {
            share: Some(TENTH),
            visits_per_day: Some(1),
            longest_wait: None,
        }));
        let both = SlaUse { requests: Some((10, 1)), visits_today: Some(1) };
        assert_eq!(keeper.in_use(now), both);
        let fifth = RequestShare { share: 0.2, ..TENTH };
        keeper.retune(Some(Sla { share: Some(fifth), ..Sla::default() }));
        assert_eq!(keeper.in_use(now), SlaUse { requests: Some((0, 0)), visits_today: None });
    }

    #[test]
    fn a_page_that_is_opened_again_is_counted_once() {
        let mut keeper = keeper(Some(TENTH), Some(3));
        keeper.saw(Now::default(), Visitor(1), false);
        keeper.saw(Now::default(), Visitor(1), true);
        assert_eq!(keeper.in_use(Now::default()).requests, Some((1, 0)));
    }
}
