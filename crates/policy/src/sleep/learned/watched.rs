//! Counts over a time of watching.

use serde::{Deserialize, Serialize};

/// A count read from outside may be no larger. (One more makes no difference to it, so none ever is.)
pub(super) const MOST: f64 = 1e16;

/// A count with its time of watching, both fading.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Watched {
    pub(super) count: f64,
    pub(super) time: f64,
}

impl Watched {
    /// `step` seconds pass, faded by `keep`.
    pub(super) fn pass(&mut self, step: f64, keep: f64) {
        self.count *= keep;
        self.time = self.time * keep + step;
    }

    /// Arrivals per second, where `weight` seconds at `prior` are believed beside what was seen.
    pub(super) fn rate(self, prior: f64, weight: f64) -> f64 {
        (self.count + prior * weight) / (self.time + weight)
    }

    /// Can this have come of watching with fading of that time constant, in such steps?
    pub(super) fn is_possible(self, memory: f64, step: f64) -> bool {
        // Fading in steps, the time comes to no more than the time constant and one step.
        (0.0..=MOST).contains(&self.count) && (0.0..=memory + step).contains(&self.time)
    }
}
