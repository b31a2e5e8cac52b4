//! Visitors that come like clockwork: programs that ask again after the same time, again and again.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;

use crate::visit::Visitor;
use nightwatt_energy::time::Mono;

/// Visitors watched at once, in some 100 bytes each. Beyond that the half that has been quiet longest
/// is forgotten.
const MOST: usize = 1_024;

/// Requests closer together than this are one occasion: a page and its parts, or a client that keeps asking.
const PAUSE: Duration = Duration::from_mins(1);

/// A visitor that misses a period by more than this share of it, or than a moment, is out of step.
const TOLERANCE: f64 = 0.02;

/// Logs and clocks are no surer than this.
const MOMENT: Duration = Duration::from_secs(2);

/// A visitor in step is expected within this many mean deviations of the period.
const DEVIATIONS: f64 = 3.0;

/// A visitor that came this many times in step is expected again.
const IN_STEP: u32 = 3;

/// How fast a period is relearnt.
const GAIN: f64 = 0.3;

/// Expectations remembered, met and missed; older ones fade.
const REMEMBERED: f64 = 20.0;

#[derive(Debug, Clone, Copy)]
struct Habit {
    /// The last request.
    seen: Mono,
    /// The last occasion began.
    last: Mono,
    period: Duration,
    /// Mean deviation from it.
    deviation: Duration,
    in_step: u32,
    /// Expectations that were met, and all of them.
    met: f64,
    expected: f64,
}

/// A visitor that is expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub(super) who: Visitor,
    /// Between these.
    pub(super) from: Mono,
    pub(super) until: Mono,
    /// How surely, 0 ..= 1.
    pub(super) chance: f64,
}

/// The visitors and their habits.
#[derive(Debug, Default)]
pub(super) struct Regulars {
    habits: HashMap<Visitor, Habit, FixedState>,
    /// Those in step: few.
    in_step: Vec<Visitor>,
}

impl Regulars {
    /// A visitor asked for what only the server can give.
    pub(super) fn request(&mut self, now: Mono, who: Visitor) {
        if let Some(habit) = self.habits.get_mut(&who) {
            let was_in_step = habit.is_in_step();
            habit.request(now);
            if habit.is_in_step() && !was_in_step {
                self.in_step.push(who);
            } else if was_in_step && !habit.is_in_step() {
                self.in_step.retain(|&other| other != who);
            }
            return;
        }
        if self.habits.len() >= MOST {
            let mut lasts: Vec<Mono> = self.habits.values().map(|habit| habit.seen).collect();
            let (_, &mut middle, _) = lasts.select_nth_unstable(MOST / 2);
            self.habits.retain(|_, habit| habit.seen > middle);
            self.in_step.retain(|who| self.habits.contains_key(who));
        }
        self.habits.insert(who, Habit::begins(now));
    }

    /// The visitors that are expected from now on.
    pub(super) fn expected(&self, now: Mono) -> impl Iterator<Item = Expected> {
        let expected = |&who: &Visitor| Some(self.habits.get(&who)?.expectation(who));
        self.in_step.iter().filter_map(expected).filter(move |it| it.until > now)
    }
}

impl Habit {
    const fn begins(now: Mono) -> Self {
        let (period, deviation) = (Duration::ZERO, Duration::ZERO);
        Self { seen: now, last: now, period, deviation, in_step: 0, met: 0.0, expected: 0.0 }
    }

    fn request(&mut self, now: Mono) {
        let paused = now.since(std::mem::replace(&mut self.seen, now));
        if paused < PAUSE {
            return;
        }
        let gap = now.since(self.last);
        let missed_by = gap.abs_diff(self.period);
        let is_in_step = missed_by <= self.period.mul_f64(TOLERANCE).max(MOMENT);
        if self.is_in_step() {
            if self.expected >= REMEMBERED {
                self.expected *= 0.5;
                self.met *= 0.5;
            }
            self.expected += 1.0;
            self.met += f64::from(u8::from(is_in_step));
        }
        if is_in_step {
            self.in_step = self.in_step.saturating_add(1);
            self.period = self.period.mul_f64(1.0 - GAIN) + gap.mul_f64(GAIN);
            self.deviation = self.deviation.mul_f64(1.0 - GAIN) + missed_by.mul_f64(GAIN);
        } else {
            self.in_step = 0;
            (self.period, self.deviation) = (gap, Duration::ZERO);
        }
        self.last = now;
    }

    const fn is_in_step(&self) -> bool {
        self.in_step >= IN_STEP
    }

    fn expectation(&self, who: Visitor) -> Expected {
        let due = self.last + self.period;
        let tolerance = self.deviation.mul_f64(DEVIATIONS).max(MOMENT);
        // As if one expectation had been met already and two had not.
        let chance = (self.met + 1.0) / (self.expected + 3.0);
        Expected { who, from: due - tolerance, until: due + tolerance, chance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRON: Visitor = Visitor(1);

    fn expected(regulars: &Regulars, now: u64) -> Vec<Expected> {
        regulars.expected(Mono::from_secs(now)).collect()
    }

    #[test]
    fn after_four_occasions_in_step_the_fifth_is_expected() {
        let mut regulars = Regulars::default();
        for occasion in 0..4 {
            assert!(expected(&regulars, occasion * 600).is_empty(), "{occasion}");
            regulars.request(Mono::from_secs(occasion * 600), CRON);
            // Its second request in the same second is no occasion of its own.
            regulars.request(Mono::from_secs(occasion * 600 + 1), CRON);
        }
        regulars.request(Mono::from_secs(4 * 600), CRON);
        let [next] = expected(&regulars, 2500)[..] else { panic!("nobody is expected") };
        assert_eq!((next.from, next.until), (Mono::from_secs(2998), Mono::from_secs(3002)));
        assert!((next.chance - 1.0 / 3.0).abs() < 1e-9, "{}", next.chance);
        assert!(expected(&regulars, 3002).is_empty(), "it did not come");
    }

    #[test]
    fn whoever_comes_a_little_early_or_late_is_expected_for_longer() {
        let mut regulars = Regulars::default();
        for (occasion, late) in [0, 5, 0, 7, 2, 6, 0, 5].into_iter().enumerate() {
            regulars.request(Mono::from_secs(occasion as u64 * 600 + late), CRON);
        }
        let [next] = expected(&regulars, 4300)[..] else { panic!("nobody is expected") };
        let (from, until) = (Mono::from_secs(8 * 600), Mono::from_secs(8 * 600 + 7));
        assert!(next.from < from && until < next.until, "{next:?}");
        assert!(next.until.since(next.from) < Duration::from_mins(1), "{next:?}");
    }

    #[test]
    fn a_chance_grows_with_every_time_it_comes_and_falls_when_it_does_not() {
        let mut regulars = Regulars::default();
        let mut at = 0;
        let mut chance_after = |occasions: u64, gap: u64| {
            for _ in 0..occasions {
                at += gap;
                regulars.request(Mono::from_secs(at), CRON);
            }
            expected(&regulars, at).first().map(|it| it.chance)
        };
        let young = chance_after(6, 600).expect("expected");
        let old = chance_after(30, 600).expect("expected");
        assert!(old > 0.8 && old > young, "{young}, then {old}");
        assert_eq!(chance_after(1, 5000), None, "out of step");
        let again = chance_after(4, 600).expect("expected");
        assert!(again < old, "{again} after {old}");
    }

    #[test]
    fn people_are_not_expected_to_the_second() {
        let mut regulars = Regulars::default();
        let mut at = 0;
        for gap in [30, 700, 65, 1200, 90, 40, 3000, 500, 510, 900] {
            at += gap;
            regulars.request(Mono::from_secs(at), CRON);
            assert!(expected(&regulars, at).is_empty());
        }
    }

    #[test]
    fn whoever_keeps_asking_is_here_and_not_expected() {
        let mut regulars = Regulars::default();
        for at in (0..10_000).step_by(25) {
            regulars.request(Mono::from_secs(at), CRON);
            assert!(expected(&regulars, at).is_empty(), "at {at} s");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut regulars = Regulars::default();
        for n in 0..100_000_u64 {
            regulars.request(Mono::from_secs(n / 10), Visitor(n));
            assert!(regulars.habits.len() <= MOST);
        }
    }
}
