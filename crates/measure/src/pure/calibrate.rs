//! The mathematics behind `nightwatt calibrate`: figures of a machine from what was measured on it.
//!
//! - [`states`]: power awake, power asleep and the energy of a sleep cycle;
//! - [`utilisation`]: power against CPU utilisation;
//! - [`wakeups`]: what transitions from idle to active take;
//! - [`storage`]: energy of a write against its size;
//! - [`sync`]: the samples of a DAQ log against the clock of the machine.
//!
//! Every figure comes with its standard error and 95 % interval. What cannot be determined is an
//! error that says so and what to measure next, never a number.

use std::ops::{Add, Mul, Sub};

use serde::Serialize;

use crate::pure::power_log::PowerLogError;
use nightwatt_energy::least_squares::{Fit, LeastSquaresError};

pub mod states;
pub mod storage;
pub mod sync;
pub mod utilisation;
pub mod wakeups;

/// A figure with its error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate<Q> {
    /// The figure as the data has it, negative too.
    pub value: Q,
    /// Its standard error. Infinite (`null` in JSON) when the data say nothing of it.
    pub standard_error: Q,
    /// The ends of the interval that covers the truth in 95 % of such experiments (Student's t).
    pub interval: (Q, Q),
}

impl<Q> Estimate<Q>
where
    Q: Copy + Add<Output = Q> + Sub<Output = Q> + Mul<f64, Output = Q>,
{
    /// From a standard error, and how many of it make 95 %.
    pub fn new(value: Q, standard_error: Q, t_95: f64) -> Self {
        let half = standard_error * t_95;
        Self { value, standard_error, interval: (value - half, value + half) }
    }

    /// A coefficient of a fit, in the unit `unit`.
    fn of(fit: &Fit, column: usize, unit: fn(f64) -> Q) -> Self {
        let value = unit(fit.coefficients[column]);
        Self::new(value, unit(fit.standard_error(column)), fit.t_95)
    }
}

impl<Q: PartialOrd> Estimate<Q> {
    /// Whether the 95 % interval contains this.
    pub fn covers(&self, truth: &Q) -> bool {
        self.interval.0 <= *truth && *truth <= self.interval.1
    }
}

/// Why a calibration failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrateError {
    /// The data do not say one of the figures.
    #[error("{figures} cannot be determined: {why}; {next}")]
    Undetermined {
        /// Which ones.
        figures: &'static str,
        /// What is missing.
        why: String,
        /// What to measure next.
        next: &'static str,
    },
    /// A figure that is no figure, or one that makes no sense.
    #[error("{what} {index} {why}; leave it out or measure it again")]
    Bad {
        /// A row, a point, a sleep cycle.
        what: &'static str,
        /// Counted from 1, as people do.
        index: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The readings make no log.
    #[error(transparent)]
    Log(#[from] PowerLogError),
    /// The active period of a write was not found.
    #[error(transparent)]
    Activity(#[from] storage::ActivityError),
    /// Samples and time stamps could not be brought together.
    #[error(transparent)]
    Sync(#[from] sync::SyncError),
}

impl CalibrateError {
    /// Says what a failed fit of the rows of `what` means for the figures.
    fn of_fit(
        error: &LeastSquaresError,
        what: &'static str,
        figures: &'static str,
        next: &'static str,
    ) -> Self {
        match error {
            LeastSquaresError::BadRow { row } => Self::Bad {
                what,
                index: row + 1,
                why: "has a figure or an error that is not usable",
            },
            LeastSquaresError::TooFewRows { .. } | LeastSquaresError::Dependent { .. } => {
                Self::Undetermined { figures, why: error.to_string(), next }
            }
        }
    }
}
