//! Measures: a command, a recording, a meter against another, and the machine's own figures.

pub mod calibrate;
mod channel;
pub mod counters;
pub mod cross;
mod error;
pub mod export;
pub mod idle;
pub mod meter_check;
pub mod pure;
pub mod run;
mod series;
pub mod spectrum;

pub use self::error::Error;
