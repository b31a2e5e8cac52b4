//! Arithmetic of samples: no clock, no files.

pub mod kernel_time;
