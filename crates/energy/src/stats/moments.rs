//! Count, mean and spread.

/// Count, mean and sum of squared deviations of values that come one by one (Welford's method).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Of values in any order.
    pub fn of(values: &[f64]) -> Self {
        let mut moments = Self::default();
        for &value in values {
            moments.add(value);
        }
        moments
    }

    /// Of values that are not at hand, as published tables have them: how many, their mean, and their
    /// standard deviation with n - 1.
    pub fn published(count: u64, mean: f64, sd: f64) -> Self {
        Self { count, mean, squares: sd * sd * count.saturating_sub(1) as f64 }
    }

    /// One more value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let step = value - self.mean;
        self.mean += step / self.count as f64;
        self.squares += step * (value - self.mean);
    }

    /// How many values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; `None` of none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Standard deviation, bias-corrected (with n - 1); `None` of fewer than two.
    pub fn sd(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }

    /// Standard deviation of the mean; `None` of fewer than two.
    pub fn standard_error(&self) -> Option<f64> {
        Some(self.sd()? / (self.count as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_of_an_example_by_hand() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squared deviations 32, so sd = sqrt(32 / 7).
        let moments = Moments::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(moments.count(), 8);
        assert!((moments.mean().unwrap() - 5.0).abs() < 1e-15);
        assert!((moments.sd().unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        assert!((moments.standard_error().unwrap() - (4.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        let published = Moments::published(8, 5.0, (32.0_f64 / 7.0).sqrt());
        assert!((published.sd().unwrap() - moments.sd().unwrap()).abs() < 1e-15);
        assert_eq!((Moments::of(&[]).mean(), Moments::of(&[3.0]).sd()), (None, None));
    }

    #[test]
    fn a_large_offset_does_not_drown_the_spread() {
        let moments = Moments::of(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert!((moments.sd().unwrap() - 30.0_f64.sqrt()).abs() < 1e-6, "{moments:?}");
    }
}
