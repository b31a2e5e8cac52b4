//! The ratio of two means, by Fieller's theorem.
//!
//! Of normal values `a` and `b` with means of ratio ρ, `mean(a) - ρ mean(b)` is normal around 0, and
//! `T(ρ)`, it over its standard error, has Student's distribution. All ρ that `T` does not refute are
//! the interval (E. C. Fieller, J. Royal Statistical Society B 16, 1954): no approximation where values
//! are paired, Welch's for the degrees of freedom where they are not. An interval of the mean of
//! logarithms would be about as wide, but of the ratio of geometric means: not of joules to joules.

use serde::Serialize;

use super::intervals::Interval;
use super::moments::Moments;

/// How values of the two sides belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// In pairs, one value of each side, taken under like circumstances: what is common to both drops out.
    Paired,
    /// Not at all.
    Independent,
}

/// A ratio of means, and how surely it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    above: f64,
    below: f64,
    /// Of the means.
    above_variance: f64,
    below_variance: f64,
    covariance: f64,
    degrees_of_freedom: f64,
    design: Design,
}

impl Ratio {
    /// Of pairs `(a, b)`: `a` to `b`. `None` of fewer than two, or where the mean of `b` is not above 0.
    pub fn paired(pairs: &[(f64, f64)]) -> Option<Self> {
        let count = pairs.len() as f64;
        let above = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
        let below = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
        if pairs.len() < 2 || below <= 0.0 {
            return None;
        }
        let of_means = |product: &dyn Fn(f64, f64) -> f64| {
            let sum: f64 = pairs.iter().map(|&(a, b)| product(a - above, b - below)).sum();
            sum / (count - 1.0) / count
        };
        Some(Self {
            above,
            below,
            above_variance: of_means(&|a, _| a * a),
            below_variance: of_means(&|_, b| b * b),
            covariance: of_means(&|a, b| a * b),
            degrees_of_freedom: count - 1.0,
            design: Design::Paired,
        })
    }

    /// Of values that do not belong together. `None` of fewer than two on either side, or where the mean
    /// below is not above 0.
    pub fn independent(above: &Moments, below: &Moments) -> Option<Self> {
        let variance = |of: &Moments| of.standard_error().map(|error| error * error);
        let (above_variance, below_variance) = (variance(above)?, variance(below)?);
        let (mean_above, mean_below) = (above.mean()?, below.mean()?);
        if mean_below <= 0.0 {
            return None;
        }
        // Welch and Satterthwaite, at the ratio that was found.
        let scaled = below_variance * (mean_above / mean_below).powi(2);
        let (above_df, below_df) = ((above.count() - 1) as f64, (below.count() - 1) as f64);
        let parts = above_variance.powi(2) / above_df + scaled.powi(2) / below_df;
        let degrees_of_freedom = if parts > 0.0 {
            (above_variance + scaled).powi(2) / parts
        } else {
            above_df + below_df
        };
        Some(Self {
            above: mean_above,
            below: mean_below,
            above_variance,
            below_variance,
            covariance: 0.0,
            degrees_of_freedom,
            design: Design::Independent,
        })
    }

    /// The ratio of the means.
    pub fn estimate(&self) -> f64 {
        self.above / self.below
    }

    /// How values belong together.
    pub const fn design(&self) -> Design {
        self.design
    }

    /// Of Student's distribution.
    pub const fn degrees_of_freedom(&self) -> f64 {
        self.degrees_of_freedom
    }

    /// `T(ρ)`: far above 0 where the ratio must be larger than ρ, far below where it must be smaller.
    pub fn t(&self, ratio: f64) -> f64 {
        let distance = self.above - ratio * self.below;
        let variance = self.above_variance - 2.0 * ratio * self.covariance
            + ratio * ratio * self.below_variance;
        // Values that are all alike refute every other ratio.
        if distance == 0.0 { 0.0 } else { distance / variance.max(0.0).sqrt() }
    }

    /// All ρ where `|T(ρ)|` is at most `quantile`. `None` where the mean below is not surely above 0:
    /// then no ratio is too large.
    pub fn interval(&self, quantile: f64) -> Option<Interval> {
        // a ρ² - 2 b ρ + c <= 0.
        let square = quantile * quantile;
        let a = self.below * self.below - square * self.below_variance;
        let b = self.above * self.below - square * self.covariance;
        let c = self.above * self.above - square * self.above_variance;
        if a <= 0.0 || !a.is_finite() {
            return None;
        }
        // The ratio itself solves it, so that only rounding could make this negative.
        let root = (b * b - a * c).max(0.0).sqrt();
        Some(Interval { low: (b - root) / a, high: (b + root) / a })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::distribution::student_t;

    const X: [f64; 6] = [51.2, 49.8, 53.1, 50.4, 52.7, 50.9];
    const Y: [f64; 6] = [48.1, 47.5, 50.2, 47.9, 49.6, 48.8];

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, not {expected}");
    }

    /// The ends are the two r at which `scipy.stats.ttest_rel(x, r * y).pvalue` is 0.05, by `brentq`.
    #[test]
    fn the_interval_of_pairs_is_where_scipys_paired_test_does_not_refute() {
        let pairs: Vec<_> = X.into_iter().zip(Y).collect();
        let ratio = Ratio::paired(&pairs).unwrap();
        near(ratio.estimate(), 1.054_775_761_725_436_5);
        near(ratio.t(1.0), 15.283_214_398_017_382);
        let interval = ratio.interval(student_t(0.025, 5.0)).unwrap();
        near(interval.low, 1.045_975_419_194_817_4);
        near(interval.high, 1.063_446_868_442_224_2);
    }

    /// The ends by `scipy.stats.ttest_ind(x, r * y, equal_var=False).statistic`, with its degrees of
    /// freedom at the ratio of the means (8.788).
    #[test]
    fn the_interval_of_others_is_welchs() {
        let ratio = Ratio::independent(&Moments::of(&X), &Moments::of(&Y[..5])).unwrap();
        near(ratio.degrees_of_freedom(), 8.788_251_749_066_857);
        near(ratio.t(1.0), 3.610_494_321_943_171);
        let interval = ratio.interval(student_t(0.025, ratio.degrees_of_freedom())).unwrap();
        near(interval.low, 1.020_168_631_391_376);
        near(interval.high, 1.091_657_027_341_818_2);
    }

    #[test]
    fn what_cannot_be_divided_by_has_no_ratio_or_no_end() {
        assert_eq!(Ratio::paired(&[(1.0, 2.0)]), None);
        assert_eq!(Ratio::paired(&[(1.0, -2.0), (1.0, 1.0)]), None);
        // 1 ± 12.7 x 1: nothing says that it is not 0.
        let unsure =
            Ratio::independent(&Moments::of(&[5.0, 6.0]), &Moments::of(&[0.0, 2.0])).unwrap();
        assert_eq!(unsure.interval(student_t(0.025, 1.0)), None);
        let alike = Ratio::paired(&[(3.0, 2.0); 4]).unwrap();
        assert_eq!(alike.interval(3.0), Some(Interval { low: 1.5, high: 1.5 }));
        assert!(alike.t(1.0).is_infinite());
    }
}
