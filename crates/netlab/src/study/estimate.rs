//! A figure over several runs. Pure.

use serde::Serialize;

/// A figure of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Their mean.
    pub mean: f64,
    /// Half of its 95 % interval, which holds although it said when to stop; none of a single run.
    pub half_width: Option<f64>,
    /// How many runs know it.
    pub runs: u64,
}
