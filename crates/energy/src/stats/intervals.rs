//! Intervals of a mean whose number of values was fixed beforehand.

use serde::{Deserialize, Serialize};

use super::distribution::student_t;
use super::moments::Moments;

/// Outside lies this share, half of it on either side: intervals are 95 % ones.
pub const LEVEL: f64 = 0.05;

/// The quantile that published tables take for all numbers of values, as they print it.
const PUBLISHED_Z: f64 = 1.96;

/// From one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// As far on either side of a value.
    pub fn around(middle: f64, half_width: f64) -> Self {
        Self { low: middle - half_width, high: middle + half_width }
    }

    /// Whether a value lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// From end to end.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The published interval: mean ± 1.96 s / √n. Right for many values; of five it holds 88 %.
pub fn normal(moments: &Moments) -> Option<Interval> {
    Some(Interval::around(moments.mean()?, PUBLISHED_Z * moments.standard_error()?))
}

/// Student's interval: mean ± t s / √n.
pub fn student(moments: &Moments) -> Option<Interval> {
    let quantile = student_t(0.5 * LEVEL, (moments.count().saturating_sub(1)) as f64);
    Some(Interval::around(moments.mean()?, quantile * moments.standard_error()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ratio::Ratio;

    #[test]
    fn both_intervals_of_five_values_are_scipys() {
        // x = [12.1, 11.8, 12.6, 12.0, 12.2]: mean 12.14, s = 0.296648;
        // scipy.stats.t.interval(0.95, 4, 12.14, sem) = 11.77166 .. 12.50834;
        // 1.96 x 0.296648 / sqrt(5) = 0.260024.
        let moments = Moments::of(&[12.1, 11.8, 12.6, 12.0, 12.2]);
        let (t, z) = (student(&moments).unwrap(), normal(&moments).unwrap());
        assert!((t.low - 11.771_66).abs() < 1e-5 && (t.high - 12.508_34).abs() < 1e-5, "{t:?}");
        assert!((z.low - 11.879_976).abs() < 1e-6 && (z.high - 12.400_024).abs() < 1e-6, "{z:?}");
        assert_eq!((student(&Moments::of(&[1.0])), normal(&Moments::of(&[]))), (None, None));
    }

    /// Claim H1. `helin_idle_power.csv` prints mean, percent of hardware, s and the half width, but no n.
    /// Each row therefore allows a range of n, by the roundings of s and of the half width: 1.96 s /
    /// half width squared. All rows but one hold a whole number of at least two.
    #[test]
    fn published_intervals_follow_the_formula_for_some_n_but_kvm_with_three_guests() {
        let rows = [
            ("Hardware, 1 disk", 75.4, 100.0, 0.05, 0.05),
            ("Hardware, 2 disks", 82.1, 108.9, 0.04, 0.05),
            ("KVM, 1 guest", 77.7, 103.1, 0.31, 0.35),
            ("KVM, 3 guests", 80.1, 106.2, 0.47, 0.51),
            ("ESXi, 1 guest", 139.6, 185.1, 0.11, 0.12),
            ("ESXi, 3 guests", 139.7, 185.2, 0.08, 0.09),
            ("Xen, 1 guest", 134.3, 178.1, 0.24, 0.19),
            ("Xen, 3 guests", 134.0, 177.7, 0.61, 0.38),
            ("Xen 2.6, 3 guests", 103.1, 136.7, 0.39, 0.45),
            ("Special", 103.7, 137.4, 1.20, 0.96),
        ];
        let hardware = Moments::published(3, 75.4, 0.05);
        let mut without = Vec::new();
        for (name, mean, percent, sd, half) in rows {
            let explains = |n: &u64| {
                let widths = [sd - 0.005, sd + 0.005]
                    .map(|sd| normal(&Moments::published(*n, mean, sd)).unwrap().width() / 2.0);
                widths[0] <= half + 0.005 && widths[1] >= half - 0.005
            };
            if !(2..100).any(|n| explains(&n)) {
                without.push(name);
            }
            // Means are rounded to 0.1 W: so much the percentage may be off, beside its own rounding.
            let ratio = Ratio::independent(&Moments::published(3, mean, sd), &hardware).unwrap();
            let rounding = 100.0 * (0.05 / 75.4) * (1.0 + mean / 75.4) + 0.05;
            assert!((100.0 * ratio.estimate() - percent).abs() <= rounding, "{name}");
        }
        assert_eq!(without, ["KVM, 3 guests"]);
    }
}
