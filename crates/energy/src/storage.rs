//! Energy of storage: what a process made a device do, and what that took.
//!
//! A device's energy above that of its idle state is taken as linear in what it was asked for:
//!
//! ```text
//! E = w0 x bursts of writing + w1 x bytes written + r0 x bursts of reading + r1 x bytes read
//! ```
//!
//! A burst is all requests of one file with gaps under 100 ms: the fixed cost of setting up. For whole
//! files written one by one it is E = w0 + w1 x size (D. Singh, "Improving the Energy Efficiency of
//! Modern Computing Platforms using High-Resolution Real-Time Energy Measurements", UCLA, 2014, ch. 3).

mod accounting;

use serde::{Deserialize, Serialize};

use crate::energy::Energy;
use crate::quantity::Joules;

pub use accounting::{Row, StorageAccounting};

/// A block device by the kernel's own number (`dev_t`: 12 bits major, 20 bits minor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Device(pub u32);

impl Device {
    /// The device of those numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self(major << 20 | minor)
    }

    /// Its driver's number.
    pub const fn major(self) -> u32 {
        self.0 >> 20
    }

    /// Its own among the driver's.
    pub const fn minor(self) -> u32 {
        self.0 & 0xf_ffff
    }
}

/// A file on a device; inode 0 is what belongs to no file, [`File::STACKED`] what was done for devices
/// that lie on this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct File {
    /// Where.
    pub device: Device,
    /// Its number there.
    pub inode: u64,
    /// Tells it from an earlier file of that number; 0 if unknown.
    pub generation: u32,
}

impl File {
    /// The number of what was done for devices that lie on this one.
    pub const STACKED: u64 = u64::MAX;

    /// The number of a device itself, written to without a file system.
    pub const ITSELF: u64 = u64::MAX - 1;

    /// What belongs to no file of a device.
    pub const fn none_on(device: Device) -> Self {
        Self { device, inode: 0, generation: 0 }
    }

    /// Is it a file's own, with a name that can be asked for?
    pub const fn is_named(self) -> bool {
        self.inode != 0 && self.inode != Self::STACKED && self.inode != Self::ITSELF
    }
}

/// A process; pid 0 means no process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Tells it from an earlier one of that number.
    pub started: u32,
}

impl Process {
    /// No process: the system itself, or an unknown one.
    pub const NONE: Self = Self { pid: 0, started: 0 };
}

/// Which process did something to which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Whose {
    /// The file.
    pub file: File,
    /// The process.
    pub process: Process,
}

/// What was done, in bytes; bursts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Made dirty in the page cache.
    pub dirtied: u64,
    /// Of that, gone before it was written: the file was deleted or cut.
    pub dropped: u64,
    /// From the page cache to the device.
    pub written: u64,
    /// To the device past the page cache.
    pub direct: u64,
    /// From the device.
    pub read: u64,
    /// To a file system's journal.
    pub journal: u64,
    /// To a file system's own structures.
    pub metadata: u64,
    /// Memory of processes, swapped out.
    pub swap: u64,
    /// Written for another device that lies on this one.
    pub stacked: u64,
    /// Read for another device that lies on this one.
    pub stacked_read: u64,
    /// Bursts of writing.
    pub bursts: u64,
    /// Bursts of reading.
    pub read_bursts: u64,
}

impl Traffic {
    /// All that went to the device.
    pub const fn to_device(&self) -> u64 {
        self.written + self.direct + self.journal + self.metadata + self.swap + self.stacked
    }

    /// All that came from the device.
    pub const fn from_device(&self) -> u64 {
        self.read + self.stacked_read
    }

    /// What was done since an earlier count of the same.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// Both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            dirtied: both(self.dirtied, other.dirtied),
            dropped: both(self.dropped, other.dropped),
            written: both(self.written, other.written),
            direct: both(self.direct, other.direct),
            read: both(self.read, other.read),
            journal: both(self.journal, other.journal),
            metadata: both(self.metadata, other.metadata),
            swap: both(self.swap, other.swap),
            stacked: both(self.stacked, other.stacked),
            stacked_read: both(self.stacked_read, other.stacked_read),
            bursts: both(self.bursts, other.bursts),
            read_bursts: both(self.read_bursts, other.read_bursts),
        }
    }
}

/// What a device's work takes above its idle state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageModel {
    /// w0, of a burst of writing.
    pub burst: Joules,
    /// w1, of a byte written.
    pub byte: Joules,
    /// r0, of a burst of reading.
    pub read_burst: Joules,
    /// r1, of a byte read.
    pub read_byte: Joules,
    /// How far a figure may be off, as a share of it, at 95 %.
    pub relative: f64,
    /// Which model, and where its parameters come from.
    pub origin: String,
}

impl StorageModel {
    /// What that traffic took.
    pub fn energy(&self, traffic: &Traffic) -> Energy {
        self.modelled(self.of_writing(traffic) + self.of_reading(traffic))
    }

    /// What is done to a device that lies on this one takes its share of what that made this one do: by
    /// bytes written, and by bytes read. `all` is what was done to the other in all, `below` what came
    /// of it here.
    pub fn energy_from_above(&self, traffic: &Traffic, all: &Traffic, below: &Traffic) -> Energy {
        let share =
            |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let writing = self.of_writing(below) * share(traffic.to_device(), all.to_device());
        let reading = self.of_reading(below) * share(traffic.from_device(), all.from_device());
        self.modelled(writing + reading)
    }

    fn of_writing(&self, traffic: &Traffic) -> Joules {
        self.burst * traffic.bursts as f64 + self.byte * traffic.to_device() as f64
    }

    fn of_reading(&self, traffic: &Traffic) -> Joules {
        self.read_burst * traffic.read_bursts as f64 + self.read_byte * traffic.from_device() as f64
    }

    fn modelled(&self, joules: Joules) -> Energy {
        Energy::modelled(joules, self.relative, self.origin.as_str())
    }
}

/// Kinds of devices, with figures for those that have not been measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A disk that turns.
    Hdd,
    /// Flash behind SATA or SAS.
    SataSsd,
    /// Flash behind `PCIe`.
    Nvme,
}

impl Class {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Hdd, Self::SataSsd, Self::Nvme];

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hdd => "hdd",
            Self::SataSsd => "sata-ssd",
            Self::Nvme => "nvme",
        }
    }

    /// What is assumed of a device of that kind: the power that data sheets give for work above that of
    /// the idle state, over the rate at which it then works; for a burst, the same power for the time
    /// that the first access takes. Devices of a kind differ by more than twice.
    ///
    /// - `hdd`: 2.5 W more than idle, 180 MB/s; 12 ms for seek and turn.
    /// - `sata-ssd`: 2.5 W more, 500 MB/s; 0.1 ms, and 2 ms to leave its sleep.
    /// - `nvme`: 5 W more, 3 GB/s; 0.1 ms, and 1 ms likewise.
    pub fn assumed(self) -> StorageModel {
        let (watts, bytes_per_s, access_s) = match self {
            Self::Hdd => (2.5, 180e6, 0.012),
            Self::SataSsd => (2.5, 500e6, 0.002_1),
            Self::Nvme => (5.0, 3e9, 0.001_1),
        };
        let (burst, byte) = (Joules(watts * access_s), Joules(watts / bytes_per_s));
        StorageModel {
            burst,
            byte,
            read_burst: burst,
            read_byte: byte,
            relative: 1.0,
            origin: format!("assumed of any {}; no device was measured", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_the_numbers_that_the_kernel_packs() {
        // 8:1 is /dev/sda1: MKDEV(8, 1) = 8 << 20 | 1.
        assert_eq!(Device::new(8, 1), Device(8_388_609));
        assert_eq!((Device(8_388_609).major(), Device(8_388_609).minor()), (8, 1));
    }

    #[test]
    fn files_written_one_by_one_take_w0_and_w1_each() {
        let model = StorageModel { burst: Joules(0.5), byte: Joules(2e-6), ..Class::Hdd.assumed() };
        // Two files of 1 MB: 2 x (0.5 + 2) J.
        let traffic = Traffic { written: 2_000_000, bursts: 2, ..Traffic::default() };
        assert!((model.energy(&traffic).joules.get() - 5.0).abs() < 1e-9);
        // Half of what another device had done here is half of what that took.
        let above = Traffic { direct: 500, read: 1, ..Traffic::default() };
        let all = Traffic { direct: 600, journal: 400, read: 1, ..Traffic::default() };
        let half = model.energy_from_above(&above, &all, &traffic);
        assert!((half.joules.get() - 2.5).abs() < 1e-9);
        // What was never written took nothing.
        let dropped = Traffic { dirtied: 1 << 20, dropped: 1 << 20, ..Traffic::default() };
        assert_eq!(model.energy(&dropped).joules, Joules::ZERO);
    }
}
