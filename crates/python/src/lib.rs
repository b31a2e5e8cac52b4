//! The Python package's native half: what `python/nightwatt` re-exports.
//!
//! It converts arguments and results, and computes nothing: `nightwatt_savings` analyses, `nightwatt_policy` decides.
//! Results with rows are Arrow tables (`table`). Long calls release the interpreter's lock, report progress and end
//! at Ctrl-C (`watch`). Errors have the words of the command line (`failure`).

#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

mod analysis;
mod failure;
mod fleet;
mod json;
mod options;
mod policy;
mod stats;
mod summary;
mod table;
mod watch;

use pyo3::prelude::*;

/// What the package is made of.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::analysis::{Analysis, analyze};
    #[pymodule_export]
    use super::fleet::{Fleet, fleet};
    #[pymodule_export]
    use super::policy::SleepPolicy;
    #[pymodule_export]
    use super::stats::{bootstrap_interval, mean_interval, paired_ratio, ratio};
    #[pymodule_export]
    use super::summary::{Summary, arrived, summarize};
    #[pymodule_export]
    use super::table::Table;

    /// Version of the package and of the program.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
