//! Times that are given.

use std::sync::Arc;

use super::{ArrivalsError, positive};

/// Recorded times, ascending from 0, perhaps faster than they were.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    times: Arc<[f64]>,
    speed: f64,
}

impl Trace {
    /// Seconds on any clock, in any order; they are put in order and counted from the first one.
    pub fn new(mut times: Vec<f64>) -> Result<Self, ArrivalsError> {
        let bad = times.iter().enumerate().find(|(_, time)| !time.is_finite());
        if let Some((index, &value)) = bad {
            return Err(ArrivalsError::Time { index, value });
        }
        times.sort_by(f64::total_cmp);
        let first = times.first().copied().unwrap_or(0.0);
        for time in &mut times {
            *time -= first;
        }
        Ok(Self { times: times.into(), speed: 1.0 })
    }

    /// The same, `speed` times as fast.
    pub fn faster(self, speed: f64) -> Result<Self, ArrivalsError> {
        let speed = self.speed * positive("the speed", speed)?;
        Ok(Self { speed, ..self })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Gaps over the time from the first to the last; `None` where that is no time.
    pub fn mean_rate(&self) -> Option<f64> {
        let span = self.time(self.len().checked_sub(1)?)?;
        (span > 0.0).then(|| (self.len() - 1) as f64 / span)
    }

    /// Seconds since the start.
    pub(super) fn time(&self, index: usize) -> Option<f64> {
        self.times.get(index).map(|time| time / self.speed)
    }
}
