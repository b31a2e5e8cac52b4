//! Experiments: the demo, a day (or a log) of requests against a site behind the sleeping proxy, and
//! the bill at the end; the analysis of logs, which asks the same of the simulator; the
//! published comparison of five configurations over a log.

pub mod analyze;
pub mod calibrate;
#[cfg(feature = "bpf")]
pub mod caliper;
mod cells;
mod channel;
mod claim;
pub mod compare;
pub mod cross;
pub mod demo;
#[cfg(feature = "bpf")]
pub mod disk;
pub mod doctor;
mod error;
pub mod export;
pub mod fleet;
#[cfg(feature = "bpf")]
pub mod kernel_time;
pub mod meter_check;
pub mod published;
pub mod reproduce;
mod resources;
pub mod run;
mod series;
pub mod spectrum;
pub mod tcp;
mod warnings;

pub use error::Error;
pub use warnings::skipped;
