//! What an IIO device offers, and what of it is power.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::wrapping_counter::CounterSpec;
use nightwatt_host::files;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::sense::{Rail, Supply};

/// Nothing in `/sys` says how exact a converter and its resistor are.
const ACCURACY: Accuracy = Accuracy { relative: 0.02, watts: Watts(0.05) };

/// A device with its name, as `ina226`.
#[derive(Debug, Clone)]
pub(super) struct Device {
    pub(super) name: String,
    /// Its folder in `/sys/bus/iio/devices`.
    pub(super) folder: PathBuf,
}

/// An input: `in_voltage1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Input {
    /// `voltage1`.
    pub(super) name: String,
    kind: &'static str,
    /// `1`.
    index: String,
    /// Of figures that need no scale.
    processed: bool,
}

const KINDS: [&str; 4] = ["power", "current", "voltage", "energy"];

impl Device {
    pub(super) fn inputs(&self) -> Vec<Input> {
        let files = files::list(&self.folder).unwrap_or_default();
        let names = files.iter().filter_map(|file| file.file_name()?.to_str());
        let mut inputs: Vec<Input> = Vec::new();
        for name in names {
            let Some(rest) = name.strip_prefix("in_") else { continue };
            let (rest, processed) = match (rest.strip_suffix("_raw"), rest.strip_suffix("_input")) {
                (Some(rest), _) => (rest, false),
                (_, Some(rest)) => (rest, true),
                _ => continue,
            };
            let Some(kind) = KINDS.into_iter().find(|kind| rest.starts_with(kind)) else {
                continue;
            };
            let index = &rest[kind.len()..];
            // Others are of two wires, of reactive power, and so on.
            let plain = index.bytes().all(|byte| byte.is_ascii_digit());
            if !plain {
                continue;
            }
            if let Some(input) = inputs.iter_mut().find(|input| input.name == rest) {
                // A buffer holds raw figures.
                input.processed &= processed;
            } else {
                let (name, index) = (rest.to_owned(), index.to_owned());
                inputs.push(Input { name, kind, index, processed });
            }
        }
        inputs
    }

    /// A figure that may be said for one input, or for all of its kind.
    fn figure(&self, input: &Input, what: &str) -> Option<f64> {
        let read = |name: &str| files::read(&self.folder.join(format!("in_{name}_{what}"))).ok();
        read(&input.name)
            .or_else(|| read(input.kind))?
            .parse()
            .ok()
            .filter(|it| f64::is_finite(*it))
    }

    pub(super) fn scale(&self, input: &Input) -> Scale {
        if input.processed {
            return Scale { scale: 1.0, offset: 0.0 };
        }
        Scale {
            scale: self.figure(input, "scale").unwrap_or(1.0),
            offset: self.figure(input, "offset").unwrap_or(0.0),
        }
    }

    /// The file of an input's figures.
    pub(super) fn file(&self, input: &Input) -> PathBuf {
        let end = if input.processed { "input" } else { "raw" };
        self.folder.join(format!("in_{}_{end}", input.name))
    }

    /// Channels of power: rails as the user describes them, or what the device says itself.
    pub(super) fn quantities(&self, sense: &[Rail]) -> Result<Vec<Quantity>, String> {
        let inputs = self.inputs();
        let named = |name: &str| {
            let mut found = inputs.iter();
            found.find(|input| input.name == name && input.kind == "voltage").cloned().ok_or_else(
                || {
                    let names: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
                    format!("{} has no input `{name}`, but `{}`", self.name, names.join("`, `"))
                },
            )
        };
        if !sense.is_empty() {
            let rail = |rail: &Rail| {
                let supply = match &rail.supply {
                    Supply::Volts(_) => None,
                    Supply::Measured { input, .. } => Some(named(input)?),
                };
                Ok(Quantity::Sense(rail.clone(), named(&rail.drop)?, supply))
            };
            return sense.iter().map(rail).collect();
        }
        let of =
            |kind: &'static str| inputs.iter().filter(move |input| input.kind == kind).cloned();
        let mut quantities: Vec<_> = of("power").map(Quantity::Power).collect();
        if quantities.is_empty() {
            quantities.extend(of("current").filter_map(|current| {
                let voltage = of("voltage").find(|voltage| voltage.index == current.index)?;
                Some(Quantity::Product(current, voltage))
            }));
        }
        quantities.extend(of("energy").map(Quantity::Energy));
        Ok(quantities)
    }

    pub(super) fn channel(&self, quantity: &Quantity) -> Channel {
        let label = |input: &Input| {
            let label = files::read(&self.folder.join(format!("in_{}_label", input.name)));
            let label = label.ok().filter(|label| !label.is_empty());
            label.unwrap_or_else(|| format!("{}-{}", self.name, input.name))
        };
        let power = |name: String| Channel::power(name, Scope::Part, ACCURACY);
        match quantity {
            Quantity::Power(input) => {
                Channel { step: self.scale(input).scale / 1e3, ..power(label(input)) }
            }
            Quantity::Product(current, _) => power(label(current)),
            Quantity::Sense(rail, ..) => power(rail.name.clone()),
            Quantity::Energy(input) => {
                // Joules; an offset falls out of differences.
                let counter = CounterSpec {
                    joules_per_count: self.scale(input).scale,
                    range: None,
                    most: Watts(10_000.0),
                };
                Channel::counter(label(input), Scope::Part, counter, ACCURACY)
            }
        }
    }
}

/// `(raw + offset) x scale`, in thousandths of the unit; joules for energy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    scale: f64,
    offset: f64,
}

impl Scale {
    fn of(self, raw: f64) -> f64 {
        (raw + self.offset) * self.scale
    }
}

/// What becomes a channel.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Quantity {
    /// Milliwatts.
    Power(Input),
    /// Milliamperes, and millivolts.
    Product(Input, Input),
    /// Millivolts of a drop, and perhaps of the rail.
    Sense(Rail, Input, Option<Input>),
    /// Joules so far.
    Energy(Input),
}

impl Quantity {
    /// Its inputs: the values that [`Quantity::reading`] takes.
    pub(super) fn inputs(&self) -> Vec<Input> {
        match self {
            Self::Power(input) | Self::Energy(input) => vec![input.clone()],
            Self::Product(current, voltage) => vec![current.clone(), voltage.clone()],
            Self::Sense(_, drop, supply) => std::iter::once(drop).chain(supply).cloned().collect(),
        }
    }

    /// The reading that values of its inputs make, each with its scale.
    pub(super) fn reading(&self, value: impl Fn(usize) -> (f64, Scale)) -> Reading {
        let scaled = |index: usize| {
            let (raw, scale) = value(index);
            scale.of(raw) / 1e3
        };
        match self {
            Self::Power(_) => Reading::Power(Watts(scaled(0))),
            Self::Product(..) => Reading::Power(Watts(scaled(0) * scaled(1))),
            Self::Sense(rail, _, supply) => {
                let volts = supply.as_ref().map_or(0.0, |_| scaled(1));
                Reading::Power(rail.power(scaled(0), volts))
            }
            Self::Energy(_) => Reading::Counter(value(0).0.max(0.0) as u64),
        }
    }
}

/// The open file of an input, read again and again without allocating.
#[derive(Debug)]
pub(super) struct Figure {
    file: File,
    path: PathBuf,
    scale: Scale,
}

impl Figure {
    pub(super) fn open(device: &Device, input: &Input) -> io::Result<Self> {
        let path = device.file(input);
        Ok(Self { file: File::open(&path)?, path, scale: device.scale(input) })
    }

    /// The figure now, and what it is to be scaled by.
    pub(super) fn read(&self) -> Result<(f64, Scale), MeterError> {
        let mut text = [0; 64];
        let read = self.file.read_at(&mut text, 0);
        let length = read.map_err(|error| MeterError::reading(&self.path, error))?;
        let number =
            std::str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok());
        let number = number.filter(|number: &f64| number.is_finite()).ok_or_else(|| {
            let what = format!("`{}`", text[..length].trim_ascii().escape_ascii());
            MeterError::reading(&self.path, io::Error::new(io::ErrorKind::InvalidData, what))
        })?;
        Ok((number, self.scale))
    }
}

/// The type of an input in a buffer, and its place.
pub(super) fn scan_type(folder: &Path, name: &str) -> Option<(u32, String)> {
    let read =
        |what: &str| files::read(&folder.join(format!("scan_elements/in_{name}_{what}"))).ok();
    Some((read("index")?.parse().ok()?, read("type")?))
}
