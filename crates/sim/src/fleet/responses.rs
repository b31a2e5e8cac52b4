//! How response times are distributed.

use std::time::Duration;

/// Steps in each power of two: a value is known to one part in 128.
const STEPS: u64 = 128;
/// As many powers of two as 64 bits have above the first 128 values.
const BUCKETS: usize = (58 * STEPS) as usize;

/// A histogram of durations: count, mean and greatest exact, quantiles up to 1/128 too high.
///
/// Buckets are as wide as 1/128 of the power of two below them (up to 255 ns: exact).
#[derive(Clone, PartialEq, Eq)]
pub struct Responses {
    buckets: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Responses {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl std::fmt::Debug for Responses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (count, mean, max) = (self.count, self.mean(), self.max());
        f.debug_struct("Responses")
            .field("count", &count)
            .field("mean", &mean)
            .field("max", &max)
            .finish_non_exhaustive()
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    // Below 256 in steps of 1, then to 511 in steps of 2, ...
    let shift = (ns | (2 * STEPS - 1)).ilog2() - STEPS.ilog2();
    (u64::from(shift) * STEPS + (ns >> shift)) as usize
}

/// The greatest value of a bucket.
fn top(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let step = bucket - shift * STEPS;
    (((u128::from(step) + 1) << shift) - 1) as u64
}

impl Responses {
    /// Adds one.
    #[inline]
    pub fn add(&mut self, time: Duration) {
        self.add_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    #[inline]
    pub(super) fn add_ns(&mut self, ns: u64) {
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += other;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 where there are none.
    pub fn mean(&self) -> Duration {
        let mean = self.sum_ns.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The longest.
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// The least time that at least this share (0 to 1) of them do not exceed: nearest rank, never too
    /// low and at most 1/128 too high; 0 where there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.count as f64).ceil().max(1.0);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen as f64 >= rank {
                return Duration::from_nanos(top(index).min(self.max_ns));
            }
        }
        self.max()
    }

    /// Share of them above `limit`, 0 to 1; those within 1/128 below it may count too.
    pub fn share_above(&self, limit: Duration) -> f64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let above: u64 = self
            .buckets
            .iter()
            .enumerate()
            .skip(bucket(limit))
            .filter(|(index, _)| top(*index) > limit)
            .map(|(_, count)| count)
            .sum();
        if self.count == 0 { 0.0 } else { above as f64 / self.count as f64 }
    }

    /// Each bucket that is not empty: its greatest value, and how many it has.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| (Duration::from_nanos(top(index)), *count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_and_is_narrow(ns: u64, small in 0_u64..100_000) {
            for ns in [ns, small] {
                let at = bucket(ns);
                prop_assert!(at < BUCKETS);
                prop_assert!(top(at) >= ns);
                prop_assert!((top(at) - ns) as f64 <= ns as f64 / 128.0);
                prop_assert!(at == 0 || top(at - 1) < ns);
            }
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in proptest::collection::vec(1_u64..10_000_000, 1..200), share in 0.0..1.0_f64,
        ) {
            let mut responses = Responses::default();
            for ns in &values {
                responses.add(Duration::from_nanos(*ns));
            }
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let found = responses.quantile(share).as_nanos() as f64;
            prop_assert!(found >= exact && found <= exact * (1.0 + 1.0 / 128.0) + 1.0);
            let sum: u64 = values.iter().sum();
            prop_assert_eq!(responses.mean().as_nanos() as u64, sum / values.len() as u64);
            prop_assert_eq!(responses.max().as_nanos() as u64, values[values.len() - 1]);
        }
    }

    #[test]
    fn merged_runs_are_one_run_and_an_empty_one_has_no_times() {
        let (mut a, mut b, mut both) =
            (Responses::default(), Responses::default(), Responses::default());
        for ms in 1..100 {
            let time = Duration::from_millis(ms);
            let part = if ms % 3 == 0 { &mut a } else { &mut b };
            part.add(time);
            both.add(time);
        }
        a.merge(&b);
        assert_eq!(a, both);
        assert_eq!(a.buckets().map(|(_, count)| count).sum::<u64>(), 99);
        assert!((both.share_above(Duration::from_millis(90)) - 9.0 / 99.0).abs() < 0.011);
        let none = Responses::default();
        assert_eq!((none.mean(), none.quantile(0.99)), (Duration::ZERO, Duration::ZERO));
    }
}
