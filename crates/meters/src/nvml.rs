//! NVIDIA's accelerators, by their management library, which is loaded when it is wanted.
//! Reference: NVML API, `nvmlDeviceGetTotalEnergyConsumption`, `nvmlDeviceGetPowerUsage`.

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_model::counter::CounterSpec;
use nightwatt_model::quantity::Watts;
use nightwatt_model::sample::Reading;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::host::Host;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;
use crate::web;

pub(crate) const DRIVER: Driver =
    Driver { name: "nvml", about: "NVIDIA accelerators", example: "nvml", probe, open };

/// The driver's own name for it comes first: the other is of packages for developers.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// The reference of NVML names 5 % for the power of the whole board.
const ACCURACY: Accuracy = Accuracy::relative(0.05);

/// No board draws more, W.
const MOST: Watts = Watts(5000.0);

/// The counter is in millijoules.
const COUNTER: CounterSpec = CounterSpec { joules_per_count: 1e-3, range: None, most: MOST };

fn load() -> Result<Nvml, NvmlError> {
    let [first, second] =
        LIBRARIES.map(|library| Nvml::builder().lib_path(library.as_ref()).init());
    first.or(second)
}

fn probe(host: &Host) -> Presence {
    if !host.is_real() {
        return Presence::Absent("its library belongs to the machine that we run on".to_owned());
    }
    match load().and_then(|nvml| nvml.device_count()) {
        Ok(0) => Presence::Absent("there is no NVIDIA accelerator".to_owned()),
        Ok(_) => Presence::Available,
        Err(NvmlError::NoPermission) => Presence::Denied {
            what: "the NVIDIA driver".to_owned(),
            hint: "it may not be used here: look at the rights of /dev/nvidia*".to_owned(),
        },
        Err(error) => Presence::Absent(why(&error)),
    }
}

fn why(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => {
            let library = LIBRARIES[0];
            format!("{library} cannot be loaded: it comes with NVIDIA's driver")
        }
        NvmlError::DriverNotLoaded => "NVIDIA's driver is not loaded: `modprobe nvidia`".to_owned(),
        error => format!("NVML says: {error}"),
    }
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["device"])?;
    let name = || spec.name().to_owned();
    match probe(host) {
        Presence::Absent(why) => return Err(MeterError::Absent { meter: name(), why }),
        Presence::Denied { what, hint } => {
            return Err(MeterError::Denied { meter: name(), what, hint });
        }
        _ => {}
    }
    let failed = |error: NvmlError| MeterError::Absent { meter: name(), why: why(&error) };
    let nvml = load().map_err(failed)?;
    let count = nvml.device_count().map_err(failed)?;
    let numbers = match spec.text("device").map(str::parse) {
        None => 0..count,
        Some(Ok(number)) if number < count => number..number + 1,
        Some(_) => return Err(spec.wrong(format!("`device` is a number below {count}"))),
    };
    let mut boards = Vec::new();
    let mut channels = Vec::new();
    for number in numbers {
        let device = nvml.device_by_index(number).map_err(failed)?;
        let counts = match (device.total_energy_consumption(), device.power_usage()) {
            (Ok(_), _) => true,
            (_, Ok(_)) => false,
            // An old or small one, which measures nothing.
            _ => continue,
        };
        let name = format!("gpu-{number}");
        let channel = if counts {
            Channel::counter(name, Scope::Gpu, COUNTER, ACCURACY)
        } else {
            Channel { step: 1e-3, ..Channel::power(name, Scope::Gpu, ACCURACY) }
        };
        channels.push(Channel { accuracy_source: "NVML reference", ..channel });
        boards.push((number, counts));
    }
    if boards.is_empty() {
        let why = "no accelerator here tells its power".to_owned();
        return Err(MeterError::Absent { meter: name(), why });
    }
    Ok(Box::new(Accelerators { channels, nvml, boards, meter: name() }))
}

struct Accelerators {
    channels: Vec<Channel>,
    nvml: Nvml,
    /// Their numbers, and whether they count energy.
    boards: Vec<(u32, bool)>,
    meter: String,
}

impl Meter for Accelerators {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        // Figures are brought up to date every 20 to 100 ms.
        Pace::Polled { fastest: Duration::from_millis(20), usual: Duration::from_millis(100) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let mut failed = None;
        for (channel, &(number, counts)) in self.boards.iter().enumerate() {
            let asked = monotonic();
            let reading = self.nvml.device_by_index(number).and_then(|device| {
                if counts {
                    device.total_energy_consumption().map(Reading::Counter)
                } else {
                    let watts = |milliwatts: u32| Watts(f64::from(milliwatts) / 1e3);
                    device.power_usage().map(|power| Reading::Power(watts(power)))
                }
            });
            match reading {
                Ok(reading) => out.push(channel, web::middle(asked, turn.now()), reading),
                // One that fell off the bus does not silence the others.
                Err(error) => failed = Some((number, error)),
            }
        }
        let Some((number, error)) = failed else { return Ok(()) };
        let what = format!("accelerator {number}: {error}");
        Err(MeterError::Nonsense { meter: self.meter.clone(), what })
    }
}

#[cfg(test)]
mod tests {
    use crate::device::{open, poll};

    use super::*;

    #[test]
    fn accelerators_are_read_and_where_there_are_none_the_reason_is_told() {
        match probe(&Host::default()) {
            Presence::Available => {
                let mut meter = open("nvml").unwrap();
                let readings = poll(meter.as_mut()).unwrap();
                assert_eq!(readings.len(), meter.channels().len());
                println!("{readings:?}");
            }
            Presence::Absent(why) => {
                println!("skipped: {why}");
                assert!(why.contains("NV"), "{why}");
                let error = open("nvml").map(drop).unwrap_err().to_string();
                assert!(error.contains(&why), "{error}");
            }
            other => panic!("{other:?}"),
        }
        let elsewhere = Host::at("/nowhere");
        assert!(matches!(probe(&elsewhere), Presence::Absent(_)));
    }
}
