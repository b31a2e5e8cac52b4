//! Times, counted in classes whose width grows with them: constant memory, a stated error, and
//! histograms of several threads add up.

use std::time::Duration;

/// Classes of each power of two: 2^8.
const BITS: u32 = 8;

/// A quantile is at most this share too high, and never too low: the width of a class over its
/// lower end.
pub const RELATIVE_ERROR: f64 = 1.0 / (1 << BITS) as f64;

/// Counts of times by size, in nanoseconds.
///
/// Up to 511 ns each nanosecond has a class; above, each power of two has 256 classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; class(u64::MAX) + 1], count: 0, sum: 0, max: 0 }
    }
}

/// The class of a value.
const fn class(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    if bits <= BITS + 1 {
        return value as usize;
    }
    let shift = bits - BITS - 1;
    // Of the value's first 9 bits the first is 1: 256 classes in each shift.
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// The largest value of a class.
const fn upper(class: usize) -> u64 {
    if class < 2 << BITS {
        return class as u64;
    }
    let shift = (class >> BITS) - 1;
    let lead = (class - (shift << BITS)) as u64;
    // The last class ends at the largest number there is.
    (lead << shift) | ((1 << shift) - 1)
}

impl Histogram {
    /// One more.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        self.record_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// One more, of this many nanoseconds.
    #[inline]
    pub fn record_ns(&mut self, value: u64) {
        self.counts[class(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Those of another one, too.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The largest, exactly; zero when there are none.
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The mean, exactly; `None` when there are none.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The classes that are not empty, by their largest value, and how many are in each.
    pub fn classes(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let each = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        each.map(|(class, count)| (Duration::from_nanos(upper(class).min(self.max)), *count))
    }

    /// How many were longer, except for those that were so by less than [`RELATIVE_ERROR`].
    pub fn above(&self, time: Duration) -> u64 {
        let class = class(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.counts[class + 1..].iter().sum()
    }

    /// The smallest time that at least the share `q` (0 to 1) of all do not exceed, by nearest rank;
    /// at most [`RELATIVE_ERROR`] of it more. `None` when there are none.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Duration::from_nanos(upper(class).min(self.max)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::percentile;

    #[test]
    fn what_was_longer_is_counted_to_within_a_class() {
        let mut times = Histogram::default();
        (1..=1000).for_each(|ms| times.record(Duration::from_millis(ms)));
        let above = times.above(Duration::from_millis(900));
        // Classes are 1/256 wide: of the hundred above 900 ms at most the four next ones are left out.
        assert!((96..=100).contains(&above), "{above}");
        assert_eq!((times.above(Duration::ZERO), times.above(Duration::MAX)), (1000, 0));
    }

    #[test]
    fn classes_that_are_not_empty_are_told_with_their_counts() {
        let mut times = Histogram::default();
        for ns in [7, 7, 100, 3] {
            times.record(Duration::from_nanos(ns));
        }
        let told: Vec<(u128, u64)> =
            times.classes().map(|(time, count)| (time.as_nanos(), count)).collect();
        assert_eq!(told, [(3, 1), (7, 2), (100, 1)]);
    }

    #[test]
    fn classes_have_no_gaps_and_do_not_overlap() {
        let last = class(u64::MAX);
        assert_eq!((class(0), upper(0), upper(last)), (0, 0, u64::MAX));
        for index in 0..last {
            let end = upper(index);
            assert_eq!((class(end), class(end + 1)), (index, index + 1));
        }
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values_within_the_stated_error(
            values in proptest::collection::vec(0_u64..1 << 45, 1..400),
            q in 0.0..=1.0_f64,
            cut: proptest::sample::Index,
        ) {
            let (mut one, mut other) = (Histogram::default(), Histogram::default());
            let cut = cut.index(values.len());
            values[..cut].iter().for_each(|value| one.record(Duration::from_nanos(*value)));
            values[cut..].iter().for_each(|value| other.record(Duration::from_nanos(*value)));
            one.add(&other);
            let mut sorted: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            sorted.sort_by(f64::total_cmp);
            let exact = percentile(&sorted, q * 100.0);
            // Rounding of `q * 100 / 100` may step over a rank.
            let near = [-1e-9, 1e-9].map(|by: f64| percentile(&sorted, (q + by).clamp(0.0, 1.0) * 100.0));
            let found = one.quantile(q).unwrap().as_nanos() as f64;
            prop_assert!(
                [exact, near[0], near[1]].iter().any(|exact| {
                    *exact <= found && found <= exact * (1.0 + RELATIVE_ERROR)
                }),
                "{found} for {exact}"
            );
            prop_assert_eq!(one.count(), values.len() as u64);
            prop_assert_eq!(one.max().as_nanos(), u128::from(*values.iter().max().unwrap()));
        }
    }
}
