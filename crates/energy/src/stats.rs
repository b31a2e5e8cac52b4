//! Statistics: what describes values, and what may be concluded from them.
//!
//! The distributions behind intervals are in [`distribution`]; [`moments`] and [`intervals`] are of
//! one set of values, [`ratio`] of two, [`sequential`] of values whose number depended on themselves,
//! [`bootstrap`] of percentiles. [`equivalence`] and [`multiple`] judge, [`outliers`] marks.

pub mod bootstrap;
pub mod distribution;
pub mod equivalence;
pub mod intervals;
pub mod moments;
pub mod multiple;
pub mod outliers;
pub mod ratio;
pub mod sequential;

use serde::Serialize;

/// The `p`-th percentile (0 ..= 100) of ascending values, by nearest rank: the smallest value that
/// at least `p` % of the values do not exceed. `NaN` when there are none.
pub fn percentile(ascending: &[f64], p: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else { return f64::NAN };
    let rank = (p / 100.0 * ascending.len() as f64).ceil() as usize;
    ascending[rank.saturating_sub(1).min(last)]
}

/// What one wants to know of a set of delays (or any other values). All zero when there are none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Summary {
    /// How many values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// Summarises finite values, in any order.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let Some(&max) = values.last() else { return Self::default() };
        Self {
            count: values.len() as u64,
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: percentile(&values, 50.0),
            p90: percentile(&values, 90.0),
            p99: percentile(&values, 99.0),
            max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_as_in_the_textbook_example() {
        // The worked example of nearest rank: 15, 20, 35, 40, 50.
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        for (p, expected) in [(5.0, 15.0), (30.0, 20.0), (40.0, 20.0), (50.0, 35.0), (100.0, 50.0)]
        {
            assert!((percentile(&values, p) - expected).abs() < f64::EPSILON, "p{p}");
        }
        assert!(percentile(&[], 50.0).is_nan());
    }

    #[test]
    fn a_summary_of_one_to_a_hundred() {
        let summary = Summary::of((1..=100).rev().map(f64::from).collect());
        let expected =
            Summary { count: 100, mean: 50.5, p50: 50.0, p90: 90.0, p99: 99.0, max: 100.0 };
        assert_eq!(summary, expected);
        assert_eq!(Summary::of(Vec::new()), Summary::default());
    }
}
