//! How many requests come in the bin after the next.
//!
//! Exponential smoothing, once and twice (R. G. Brown, *Smoothing, Forecasting and Prediction of Discrete
//! Time Series*, 1963), with seven smoothing factors at once: the one whose past forecasts were nearest to
//! what came makes the next one. So no factor has to be configured.

use serde::{Deserialize, Serialize};

/// Bins ahead: a server ordered at the end of a bin is ready a bin later, and then serves the next.
pub(super) const LEAD: usize = 2;
/// Smoothing factors 1/2, 1/4, ... 1/128.
const FACTORS: usize = 7;
/// More requests do not come in a bin.
const MOST: f64 = 1e15;
/// The slowest of them rests on about this many bins.
const MEMORY: u32 = 1 << FACTORS;
/// A forecast's square error counts this much less than the next one's.
const KEPT: f64 = 0.98;

/// One way to forecast.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Trial {
    /// Forecasts of the last bins, oldest first, for those that have not come.
    ahead: [f64; LEAD],
    /// Discounted sum of square errors.
    squares: f64,
}

impl Trial {
    fn step(&mut self, came: f64, counts: bool, next: f64) {
        if counts {
            self.squares = self.squares * KEPT + (came - self.ahead[0]).powi(2);
        }
        self.ahead.rotate_left(1);
        self.ahead[LEAD - 1] = next;
    }
}

/// A forecast and its past error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    /// Requests in a bin.
    pub(super) mean: f64,
    /// Root of the mean square error of such forecasts so far.
    pub(super) error: f64,
}

/// What has come until now.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Forecast {
    /// Smoothed once and twice, by factor.
    smooth: [(f64, f64); FACTORS],
    level: [Trial; FACTORS],
    trend: [Trial; FACTORS],
    bins: u32,
    /// Discounted number of errors.
    weight: f64,
}

impl Forecast {
    /// A bin is over.
    pub(super) fn add(&mut self, count: f64) {
        let counts = self.bins as usize >= LEAD;
        let mut power = 1.0;
        for factor in 0..FACTORS {
            power *= 0.5;
            // Until there are 1/alpha bins, their plain mean.
            let alpha = f64::max(power, 1.0 / (f64::from(self.bins) + 1.0));
            let (once, twice) = &mut self.smooth[factor];
            *once += alpha * (count - *once);
            *twice += alpha * (*once - *twice);
            let slope = if alpha < 1.0 { alpha / (1.0 - alpha) * (*once - *twice) } else { 0.0 };
            let ahead = 2.0 * *once - *twice + LEAD as f64 * slope;
            self.level[factor].step(count, counts, *once);
            self.trend[factor].step(count, counts, ahead.max(0.0));
        }
        self.bins = self.bins.saturating_add(1);
        if counts {
            self.weight = self.weight * KEPT + 1.0;
        }
    }

    /// Can this have come of counts?
    pub(super) fn is_sound(&self) -> bool {
        // Trends overshoot means four times; of squares, as of their weights, fifty come together.
        let trial = |it: &Trial| {
            it.ahead.iter().all(|it| (0.0..=4.0 * MOST).contains(it))
                && (0.0..=1e3 * MOST * MOST).contains(&it.squares)
        };
        self.smooth.iter().flat_map(|(a, b)| [a, b]).all(|it| (0.0..=MOST).contains(it))
            && self.level.iter().chain(&self.trend).all(trial)
            && (0.0..=100.0).contains(&self.weight)
    }

    /// Counts this many bins as passed unseen: the mean rests on fewer bins, and when it rests on none the
    /// next bin sets it again. How well each way of forecasting did stays.
    pub(super) fn age(&mut self, unseen: u32) {
        self.bins = self.bins.min(MEMORY).saturating_sub(unseen);
    }

    /// The bin after the next; `None` before the first errors are known.
    pub(super) fn ahead(&self) -> Option<Expected> {
        if self.weight == 0.0 {
            return None;
        }
        let trials = self.level.iter().chain(&self.trend);
        let best = trials.min_by(|a, b| a.squares.total_cmp(&b.squares))?;
        Some(Expected { mean: best.ahead[LEAD - 1], error: (best.squares / self.weight).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(counts: impl Iterator<Item = f64>) -> Expected {
        let mut forecast = Forecast::default();
        counts.for_each(|count| forecast.add(count));
        forecast.ahead().unwrap()
    }

    #[test]
    fn a_constant_is_met_and_a_ramp_is_run_ahead_of() {
        let flat = after((0..50).map(|_| 20.0));
        assert!((flat.mean - 20.0).abs() < 1e-9 && flat.error < 1e-9, "{flat:?}");
        // The bin after the last, 199, is 200; the one after that 201.
        let ramp = after((0..200).map(f64::from));
        assert!((ramp.mean - 201.0).abs() < 0.5, "{ramp:?}");
    }

    #[test]
    fn noise_is_smoothed_and_its_size_known() {
        // 10 and 30 in an order without pattern (the parity of the bits of a counter).
        let noise = after((0..2000_u32).map(|n| if n.count_ones() % 2 == 0 { 10.0 } else { 30.0 }));
        assert!((noise.mean - 20.0).abs() < 2.0 && (noise.error - 10.0).abs() < 1.0, "{noise:?}");
    }

    #[test]
    fn a_rate_that_nobody_watched_for_long_is_learned_anew_and_after_a_moment_goes_on() {
        let ahead_of_silence_after = |unseen| {
            let mut forecast = Forecast::default();
            (0..500_u32)
                .for_each(|n| forecast.add(if n.count_ones() % 2 == 0 { 90.0 } else { 110.0 }));
            forecast.age(unseen);
            forecast.add(0.0);
            forecast.ahead().unwrap()
        };
        let at_once = ahead_of_silence_after(0);
        assert!(at_once.mean > 90.0, "one bin says little: {at_once:?}");
        let next_day = ahead_of_silence_after(100_000);
        assert!(next_day.mean == 0.0, "{next_day:?}");
        // What the noise was like is still known.
        assert!((next_day.error - 10.0).abs() < 2.0, "{next_day:?}");
        let between = ahead_of_silence_after(126).mean;
        assert!((50.0..90.0).contains(&between), "two bins and this one: {between}");
    }

    #[test]
    fn nothing_is_expected_before_anything_came() {
        assert_eq!(Forecast::default().ahead(), None);
    }
}
