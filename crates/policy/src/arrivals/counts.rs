//! Counts of a log, second by second or in other steps.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use super::{ArrivalsError, exponential, positive, stream};

/// So many arrivals in each of many steps of one length, and then no more.
///
/// Counts are kept exactly; within a step arrivals are anywhere, independent of each other. (A
/// [`Profile`](super::Profile) of the same counts would keep them in the mean alone.)
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    counts: Arc<[u32]>,
    step: f64,
}

impl Counts {
    /// `counts` arrivals in steps of `step` seconds.
    pub fn new(counts: impl Into<Arc<[u32]>>, step: f64) -> Result<Self, ArrivalsError> {
        let step = positive("the length of a step", step)?;
        let counts: Arc<[u32]> = counts.into();
        if counts.iter().all(|count| *count == 0) {
            return Err(ArrivalsError::Nothing);
        }
        Ok(Self { counts, step })
    }

    /// Copies on top of each other, each begun this many steps later: what a copy has in its last
    /// steps it then has in its first ones. What exceeds 4 billion in one step is cut.
    ///
    /// The arrivals of one log are too few for many servers; copies shifted by whole days and a little
    /// keep its days and have no moment in common.
    #[must_use]
    pub fn superposed(&self, shifts: &[usize]) -> Self {
        let steps = self.counts.len();
        let mut sum = vec![0_u32; steps];
        for shift in shifts {
            let (first, last) = sum.split_at_mut(shift % steps);
            let (kept, wrapped) = self.counts.split_at(steps - first.len());
            for (sum, count) in last.iter_mut().zip(kept).chain(first.iter_mut().zip(wrapped)) {
                *sum = sum.saturating_add(*count);
            }
        }
        Self { counts: sum.into(), step: self.step }
    }

    /// The steps from `first` on, at most this many; `None` if nothing arrives in them.
    #[must_use]
    pub fn part(&self, first: usize, steps: usize) -> Option<Self> {
        let rest = self.counts.get(first..)?;
        let part = &rest[..steps.min(rest.len())];
        Self::new(part, self.step).ok()
    }

    /// All arrivals.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// By step.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Seconds from the first step's start to the last one's end.
    pub fn length(&self) -> f64 {
        self.step * self.counts.len() as f64
    }

    /// Arrivals in a second, over all steps.
    pub fn mean_rate(&self) -> f64 {
        self.total() as f64 / self.length()
    }

    pub(super) fn start(self, seed: u64) -> State {
        State { counts: self, step: 0, next: 0, within: Vec::new(), random: stream(seed, 0) }
    }
}

/// Where a realisation is.
#[derive(Debug, Clone)]
pub(super) struct State {
    counts: Counts,
    /// The step after the one that is told.
    step: usize,
    next: usize,
    /// Times of the step that is told, since the start of all.
    within: Vec<f64>,
    random: ChaCha8Rng,
}

impl State {
    #[inline]
    pub(super) fn next(&mut self) -> Option<f64> {
        while self.next == self.within.len() {
            let count = *self.counts.counts.get(self.step)?;
            self.fill(count);
        }
        self.next += 1;
        Some(self.within[self.next - 1])
    }

    /// Sums of exponentials, divided by one more of them, are uniform times in order (D. E. Knuth, The
    /// Art of Computer Programming 2, 3.4.1).
    #[cold]
    fn fill(&mut self, count: u32) {
        self.within.clear();
        self.next = 0;
        let start = self.step as f64 * self.counts.step;
        self.step += 1;
        let mut sum = 0.0;
        for _ in 0..count {
            sum += exponential(&mut self.random);
            self.within.push(sum);
        }
        if count > 0 {
            let all = sum + exponential(&mut self.random);
            let scale = self.counts.step / all;
            self.within.iter_mut().for_each(|time| *time = start + *time * scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Arrivals;

    fn counts(counts: &[u32]) -> Counts {
        Counts::new(counts, 2.0).unwrap()
    }

    #[test]
    fn each_step_has_its_count_and_its_arrivals_are_anywhere_in_it() {
        let given = [3, 0, 5000, 1];
        let times: Vec<f64> = Arrivals::Counts(counts(&given)).times(7).collect();
        assert!(times.is_sorted());
        let within = |step: usize| times.iter().filter(move |it| (**it / 2.0) as usize == step);
        let found = [0, 1, 2, 3].map(|step| within(step).count());
        assert_eq!(found, [3, 0, 5000, 1]);
        // Of 5000 uniform times the empirical distribution is within 1.95 / sqrt(5000) except for one in
        // a thousand (Kolmogorov and Smirnov).
        let distance = within(2)
            .enumerate()
            .map(|(rank, time)| ((time - 4.0) / 2.0 - (rank as f64 + 0.5) / 5000.0).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / 5000_f64.sqrt(), "{distance}");
        assert_eq!(Arrivals::Counts(counts(&given)).mean_rate(), Some(5004.0 / 8.0));
    }

    #[test]
    fn copies_are_shifted_around_and_added_up() {
        let three = counts(&[1, 2, 3]).superposed(&[0, 1, 3, 5]);
        // As they are, twice; 3 1 2; and 2 3 1.
        assert_eq!(three.counts(), [7, 8, 9]);
        assert_eq!(counts(&[0, 2]).part(1, 9).unwrap().counts(), [2]);
        assert_eq!((counts(&[0, 2]).part(0, 1), counts(&[0, 2]).part(3, 1)), (None, None));
        assert!(Counts::new(vec![0, 0], 1.0).is_err() && Counts::new(vec![1], 0.0).is_err());
    }
}
