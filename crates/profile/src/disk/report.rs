//! What came of it: a row for each process and file, and one for each device.

use std::collections::HashMap;
use std::time::Duration;

use nightwatt_energy::energy::{Energy, Provenance};
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::storage::{Class, Device, File, Process, Row, StorageAccounting, Traffic};
use nightwatt_probes::Lost;
use serde::Serialize;

use super::DiskOptions;
use super::devices::{Devices, Known, LiesOn};
use super::row::DiskRow;
use super::totals::{self, DiskTotal};
use nightwatt_measure::run::child::Finished;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// A share of the kernel's own count that may be missing before it is warned of.
const MAY_MISS: f64 = 0.01;

/// The report of `disk`: the bytes of each process to each device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskReport {
    /// Version of this form.
    pub schema: u32,
    /// The command and its arguments; empty where none was started.
    pub command: Vec<String>,
    /// The command's exit status, as a shell has it; 0 where none was started.
    pub exit_status: u8,
    /// For how long it was watched, s.
    pub elapsed_s: f64,
    /// All rows of programs of one name, the most bytes first.
    pub programs: Vec<DiskTotal>,
    /// All rows of files in a folder, the most bytes first. A folder with less than 2 % of the bytes is a part of
    /// the one above it.
    pub folders: Vec<DiskTotal>,
    /// A row for each process and file, the most bytes first. Rows without a process are of files that were
    /// dirty before the measurement began.
    pub rows: Vec<DiskRow>,
    /// Each device that something was done to.
    pub devices: Vec<DeviceReport>,
    /// Bytes that are in no row, because the table was full.
    pub lost_bytes: u64,
    /// What the reader has to know.
    pub warnings: Vec<String>,
}

/// One device. Bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub device: String,
    /// Its kind, where that is known.
    pub class: Option<Class>,
    /// What it lies on: a file of another device, or devices.
    pub lies_on: Vec<String>,
    /// Written to it.
    pub written: u64,
    /// The same by the kernel's own books (`/proc/diskstats`).
    pub kernel_written: u64,
    /// Read from it.
    pub read: u64,
    /// The same by the kernel's own accounting.
    pub kernel_read: u64,
    /// Of what was written: files' contents, whose writers are known.
    pub attributed: u64,
    /// Contents of files that were dirty before the measurement began.
    pub unattributed: u64,
    /// The file system's journal.
    pub journal: u64,
    /// The file system's own structures.
    pub metadata: u64,
    /// Memory of processes.
    pub swap: u64,
    /// For devices that lie on this one.
    pub stacked: u64,
    /// Energy above the device's idle state, all in all; none where its kind is not known, or where it
    /// lies on others, whose energy it is.
    pub joules: Option<f64>,
    /// How far that may be off, at 95 %.
    pub uncertainty_j: Option<f64>,
    /// `modelled`.
    pub provenance: Option<Provenance>,
}

impl DiskRow {
    /// Makes a row; `energy` is its energy by the accounting as a whole.
    pub(super) fn of(row: &Row, devices: &Devices, energy: Option<&Energy>) -> Self {
        let (file, traffic) = (row.whose.file, &row.traffic);
        let kept = traffic.dirtied.saturating_sub(traffic.dropped);
        let carries = devices.loop_on(file).map(|device| devices.name(device));
        Self {
            pid: (row.whose.process != Process::NONE).then_some(row.whose.process.pid),
            command: row.command.clone(),
            device: devices.name(file.device),
            inode: file.is_named().then_some(file.inode),
            path: row.path.clone(),
            folded: row.folded,
            carries,
            dirtied: traffic.dirtied,
            dropped: traffic.dropped,
            written: traffic.written,
            on_device_percent: (kept > 0)
                .then(|| 100.0 * (traffic.written as f64 / kept as f64).min(1.0)),
            direct: traffic.direct,
            read: traffic.read,
            bursts: traffic.bursts,
            read_bursts: traffic.read_bursts,
            joules: energy.map(|energy| energy.joules.get()),
            uncertainty_j: energy.map(|energy| energy.uncertainty.get()),
        }
    }

    /// Does it belong to a device rather than to a known file?
    fn is_systems(&self) -> bool {
        self.pid.is_none() && self.inode.is_none() && self.path.is_none() && self.folded == 0
    }
}

impl DiskReport {
    pub(super) fn of(
        options: &DiskOptions,
        finished: Option<&Finished>,
        elapsed: Duration,
        accounting: &StorageAccounting,
        devices: &Devices,
        lost: Lost,
    ) -> Self {
        let sums = Sums::of(accounting, devices);
        let row = |row: &Row| DiskRow::of(row, devices, sums.energy(row).as_ref());
        let mut rows: Vec<DiskRow> =
            accounting.rows().map(row).filter(|row| !row.is_systems()).collect();
        rows.sort_by(|one, other| {
            let size = |row: &DiskRow| row.written.max(row.dirtied) + row.direct + row.read;
            (size(other), other.pid).cmp(&(size(one), one.pid))
        });
        let all = |device: &Device| DeviceReport::of(*device, accounting, &sums);
        let mut report = Self {
            schema: SCHEMA,
            command: options.command.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
            exit_status: finished.map_or(0, |finished| finished.ended.code()),
            elapsed_s: elapsed.as_secs_f64(),
            programs: totals::by_program(&rows),
            folders: totals::by_folder(&rows),
            rows,
            devices: accounting.devices().iter().map(all).collect(),
            lost_bytes: lost.sums,
            warnings: Vec::new(),
        };
        report.warnings = report.warned(lost);
        let past =
            accounting.devices().into_iter().filter(|device| sums.is_past_the_cache(*device));
        for name in past.map(|device| devices.name(device)) {
            report.warnings.push(format!(
                "{name} does its work past the page cache of the disk below: that is `stacked` there, \
                 and its energy in no row"
            ));
        }
        report
    }

    fn warned(&self, lost: Lost) -> Vec<String> {
        let mut warnings = Vec::new();
        let nameless: Vec<&str> = self
            .devices
            .iter()
            .filter(|device| device.joules.is_none() && device.lies_on.is_empty())
            .map(|device| device.device.as_str())
            .collect();
        if !nameless.is_empty() {
            let names = nameless.join(", ");
            warnings.push(format!(
                "the kernel does not report what kind of device {names} is, so there are no joules: \
                 --class {}=hdd, =sata-ssd or =nvme says so",
                nameless[0]
            ));
        }
        if lost.sums > 0 {
            let bytes = lost.sums;
            warnings.push(format!("{bytes} bytes are in no row: too many files at a time"));
        }
        if lost.pages > 0 {
            let bytes = lost.pages;
            warnings.push(format!(
                "{bytes} bytes may have the wrong owner: too many pages were dirty at a time"
            ));
        }
        if lost.events > 0 {
            let events = lost.events;
            warnings.push(format!(
                "the kernel did not report {events} blocks or requests: too much happened at a time. \
                 Their bytes are missing from `dirtied` or have no owner"
            ));
        }
        for device in &self.devices {
            let missing = device.kernel_written.saturating_sub(device.written);
            if missing as f64 > MAY_MISS * device.kernel_written as f64 {
                warnings.push(format!(
                    "{missing} of {} bytes that {} wrote by the kernel's accounting were not seen: \
                     requests under way, or sent by something other than a file system",
                    device.kernel_written, device.device
                ));
            }
        }
        warnings
    }
}

/// What was done to each device and to each loop device's file, added up once.
struct Sums<'a> {
    devices: &'a Devices,
    of_devices: HashMap<Device, Traffic>,
    /// Of loop devices, by the loop device.
    of_images: HashMap<Device, Traffic>,
    stacked: HashMap<Device, Traffic>,
}

impl<'a> Sums<'a> {
    fn of(accounting: &StorageAccounting, devices: &'a Devices) -> Self {
        let mut sums = Self {
            devices,
            of_devices: HashMap::new(),
            of_images: HashMap::new(),
            stacked: HashMap::new(),
        };
        let add = |sum: &mut HashMap<Device, Traffic>, device: Device, traffic: &Traffic| {
            let entry = sum.entry(device).or_default();
            *entry = entry.and(traffic);
        };
        for row in accounting.rows() {
            let file = row.whose.file;
            add(&mut sums.of_devices, file.device, &row.traffic);
            if file.inode == File::STACKED {
                add(&mut sums.stacked, file.device, &row.traffic);
            } else if let Some(above) = devices.loop_on(file) {
                add(&mut sums.of_images, above, &row.traffic);
            }
        }
        sums
    }

    fn of_device(&self, device: Device) -> Traffic {
        self.of_devices.get(&device).copied().unwrap_or_default()
    }

    /// Did processes do something to this loop device of which nothing is seen in its file? Then it
    /// goes past the page cache below.
    fn is_past_the_cache(&self, device: Device) -> bool {
        let lies_on_file = |known: &Known| matches!(known.lies_on, Some(LiesOn::File(_)));
        let moved = |traffic: &Traffic| traffic.to_device() + traffic.from_device() > 0;
        self.devices.get(device).is_some_and(lies_on_file)
            && moved(&self.of_device(device))
            && !self.of_images.get(&device).is_some_and(moved)
    }

    /// What a row took; none where that is not known, or is in the rows of a device that lies on this
    /// one.
    fn energy(&self, row: &Row) -> Option<Energy> {
        let file = row.whose.file;
        let known = self.devices.get(file.device)?;
        let above = self.devices.loop_on(file);
        if above.is_some_and(|above| self.of_devices.contains_key(&above)) {
            return None;
        }
        match &known.lies_on {
            None => Some(known.model.as_ref()?.energy(&row.traffic)),
            Some(LiesOn::File(image)) => {
                let model = self.devices.get(image.device)?.model.as_ref()?;
                let below = self.of_images.get(&file.device)?;
                let all = self.of_device(file.device);
                Some(model.energy_from_above(&row.traffic, &all, below))
            }
            Some(LiesOn::Devices(below)) => {
                let parts = below.iter().map(|below| self.carried_by(row, *below));
                let parts: Vec<Energy> = parts.collect::<Option<_>>()?;
                let joules = parts.iter().fold(Joules::ZERO, |sum, part| sum + part.joules);
                let uncertainty =
                    parts.iter().fold(Joules::ZERO, |sum, part| sum + part.uncertainty);
                Some(Energy { joules, uncertainty, ..parts.into_iter().next()? })
            }
        }
    }

    /// What a row of a device took on one that it lies on, beside others that lie there.
    fn carried_by(&self, row: &Row, below: Device) -> Option<Energy> {
        let model = self.devices.get(below)?.model.as_ref()?;
        let above = self.devices.above(below);
        let all = above.iter().fold(Traffic::default(), |sum, it| sum.and(&self.of_device(*it)));
        let stacked = self.stacked.get(&below).copied().unwrap_or_default();
        Some(model.energy_from_above(&row.traffic, &all, &stacked))
    }
}

impl DeviceReport {
    fn of(device: Device, accounting: &StorageAccounting, sums: &Sums) -> Self {
        let devices = sums.devices;
        let all = sums.of_device(device);
        let known = devices.get(device);
        let (kernel_written, kernel_read) = known.map_or((0, 0), Known::by_kernel);
        let unattributed = accounting
            .rows()
            .filter(|row| row.whose.file.device == device && row.whose.process == Process::NONE)
            .filter(|row| row.folded == 0)
            .map(|row| row.traffic.written)
            .sum();
        let lies_on = known.and_then(|known| known.lies_on.as_ref());
        let lies_on = match lies_on {
            None => Vec::new(),
            Some(LiesOn::File(file)) => vec![devices.name(file.device)],
            Some(LiesOn::Devices(below)) => below.iter().map(|it| devices.name(*it)).collect(),
        };
        let energy = known
            .filter(|_| lies_on.is_empty())
            .and_then(|known| Some(known.model.as_ref()?.energy(&all)));
        Self {
            device: devices.name(device),
            class: known.and_then(|known| known.class),
            lies_on,
            written: all.to_device(),
            kernel_written,
            read: all.from_device(),
            kernel_read,
            attributed: all.written + all.direct - unattributed,
            unattributed,
            journal: all.journal,
            metadata: all.metadata,
            swap: all.swap,
            stacked: all.stacked,
            joules: energy.as_ref().map(|energy| energy.joules.get()),
            uncertainty_j: energy.as_ref().map(|energy| energy.uncertainty.get()),
            provenance: energy.map(|energy| energy.provenance),
        }
    }
}
