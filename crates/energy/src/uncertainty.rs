//! How sure an energy is: parts of its uncertainty, and what they come to.
//!
//! Every part is expanded to 95 %. They are independent of each other, so they add as squares do
//! (JCGM 100:2008, 5.1.2, with the expanded figures in place of the standard ones: all are taken at
//! the same level). Within a part nothing averages out that errs the same way each time: a meter that
//! reads 2 % too much does so in every run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{Joules, Watts};
use crate::stats::distribution::student_t;

/// The parts of an energy's uncertainty, each at 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Budget {
    /// The meter's, or the model's.
    #[serde(rename = "meter_j")]
    pub meter: Joules,
    /// Steps of the meter, what lay between its readings, and time of which nothing is known.
    #[serde(rename = "sampling_j")]
    pub sampling: Joules,
    /// Of the idle power that was taken off.
    #[serde(rename = "baseline_j")]
    pub baseline: Joules,
    /// Of the mean over the runs.
    #[serde(rename = "repetition_j")]
    pub repetition: Joules,
}

impl Budget {
    /// All together.
    pub fn combined(&self) -> Joules {
        let parts = [self.meter, self.sampling, self.baseline, self.repetition];
        Joules(parts.map(|part| part.get().powi(2)).iter().sum::<f64>().sqrt())
    }
}

/// How far from the truth a meter may be, at 95 %: `relative` of the reading and `watts` on top.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Share of the reading: 0.015 for 1.5 %.
    pub relative: f64,
    /// Beside it, whatever the reading.
    pub watts: Watts,
}

impl Accuracy {
    /// A share of the reading.
    pub const fn relative(share: f64) -> Self {
        Self { relative: share, watts: Watts::ZERO }
    }

    /// How far a power may be off.
    pub fn at(&self, power: Watts) -> Watts {
        Watts((power.get() * self.relative).abs()) + self.watts
    }

    /// How far an energy over a time may be off: the meter errs in the same direction all the while.
    pub fn of(&self, joules: Joules, time: Duration) -> Joules {
        Joules((joules.get() * self.relative).abs() + (self.watts * time).get())
    }
}

/// A mean, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Standard deviation of single values, with n - 1; `None` of a single one.
    pub sd: Option<f64>,
    /// Half of the 95 % interval of the mean (Student's t); `None` of a single one.
    pub half_width: Option<f64>,
}

impl Mean {
    /// Of values, `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Self { mean, sd: None, half_width: None }),
            _ => {
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                let sd = (squares / (count - 1.0)).sqrt();
                let half_width = student_t(0.025, count - 1.0) * sd / count.sqrt();
                Some(Self { mean, sd: Some(sd), half_width: Some(half_width) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_as_squares_do() {
        let budget = Budget { meter: Joules(3.0), baseline: Joules(4.0), ..Budget::default() };
        assert!((budget.combined().get() - 5.0).abs() < 1e-12);
    }

    #[test]
    fn a_mean_has_the_interval_that_scipy_gives_it() {
        // scipy.stats.t.interval(0.95, 4, loc=np.mean(x), scale=scipy.stats.sem(x)) of
        // x = [12.1, 11.8, 12.6, 12.0, 12.2]: 11.7719 .. 12.5081, by hand: sd = sqrt(0.352 / 4),
        // t = 2.77645, half width = 2.77645 x 0.296648 / sqrt(5).
        let mean = Mean::of(&[12.1, 11.8, 12.6, 12.0, 12.2]).unwrap();
        assert!((mean.mean - 12.14).abs() < 1e-12);
        assert!((mean.sd.unwrap() - 0.296_648).abs() < 1e-6);
        assert!((mean.half_width.unwrap() - 0.368_34).abs() < 1e-5, "{mean:?}");
        assert_eq!(Mean::of(&[]), None);
        assert_eq!(Mean::of(&[7.0]).unwrap().half_width, None);
    }
}
