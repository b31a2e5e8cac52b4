//! Converters and power monitors of Linux's Industrial I/O: polled, or with a buffer that the hardware
//! fills by its own clock. Linux: `Documentation/ABI/testing/sysfs-bus-iio`.

mod buffer;
mod inputs;
pub mod scan;

use std::time::Duration;

use crate::channel::Channel;
use crate::error::MeterError;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::sense::Rail;
use crate::spec::MeterSpec;

use inputs::{Device, Figure, Quantity};
use nightwatt_host::{Host, files};

pub(crate) const DRIVER: Driver = Driver {
    name: "iio",
    about: "converters and power monitors of Linux's Industrial I/O",
    example: "iio=ina226",
    probe,
    open,
};

const FOLDER: &str = "/sys/bus/iio/devices";

fn devices(host: &Host) -> Vec<Device> {
    let folders = host.list(FOLDER).unwrap_or_default().into_iter();
    let devices = folders.filter_map(|folder| {
        let file = folder.file_name()?.to_str()?.to_owned();
        let name = files::read(&folder.join("name")).ok().filter(|name| !name.is_empty());
        file.starts_with("iio:device").then(|| Device { name: name.unwrap_or(file), folder })
    });
    devices.collect()
}

fn probe(host: &Host) -> Presence {
    let devices = devices(host);
    if devices.is_empty() {
        return Presence::Absent(format!("no devices in {FOLDER}"));
    }
    let mut denied = None;
    for device in &devices {
        for quantity in device.quantities(&[]).unwrap_or_default() {
            for input in quantity.inputs() {
                match Figure::open(device, &input) {
                    Ok(_) => return Presence::Available,
                    Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                        denied = Some(device.file(&input).display().to_string());
                    }
                    Err(_) => {}
                }
            }
        }
    }
    match denied {
        Some(what) => Presence::Denied { hint: format!("sudo chmod a+r {what}"), what },
        None => Presence::Absent(
            "no device says power; `sense=` describes resistors at its inputs".to_owned(),
        ),
    }
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["sense", "buffered", "rate", "trigger"])?;
    let sense = Rail::all(spec)?;
    let mut devices = devices(host);
    if let Some(wanted) = &spec.address {
        let is = |device: &Device| {
            device.name == *wanted
                || device.folder.file_name().is_some_and(|file| file == wanted.as_str())
        };
        devices.retain(is);
    }
    let mut found = Vec::new();
    for device in devices {
        let quantities = device.quantities(&sense).map_err(|why| spec.wrong(why))?;
        if !quantities.is_empty() {
            found.push((device, quantities));
        }
    }
    if found.is_empty() {
        let wanted = spec.address.as_deref().unwrap_or("device");
        let why = format!("no {wanted} in {FOLDER} says power; `sense=` describes resistors");
        return Err(MeterError::Absent { meter: spec.name().to_owned(), why });
    }
    let rate = spec.number("rate")?;
    if spec.truth("buffered")?.unwrap_or(rate.is_some()) {
        let Ok([(device, quantities)]) = <[_; 1]>::try_from(found) else {
            return Err(spec.wrong("a buffer is of one device; name it, as `iio=ina226`"));
        };
        return buffer::open(host, spec, &device, &quantities, rate);
    }
    polled(found)
}

fn polled(found: Vec<(Device, Vec<Quantity>)>) -> Opening {
    let (mut channels, mut sources) = (Vec::<Channel>::new(), Vec::new());
    let (mut remarks, mut failed) = (Vec::new(), None);
    for (device, quantities) in found {
        for quantity in quantities {
            let mut channel = device.channel(&quantity);
            if channels.iter().any(|other| other.name == channel.name) {
                // Two monitors of a kind on one board.
                let folder = device.folder.file_name().unwrap_or_default().to_string_lossy();
                channel.name = format!("{}-{}", channel.name, folder.trim_start_matches("iio:"));
            }
            let figures = quantity.inputs().into_iter().map(|input| {
                Figure::open(&device, &input)
                    .map_err(|error| MeterError::reading(device.file(&input), error))
            });
            match figures.collect::<Result<Vec<_>, _>>() {
                Ok(figures) => {
                    sources.push((quantity, figures));
                    channels.push(channel);
                }
                Err(error) => {
                    remarks.push(format!("`{}` is left out: {error}", channel.name));
                    failed = Some(error);
                }
            }
        }
    }
    match failed {
        Some(error) if channels.is_empty() => Err(error),
        _ => Ok(Box::new(Polled { channels, sources, remarks })),
    }
}

struct Polled {
    channels: Vec<Channel>,
    sources: Vec<(Quantity, Vec<Figure>)>,
    remarks: Vec<String>,
}

impl Meter for Polled {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        // A read starts a conversion, or waits for one: about a millisecond without averaging.
        Pace::Polled { fastest: Duration::from_millis(1), usual: Duration::from_millis(100) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        for (channel, (quantity, figures)) in self.sources.iter().enumerate() {
            let figures: Result<Vec<_>, _> = figures.iter().map(Figure::read).collect();
            match figures {
                Ok(figures) => {
                    out.push(channel, turn.now(), quantity.reading(|index| figures[index]));
                }
                Err(error) => out.fail(error),
            }
        }
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

#[cfg(test)]
mod tests;
