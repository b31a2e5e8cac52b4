//! Block devices of this machine: names, kinds, what lies on what, and the kernel's own books.

use std::collections::{BTreeMap, HashMap};
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;

use nightwatt_energy::storage::{Class, Device, File, StorageModel};
use nightwatt_meters::Host;

use crate::error::Error;

/// Bytes of a sector in `/proc/diskstats` and `/sys/block/*/stat`, whatever the device's own are.
const SECTOR: u64 = 512;

/// What a device lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LiesOn {
    /// A loop device: a file.
    File(File),
    /// Device mapper, RAID: other devices.
    Devices(Vec<Device>),
}

/// One device.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) name: String,
    /// `None` where neither the kernel nor the user states it.
    pub(super) model: Option<StorageModel>,
    pub(super) class: Option<Class>,
    pub(super) lies_on: Option<LiesOn>,
    /// Bytes written to it and read from it, by the kernel: when it was seen first, and last.
    first: (u64, u64),
    last: (u64, u64),
}

impl Known {
    /// Bytes that the kernel says were written and read since it was seen first.
    pub(super) const fn by_kernel(&self) -> (u64, u64) {
        (self.last.0.saturating_sub(self.first.0), self.last.1.saturating_sub(self.first.1))
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Devices {
    known: BTreeMap<Device, Known>,
    /// Where file systems are mounted: device, root within the file system, place.
    mounts: HashMap<Device, Vec<(String, String)>>,
    classes: BTreeMap<String, Class>,
    models: BTreeMap<String, StorageModel>,
}

impl Devices {
    /// Looks for them. `classes` and `models` are what the user says of some, by their names.
    pub(super) fn find(
        host: &Host,
        classes: &BTreeMap<String, Class>,
        models: &BTreeMap<String, StorageModel>,
    ) -> Result<Self, Error> {
        let (classes, models) = (classes.clone(), models.clone());
        let mut devices = Self { classes, models, ..Self::default() };
        devices.look(host)?;
        let is_there = |name: &String| devices.known.values().any(|known| known.name == *name);
        let mut asked_for = devices.classes.keys().chain(devices.models.keys());
        if let Some(missing) = asked_for.find(|name| !is_there(name)) {
            let names = devices.known.values().map(|known| known.name.clone()).collect();
            return Err(Error::NoDevice { name: missing.clone(), names });
        }
        Ok(devices)
    }

    /// Looks again: devices and file systems come and go.
    pub(super) fn look(&mut self, host: &Host) -> Result<(), Error> {
        let unreadable = |source| Error::System { what: "read /proc/diskstats", source };
        for line in host.read("/proc/diskstats").map_err(unreadable)?.lines() {
            let Some((device, name, told)) = diskstats_line(line) else { continue };
            let fresh = || {
                let name = name.replace('!', "/");
                let class = self.classes.get(&name).or_else(|| self.classes.get(&disk_of(&name)));
                let class = class.copied().or_else(|| kind(host, device));
                let lies_on = lies_on(host, device);
                // A partition is its disk's.
                let measured = self.models.get(&name).or_else(|| self.models.get(&disk_of(&name)));
                let model = measured.cloned().or_else(|| class.map(Class::assumed));
                Known { name, model, class, lies_on, first: told, last: told }
            };
            let known = self.known.entry(device).or_insert_with(fresh);
            known.last = told;
            if name.starts_with("loop") {
                // Tied to a file while we watch, perhaps to another one than before; what is let go of
                // was tied to the last one.
                known.lies_on = lies_on(host, device).or_else(|| known.lies_on.take());
            }
        }
        let text = host.read("/proc/self/mountinfo").unwrap_or_default();
        for (device, name, source) in without_device(&text) {
            let below = self.named(&source);
            let fresh = || Known {
                name,
                model: None,
                class: None,
                lies_on: below.map(|below| LiesOn::Devices(vec![below])),
                first: (0, 0),
                last: (0, 0),
            };
            self.known.entry(device).or_insert_with(fresh);
        }
        self.mounts = mounts(&text);
        Ok(())
    }

    pub(super) fn get(&self, device: Device) -> Option<&Known> {
        self.known.get(&device)
    }

    /// A device's name, or its numbers.
    pub(super) fn name(&self, device: Device) -> String {
        self.get(device).map_or_else(
            || format!("{}:{}", device.major(), device.minor()),
            |known| known.name.clone(),
        )
    }

    fn named(&self, name: &str) -> Option<Device> {
        self.known.iter().find(|(_, known)| known.name == name).map(|(device, _)| *device)
    }

    /// Devices that others lie on as a whole, by way of the kernel's block layer.
    pub(super) fn carriers(&self) -> Vec<Device> {
        let on_devices = |(device, known): (&Device, &Known)| match &known.lies_on {
            Some(LiesOn::Devices(below)) if device.major() > 0 => Some(below.clone()),
            _ => None,
        };
        self.known.iter().filter_map(on_devices).flatten().collect()
    }

    /// The device whose file this is, if it is a loop device's.
    pub(super) fn loop_on(&self, file: File) -> Option<Device> {
        let lies_here = |known: &Known| matches!(&known.lies_on, Some(LiesOn::File(image)) if is_same(*image, file));
        self.known.iter().find(|(_, known)| lies_here(known)).map(|(device, _)| *device)
    }

    /// Devices that lie on this one as a whole.
    pub(super) fn above(&self, below: Device) -> Vec<Device> {
        let lies_here = |known: &Known| matches!(&known.lies_on, Some(LiesOn::Devices(devices)) if devices.contains(&below));
        self.known.iter().filter(|(_, known)| lies_here(known)).map(|(device, _)| *device).collect()
    }

    /// Where a user finds a file: behind the place its file system is mounted at.
    pub(super) fn path(&self, device: Device, path: &str, is_whole: bool) -> String {
        if !is_whole {
            return format!(".../{path}");
        }
        let path = format!("/{path}");
        let mounts = self.mounts.get(&device).map(Vec::as_slice).unwrap_or_default();
        let found = mounts.iter().find_map(|(root, place)| {
            let rest =
                if root == "/" { Some(path.as_str()) } else { path.strip_prefix(root.as_str()) };
            rest.map(|rest| format!("{}{rest}", place.trim_end_matches('/')))
        });
        found.unwrap_or(path)
    }
}

/// The same file, as far as it is known which of that number.
fn is_same(one: File, other: File) -> bool {
    one.device == other.device && one.inode == other.inode
}

/// File systems that have a number of their own and no device of that number (btrfs): number, name, and
/// the name of the device they were mounted from.
fn without_device(text: &str) -> Vec<(Device, String, String)> {
    let of_line = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let (major, minor) = before.split(' ').nth(2)?.split_once(':')?;
        let mut fields = behind.split(' ');
        let (kind, source) = (fields.next()?, fields.next()?.strip_prefix("/dev/")?);
        let device = Device::new(major.parse().ok()?, minor.parse().ok()?);
        (device.major() == 0).then(|| (device, format!("{kind}{}", device.minor()), source.into()))
    };
    text.lines().filter_map(of_line).collect()
}

/// Device, name, bytes written and read.
fn diskstats_line(line: &str) -> Option<(Device, &str, (u64, u64))> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let device = Device::new(number(0)? as u32, number(1)? as u32);
    Some((device, fields.get(2)?, (number(9)? * SECTOR, number(5)? * SECTOR)))
}

/// The disk of a partition by its name: `sda1` is on `sda`, `nvme0n1p2` on `nvme0n1`.
fn disk_of(partition: &str) -> String {
    let stem = partition.trim_end_matches(|it: char| it.is_ascii_digit());
    let before = stem.strip_suffix('p').filter(|it| it.ends_with(|it: char| it.is_ascii_digit()));
    before.unwrap_or(stem).to_owned()
}

fn folder(device: Device) -> String {
    format!("/sys/dev/block/{}:{}", device.major(), device.minor())
}

/// The kind of the device as far as the kernel reports it. A virtual machine cannot know the kind of its disks.
fn kind(host: &Host, device: Device) -> Option<Class> {
    let folder = folder(device);
    // A partition is of its disk's kind.
    let disk = if host.path(format!("{folder}/partition")).exists() {
        format!("{folder}/..")
    } else {
        folder
    };
    let path = std::fs::canonicalize(host.path(&disk)).ok()?;
    let path = path.to_string_lossy();
    if path.contains("/virtio") || path.contains("/virtual/") || path.contains("/vbd-") {
        return None;
    }
    if path.contains("/nvme") {
        return Some(Class::Nvme);
    }
    match host.read(format!("{disk}/queue/rotational")).ok()?.as_str() {
        "1" => Some(Class::Hdd),
        _ if path.contains("/mmc") || path.contains("/usb") => None,
        _ => Some(Class::SataSsd),
    }
}

fn lies_on(host: &Host, device: Device) -> Option<LiesOn> {
    let folder = folder(device);
    if let Ok(path) = host.read(format!("{folder}/loop/backing_file")) {
        let file = std::fs::metadata(host.path(path)).ok()?;
        let dev = file.st_dev();
        let device = Device::new(rustix::fs::major(dev), rustix::fs::minor(dev));
        return Some(LiesOn::File(File { device, inode: file.st_ino(), generation: 0 }));
    }
    let slaves = host.list(format!("{folder}/slaves")).ok()?;
    let numbers = |slave: &PathBuf| {
        // Full paths: they need no root in front.
        let text = Host::default().read(slave.join("dev")).ok()?;
        let (major, minor) = text.split_once(':')?;
        Some(Device::new(major.parse().ok()?, minor.parse().ok()?))
    };
    let devices: Vec<Device> = slaves.iter().filter_map(numbers).collect();
    (!devices.is_empty()).then_some(LiesOn::Devices(devices))
}

/// `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`): the third, fourth and fifth fields. Those that
/// show a whole file system come first.
fn mounts(text: &str) -> HashMap<Device, Vec<(String, String)>> {
    let mut mounts: HashMap<Device, Vec<(String, String)>> = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(' ').skip(2);
        let (Some(numbers), Some(root), Some(place)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let Some((Ok(major), Ok(minor))) =
            numbers.split_once(':').map(|(major, minor)| (major.parse(), minor.parse()))
        else {
            continue;
        };
        let places = mounts.entry(Device::new(major, minor)).or_default();
        places.push((unescaped(root), unescaped(place)));
    }
    for places in mounts.values_mut() {
        places.sort_by_key(|(root, _)| root.len());
    }
    mounts
}

/// Blanks, tabs, line ends and backslashes are written as octal numbers there.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, sign)| text.replace(escape, sign))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A machine with a disk that turns, a partition on it, a mapped device on that, and a loop.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str, text: &str| put(root.path(), path, text);
        at(
            "proc/diskstats",
            "8 0 sda 9 0 100 0 9 0 200 0 0 0 0\n8 1 sda1 9 0 10 0 9 0 20 0 0 0 0\n\
             253 0 dm-0 9 0 10 0 9 0 20 0 0 0 0\n259 0 nvme0n1 1 0 8 0 1 0 16 0 0 0 0\n",
        );
        at(
            "proc/self/mountinfo",
            "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             31 1 253:0 /sub /srv/my\\040data rw - ext4 /dev/dm-0 rw\n\
             32 1 253:0 / /mnt rw - ext4 /dev/dm-0 rw\n\
             33 1 0:45 / /pool rw shared:1 - btrfs /dev/nvme0n1 rw\n\
             34 1 0:46 / /proc rw - proc proc rw\n",
        );
        let disk = "sys/devices/pci/ata1/block/sda";
        at(&format!("{disk}/queue/rotational"), "1\n");
        at(&format!("{disk}/sda1/partition"), "1\n");
        at(&format!("{disk}/sda1/dev"), "8:1\n");
        at("sys/devices/pci/nvme/nvme0/nvme0n1/queue/rotational", "0\n");
        at("sys/devices/virtual/block/dm-0/queue/rotational", "1\n");
        let link = |name: &str, to: &str| {
            let from = root.path().join("sys/dev/block");
            fs::create_dir_all(&from).unwrap();
            std::os::unix::fs::symlink(root.path().join(to), from.join(name)).unwrap();
        };
        link("8:0", disk);
        link("8:1", &format!("{disk}/sda1"));
        link("253:0", "sys/devices/virtual/block/dm-0");
        link("259:0", "sys/devices/pci/nvme/nvme0/nvme0n1");
        let slaves = root.path().join("sys/devices/virtual/block/dm-0/slaves");
        fs::create_dir_all(&slaves).unwrap();
        let partition = root.path().join(disk).join("sda1");
        std::os::unix::fs::symlink(partition, slaves.join("sda1")).unwrap();
        root
    }

    #[test]
    fn devices_are_known_by_kind_and_by_what_they_lie_on() {
        let root = machine();
        let devices =
            Devices::find(&Host::at(root.path()), &BTreeMap::new(), &BTreeMap::new()).unwrap();
        let class = |major, minor| devices.get(Device::new(major, minor)).unwrap().class;
        assert_eq!(class(8, 0), Some(Class::Hdd));
        assert_eq!(class(8, 1), Some(Class::Hdd));
        assert_eq!(class(259, 0), Some(Class::Nvme));
        assert_eq!(class(253, 0), None, "it is none of its own");
        assert_eq!(devices.above(Device::new(8, 1)), [Device::new(253, 0)]);
        assert_eq!(devices.carriers(), [Device::new(8, 1)]);
        assert_eq!(devices.name(Device::new(9, 9)), "9:9");
        // A file system with no device of its number.
        let pool = devices.get(Device::new(0, 45)).unwrap();
        assert_eq!(pool.lies_on, Some(LiesOn::Devices(vec![Device::new(259, 0)])));
        assert!(devices.get(Device::new(0, 46)).is_none());
        for (partition, disk) in
            [("sda1", "sda"), ("nvme0n1p2", "nvme0n1"), ("mmcblk0p1", "mmcblk0")]
        {
            assert_eq!(disk_of(partition), disk);
        }
    }

    #[test]
    fn paths_begin_where_the_file_system_is_mounted() {
        let root = machine();
        let devices =
            Devices::find(&Host::at(root.path()), &BTreeMap::new(), &BTreeMap::new()).unwrap();
        let mapped = Device::new(253, 0);
        assert_eq!(devices.path(Device::new(8, 1), "var/log", true), "/var/log");
        assert_eq!(devices.path(mapped, "sub/x", true), "/mnt/sub/x");
        assert_eq!(devices.path(mapped, "x", false), ".../x");
    }

    #[test]
    fn a_device_that_is_not_there_has_no_kind() {
        let root = machine();
        let classes = BTreeMap::from([("sdz".to_owned(), Class::Hdd)]);
        let error = Devices::find(&Host::at(root.path()), &classes, &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("sdz"), "{error}");
    }

    #[test]
    fn the_kernels_books_count_from_the_first_look() {
        let root = machine();
        let host = Host::at(root.path());
        let mut devices = Devices::find(&host, &BTreeMap::new(), &BTreeMap::new()).unwrap();
        put(root.path(), "proc/diskstats", "8 0 sda 9 0 107 0 9 0 210 0 0 0 0\n");
        devices.look(&host).unwrap();
        assert_eq!(devices.get(Device::new(8, 0)).unwrap().by_kernel(), (10 * 512, 7 * 512));
    }
}
