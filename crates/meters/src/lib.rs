//! Power in: meters of every kind behind one small trait, the sampler that reads them on one time
//! base, and recordings.
//!
//! ```text
//! MeterSpec ─► Driver::open ─► Meter ─► sampler (a thread each) ─► model::sample::Track ─► energy
//!                                                          └─► recording
//! ```
//!
//! To add a driver: one file, and one line in [`DRIVERS`].

mod address;
mod channel;
#[cfg(test)]
mod device;
mod error;
mod figure;
mod host;
mod json;
mod meter;
mod number;
mod secret;
mod spec;
mod web;

mod battery;
mod http;
mod hwmon;
mod ipmi;
mod mqtt;
mod nvml;
mod rapl;
mod redfish;
mod shelly;
mod snmp;
mod tasmota;

#[cfg(test)]
mod fixture;

pub mod answers;
pub mod sampler;

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
    shelly::DRIVER,
    tasmota::DRIVER,
    http::DRIVER,
    mqtt::DRIVER,
    snmp::DRIVER,
    redfish::DRIVER,
    ipmi::DRIVER,
    nvml::DRIVER,
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
