//! Counters that wrap: the one place where the difference of two readings is taken.

use std::time::Duration;

use crate::quantity::Watts;
use crate::time::Mono;

/// How an energy counter counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterSpec {
    /// Joules of one count.
    pub joules_per_count: f64,
    /// After this many counts it starts again at 0 (the largest value it can show, plus one); `None`
    /// for one that never wraps.
    pub range: Option<u64>,
    /// More than this it cannot count: what tells one wrap from two, and a wrap from a reset.
    pub most: Watts,
}

impl CounterSpec {
    /// The longest time between two readings after which their difference is still certain: the
    /// counter cannot wrap within it. [`Duration::MAX`] for one that never wraps.
    pub fn longest_interval(&self) -> Duration {
        let Some(range) = self.range else { return Duration::MAX };
        let seconds = range as f64 * self.joules_per_count / self.most.get();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn most_counts(&self, time: Duration) -> f64 {
        self.most.get() * time.as_secs_f64() / self.joules_per_count
    }
}

/// What a reading adds to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The first reading: nothing is known of what was counted before.
    First,
    /// So many counts since the last reading.
    Counts(u64),
    /// What was counted since the last reading is not known.
    Lost(Loss),
}

/// Why a difference of two readings is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// It was read so late that it may have wrapped more than once, or once unseen.
    Ambiguous,
    /// It went back, and even a wrap cannot explain that: it was reset.
    Reset,
}

/// A counter that is read now and then.
#[derive(Debug, Clone)]
pub struct Counter {
    spec: CounterSpec,
    last: Option<(Mono, u64)>,
}

/// Slack for what was counted before the last reading was taken, and shown after it: counters are
/// brought up to date in steps (RAPL: about 1 ms).
const UPDATE_STEP: Duration = Duration::from_millis(100);

impl Counter {
    /// One that has not been read yet.
    pub const fn new(spec: CounterSpec) -> Self {
        Self { spec, last: None }
    }

    /// Forgets the last reading, after a time in which the counter may have been reset unseen: a
    /// suspend of the host, say.
    pub const fn forget(&mut self) {
        self.last = None;
    }

    /// Takes a reading. Of all differences that are equal modulo the range, the one is taken that the
    /// counter could reach in the time; when there are none or several, the difference is lost.
    pub fn read(&mut self, at: Mono, value: u64) -> Counted {
        let Some((then, before)) = self.last.replace((at, value)) else { return Counted::First };
        let most = self.spec.most_counts(at.since(then) + UPDATE_STEP);
        let Some(range) = self.spec.range else {
            return match value.checked_sub(before) {
                Some(counts) if counts as f64 <= most => Counted::Counts(counts),
                _ => Counted::Lost(Loss::Reset),
            };
        };
        if value >= range || before >= range {
            return Counted::Lost(Loss::Reset);
        }
        let counts = if value >= before { value - before } else { range - before + value };
        if counts as f64 > most {
            Counted::Lost(Loss::Reset)
        } else if (counts as f64) + (range as f64) <= most {
            Counted::Lost(Loss::Ambiguous)
        } else {
            Counted::Counts(counts)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The range of a Xeon's package, and 500 W at most.
    const RAPL: CounterSpec =
        CounterSpec { joules_per_count: 1e-6, range: Some(65_712_999_614), most: Watts(500.0) };

    #[test]
    fn one_wrap_is_exact() {
        let mut counter = Counter::new(RAPL);
        assert_eq!(counter.read(Mono::from_secs(0), 65_712_999_613), Counted::First);
        assert_eq!(counter.read(Mono::from_secs(1), 0), Counted::Counts(1));
        assert_eq!(counter.read(Mono::from_secs(2), 43_300_000), Counted::Counts(43_300_000));
    }

    #[test]
    fn a_reading_so_late_that_it_may_have_wrapped_twice_is_lost() {
        // 65.7 kJ are 131 s of 500 W.
        assert_eq!(RAPL.longest_interval().as_secs(), 131);
        let mut counter = Counter::new(RAPL);
        counter.read(Mono::from_secs(0), 0);
        assert_eq!(counter.read(Mono::from_secs(130), 100), Counted::Counts(100));
        assert_eq!(counter.read(Mono::from_secs(270), 100), Counted::Lost(Loss::Ambiguous));
        // It goes on from there.
        assert_eq!(counter.read(Mono::from_secs(271), 107), Counted::Counts(7));
    }

    #[test]
    fn a_reset_is_no_wrap() {
        let mut counter = Counter::new(RAPL);
        counter.read(Mono::from_secs(0), 30_000_000_000);
        assert_eq!(counter.read(Mono::from_secs(1), 12), Counted::Lost(Loss::Reset));
        let mut endless = Counter::new(CounterSpec { range: None, ..RAPL });
        endless.read(Mono::from_secs(0), 30);
        assert_eq!(endless.read(Mono::from_secs(1), 29), Counted::Lost(Loss::Reset));
        assert_eq!(endless.read(Mono::from_secs(2), 31), Counted::Counts(2));
    }

    #[test]
    fn a_value_outside_of_its_range_is_lost() {
        let mut counter = Counter::new(RAPL);
        counter.read(Mono::from_secs(0), 5);
        assert_eq!(counter.read(Mono::from_secs(1), u64::MAX), Counted::Lost(Loss::Reset));
        assert_eq!(counter.read(Mono::from_secs(2), 9), Counted::Lost(Loss::Reset));
        assert_eq!(counter.read(Mono::from_secs(3), 10), Counted::Counts(1));
    }

    proptest! {
        /// Against arithmetic without wraps in 128 bits: a difference that is told is true.
        #[test]
        fn what_is_told_is_true(
            range in 1_000_u64..200_000,
            start in 0_u64..200_000,
            steps in proptest::collection::vec((1_u64..400, 0.0_f64..1.0), 1..60),
        ) {
            let most = Watts(100.0);
            let spec = CounterSpec { joules_per_count: 0.1, range: Some(range), most };
            let mut counter = Counter::new(spec);
            let (mut seconds, mut truth) = (0, u128::from(start));
            let shown = |truth: u128| (truth % u128::from(range)) as u64;
            counter.read(Mono::from_secs(0), shown(truth));
            for (time, load) in steps {
                let counts = (load * 1000.0 * time as f64) as u64;
                seconds += time;
                truth += u128::from(counts);
                match counter.read(Mono::from_secs(seconds), shown(truth)) {
                    Counted::Counts(told) => prop_assert_eq!(told, counts),
                    Counted::Lost(Loss::Ambiguous) => {
                        prop_assert!(Duration::from_secs(time) + UPDATE_STEP
                            >= spec.longest_interval());
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
