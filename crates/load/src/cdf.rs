//! The share of requests that waited at most a given time.

use std::fmt::Write;

use serde::Serialize;

/// From 10^-3 s to 10^2 s.
const DECADES: std::ops::RangeInclusive<i32> = -3..=2;

/// Points of the curve per factor of ten.
const PER_DECADE: i32 = 10;

/// Columns of the text plot per factor of ten.
const COLUMNS: i32 = 12;

/// Rows of the text plot.
const ROWS: usize = 10;

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CdfPoint {
    /// Delay in seconds.
    pub delay_s: f64,
    /// Share (0 to 1) of the requests that waited no longer.
    pub share: f64,
}

/// Cumulative distribution of delays, at logarithmically spaced points from 1 ms to 100 s.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Cdf {
    /// How many delays went into it.
    pub count: usize,
    /// The curve, rising.
    pub points: Vec<CdfPoint>,
    #[serde(skip)]
    ascending: Vec<f64>,
}

impl Cdf {
    /// Of delays in seconds, in any order.
    pub fn of(mut delays_s: Vec<f64>) -> Self {
        delays_s.sort_by(f64::total_cmp);
        let first = DECADES.start() * PER_DECADE;
        let last = DECADES.end() * PER_DECADE;
        let mut cdf = Self { count: delays_s.len(), points: Vec::new(), ascending: delays_s };
        cdf.points = (first..=last)
            .map(|step| 10_f64.powf(f64::from(step) / f64::from(PER_DECADE)))
            .map(|delay_s| CdfPoint { delay_s, share: cdf.share_within(delay_s) })
            .collect();
        cdf
    }

    /// Share of the requests that waited no longer than this.
    pub fn share_within(&self, delay_s: f64) -> f64 {
        if self.ascending.is_empty() {
            return 0.0;
        }
        // A grid point that stands for a round figure must hold the values that are just that.
        let limit = delay_s * (1.0 + 1e-9);
        let within = self.ascending.partition_point(|&delay| delay <= limit);
        within as f64 / self.ascending.len() as f64
    }

    /// The curve for a terminal. The lowest line is the tenth below the curve's start, since what
    /// matters is usually in the last few percent.
    pub fn plot(&self) -> String {
        let first = DECADES.start() * COLUMNS;
        let last = DECADES.end() * COLUMNS;
        let at = |step: i32| 10_f64.powf(f64::from(step) / f64::from(COLUMNS));
        let shares: Vec<f64> = (first..=last).map(|step| self.share_within(at(step))).collect();
        let lowest = shares.first().copied().unwrap_or(0.0);
        let floor = ((lowest * 10.0).floor() / 10.0).clamp(0.0, 0.9);
        let step = (1.0 - floor) / ROWS as f64;
        let mut text = String::new();
        for row in (0..ROWS).rev() {
            let bottom = floor + step * row as f64;
            let bars: String = shares.iter().map(|share| block((share - bottom) / step)).collect();
            let _ = writeln!(text, "{:>6.1} % |{}", (bottom + step) * 100.0, bars.trim_end());
        }
        let _ = writeln!(text, "{:>6.1} % +{}", floor * 100.0, "-".repeat(shares.len()));
        let width = COLUMNS as usize;
        let labels = ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"];
        let axis = labels.map(|label| format!("{label:<width$}")).concat();
        let _ = writeln!(text, "{:10}{}", "", axis.trim_end());
        text
    }
}

/// A block that fills so much of its cell from below.
fn block(filled: f64) -> char {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    EIGHTHS[((filled * 8.0).round().clamp(0.0, 8.0)) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_rises_from_the_first_delay_to_one() {
        let cdf = Cdf::of(vec![0.001, 0.05, 0.05, 5.0]);
        assert_eq!(cdf.points.len(), 51);
        assert!(cdf.points.is_sorted_by(|a, b| a.delay_s < b.delay_s && a.share <= b.share));
        assert!((cdf.points[0].share - 0.25).abs() < 1e-12, "1 ms holds the first");
        assert!((cdf.points[50].share - 1.0).abs() < 1e-12);
        assert!((cdf.share_within(4.9) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn nothing_to_show_is_no_panic() {
        let cdf = Cdf::of(Vec::new());
        assert!(cdf.points.iter().all(|point| point.share == 0.0));
        assert_eq!(cdf.plot().lines().count(), ROWS + 2);
    }

    #[test]
    fn the_plot_starts_where_the_curve_does() {
        let mut delays = vec![0.0; 95];
        delays.extend([5.0, 5.0, 5.0, 6.0, 30.0]);
        insta::assert_snapshot!(Cdf::of(delays).plot());
    }
}
