//! Power in: meters of every kind behind one small trait, the sampler that reads them on one time
//! base, and recordings.
//!
//! ```text
//! MeterSpec ─► Driver::open ─► Meter ─► sampler (a thread each) ─► energy::integration::Track ─► energy
//!                                                          └─► recording
//! ```
//!
//! To add a driver: one file, and one line in [`DRIVERS`].

mod address;
pub mod answers;
mod channel;
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
pub use error::MeterError;
pub use meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
pub use nightwatt_host::Host;
pub use spec::MeterSpec;

/// The driver for machines without a meter.
pub const MODEL: &str = "model";

/// All kinds of meters, those first that say most of a machine.
pub const DRIVERS: &[Driver] = &[
    rapl::DRIVER,
    hwmon::DRIVER,
    battery::DRIVER,
    shelly::DRIVER,
    tasmota::DRIVER,
    http::DRIVER,
    mqtt::DRIVER,
    snmp::DRIVER,
    redfish::DRIVER,
    ipmi::DRIVER,
    nvml::DRIVER,
    iio::DRIVER,
    wattsup::DRIVER,
    currentcost::DRIVER,
    energino::DRIVER,
    file::DRIVER,
    model::DRIVER,
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

/// The meters of this machine that can be read; where there are none, the model of it.
pub fn usual(host: &Host) -> Vec<MeterSpec> {
    let is_there =
        |driver: &&Driver| driver.name != MODEL && (driver.probe)(host) == Presence::Available;
    let found: Vec<_> = DRIVERS.iter().filter(is_there).map(|it| MeterSpec::of(it.name)).collect();
    if found.is_empty() { vec![MeterSpec::of(MODEL)] } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_has_a_name_of_its_own_and_an_example_that_can_be_said() {
        for (place, own) in DRIVERS.iter().enumerate() {
            let spec: MeterSpec = own.example.parse().unwrap();
            assert_eq!(spec.driver, own.name);
            assert!(DRIVERS[..place].iter().all(|other| other.name != own.name), "{}", own.name);
            if (own.probe)(&Host::at("/nowhere")) == Presence::NeedsAddress {
                assert!(spec.address.is_some(), "{}", own.example);
            }
        }
    }
}
