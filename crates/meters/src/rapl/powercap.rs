//! RAPL by powercap: `/sys/class/powercap/intel-rapl:*` (AMD's too, in spite of the name). Linux:
//! `Documentation/power/powercap/powercap.rst`.
//!
//! `intel-rapl-mmio` shows the same registers once more and is left out where the name is there
//! already.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::wrapping_counter::CounterSpec;
use nightwatt_host::{Host, files};

use super::{ACCURACY, FASTEST, FoundCounters, most, refusal};
use crate::channel::{Channel, Scope};
use crate::error::MeterError;
use crate::meter::{Meter, Opening, Pace, Presence, Readings, Turn};
use crate::number::NumberFile;
use crate::spec::MeterSpec;

const FOLDER: &str = "/sys/class/powercap";

const HINT: &str = "run it as root; or, once and for all, install packaging/udev/70-nightwatt-rapl.rules, \
                    which lets the group `nightwatt` read it, or `setcap cap_perfmon+ep` the program \
                    (docs/meters.md)";

struct Zone {
    folder: PathBuf,
    name: String,
    scope: Scope,
    range: Option<u64>,
}

/// The zones, packages before what is in them.
fn zones(host: &Host) -> io::Result<Vec<Zone>> {
    let mut zones: Vec<Zone> = Vec::new();
    let folders = host.list(FOLDER)?;
    let of_kind = |kind: &'static str| {
        let is_zone = move |folder: &&PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name.split_once(':').is_some_and(|(control, _)| control == kind)
        };
        folders.iter().filter(is_zone)
    };
    for folder in of_kind("intel-rapl").chain(of_kind("intel-rapl-mmio")) {
        let Ok(plain) = files::read(&folder.join("name")) else { continue };
        let name = full_name(folder, &plain);
        if zones.iter().all(|zone| zone.name != name) {
            let range = files::number(&folder.join("max_energy_range_uj"));
            zones.push(Zone {
                folder: folder.clone(),
                scope: scope(&plain),
                name,
                // The largest value that it shows.
                range: range.and_then(|most| u64::try_from(most).ok()?.checked_add(1)),
            });
        }
    }
    Ok(zones)
}

/// `core` of the first package is `core-0`; packages and psys have names of their own.
fn full_name(folder: &Path, plain: &str) -> String {
    let place = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut numbers = place.split(':').skip(1);
    match (numbers.next(), numbers.next()) {
        (Some(package), Some(_)) => format!("{plain}-{package}"),
        _ => plain.to_owned(),
    }
}

fn scope(name: &str) -> Scope {
    match name {
        "psys" => Scope::System,
        "core" => Scope::Core,
        "uncore" => Scope::Uncore,
        "dram" => Scope::Dram,
        name if name.starts_with("package") => Scope::Package,
        _ => Scope::Part,
    }
}

/// The counters that count.
fn look(host: &Host) -> io::Result<FoundCounters<NumberFile>> {
    let mut found = FoundCounters::new();
    for zone in zones(host)? {
        let counter =
            CounterSpec { joules_per_count: 1e-6, range: zone.range, most: most(zone.scope) };
        let channel = Channel::counter(zone.name, zone.scope, counter, ACCURACY);
        found.take(channel, NumberFile::open(&zone.folder.join("energy_uj")));
    }
    Ok(found.without_still(|file| Some(file.read().ok()?.unsigned_abs())))
}

fn presence(found: &FoundCounters<NumberFile>) -> Presence {
    found.presence(FOLDER, HINT, || {
        format!(
            "no intel-rapl zones in {FOLDER} (a virtual machine, a processor without RAPL, or the \
             module intel_rapl_msr is not loaded)"
        )
    })
}

pub(super) fn probe(host: &Host) -> Presence {
    match look(host) {
        Ok(found) => presence(&found),
        Err(error) => Presence::Absent(format!("{FOLDER} cannot be read: {error}")),
    }
}

pub(super) fn open(host: &Host, spec: &MeterSpec) -> Opening {
    let found = look(host).map_err(|error| MeterError::reading(host.path(FOLDER), error))?;
    if found.channels.is_empty() {
        return Err(refusal(spec.name(), presence(&found)));
    }
    let remarks = found.remarks(HINT);
    Ok(Box::new(Powercap { channels: found.channels, files: found.counters, remarks }))
}

struct Powercap {
    channels: Vec<Channel>,
    files: Vec<NumberFile>,
    remarks: Vec<String>,
}

impl Meter for Powercap {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Polled { fastest: FASTEST, usual: Duration::from_secs(1) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        for (channel, file) in self.files.iter_mut().enumerate() {
            match file.read() {
                Ok(value) => {
                    out.push(channel, turn.now(), Reading::Counter(value.unsigned_abs()));
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
