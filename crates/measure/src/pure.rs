//! Arithmetic of measurements: no clock, no files.

pub mod calibrate;
pub mod meter_check;
pub mod power_log;
pub mod spectrum;
