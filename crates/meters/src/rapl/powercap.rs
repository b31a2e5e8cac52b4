//! RAPL by powercap: `/sys/class/powercap/intel-rapl:*` (AMD's too, in spite of the name). Linux:
//! `Documentation/power/powercap/powercap.rst`.
//!
//! `intel-rapl-mmio` shows the same registers once more and is left out where the name is there
//! already.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_model::counter::CounterSpec;
use nightwatt_model::sample::Reading;

use super::{ACCURACY, FASTEST, at_zero, counts, most};
use crate::channel::{Channel, Scope};
use crate::error::MeterError;
use crate::host::{self, Host};
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
        let Ok(plain) = host::read(&folder.join("name")) else { continue };
        let name = full_name(folder, &plain);
        if zones.iter().all(|zone| zone.name != name) {
            let range = host::number(&folder.join("max_energy_range_uj"));
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

pub(super) fn probe(host: &Host) -> Presence {
    let zones = match zones(host) {
        Ok(zones) => zones,
        Err(error) => return Presence::Absent(format!("{FOLDER} cannot be read: {error}")),
    };
    let mut why = format!(
        "no intel-rapl zones in {FOLDER} (a virtual machine, a processor without RAPL, or the module \
         intel_rapl_msr is not loaded)"
    );
    for zone in zones {
        let counter = zone.folder.join("energy_uj");
        match NumberFile::open(&counter) {
            Ok(file) if counts(zone.scope, || shown(&file)) => return Presence::Available,
            Ok(_) => why = at_zero(FOLDER),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let what = counter.display().to_string();
                return Presence::Denied { what, hint: HINT.to_owned() };
            }
            Err(error) => return Presence::Absent(format!("{}: {error}", counter.display())),
        }
    }
    Presence::Absent(why)
}

fn shown(file: &NumberFile) -> Option<u64> {
    Some(file.read().ok()?.unsigned_abs())
}

pub(super) fn open(host: &Host, spec: &MeterSpec) -> Opening {
    let zones = zones(host).map_err(|error| MeterError::reading(host.path(FOLDER), error))?;
    let (mut channels, mut files) = (Vec::new(), Vec::new());
    let why = if zones.is_empty() {
        format!("there are no intel-rapl zones in {FOLDER}")
    } else {
        at_zero(FOLDER)
    };
    for zone in zones {
        let path = zone.folder.join("energy_uj");
        let file = NumberFile::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => MeterError::Denied {
                meter: spec.name().to_owned(),
                what: path.display().to_string(),
                hint: HINT.to_owned(),
            },
            _ => MeterError::reading(&path, error),
        })?;
        if !counts(zone.scope, || shown(&file)) {
            continue;
        }
        let counter =
            CounterSpec { joules_per_count: 1e-6, range: zone.range, most: most(zone.scope) };
        channels.push(Channel::counter(zone.name, zone.scope, counter, ACCURACY));
        files.push(file);
    }
    if channels.is_empty() {
        return Err(MeterError::Absent { meter: spec.name().to_owned(), why });
    }
    Ok(Box::new(Powercap { channels, files }))
}

struct Powercap {
    channels: Vec<Channel>,
    files: Vec<NumberFile>,
}

impl Meter for Powercap {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Polled { fastest: FASTEST, usual: Duration::from_secs(1) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        for (channel, file) in self.files.iter().enumerate() {
            let value = file.read()?;
            out.push(channel, turn.now(), Reading::Counter(value.unsigned_abs()));
        }
        Ok(())
    }
}
