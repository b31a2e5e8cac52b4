//! Values that lie apart: marked, never removed.

use serde::Serialize;

/// Tukey's fences: 1.5 times the interquartile range beyond the quartiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fences {
    /// Below it lie outliers.
    pub low: f64,
    /// Above it lie outliers.
    pub high: f64,
}

/// How far the fences stand from the quartiles, in interquartile ranges (Tukey 1977).
const REACH: f64 = 1.5;

/// Fewer values have no quartiles worth the name.
const LEAST: usize = 4;

impl Fences {
    /// Of finite values in any order; `None` of fewer than four.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < LEAST {
            return None;
        }
        let mut ascending = values.to_vec();
        ascending.sort_by(f64::total_cmp);
        let (lower, upper) = (interpolated(&ascending, 0.25), interpolated(&ascending, 0.75));
        let reach = REACH * (upper - lower);
        Some(Self { low: lower - reach, high: upper + reach })
    }

    /// Whether a value is an outlier.
    pub fn exclude(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }
}

/// A quantile between the values, as R and numpy have it by default (Hyndman and Fan's type 7).
fn interpolated(ascending: &[f64], share: f64) -> f64 {
    let place = share * (ascending.len() - 1) as f64;
    let below = place as usize;
    let above = (below + 1).min(ascending.len() - 1);
    ascending[below] + (place - below as f64) * (ascending[above] - ascending[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_and_fences_are_numpys() {
        // numpy.percentile([1, 2, 4, 7, 11, 40], [25, 75]) = 2.5, 10: fences -8.75 and 21.25.
        let values = [7.0, 40.0, 1.0, 4.0, 2.0, 11.0];
        let fences = Fences::of(&values).unwrap();
        assert!((fences.low + 8.75).abs() < 1e-12 && (fences.high - 21.25).abs() < 1e-12);
        let marked: Vec<f64> = values.into_iter().filter(|&v| fences.exclude(v)).collect();
        assert_eq!(marked, [40.0]);
        assert_eq!(Fences::of(&[1.0, 2.0, 300.0]), None);
    }
}
