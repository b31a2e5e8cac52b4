//! Scheduling decisions, co-run matrices and simulations of them: no clock, no files.

pub mod answers;
pub mod batches;
pub mod failures;
pub mod groups;
pub mod machine;
pub mod matrix;
pub mod placement;
pub mod power_range;
pub mod ranked;
pub mod run_queue;
pub mod study;
