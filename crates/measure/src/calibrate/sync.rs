//! `calibrate sync`: a DAQ log on this machine's clock, through toggles of a line that the DAQ records
//! beside its other channels.
//!
//! 1. [`generate`] drives the line at irregular intervals, and writes a stamp for each toggle.
//! 2. [`align`] finds the toggles in the log, and says when each of its samples was taken.
//!
//! The mathematics is in [`pure::calibrate::sync`](crate::pure::calibrate::sync).

mod align;
mod generate;
mod line;
mod stamps;

pub use align::{AlignOptions, Aligned, FaultCounts, Levels, Pass, align};
pub use generate::{GenerateOptions, Generated, Timer, ToggleError, generate, toggle};
pub use line::{Line, LineSpec, open};
pub use stamps::{StampMeta, StampWriter, Stamps, Toggle};

#[cfg(test)]
mod tests;
