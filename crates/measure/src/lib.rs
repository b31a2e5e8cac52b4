//! Measures energy: of a command ([`run`]) and of the machine itself ([`calibrate`]); exports readings
//! ([`export`]), and checks meters against each other ([`meter_check`], [`cross`], [`spectrum`]).
//!
//! It serves the commands of these names; `profile` and `netlab` use its runner and its counters of the kernel.
//! Readings come from `nightwatt_meters`, and `calibrate states` drives a machine by `nightwatt_power`. The
//! arithmetic is in [`pure`], which uses no clock, file or thread.

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
