//! How sure a simulated figure is.

use nightwatt_energy::stats::distribution::student_t;

/// A mean and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The truth lies within `mean` +- this, at the confidence asked for; infinite for a single value.
    pub half_width: f64,
    /// Of how many values.
    pub values: usize,
}

impl Interval {
    /// From independent values of one distribution, by Student's t: one per independent replication,
    /// or one per batch of a long run where batches are long enough to be nearly independent.
    /// `confidence` as 0.95. `NaN` as mean where there are none.
    pub fn of(values: &[f64], confidence: f64) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half_width = if values.len() < 2 {
            f64::INFINITY
        } else {
            student_t(0.5 * (1.0 - confidence), n - 1.0) * (squares / (n - 1.0) / n).sqrt()
        };
        Self { mean, half_width, values: values.len() }
    }

    /// Is `value` in it?
    pub fn holds(&self, value: f64) -> bool {
        (self.mean - value).abs() <= self.half_width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_worked_out_by_hand() {
        // Mean 3, variance 2.5, t(0.975, 4) = 2.776: 2.776 x sqrt(2.5 / 5).
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert!((interval.mean - 3.0).abs() < 1e-12);
        assert!((interval.half_width - 1.963).abs() < 1e-3, "{interval:?}");
        assert!(interval.holds(1.04) && !interval.holds(1.03));
        assert!(Interval::of(&[7.0], 0.95).half_width.is_infinite());
    }
}
