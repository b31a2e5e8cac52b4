//! `nightwatt.stats`: the intervals of `compare`.

use nightwatt_energy::stats::bootstrap;
use nightwatt_energy::stats::distribution::student_t;
use nightwatt_energy::stats::intervals::{self, Interval, LEVEL};
use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::ratio::Ratio;
use pyo3::prelude::*;

type Ends = Option<(f64, f64)>;

fn ends(interval: Option<Interval>) -> Ends {
    interval.map(|Interval { low, high }| (low, high))
}

/// Student's 95 % interval of the mean of values whose number was fixed beforehand; `None` of fewer than two.
#[pyfunction]
pub(crate) fn mean_interval(values: Vec<f64>) -> Ends {
    ends(intervals::student(&Moments::of(&values)).filter(|_| values.len() > 1))
}

/// The 95 % interval of the mean by a bootstrap, for values that are not normal; `None` of fewer than two.
#[pyfunction]
#[pyo3(signature = (values, *, resamples=2000, seed=1))]
pub(crate) fn bootstrap_interval(
    py: Python<'_>,
    values: Vec<f64>,
    resamples: usize,
    seed: u64,
) -> Ends {
    ends(py.detach(|| bootstrap::of_mean(&values, resamples, seed)))
}

/// The ratio of two means, of pairs `(a, b)`, and its 95 % interval; `None` if it has no upper end.
#[pyfunction]
pub(crate) fn paired_ratio(pairs: Vec<(f64, f64)>) -> Option<(f64, Ends)> {
    Some(with_interval(Ratio::paired(&pairs)?))
}

/// The ratio of the means of `above` and `below`, which do not belong together, and its 95 % interval.
#[pyfunction]
pub(crate) fn ratio(above: Vec<f64>, below: Vec<f64>) -> Option<(f64, Ends)> {
    Some(with_interval(Ratio::independent(&Moments::of(&above), &Moments::of(&below))?))
}

fn with_interval(ratio: Ratio) -> (f64, Ends) {
    let quantile = student_t(0.5 * LEVEL, ratio.degrees_of_freedom());
    (ratio.estimate(), ends(ratio.interval(quantile)))
}
