//! Power in: meters of every kind behind one small trait, the sampler that reads them on one time
//! base, and recordings.
//!
//! ```text
//! MeterSpec ─► Driver::open ─► Meter ─► sampler (a thread each) ─► model::sample::Track ─► energy
//!                                                          └─► recording
//! ```
//!
//! To add a driver: one file, and one line in [`DRIVERS`].

mod channel;
mod error;
mod frame;
mod host;
mod meter;
mod number;
mod serial;
mod spec;

mod battery;
pub mod currentcost;
pub mod energino;
mod file;
mod hwmon;
pub mod iio;
mod rapl;
pub mod wattsup;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod testdata;

pub mod log;
pub mod sampler;
pub mod sense;

pub use channel::{Accuracy, Channel, Scope};
pub use error::MeterError;
pub use host::Host;
pub use meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
pub use spec::MeterSpec;

/// All kinds of meters, those first that say most of a machine.
pub const DRIVERS: &[Driver] = &[
    rapl::DRIVER,
    hwmon::DRIVER,
    battery::DRIVER,
    iio::DRIVER,
    wattsup::DRIVER,
    currentcost::DRIVER,
    energino::DRIVER,
    file::DRIVER,
];

/// The driver of that name.
pub fn driver(name: &str) -> Result<&'static Driver, MeterError> {
    DRIVERS.iter().find(|driver| driver.name == name).ok_or_else(|| {
        let known: Vec<_> = DRIVERS.iter().map(|driver| format!("`{}`", driver.name)).collect();
        MeterError::NoDriver { name: name.to_owned(), known: known.join(", ") }
    })
}

/// Opens a meter.
pub fn open(host: &Host, spec: &MeterSpec) -> Opening {
    (driver(&spec.driver)?.open)(host, spec)
}
