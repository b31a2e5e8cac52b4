//! The yardstick: a policy that knows the future.

use std::time::Duration;

use super::{Idle, Observation, SleepPolicy, Verdict};
use crate::energy::PowerStates;
use crate::quantity::Joules;
use crate::time::{Mono, Now};

/// What binds the oracle as it binds every other policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constraints {
    /// Of the server.
    pub states: PowerStates,
    /// Awake at least this long after waking.
    pub min_on: Duration,
    /// Awake at least this long after each request.
    pub quiet: Duration,
}

/// One sleep of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep {
    /// Sleep command.
    pub from: Mono,
    /// Awake again; [`Mono::NEVER`] when nobody comes any more.
    pub until: Mono,
}

/// When to sleep, given the future.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// In order, not overlapping.
    pub sleeps: Vec<Sleep>,
    /// Saved against staying awake.
    pub saved: Joules,
}

/// The plan that saves most while **nobody waits**: the server is awake at each of the `demands`.
///
/// Time runs from `start` (awake since then) to `end`; `demands` are the ascending times of the
/// requests that only the server can answer. A plan sleeps at most once between two demands, as
/// soon as it may, and wakes just in time for the next. Among those plans it is optimal: minimum on
/// time makes a sleep depend only on the wake-up before it, and only the gap in which that minimum
/// ends is shortened by it, so the best remainder after each wake-up follows from later ones (dynamic
/// programming from the end, linear time). Tested against trying all plans.
pub fn plan(demands: &[Mono], start: Mono, end: Mono, rules: &Constraints) -> Plan {
    let mut times = Vec::with_capacity(demands.len() + 2);
    times.push(start);
    times.extend(demands.iter().copied().filter(|at| (start..end).contains(at)));
    let gaps = Gaps { times: &times, end, rules };
    let best = gaps.best_from_each_wake();
    gaps.walk(&best)
}

struct Gaps<'a> {
    /// Demand `i` opens gap `i`, which ends at demand `i + 1` or at the end.
    times: &'a [Mono],
    end: Mono,
    rules: &'a Constraints,
}

/// What is best once the server woke at a demand: how much is saved from there on, and in which gap
/// it sleeps next.
#[derive(Clone, Copy)]
struct Best {
    saved: f64,
    sleeps_in: Option<usize>,
}

impl Gaps<'_> {
    const NOTHING: Best = Best { saved: 0.0, sleeps_in: None };

    /// Saving of sleeping in gap `i`, from `from` on; `None` if it cannot be or does not pay.
    fn saving(&self, i: usize, from: Mono) -> Option<f64> {
        let states = &self.rules.states;
        let until = *self.times.get(i + 1).unwrap_or(&self.end);
        let asleep = until.since(from);
        let must_wake = i + 1 < self.times.len();
        if asleep.is_zero() || must_wake && asleep < states.sleep_time + states.wake_time {
            return None;
        }
        let saved = ((states.on - states.off) * asleep - states.switch).get();
        (saved > 0.0).then_some(saved)
    }

    fn quiet(&self, i: usize) -> Mono {
        self.times[i] + self.rules.quiet
    }

    /// The first gap, at or after `woke`, in which the minimum on time no longer matters.
    fn first_free(&self, woke: usize) -> usize {
        let over = self.times[woke] + self.rules.min_on;
        woke + self.times[woke..].partition_point(|&at| at + self.rules.quiet < over)
    }

    fn best_from_each_wake(&self) -> Vec<Best> {
        let n = self.times.len();
        // best[n]: after the last gap there is nothing more to save.
        let mut best = vec![Self::NOTHING; n + 1];
        // free[i]: the best from gap i on, when the minimum on time is over before gap i.
        let mut free = vec![Self::NOTHING; n + 1];
        for i in (0..n).rev() {
            free[i] = free[i + 1];
            if let Some(saved) = self.saving(i, self.quiet(i)) {
                let saved = saved + best[i + 1].saved;
                if saved > free[i].saved {
                    free[i] = Best { saved, sleeps_in: Some(i) };
                }
            }
            let first_free = self.first_free(i);
            best[i] = free[first_free];
            // Only the gap in which the minimum on time ends can still be slept in, from its end on.
            if let Some(cut) = first_free.checked_sub(1).filter(|&cut| cut >= i)
                && let Some(saved) = self.saving(cut, self.times[i] + self.rules.min_on)
            {
                let saved = saved + best[cut + 1].saved;
                if saved > best[i].saved {
                    best[i] = Best { saved, sleeps_in: Some(cut) };
                }
            }
        }
        best
    }

    fn walk(&self, best: &[Best]) -> Plan {
        let mut plan = Plan { sleeps: Vec::new(), saved: Joules(best[0].saved) };
        let mut woke = 0;
        while let Some(gap) = best.get(woke).and_then(|best| best.sleeps_in) {
            let from = self.quiet(gap).max(self.times[woke] + self.rules.min_on);
            let until = *self.times.get(gap + 1).unwrap_or(&Mono::NEVER);
            plan.sleeps.push(Sleep { from, until });
            woke = gap + 1;
        }
        plan
    }
}

/// Plays a [`Plan`].
#[derive(Debug, Clone)]
pub struct Oracle {
    plan: Plan,
    next: usize,
    wake_time: Duration,
}

impl Oracle {
    /// Plays `plan` with a server that takes `wake_time` to wake.
    pub const fn new(plan: Plan, wake_time: Duration) -> Self {
        Self { plan, next: 0, wake_time }
    }
}

impl SleepPolicy for Oracle {
    fn observe(&mut self, _: Now, _: &Observation) {}

    fn verdict(&mut self, now: Now, _: &Idle) -> Verdict {
        while let Some(sleep) = self.plan.sleeps.get(self.next) {
            if now.mono < sleep.from {
                return Verdict::AskAgainAt(sleep.from);
            }
            self.next += 1;
            if now.mono < sleep.until {
                return Verdict::Sleep;
            }
        }
        Verdict::Stay
    }

    fn wake_at(&self) -> Option<Mono> {
        let sleep = self.plan.sleeps.get(self.next.checked_sub(1)?)?;
        (sleep.until != Mono::NEVER).then(|| sleep.until - self.wake_time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::quantity::Watts;

    fn rules(min_on: u64) -> Constraints {
        let states = PowerStates {
            on: Watts(43.3),
            off: Watts(1.6),
            switch: Joules(170.7),
            wake_time: Duration::from_secs(5),
            sleep_time: Duration::from_secs(5),
        };
        Constraints { states, min_on: Duration::from_secs(min_on), quiet: Duration::from_secs(5) }
    }

    fn seconds(times: &[u64]) -> Vec<Mono> {
        times.iter().map(|&at| Mono::from_secs(at)).collect()
    }

    /// Tries every set of gaps to sleep in.
    fn by_brute_force(demands: &[Mono], end: Mono, rules: &Constraints) -> f64 {
        let mut times = vec![Mono::ZERO];
        times.extend(demands);
        let mut best: f64 = 0.0;
        for set in 0_u32..1 << times.len() {
            let (mut woke, mut saved, mut possible) = (Mono::ZERO, 0.0, true);
            for (i, &at) in times.iter().enumerate() {
                if set & (1 << i) == 0 {
                    continue;
                }
                let from = (at + rules.quiet).max(woke + rules.min_on);
                let last = i + 1 == times.len();
                let until = if last { end } else { times[i + 1] };
                let needed = rules.states.sleep_time + rules.states.wake_time;
                possible &= from < until && (last || until.since(from) >= needed);
                saved += 41.7 * until.since(from).as_secs_f64() - 170.7;
                woke = until;
            }
            if possible {
                best = best.max(saved);
            }
        }
        best
    }

    #[test]
    fn an_empty_hour_is_slept_through() {
        let plan = plan(&[], Mono::ZERO, Mono::from_secs(3600), &rules(0));
        assert_eq!(plan.sleeps, [Sleep { from: Mono::from_secs(5), until: Mono::NEVER }]);
        // By hand: 3,595 s at 41.7 W less one cycle.
        assert!((plan.saved.get() - (3595.0 * 41.7 - 170.7)).abs() < 1e-6);
    }

    #[test]
    fn a_short_sleep_is_skipped_when_it_would_spoil_a_long_one() {
        // With 60 s minimum on, waking at 100 forbids sleeping until 160. Sleeping from 60 to 100
        // saves 40 s and costs the 55 s from 105 to 160.
        let demands = seconds(&[100, 1000]);
        let plan = plan(&demands, Mono::ZERO, Mono::from_secs(1001), &rules(60));
        assert_eq!(plan.sleeps.len(), 1);
        assert_eq!(plan.sleeps[0].from, Mono::from_secs(105));
    }

    proptest! {
        #[test]
        fn nothing_better_is_found_by_trying_everything(
            gaps in proptest::collection::vec(0_u64..150, 0..11),
            tail in 0_u64..150,
            min_on in 0_u64..90,
        ) {
            let mut at = 0;
            let demands: Vec<Mono> = gaps.iter().map(|gap| { at += gap; Mono::from_secs(at) }).collect();
            // Demands at the end itself are outside of the span: keep it open.
            let end = Mono::from_secs(at + tail + 1);
            let rules = rules(min_on);
            let found = plan(&demands, Mono::ZERO, end, &rules).saved.get();
            let best = by_brute_force(&demands, end, &rules);
            prop_assert!((found - best).abs() < 1e-6, "found {found}, best {best}");
        }

        #[test]
        fn the_plan_keeps_its_promises(
            gaps in proptest::collection::vec(0_u64..400, 0..60), min_on in 0_u64..90,
        ) {
            let mut at = 0;
            let demands: Vec<Mono> = gaps.iter().map(|gap| { at += gap; Mono::from_secs(at) }).collect();
            let rules = rules(min_on);
            let plan = plan(&demands, Mono::ZERO, Mono::from_secs(at + 100), &rules);
            let mut woke = Mono::ZERO;
            for sleep in &plan.sleeps {
                prop_assert!(sleep.from >= woke + rules.min_on);
                for &demand in &demands {
                    prop_assert!(!(sleep.from..sleep.until).contains(&demand), "somebody waits");
                    prop_assert!(demand > sleep.from || sleep.from.since(demand) >= rules.quiet);
                }
                woke = sleep.until;
            }
        }
    }
}
