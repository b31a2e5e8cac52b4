//! Intervals that hold although the values themselves said when to stop.
//!
//! A test that repeats until the interval is narrow stops more often where the spread looks small by chance:
//! of Student's 95 % intervals 90 to 94 % hold then. Here they are wider by one factor, for which this is
//! proved: of normal values, the mean is independent of all deviations from it (Helmert, 1876). So whatever
//! rule looks at spreads only, the probability that the interval holds, when it stops at n with a standard
//! deviation s, is that of a normal variable to lie within `factor t s / σ`. What the worst rule makes of it
//! is an optimal stopping problem in one variable, the sum of squares, and is solved backwards from the
//! largest n. With the factor the worst rule of all still leaves 95 %. So it does not matter which other
//! measurement is waited for, which runs fail, or how precise is precise enough.
//!
//! What is left out: a rule that asks for a share of the mean looks at the mean a little, too. With a
//! coefficient of variation of 2 % the mean has 3 % of the spread's influence on when it stops, with one
//! of 20 %, 28 %. What that costs is simulated in `experiment`'s tests: nothing that could be seen.

use super::distribution::{normal_within, student_t, student_t_upper_tail};
use super::intervals::{Interval, LEVEL};
use super::moments::Moments;

/// Fewer runs leave so little to judge a spread by that intervals would be twice as wide.
pub const LEAST_RUNS: u32 = 3;

/// More runs than any user waits for; the factor's computation is linear in them.
pub const MOST_RUNS: u32 = 1000;

/// Levels at which the factor is computed; it hardly depends on them, and is interpolated between.
const LEVELS: [f64; 3] = [LEVEL, 1e-3, 1e-5];

/// p-values are not told apart below.
pub const LEAST_P: f64 = LEVELS[2];

/// A rule that stops nowhere.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum StopRuleError {
    /// Too few or too many, or upside down.
    #[error(
        "from {min} to {max} runs; the least must be {LEAST_RUNS} or more, the most no fewer than it \
         and {MOST_RUNS} at most"
    )]
    Runs {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// A share that no interval could be within.
    #[error("an interval within {0} of the mean; the share must be above 0, such as 0.03")]
    Share(f64),
}

/// Runs are repeated until the interval is within a share of the mean.
#[derive(Debug, Clone, PartialEq)]
pub struct StopRule {
    min: u32,
    max: u32,
    share: f64,
    /// At each of [`LEVELS`].
    factors: [f64; LEVELS.len()],
    /// Student's quantile times the factor, by degrees of freedom from 1.
    quantiles: Vec<f64>,
}

impl StopRule {
    /// At least `min` runs, at most `max`, and until the 95 % interval is within `share` of the mean on
    /// either side.
    pub fn new(min: u32, max: u32, share: f64) -> Result<Self, StopRuleError> {
        if min < LEAST_RUNS || max < min || max > MOST_RUNS {
            return Err(StopRuleError::Runs { min, max });
        }
        if !(share > 0.0 && share.is_finite()) {
            return Err(StopRuleError::Share(share));
        }
        let worst = WorstRule::new(min, max);
        let factors = LEVELS.map(|level| worst.factor(level));
        let quantiles =
            (1..max).map(|df| factors[0] * student_t(0.5 * LEVEL, f64::from(df))).collect();
        Ok(Self { min, max, share, factors, quantiles })
    }

    /// The least number of runs.
    pub const fn min(&self) -> u32 {
        self.min
    }

    /// The largest number of runs.
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// The share of the mean.
    pub const fn share(&self) -> f64 {
        self.share
    }

    /// How much wider than Student's the intervals are.
    pub const fn factor(&self) -> f64 {
        self.factors[0]
    }

    /// What stands in place of Student's quantile.
    pub fn quantile(&self, degrees_of_freedom: f64) -> f64 {
        let whole = degrees_of_freedom as usize;
        match self.quantiles.get(whole.wrapping_sub(1)) {
            Some(&quantile) if (degrees_of_freedom - whole as f64).abs() < 1e-9 => quantile,
            _ => self.factor() * student_t(0.5 * LEVEL, degrees_of_freedom),
        }
    }

    /// Half of the interval; `None` of fewer than two values.
    pub fn half_width(&self, moments: &Moments) -> Option<f64> {
        let error = moments.standard_error()?;
        Some(self.quantile((moments.count() - 1) as f64) * error)
    }

    /// The interval of the mean.
    pub fn interval(&self, moments: &Moments) -> Option<Interval> {
        Some(Interval::around(moments.mean()?, self.half_width(moments)?))
    }

    /// Whether no more runs are needed for the precision.
    pub fn is_precise(&self, moments: &Moments) -> bool {
        moments.count() >= u64::from(self.min) && self.is_narrow(moments, moments.count())
    }

    fn is_narrow(&self, moments: &Moments, count: u64) -> bool {
        let (Some(mean), Some(sd)) = (moments.mean(), moments.sd()) else { return false };
        let quantile = self.quantile((count - 1) as f64);
        quantile * sd <= self.share * mean.abs() * (count as f64).sqrt()
    }

    /// How many runs it will take if mean and spread stay as they are; `None` of fewer than two values.
    pub fn runs_needed(&self, moments: &Moments) -> Option<u32> {
        moments.sd()?;
        let enough = |&count: &u32| self.is_narrow(moments, u64::from(count));
        Some((self.min..self.max).find(enough).unwrap_or(self.max))
    }

    /// The one-sided p-value of a Student's `t`, and [`LEAST_P`]/2 for all below it.
    pub fn tail(&self, t: f64, degrees_of_freedom: f64) -> f64 {
        if t < 0.0 {
            return 1.0 - self.tail(-t, degrees_of_freedom);
        }
        let p_by = |factor: f64| student_t_upper_tail(t / factor, degrees_of_freedom);
        // Up to 95 % the factor is the same for all.
        let common = p_by(self.factor());
        if 2.0 * common >= LEVEL {
            return common;
        }
        // It is the p at which `t` is just the widened quantile; logarithms, for p spans decades.
        let is_below = |p: f64| p_by(self.factor_at(2.0 * p)) < p;
        let (mut low, mut high) = ((0.5 * LEAST_P).ln(), (0.5 * LEVEL).ln());
        if is_below(low.exp()) {
            return low.exp();
        }
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if is_below(middle.exp()) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high.exp()
    }

    /// The two-sided p-value.
    pub fn p_value(&self, t: f64, degrees_of_freedom: f64) -> f64 {
        2.0 * self.tail(t.abs(), degrees_of_freedom)
    }

    fn factor_at(&self, level: f64) -> f64 {
        for (levels, factors) in LEVELS.windows(2).zip(self.factors.windows(2)) {
            if level > levels[1] {
                let way = ((levels[0] / level).ln() / (levels[0] / levels[1]).ln()).max(0.0);
                return factors[0] + way * (factors[1] - factors[0]);
            }
        }
        self.factors[LEVELS.len() - 1]
    }
}

/// The rule that leaves the least coverage, among all that look at spreads and stop between `min` and
/// `max` values.
///
/// The state at n is the root of the sum of squared deviations, in σ; a value more adds the square of a
/// standard normal variable to that sum. Coverage is kept on a grid that is denser towards 0, where
/// intervals at small levels end.
struct WorstRule {
    min: u32,
    max: u32,
    roots: Vec<f64>,
    /// For each root and step: the place on the grid that the step leads to, as index and share.
    steps: Vec<[(u32, f64); STEPS]>,
    /// Probabilities of the steps.
    weights: [f64; STEPS],
    /// Of a normal variable to lie within this many [`NORMAL_STEP`]s: asked for millions of times.
    normal: Vec<f64>,
}

const GRID: usize = 400;

/// The half of a normal distribution, by the trapezoidal rule.
const STEPS: usize = 27;
const STEP: f64 = 0.25;

/// Between places of the table; straight lines between them are good to 2e-7.
const NORMAL_STEP: f64 = 0.002;
const NORMAL_END: usize = 4000;

impl WorstRule {
    fn new(min: u32, max: u32) -> Self {
        // Six deviations of the sum's root (which has about one half) beyond its mean.
        let end = f64::from(max).sqrt() + 4.5;
        let root = |place: usize| end * (place as f64 / GRID as f64).powi(2);
        let roots: Vec<f64> = (0..=GRID).map(root).collect();
        let lead = |from: f64| {
            std::array::from_fn(|step| {
                let to = from.hypot(STEP * step as f64).min(end);
                let place = ((to / end).sqrt() * GRID as f64) as usize;
                let place = place.min(GRID - 1);
                (place as u32, (to - roots[place]) / (roots[place + 1] - roots[place]))
            })
        };
        let steps = roots.iter().map(|&from| lead(from)).collect();
        let mut weights: [f64; STEPS] =
            std::array::from_fn(|step| (-0.5 * (STEP * step as f64).powi(2)).exp());
        weights[0] *= 0.5;
        let sum: f64 = weights.iter().sum();
        let weights = weights.map(|weight| weight / sum);
        let normal =
            (0..=NORMAL_END).map(|place| normal_within(NORMAL_STEP * place as f64)).collect();
        Self { min, max, roots, steps, weights, normal }
    }

    fn normal_within(&self, z: f64) -> f64 {
        let place = z / NORMAL_STEP;
        let below = place as usize;
        match self.normal.get(below..below + 2) {
            Some(ends) => ends[0] + (place - below as f64) * (ends[1] - ends[0]),
            None => 1.0,
        }
    }

    /// The least factor with which intervals of this level hold.
    fn factor(&self, level: f64) -> f64 {
        if self.min == self.max {
            return 1.0;
        }
        let quantiles: Vec<f64> =
            (self.min..=self.max).map(|n| student_t(0.5 * level, f64::from(n - 1))).collect();
        let (mut low, mut high) = (1.0, 3.0);
        for _ in 0..14 {
            let middle = 0.5 * (low + high);
            if self.coverage(middle, &quantiles) < 1.0 - level {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// What the worst rule leaves, with these quantiles from `min` values on.
    fn coverage(&self, factor: f64, quantiles: &[f64]) -> f64 {
        let stopped = |n: u32| {
            let quantile = factor * quantiles[(n - self.min) as usize] / f64::from(n - 1).sqrt();
            self.roots.iter().map(move |root| self.normal_within(quantile * root))
        };
        let mut value: Vec<f64> = stopped(self.max).collect();
        for n in (self.min..self.max).rev() {
            let gone_on = self.steps.iter().map(|steps| self.expected(steps, &value));
            value = stopped(n).zip(gone_on).map(|(stop, go_on)| stop.min(go_on)).collect();
        }
        self.at_first(&value)
    }

    fn expected(&self, steps: &[(u32, f64); STEPS], value: &[f64]) -> f64 {
        let terms = steps.iter().zip(&self.weights).map(|(&(place, share), weight)| {
            let place = place as usize;
            weight * (value[place] + share * (value[place + 1] - value[place]))
        });
        terms.sum()
    }

    /// The mean of a value over the root of the first sum of squares: chi with `min - 1` degrees.
    fn at_first(&self, value: &[f64]) -> f64 {
        let degrees = f64::from(self.min - 1);
        let (mut sum, mut mass) = (0.0, 0.0);
        for (place, root) in self.roots.iter().enumerate() {
            // The density times the distance between places, which grows with the place. Scaled by its
            // peak, which powers of large roots would not survive.
            let peak = (degrees - 1.0).sqrt();
            let logarithm =
                (degrees - 1.0) * (root / peak).ln() - 0.5 * (root * root - peak * peak);
            let weight = logarithm.exp() * place as f64;
            sum += weight * value[place];
            mass += weight;
        }
        sum / mass
    }
}

#[cfg(test)]
mod tests;
