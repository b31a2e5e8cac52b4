//! The list of drivers, and the meters that a command line names.

use nightwatt_host::Host;

use crate::{
    Driver, MODEL, MeterError, MeterSpec, Opening, Presence, battery, currentcost, energino, file,
    http, hwmon, iio, ipmi, model, mqtt, nvml, rapl, redfish, shelly, snmp, tasmota, wattsup,
};

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
