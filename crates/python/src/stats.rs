//! `nightwatt.stats`: the intervals of `compare`.

use std::ops::RangeInclusive;

use nightwatt_energy::stats::bootstrap;
use nightwatt_energy::stats::distribution::student_t;
use nightwatt_energy::stats::intervals::{self, Interval, LEVEL};
use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::ratio::Ratio;
use nightwatt_host::explained::Explained;
use pyo3::prelude::*;

use crate::failure::{Kind, raised};

type Ends = Option<(f64, f64)>;

/// How many resamples a bootstrap may have: it ends neither early nor at Ctrl-C.
const RESAMPLES: RangeInclusive<usize> = 2..=1_000_000;

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
) -> PyResult<Ends> {
    if let Some(value) = values.iter().find(|value| !value.is_finite()) {
        let what = format!("`values` cannot contain {value}");
        return Err(raised(py, Kind::Usage, &Explained::new(what)));
    }
    if !RESAMPLES.contains(&resamples) {
        let what = format!("`resamples` cannot be {resamples}");
        let hint = format!("write a number from {} to {}", RESAMPLES.start(), RESAMPLES.end());
        let explained = Explained::new(what).maybe_hint(Some(&hint));
        return Err(raised(py, Kind::Usage, &explained));
    }
    Ok(ends(py.detach(|| bootstrap::of_mean(&values, resamples, seed))))
}

/// The ratio of two means, and its 95 % interval. The first of `above` belongs to the first of `below`, and so on.
#[pyfunction]
pub(crate) fn paired_ratio(
    py: Python<'_>,
    above: Vec<f64>,
    below: Vec<f64>,
) -> PyResult<Option<(f64, Ends)>> {
    if above.len() != below.len() {
        let what = format!("{} values cannot be paired with {}", above.len(), below.len());
        return Err(raised(py, Kind::Usage, &Explained::new(what)));
    }
    let pairs: Vec<(f64, f64)> = above.into_iter().zip(below).collect();
    Ok(Ratio::paired(&pairs).map(with_interval))
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
