//! Power in: meters of every kind behind one small trait, the sampler that reads them on one time
//! base, and recordings.
//!
//! ```text
//! MeterSpec ─► Driver::open ─► Meter ─► sampler (a thread each) ─► energy::integration::Track ─► energy
//!                                                          └─► recording
//! ```
//!
//! To add a driver: one file, and one line in [`DRIVERS`] (`drivers.rs`).

mod address;
pub mod answers;
mod channel;
mod drivers;
mod error;
mod figure;
mod frame;
mod json;
pub mod log;
pub mod machine;
mod meter;
mod number;
pub mod processes;
pub mod recording;
pub mod sampler;
pub mod sense;
mod serial;
mod spec;
mod web;

// One file per driver.
mod battery;
pub mod currentcost;
pub mod energino;
mod file;
mod http;
mod hwmon;
pub mod iio;
mod ipmi;
mod model;
mod mqtt;
pub mod nvml;
mod rapl;
mod redfish;
mod shelly;
mod snmp;
mod tasmota;
pub mod wattsup;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod device;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod testdata;

pub use channel::{Accuracy, Channel, Scope};
pub use drivers::{DRIVERS, driver, open, usual};
pub use error::MeterError;
pub use meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
pub use model::power_model;
pub use nightwatt_host::Host;
pub use spec::MeterSpec;

/// The driver for machines without a meter.
pub const MODEL: &str = "model";
