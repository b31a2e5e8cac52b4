//! The yardstick: a policy that knows the future.

use std::time::Duration;

use super::{Idle, Observation, SleepPolicy, Verdict};
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::{Mono, Now};

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
    /// Awake again; [`Mono::NEVER`] when no further request comes.
    pub until: Mono,
}

/// When to sleep, given the future.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In order, not overlapping.
    pub sleeps: Vec<Sleep>,
    /// Saved against staying awake.
    pub saved: Joules,
    /// How its sleeps end.
    pub waking: Waking,
}

/// A stretch in which the server has work, without a pause that could hold a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// Its first request.
    pub from: Mono,
    /// Its last.
    pub until: Mono,
}

/// Puts requests together whose gaps are too short to sleep in: what [`plan`] needs to know of them,
/// in as little memory as there are pauses.
#[derive(Debug, Clone, Default)]
pub struct BusyTimes {
    times: Vec<Busy>,
    quiet: Duration,
}

impl BusyTimes {
    /// Nothing yet; gaps up to `quiet` hold no sleep.
    pub const fn new(quiet: Duration) -> Self {
        Self { times: Vec::new(), quiet }
    }

    /// A request that only the server can answer; not before the last one.
    pub fn push(&mut self, at: Mono) {
        match self.times.last_mut() {
            Some(last) if at.since(last.until) <= self.quiet => last.until = at,
            _ => self.times.push(Busy { from: at, until: at }),
        }
    }

    /// All of them, in order.
    pub fn times(&self) -> &[Busy] {
        &self.times
    }
}

/// How the oracle's sleeps end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waking {
    /// Just in time for the next request, which doesn't wait.
    Ahead,
    /// By the next request, which waits.
    OnDemand,
}

/// The plan that saves most, of those whose sleeps end in the given way.
///
/// Time runs from `start` (awake since then) to `end`; `busy` are the ascending stretches of requests
/// that only the server can answer. A plan sleeps at most once between two of them, as soon as it
/// may, for long enough to fall asleep (and, waking ahead, to wake). Among those plans it is optimal:
/// the minimum on time makes a sleep depend only on the wake-up before it, and only the gap in which
/// that minimum ends is shortened by it, so the best remainder after each wake-up follows from later
/// ones (dynamic programming from the end, linear time except for a search per wake-up). Sleeping later
/// than one may never helps: it shortens this sleep and leaves the wake-up, and so all that follows,
/// where it is. The proof is in `docs/policies.md`; tested against trying all plans.
pub fn plan(busy: &[Busy], start: Mono, end: Mono, waking: Waking, rules: &Constraints) -> Plan {
    let mut times = Vec::with_capacity(busy.len() + 1);
    times.push(Busy { from: start, until: start });
    times.extend(busy.iter().filter(|it| (start..end).contains(&it.from)));
    let gaps = Gaps { times: &times, end, waking, rules };
    let best = gaps.best_from_each_wake();
    gaps.walk(&best)
}

struct Gaps<'a> {
    /// Stretch `i` opens gap `i`, which ends at stretch `i + 1` or at the end.
    times: &'a [Busy],
    end: Mono,
    waking: Waking,
    rules: &'a Constraints,
}

/// What is best once the server woke for a stretch: how much is saved from there on, and in which gap
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
        let next = self.times.get(i + 1).map(|next| next.from);
        let awake = next.map_or(self.end, |next| self.awake_at(next));
        let asleep = awake.since(from);
        if asleep.is_zero() || next.is_some() && asleep < states.sleep_time + states.wake_time {
            return None;
        }
        let saved = ((states.on - states.off) * asleep - states.switch).get();
        (saved > 0.0).then_some(saved)
    }

    /// When a server that is woken for a request is awake.
    fn awake_at(&self, request: Mono) -> Mono {
        match self.waking {
            Waking::Ahead => request,
            Waking::OnDemand => request + self.rules.states.wake_time,
        }
    }

    fn quiet(&self, i: usize) -> Mono {
        self.times[i].until + self.rules.quiet
    }

    /// Until when a wake-up for stretch `i` forbids sleep. The start of the run is not a wake-up.
    fn held_awake(&self, i: usize) -> Mono {
        let woke = if i == 0 { self.times[0].from } else { self.awake_at(self.times[i].from) };
        woke + self.rules.min_on.max(self.rules.quiet)
    }

    /// The first gap, at or after `woke`, in which the minimum on time no longer matters.
    fn first_free(&self, woke: usize) -> usize {
        let over = self.held_awake(woke);
        woke + self.times[woke..].partition_point(|it| it.until + self.rules.quiet < over)
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
                && let Some(saved) = self.saving(cut, self.held_awake(i))
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
        let mut plan =
            Plan { sleeps: Vec::new(), saved: Joules(best[0].saved), waking: self.waking };
        let mut woke = 0;
        while let Some(gap) = best.get(woke).and_then(|best| best.sleeps_in) {
            let from = self.quiet(gap).max(self.held_awake(woke));
            let until =
                self.times.get(gap + 1).map_or(Mono::NEVER, |next| self.awake_at(next.from));
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
        let ahead = self.plan.waking == Waking::Ahead;
        (ahead && sleep.until != Mono::NEVER).then(|| sleep.until - self.wake_time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use nightwatt_energy::quantity::Watts;

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

    fn busy(times: &[u64]) -> Vec<Busy> {
        let mut busy = BusyTimes::new(Duration::ZERO);
        for &at in times {
            busy.push(Mono::from_secs(at));
        }
        busy.times
    }

    fn sums(gaps: &[u64]) -> Vec<u64> {
        let add = |at: &mut u64, gap: &u64| {
            *at += gap;
            Some(*at)
        };
        gaps.iter().scan(0, add).collect()
    }

    /// Tries every set of gaps to sleep in, over the bare requests.
    fn by_brute_force(demands: &[u64], end: u64, waking: Waking, rules: &Constraints) -> f64 {
        let mut times = vec![0];
        times.extend(demands);
        let mut best: f64 = 0.0;
        let min_on = rules.min_on.as_secs().max(5);
        for set in 0_u32..1 << times.len() {
            let (mut woke, mut saved, mut possible) = (0, 0.0, true);
            for (i, &at) in times.iter().enumerate() {
                if set & (1 << i) == 0 {
                    continue;
                }
                let from = (at + 5).max(woke + min_on);
                let last = i + 1 == times.len();
                let late = if waking == Waking::Ahead { 0 } else { 5 };
                let until = if last { end } else { times[i + 1] + late };
                possible &= from < until && (last || until - from >= 10);
                saved += 41.7 * until.saturating_sub(from) as f64 - 170.7;
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
        let plan = plan(&[], Mono::ZERO, Mono::from_secs(3600), Waking::Ahead, &rules(0));
        assert_eq!(plan.sleeps, [Sleep { from: Mono::from_secs(5), until: Mono::NEVER }]);
        // By hand: 3,595 s at 41.7 W less one cycle.
        assert!((plan.saved.get() - (3595.0 * 41.7 - 170.7)).abs() < 1e-6);
    }

    #[test]
    fn a_short_sleep_is_skipped_when_it_would_spoil_a_long_one() {
        // With 60 s minimum on, waking at 100 forbids sleeping until 160. Sleeping from 60 to 100
        // saves 40 s and costs the 55 s from 105 to 160.
        let end = Mono::from_secs(1001);
        let plan = plan(&busy(&[100, 1000]), Mono::ZERO, end, Waking::Ahead, &rules(60));
        assert_eq!(plan.sleeps.len(), 1);
        assert_eq!(plan.sleeps[0].from, Mono::from_secs(105));
    }

    #[test]
    fn requests_closer_than_the_quiet_time_are_one_stretch() {
        let mut busy = BusyTimes::new(Duration::from_secs(5));
        for second in [10, 15, 20, 26, 26] {
            busy.push(Mono::from_secs(second));
        }
        let [first, second] = busy.times() else { panic!("{busy:?}") };
        assert_eq!((first.from, first.until), (Mono::from_secs(10), Mono::from_secs(20)));
        assert_eq!((second.from, second.until), (Mono::from_secs(26), Mono::from_secs(26)));
    }

    proptest! {
        #[test]
        fn nothing_better_is_found_by_trying_everything(
            gaps in proptest::collection::vec(0_u64..150, 0..11),
            tail in 0_u64..150,
            min_on in 0_u64..90,
            waking in prop_oneof![Just(Waking::Ahead), Just(Waking::OnDemand)],
        ) {
            let demands = sums(&gaps);
            // Demands at the end itself are outside of the span: keep it open, and leave the last request the
            // time to wake the server.
            let end = demands.last().unwrap_or(&0) + tail + 6;
            let rules = rules(min_on);
            // Put together by the quiet time or not: the same.
            for quiet in [0, 5] {
                let mut busy = BusyTimes::new(Duration::from_secs(quiet));
                for &at in &demands {
                    busy.push(Mono::from_secs(at));
                }
                let found = plan(busy.times(), Mono::ZERO, Mono::from_secs(end), waking, &rules);
                let found = found.saved.get();
                let best = by_brute_force(&demands, end, waking, &rules);
                prop_assert!((found - best).abs() < 1e-6, "found {found}, best {best}");
            }
        }

        #[test]
        fn the_plan_keeps_its_promises(
            gaps in proptest::collection::vec(0_u64..400, 0..60), min_on in 0_u64..90,
        ) {
            let demands = sums(&gaps);
            let rules = rules(min_on);
            let end = demands.last().unwrap_or(&0) + 100;
            let end = Mono::from_secs(end);
            let plan = plan(&busy(&demands), Mono::ZERO, end, Waking::Ahead, &rules);
            let mut woke = Mono::ZERO;
            for sleep in &plan.sleeps {
                prop_assert!(sleep.from >= woke + rules.min_on);
                for demand in demands.iter().map(|&at| Mono::from_secs(at)) {
                    prop_assert!(!(sleep.from..sleep.until).contains(&demand), "somebody waits");
                    prop_assert!(demand > sleep.from || sleep.from.since(demand) >= rules.quiet);
                }
                woke = sleep.until;
            }
        }
    }
}
