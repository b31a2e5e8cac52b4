//! The table of devices.

use std::path::Path;

use crate::pure::{Coin, Device, HashRate};
use nightwatt_energy::quantity::Watts;
use serde::{Serialize, Serializer};

use super::{Error, written};

const OURS: &str = include_str!("../data/mining-devices.csv");

/// A device, its rate and its power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedDevice {
    /// As it is sold.
    pub name: String,
    /// CPU, GPU, FPGA, ASIC.
    pub kind: String,
    /// Hashes a second, in millions.
    pub mhash_s: f64,
    /// What it draws.
    pub watts: f64,
    /// Which hash it computes, if its table says so: `sha256d`.
    pub algorithm: Option<String>,
    /// Since when it can be had: a year, or a month.
    pub since: Option<AvailableFrom>,
    /// Its efficiency as it was printed, Mhash/J.
    pub printed_mhash_j: Option<f64>,
    /// That, digit by digit.
    #[serde(skip)]
    pub printed: Option<String>,
    /// Where the figures are from.
    pub source: String,
}

/// A year, or a month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableFrom {
    text: String,
    /// Its first day, in days since 1970.
    pub(super) day: i64,
}

impl AvailableFrom {
    fn of(text: &str) -> Option<Self> {
        let first = match text.len() {
            4 => format!("{text}-01-01"),
            7 => format!("{text}-01"),
            _ => return None,
        };
        Some(Self { text: text.to_owned(), day: written::day_of(&first).ok()? })
    }

    /// The year of it.
    pub fn year(&self) -> i64 {
        super::written::year_of(self.day)
    }
}

impl std::fmt::Display for AvailableFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for AvailableFrom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl NamedDevice {
    /// Could it be had on this day, in days since 1970? One of which that is not known, always.
    pub(super) fn is_there_on(&self, day: i64) -> bool {
        self.since.as_ref().is_none_or(|since| since.day <= day)
    }

    /// The device's figures.
    ///
    /// # Errors
    /// A rate that is not above 0.
    pub fn device(&self) -> Result<Device, Error> {
        let rate = HashRate::new(self.mhash_s * 1e6)?;
        Ok(Device { rate, power: Watts(self.watts) })
    }

    /// Mhash/J.
    pub fn mhash_j(&self) -> f64 {
        self.mhash_s / self.watts
    }
}

/// Devices, in the order of their table.
#[derive(Debug, Clone)]
pub struct Devices(Vec<NamedDevice>);

impl Devices {
    /// Those that nightwatt knows: the published eight first.
    ///
    /// # Errors
    /// None; our table is tested.
    pub fn ours() -> Result<Self, Error> {
        Self::parse("mining-devices.csv", OURS)
    }

    /// Those of a file.
    ///
    /// # Errors
    /// A file that cannot be read or is no table of devices.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&path.display().to_string(), &written::text_of(path)?)
    }

    /// Those of a table.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let (heading, rows) = written::table(name, text)?;
        let column = |title: &str| heading.iter().position(|it| it == title);
        let [title, kind, rate, watts, printed, source] =
            ["name", "kind", "mhash_s", "watts", "printed_mhash_j", "source"].map(column);
        let (since, algorithm) = (column("since").or(column("year")), column("algorithm"));
        let mut devices: Vec<NamedDevice> = Vec::new();
        for row in rows {
            let bad = |why: String| Error::Line { name: name.to_owned(), line: row.line, why };
            let positive = |column, what: &str| {
                let cell = row.cell(column).unwrap_or_default();
                let number = cell.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
                number.ok_or_else(|| {
                    bad(format!("`{what}` is `{cell}`; a device needs a number above 0 there"))
                })
            };
            let text = |column| row.cell(column).unwrap_or_default().to_owned();
            let device = NamedDevice {
                name: text(title),
                kind: text(kind),
                mhash_s: positive(rate, "mhash_s")?,
                watts: positive(watts, "watts")?,
                algorithm: row.cell(algorithm).map(str::to_lowercase),
                since: row
                    .cell(since)
                    .map(|cell| {
                        AvailableFrom::of(cell).ok_or_else(|| {
                            bad(format!(
                                "`{cell}` is no year or month; write it as in 2016 or 2016-07"
                            ))
                        })
                    })
                    .transpose()?,
                printed_mhash_j: match printed.filter(|_| row.cell(printed).is_some()) {
                    Some(column) => Some(positive(Some(column), "printed_mhash_j")?),
                    None => None,
                },
                printed: row.cell(printed).map(str::to_owned),
                source: text(source),
            };
            if device.name.is_empty() || devices.iter().any(|other| other.name == device.name) {
                return Err(bad("a device needs a `name` that no other has".to_owned()));
            }
            devices.push(device);
        }
        if devices.is_empty() {
            return Err(Error::Empty {
                name: name.to_owned(),
                what: "no device",
                hint: "its columns are name,kind,mhash_s,watts,since",
            });
        }
        Ok(Self(devices))
    }

    /// Only those whose names hold one of these; all, where there are none of these.
    ///
    /// # Errors
    /// A name that no device has.
    pub fn only(self, names: &[String]) -> Result<Self, Error> {
        let holds = |device: &NamedDevice, name: &str| {
            device.name.to_lowercase().contains(&name.trim().to_lowercase())
        };
        let unknown = names
            .iter()
            .find(|name| name.trim().is_empty() || !self.0.iter().any(|it| holds(it, name)));
        if let Some(name) = unknown {
            let known = self.0.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(Error::NoDevice { name: name.clone(), known });
        }
        let is_meant =
            |device: &NamedDevice| names.is_empty() || names.iter().any(|it| holds(device, it));
        Ok(Self(self.0.into_iter().filter(is_meant).collect()))
    }

    /// Those that may mine a coin: a device that says which hash it computes mines coins of that hash.
    pub(super) fn of_coin(mut self, coin: &Coin) -> Self {
        self.0.retain(|device| {
            device.algorithm.is_none()
                || device.algorithm == coin.algorithm.as_ref().map(|it| it.to_lowercase())
        });
        self
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &NamedDevice> {
        self.0.iter()
    }
}
