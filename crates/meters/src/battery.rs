//! A laptop's battery: what the whole machine draws while nothing charges it.
//! Linux: `Documentation/ABI/testing/sysfs-class-power`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_host::{Host, files};

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;

pub(crate) const DRIVER: Driver = Driver {
    name: "battery",
    about: "a laptop's battery, while it is discharged",
    example: "battery",
    probe,
    open,
};

const FOLDER: &str = "/sys/class/power_supply";

/// No vendor states a bound for what the battery's gauge says.
const ACCURACY: Accuracy = Accuracy { relative: 0.05, watts: Watts(0.1) };

/// The machine's own.
pub(crate) fn batteries(host: &Host) -> Vec<PathBuf> {
    let is_battery = |folder: &PathBuf| {
        // `Device` are the batteries of mice and headsets.
        files::read(&folder.join("type")).is_ok_and(|kind| kind == "Battery")
            && !files::read(&folder.join("scope")).is_ok_and(|scope| scope == "Device")
    };
    host.list(FOLDER).unwrap_or_default().into_iter().filter(is_battery).collect()
}

/// Power out of a battery; `None` if it does not tell.
fn power(folder: &Path) -> Option<Watts> {
    let number = |name: &str| files::number(&folder.join(name)).map(|it| it.unsigned_abs() as f64);
    // Microwatts; or microamperes and microvolts. Some drivers write currents negative.
    let watts = number("power_now")
        .map(|microwatts| microwatts / 1e6)
        .or_else(|| Some(number("current_now")? / 1e6 * (number("voltage_now")? / 1e6)))?;
    Some(Watts(watts))
}

fn probe(host: &Host) -> Presence {
    let batteries = batteries(host);
    if batteries.is_empty() {
        return Presence::Absent(format!("no battery in {FOLDER}"));
    }
    if batteries.iter().all(|battery| power(battery).is_none()) {
        return Presence::Absent("the battery reports neither power nor current".to_owned());
    }
    Presence::Available
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&[])?;
    if let Presence::Absent(why) = probe(host) {
        return Err(MeterError::Absent { meter: spec.name().to_owned(), why });
    }
    let channels = vec![Channel::power("battery", Scope::System, ACCURACY)];
    Ok(Box::new(Battery { channels, batteries: batteries(host) }))
}

struct Battery {
    channels: Vec<Channel>,
    batteries: Vec<PathBuf>,
}

impl Meter for Battery {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        // Gauges answer slowly, and have something new about once a second.
        Pace::Polled { fastest: Duration::from_millis(250), usual: Duration::from_secs(1) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let status = |battery: &Path| files::read(&battery.join("status")).unwrap_or_default();
        // While one is charged, the machine is on mains: nothing is known of what it draws.
        if self.batteries.iter().any(|battery| status(battery) == "Charging") {
            return Ok(());
        }
        let discharged = self.batteries.iter().filter(|battery| status(battery) == "Discharging");
        let mut sum = None;
        for battery in discharged {
            // Without one of them the sum would be too small.
            let Some(watts) = power(battery) else {
                let error = io::Error::new(io::ErrorKind::InvalidData, "it reports no power now");
                return Err(MeterError::reading(battery, error));
            };
            sum = Some(sum.unwrap_or(Watts::ZERO) + watts);
        }
        if let Some(sum) = sum {
            out.push(0, turn.now(), Reading::Power(sum));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;

    use super::*;

    fn laptop(status: &str) -> Fixture {
        Fixture::of(&[
            ("/sys/class/power_supply/AC/type", "Mains"),
            ("/sys/class/power_supply/BAT0/type", "Battery"),
            ("/sys/class/power_supply/BAT0/status", status),
            ("/sys/class/power_supply/BAT0/current_now", "-1250000"),
            ("/sys/class/power_supply/BAT0/voltage_now", "11400000"),
            ("/sys/class/power_supply/BAT1/type", "Battery"),
            ("/sys/class/power_supply/BAT1/status", "Discharging"),
            ("/sys/class/power_supply/BAT1/power_now", "750000"),
            ("/sys/class/power_supply/mouse/type", "Battery"),
            ("/sys/class/power_supply/mouse/scope", "Device"),
            ("/sys/class/power_supply/mouse/status", "Charging"),
        ])
    }

    #[test]
    fn batteries_that_are_discharged_are_the_machine() {
        let laptop = laptop("Discharging");
        assert_eq!(probe(&laptop.host), Presence::Available);
        let readings = laptop.readings("battery");
        let [Reading::Power(watts)] = readings[..] else { panic!("{readings:?}") };
        // 1.25 A x 11.4 V + 0.75 W.
        assert!((watts.get() - 15.0).abs() < 1e-9, "{watts}");
    }

    #[test]
    fn on_mains_a_battery_says_nothing_of_the_machine() {
        assert_eq!(laptop("Charging").readings("battery"), []);
        let full = Fixture::of(&[
            ("/sys/class/power_supply/BAT0/type", "Battery"),
            ("/sys/class/power_supply/BAT0/status", "Full"),
            ("/sys/class/power_supply/BAT0/power_now", "0"),
        ]);
        assert_eq!(full.readings("battery"), []);
    }
}
