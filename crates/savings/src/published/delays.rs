//! Delays of any number of answers, in constant memory.

use std::time::Duration;

use serde::Serialize;

/// Points of the distribution within a factor of ten, times ten.
const MANTISSAS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// Factors of ten, from 100 us up.
const DECADES: usize = 6;

/// Points of the distribution: from 100 us to 100 s.
pub(super) const POINTS: usize = MANTISSAS.len() * DECADES + 1;

/// A point of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DelayPoint {
    /// Delay, s.
    pub delay_s: f64,
    /// Share of the answers, 0 ..= 1, that took no longer.
    pub share: f64,
}

/// The delay that a point stands for.
pub(super) fn point(index: usize) -> Duration {
    let decade = u32::try_from(index / MANTISSAS.len()).unwrap_or(u32::MAX);
    Duration::from_micros(MANTISSAS[index % MANTISSAS.len()] * 10_u64.pow(decade + 1))
}

/// Counts of delays. Count, sum, longest, and how many took no longer than each point are exact;
/// what lies between two points is not kept.
#[derive(Debug, Clone)]
pub(super) struct Delays {
    count: u64,
    total: Duration,
    longest: Duration,
    /// How many took longer than the point before, and no longer than this.
    up_to: [u64; POINTS],
}

impl Default for Delays {
    fn default() -> Self {
        Self { count: 0, total: Duration::ZERO, longest: Duration::ZERO, up_to: [0; POINTS] }
    }
}

impl Delays {
    pub(super) fn add(&mut self, delay: Duration) {
        self.count += 1;
        self.total += delay;
        self.longest = self.longest.max(delay);
        // What is longer than the last point is in `count` only.
        if let Some(index) = (0..POINTS).find(|&index| delay <= point(index)) {
            self.up_to[index] += 1;
        }
    }

    /// None without an answer.
    pub(super) fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total.as_secs_f64() / self.count as f64)
    }

    /// None without an answer.
    pub(super) fn longest_s(&self) -> Option<f64> {
        (self.count > 0).then_some(self.longest.as_secs_f64())
    }

    /// The distribution, rising.
    pub(super) fn distribution(&self) -> Vec<DelayPoint> {
        let mut within = 0;
        (0..POINTS)
            .map(|index| {
                within += self.up_to[index];
                let share = within as f64 / self.count.max(1) as f64;
                DelayPoint { delay_s: point(index).as_secs_f64(), share }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_points_go_from_a_tenth_of_a_millisecond_to_a_hundred_seconds() {
        assert_eq!(point(0), Duration::from_micros(100));
        assert_eq!(point(POINTS - 1), Duration::from_secs(100));
        let has = |wanted| (0..POINTS).any(|index| point(index) == wanted);
        for millis in [1, 50, 5_000, 10_000, 15_000] {
            assert!(has(Duration::from_millis(millis)), "{millis} ms");
        }
    }

    proptest! {
        /// Against the list itself.
        #[test]
        fn what_is_counted_is_what_sorting_would_tell(
            delays in proptest::collection::vec(0_u64..200_000_000, 0..200),
        ) {
            let mut counted = Delays::default();
            for &us in &delays {
                counted.add(Duration::from_micros(us));
            }
            let mut before = 0.0;
            for (index, at) in counted.distribution().into_iter().enumerate() {
                let within = delays.iter().filter(|&&us| Duration::from_micros(us) <= point(index));
                let share = within.count() as f64 / delays.len().max(1) as f64;
                prop_assert!((at.share - share).abs() < 1e-12);
                prop_assert!(at.share >= before, "it never falls");
                before = at.share;
            }
            let longest = delays.iter().max().map(|&us| us as f64 / 1e6);
            prop_assert_eq!(counted.longest_s().is_some(), longest.is_some());
            prop_assert!((counted.longest_s().unwrap_or(0.0) - longest.unwrap_or(0.0)).abs() < 1e-9);
        }
    }
}
