//! Rates that follow a profile: a day, or counts of a log.

use std::f64::consts::TAU;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use super::{ArrivalsError, Rate, exponential, positive, stream};

/// Steps of the day that [`Profile::day`] has: a quarter of an hour each.
const STEPS_OF_A_DAY: usize = 96;

/// A Poisson process whose rate is constant within each of many steps of one length, from the first
/// step to the last, and over again if it repeats.
///
/// Times are exact: an exponential amount of rate passes between two, whichever steps it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    rates: Arc<[f64]>,
    step: f64,
    repeats: bool,
}

impl Profile {
    /// `rates` in arrivals a second, each for `step` seconds; once, or over and over.
    ///
    /// Counts in steps divided by the length of a step make the process that would bring as many in
    /// the mean.
    pub fn new(rates: &[f64], step: f64, repeats: bool) -> Result<Self, ArrivalsError> {
        let step = positive("the length of a step", step)?;
        let bad = |&(_, rate): &(usize, &f64)| !(rate.is_finite() && *rate >= 0.0);
        if let Some((step, &value)) = rates.iter().enumerate().find(bad) {
            return Err(ArrivalsError::Profile { step, value });
        }
        if rates.is_empty() {
            return Err(ArrivalsError::NoSteps);
        }
        if rates.iter().sum::<f64>() <= 0.0 {
            return Err(ArrivalsError::Profile { step: 0, value: 0.0 });
        }
        Ok(Self { rates: rates.into(), step, repeats })
    }

    /// A day of `length` seconds that repeats: a sine with this `mean` rate, least at its start and
    /// end, and in its middle `peak` times the mean (1 to 2). In 96 steps, each at the sine's mean
    /// over it.
    pub fn day(mean: Rate, peak: f64, length: f64) -> Result<Self, ArrivalsError> {
        let length = positive("the length of a day", length)?;
        if !(1.0..=2.0).contains(&peak) {
            return Err(ArrivalsError::Peak(peak));
        }
        let steps = STEPS_OF_A_DAY as f64;
        let rate = |step: usize| {
            // The mean of 1 - (peak - 1) cos x over the step, by its integral.
            let (from, to) = (TAU * step as f64 / steps, TAU * (step + 1) as f64 / steps);
            mean.get() * (1.0 - (peak - 1.0) * (to.sin() - from.sin()) / (to - from))
        };
        let rates: Vec<f64> = (0..STEPS_OF_A_DAY).map(rate).collect();
        Self::new(&rates, length / steps, true)
    }

    /// Arrivals in a second, over all steps.
    pub fn mean_rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }

    /// The rate `time` seconds after the start: 0 before it, and after the end of what does not
    /// repeat.
    pub fn rate_at(&self, time: f64) -> f64 {
        if time < 0.0 { 0.0 } else { self.rate((time / self.step) as usize).unwrap_or(0.0) }
    }

    /// Whether it starts again after its last step.
    pub const fn repeats(&self) -> bool {
        self.repeats
    }

    /// Seconds from the first step's start to the last one's end.
    pub fn length(&self) -> f64 {
        self.step * self.rates.len() as f64
    }

    fn rate(&self, step: usize) -> Option<f64> {
        let within = if self.repeats { step % self.rates.len() } else { step };
        self.rates.get(within).copied()
    }

    pub(super) fn start(self, seed: u64) -> State {
        State { profile: self, step: 0, within: 0.0, random: stream(seed, 0) }
    }
}

/// Where a realisation is.
#[derive(Debug, Clone)]
pub(super) struct State {
    profile: Profile,
    step: usize,
    /// Seconds since the start of this step: not of the whole, whose digits would run out.
    within: f64,
    random: ChaCha8Rng,
}

impl State {
    pub(super) fn next(&mut self) -> Option<f64> {
        let mut left = exponential(&mut self.random);
        loop {
            let rate = self.profile.rate(self.step)?;
            let here = rate * (self.profile.step - self.within);
            if left < here {
                self.within += left / rate;
                return Some(self.step as f64 * self.profile.step + self.within);
            }
            left -= here;
            self.within = 0.0;
            self.step += 1;
        }
    }
}
