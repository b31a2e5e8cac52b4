//! Whose bytes go to which device, in this very kernel, on a file system of our own on a loop device.
//!
//! Without root or loop devices, or if the kernel allows no loading of programs, each prints
//! `skipped: <reason>`.

mod programs;

use std::collections::HashMap;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::storage::{Device, Process, Traffic, Whose};
use nightwatt_probes::{DiskProbes, ProbeError};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// A file system on a loop device, and a program that writes.
struct Disk {
    folder: tempfile::TempDir,
    /// What the file system lies on.
    device: Device,
    /// The loop device, which is that or what lies below.
    below: Device,
    loop_device: String,
    /// The name of a mapped device in between.
    mapped: Option<String>,
}

impl Disk {
    /// None, with the reason told, where there can be none.
    fn new(file_system: &str, mebibytes: u64) -> Option<Self> {
        Self::tuned(file_system, mebibytes, &[])
    }

    /// After a command has been run on its image.
    fn tuned(file_system: &str, mebibytes: u64, tune: &[&str]) -> Option<Self> {
        let disk = Self::bare(mebibytes, &[&format!("mkfs.{file_system}")])?;
        let loop_device = disk.loop_device.clone();
        Some(disk.mounted(file_system, &loop_device, tune))
    }

    /// On a device of the device mapper that lies on the loop device, by a table with `{}` for that.
    fn mapped(file_system: &str, mebibytes: u64, table: &str) -> Option<Self> {
        let mut disk = Self::bare(mebibytes, &["dmsetup", &format!("mkfs.{file_system}")])?;
        let name = disk.loop_device.replace("/dev/", "nightwatt-");
        let table = table.replace("{}", &disk.loop_device);
        let mut command = nightwatt_needs::command("dmsetup");
        let made = command.args(["create", &name, "--table", &table]).output().unwrap();
        if !made.status.success() {
            println!("skipped: {}", String::from_utf8_lossy(&made.stderr).trim());
            return None;
        }
        run(nightwatt_needs::command("dmsetup").arg("mknodes"));
        let path = format!("/dev/mapper/{name}");
        disk.device = number_of(&path);
        disk.mapped = Some(name);
        Some(disk.mounted(file_system, &path, &[]))
    }

    /// A loop device, if we may and have the programs.
    fn bare(mebibytes: u64, programs: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may mount file systems");
            return None;
        }
        if !nightwatt_needs::programs(programs) || !nightwatt_needs::programs(&["losetup", "mount"])
        {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::File::create(&image).unwrap().set_len(mebibytes * MIB).unwrap();
        let found = nightwatt_needs::command("losetup")
            .args(["--find", "--show"])
            .arg(&image)
            .output()
            .unwrap();
        if !found.status.success() {
            println!("skipped: {}", String::from_utf8_lossy(&found.stderr).trim());
            return None;
        }
        let loop_device = String::from_utf8(found.stdout).unwrap().trim().to_owned();
        let below = number_of(&loop_device);
        Some(Self { folder, device: below, below, loop_device, mapped: None })
    }

    fn mounted(self, file_system: &str, device: &str, tune: &[&str]) -> Self {
        let quiet: &[&str] = if file_system == "ext4" {
            // Or the kernel goes on to lay out tables while we count.
            &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
        } else {
            &["-q"]
        };
        run(nightwatt_needs::command(&format!("mkfs.{file_system}")).args(quiet).arg(device));
        if let [program, arguments @ ..] = tune {
            run(Command::new(program).args(arguments).arg(device).stdout(Stdio::null()));
        }
        let mount = self.folder.path().join("mount");
        fs::create_dir(&mount).unwrap();
        run(Command::new("mount").arg(device).arg(&mount));
        self
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("mount").join(name)
    }

    /// The program at work: on which file, how much.
    fn start(&self, what: &str, name: &str, bytes: u64, part: &[&str]) -> Child {
        let kib = (bytes / KIB).to_string();
        let mut command = Command::new(programs::put("writer", self.folder.path()));
        command.arg(what).arg(self.file(name)).arg(kib).args(part).spawn().unwrap()
    }

    /// All that is dirty goes to the device.
    fn sync(&self) {
        run(Command::new("sync").arg("-f").arg(self.file(".")));
    }

    /// Bytes written to the device and read from it so far, by the kernel's own books.
    fn told_by_kernel(&self) -> (u64, u64) {
        let fields = self.statistics();
        (fields[6] * 512, fields[2] * 512)
    }

    /// Whether the device has requests that are not done.
    fn is_at_work(&self) -> bool {
        self.statistics()[8] > 0
    }

    /// Documentation/block/stat.rst of Linux names the fields.
    fn statistics(&self) -> Vec<u64> {
        let name = self.loop_device.trim_start_matches("/dev/");
        let text = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        text.split_whitespace().map(|it| it.parse().unwrap()).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Some tests have done so.
        let _ = Command::new("umount").arg(self.file(".")).stderr(Stdio::null()).status();
        if let Some(name) = &self.mapped {
            let _ = nightwatt_needs::command("dmsetup").args(["remove", "--retry", name]).status();
        }
        let _ = nightwatt_needs::command("losetup").arg("--detach").arg(&self.loop_device).status();
    }
}

fn number_of(device: &str) -> Device {
    let rdev = fs::metadata(device).unwrap().st_rdev();
    Device::new(rustix::fs::major(rdev), rustix::fs::minor(rdev))
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// Probes that do not count yet. None, with the reason told, where this kernel or user cannot.
fn loaded() -> Option<DiskProbes> {
    match DiskProbes::load() {
        Ok(probes) => Some(probes),
        Err(error @ (ProbeError::Denied { .. } | ProbeError::NoBtf)) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same that count.
fn watching() -> Option<DiskProbes> {
    let mut probes = loaded()?;
    probes.start().unwrap();
    Some(probes)
}

/// Probes that begin to count when a file of 8 MiB is dirty, and nothing of it has been written; the file's name and
/// its writer. None, with the reason told, where that cannot be.
fn watching_a_dirty_file(disk: &Disk) -> Option<(DiskProbes, String, u32)> {
    for attempt in 0..10 {
        let mut probes = loaded()?;
        disk.sync();
        let before = disk.told_by_kernel().0;
        let name = format!("dirty{attempt}");
        let mut child = disk.start("large", &name, 8 * MIB, &[]);
        assert!(child.wait().unwrap().success());
        probes.start().unwrap();
        // The kernel counts a request when it is done.
        if !disk.is_at_work() && disk.told_by_kernel().0 == before {
            return Some((probes, name, child.id()));
        }
    }
    println!("skipped: the kernel is so busy that it writes at once what is dirty");
    None
}

/// What was done to a device since probes were asked last.
struct DeviceTraffic {
    by: HashMap<Whose, (String, Traffic)>,
    /// Bytes at most that the kernel did not report: of each event, a page.
    missed: u64,
}

impl DeviceTraffic {
    fn of(probes: &mut DiskProbes, device: Device) -> Self {
        let lost = probes.lost().unwrap();
        assert_eq!((lost.sums, lost.pages), (0, 0));
        let news = probes.news(monotonic()).unwrap();
        let on_it = news.into_iter().filter(|it| it.whose.file.device == device);
        let by = on_it.map(|it| (it.whose, (it.command, it.traffic))).collect();
        Self { by, missed: lost.events * rustix::param::page_size() as u64 }
    }

    /// By a process.
    fn by(&self, pid: u32) -> Traffic {
        let its = self.by.iter().filter(|(whose, _)| whose.process.pid == pid);
        its.fold(Traffic::default(), |sum, (_, (_, traffic))| sum.and(traffic))
    }

    /// By all.
    fn sum(&self) -> Traffic {
        self.by.values().fold(Traffic::default(), |sum, (_, traffic)| sum.and(traffic))
    }
}

fn is_release_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|it| it.parse::<u32>().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (major, minor)
}

/// Within one percent.
fn close(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) as f64 <= 0.01 * expected as f64
}

/// How many times as much is written as in a short test (`make soak-disk`).
fn scale() -> u64 {
    std::env::var("NIGHTWATT_DISK_SCALE").map_or(1, |text| text.parse().unwrap())
}

#[test]
fn whoever_wrote_has_the_bytes_though_others_send_them_after_it_has_gone() {
    let mib = scale() * MIB;
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 400 * scale()), watching()) else {
        return;
    };
    disk.sync();
    let before = disk.told_by_kernel();
    DeviceTraffic::of(&mut probes, disk.device);
    // What each writes, and what of that is to reach the device.
    let works: [(&str, &str, &[&str], u64, u64); 11] = [
        ("small", "small", &[], 20 * mib, 20 * mib),
        ("large", "large", &[], 40 * mib, 40 * mib),
        ("fsync", "fsync", &[], 10 * mib, 10 * mib),
        ("direct", "direct", &[], 16 * mib, 16 * mib),
        ("mmap", "mmap", &[], 12 * mib, 12 * mib),
        ("rename", "renamed", &[], 9 * mib, 9 * mib),
        ("unlink", "unlinked", &[], 14 * mib, 0),
        ("truncate", "cut", &[], 10 * mib, 5 * mib),
        ("twice", "twice", &[], 8 * mib, 8 * mib),
        ("shared", "shared", &["0", "2"], 16 * mib, 8 * mib),
        ("shared", "shared", &["1", "2"], 16 * mib, 8 * mib),
    ];
    let mut running: Vec<Child> = works
        .iter()
        .map(|(what, name, part, bytes, _)| disk.start(what, name, *bytes, part))
        .collect();
    for child in &mut running {
        assert!(child.wait().unwrap().success());
    }
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    for ((what, _, _, bytes, on_device), child) in works.iter().zip(&running) {
        let traffic = seen.by(child.id());
        let found = traffic.written + traffic.direct;
        assert!(close(found, *on_device), "{what}: {found} of {on_device} bytes, {traffic:?}");
        let kept = traffic.dirtied - traffic.dropped;
        let cached = if *what == "direct" { 0 } else { *on_device };
        // What the kernel did not report is missing: bytes made dirty, and of a file that is cut, discarded bytes too.
        let is_cut = ["unlink", "truncate"].contains(what);
        let most = if is_cut { cached + seen.missed } else { cached };
        let is_kept = close(kept, cached) || (kept <= most && cached <= kept + seen.missed);
        assert!(is_kept, "{what} of {bytes}: {traffic:?}, {} bytes missed", seen.missed);
        // Of several writers of one file, the one whose bytes come first has begun the burst.
        assert!(*on_device == 0 || *what == "shared" || traffic.bursts > 0, "{what}: {traffic:?}");
    }
    let kernel = disk.told_by_kernel().0 - before.0;
    let sum = seen.sum();
    assert!(close(sum.to_device(), kernel), "{sum:?} of {kernel}");
    assert!(sum.journal > 0 && sum.journal + sum.metadata < 4 * MIB, "{sum:?}");
}

#[test]
fn of_one_file_that_several_write_each_has_its_own_blocks() {
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 200), watching()) else { return };
    let parts = ["0", "1", "2", "3"];
    let mut running: Vec<_> =
        parts.iter().map(|part| disk.start("shared", "shared", 64 * MIB, &[part, "4"])).collect();
    for child in &mut running {
        assert!(child.wait().unwrap().success());
    }
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    for child in &running {
        let traffic = seen.by(child.id());
        assert!(close(traffic.written, 16 * MIB), "{traffic:?}");
    }
}

#[test]
fn whoever_reads_has_what_was_read_and_the_file_has_a_name() {
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 200), watching()) else { return };
    fs::create_dir_all(disk.file("some/where")).unwrap();
    let mut child = disk.start("large", "some/where/deep", 24 * MIB, &[]);
    assert!(child.wait().unwrap().success());
    disk.sync();
    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
    let before = disk.told_by_kernel();
    DeviceTraffic::of(&mut probes, disk.device);
    let mut child = disk.start("read", "some/where/deep", 0, &[]);
    assert!(child.wait().unwrap().success());
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    let inode = fs::metadata(disk.file("some/where/deep")).unwrap().st_ino();
    let (whose, (command, traffic)) =
        seen.by.iter().find(|(whose, _)| whose.file.inode == inode).unwrap();
    assert_eq!((whose.process.pid, command.as_str()), (child.id(), "writer"));
    assert!(close(traffic.read, 24 * MIB) && traffic.read_bursts > 0, "{traffic:?}");
    let path = probes.path(whose.file).unwrap();
    assert_eq!(path, Some(("some/where/deep".to_owned(), true)));
    let kernel = disk.told_by_kernel().1 - before.1;
    assert!(close(seen.sum().read, kernel), "{:?} of {kernel}", seen.sum());
}

#[test]
fn on_a_file_system_that_tells_of_no_blocks_folios_do() {
    let (Some(disk), Some(mut probes)) = (Disk::new("xfs", 400), watching()) else { return };
    let before = disk.told_by_kernel();
    let mut running = [
        disk.start("small", "small", 24 * MIB, &[]),
        disk.start("large", "large", 32 * MIB, &[]),
        disk.start("unlink", "gone", 10 * MIB, &[]),
    ];
    for child in &mut running {
        assert!(child.wait().unwrap().success());
    }
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    let written: Vec<u64> = running.iter().map(|child| seen.by(child.id()).written).collect();
    assert!(close(written[0], 24 * MIB) && close(written[1], 32 * MIB), "{written:?}");
    assert_eq!(written[2], 0);
    let kernel = disk.told_by_kernel().0 - before.0;
    assert!(close(seen.sum().to_device(), kernel), "{:?} of {kernel}", seen.sum());
}

#[test]
fn on_btrfs_whoever_wrote_has_the_bytes_of_files_and_the_device_those_of_the_rest() {
    let (Some(disk), Some(mut probes)) = (Disk::new("btrfs", 600), watching()) else { return };
    let before = disk.told_by_kernel();
    let mut running = [
        disk.start("large", "large", 32 * MIB, &[]),
        disk.start("direct", "direct", 8 * MIB, &[]),
        disk.start("unlink", "gone", 10 * MIB, &[]),
    ];
    for child in &mut running {
        assert!(child.wait().unwrap().success());
    }
    disk.sync();
    let news = probes.news(monotonic()).unwrap();
    let by = |child: &Child| {
        let its = news.iter().filter(|it| it.whose.process.pid == child.id());
        its.fold(Traffic::default(), |sum, it| sum.and(&it.traffic))
    };
    let [large, direct, gone] = running.each_ref().map(by);
    assert!(close(large.written, 32 * MIB), "{large:?}");
    // Newer kernels take it through the page cache, for the sake of its checksums.
    assert!(close(direct.direct + direct.written, 8 * MIB), "{direct:?}");
    assert_eq!(gone.written, 0, "{gone:?}");
    // Inode 1 holds the metadata, which belongs to no process and counts for the disk.
    assert!(news.iter().all(|it| it.whose.file.inode != 1), "{news:?}");
    let kernel = disk.told_by_kernel().0 - before.0;
    // The files' own device is the subvolume's, which no disk is; what they sent is carried by the disk.
    let on_it = news.iter().filter(|it| it.whose.file.device == disk.device);
    let sum = on_it.fold(Traffic::default(), |sum, it| sum.and(&it.traffic));
    assert!(sum.metadata > 0 && close(sum.to_device(), kernel), "{sum:?} of {kernel}");
}

/// What a stacked device passes on is its files', and the device below has it once.
fn a_mapped_device_passes_on(table: &str) {
    let Some(disk) = Disk::mapped("ext4", 300, table) else { return };
    let Some(mut probes) = watching() else { return };
    probes.set_carriers(&[disk.below]).unwrap();
    let before = disk.told_by_kernel();
    let mut running =
        [disk.start("large", "large", 32 * MIB, &[]), disk.start("direct", "direct", 8 * MIB, &[])];
    for child in &mut running {
        assert!(child.wait().unwrap().success());
    }
    disk.sync();
    let kernel = disk.told_by_kernel().0 - before.0;
    let lost = probes.lost().unwrap();
    assert_eq!((lost.sums, lost.pages), (0, 0));
    let news = probes.news(monotonic()).unwrap();
    let on = |device: Device| {
        let its = news.iter().filter(|it| it.whose.file.device == device);
        let by = its.map(|it| (it.whose, (it.command.clone(), it.traffic))).collect();
        DeviceTraffic { by, missed: 0 }
    };
    let (above, below) = (on(disk.device), on(disk.below));
    let [large, direct] = running.each_ref().map(|child| above.by(child.id()));
    assert!(close(large.written, 32 * MIB), "{large:?}");
    assert!(close(direct.direct, 8 * MIB), "{direct:?}");
    assert!(close(above.sum().to_device(), kernel), "{:?} of {kernel}", above.sum());
    // No process owns these bytes: they count for the writer on the device above.
    assert!(close(below.sum().stacked, kernel), "{:?} of {kernel}", below.sum());
    assert_eq!(below.sum().to_device(), below.sum().stacked, "{:?}", below.sum());
}

#[test]
fn what_a_linear_device_passes_on_is_counted_above_and_carried_below() {
    // Two halves, the second one first.
    a_mapped_device_passes_on("0 307200 linear {} 307200\n307200 307200 linear {} 0");
}

#[test]
fn what_an_encrypted_device_passes_on_is_counted_above_and_carried_below() {
    let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    a_mapped_device_passes_on(&format!("0 614400 crypt aes-xts-plain64 {key} 0 {{}} 0"));
}

#[test]
fn what_was_dirty_before_anybody_watched_is_nobodys() {
    let Some(disk) = Disk::new("ext4", 200) else { return };
    let Some((mut probes, _, writer)) = watching_a_dirty_file(&disk) else { return };
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    assert_eq!(seen.by(writer), Traffic::default());
    let nobody = seen.by(Process::NONE.pid);
    assert!(nobody.written <= 8 * MIB && close(nobody.written, 8 * MIB), "{nobody:?}");
}

#[test]
fn who_writes_to_a_dirty_file_does_not_get_what_was_dirty_before() {
    let Some(disk) = Disk::new("ext4", 200) else { return };
    let Some((mut probes, name, _)) = watching_a_dirty_file(&disk) else { return };
    let mut child = disk.start("append", &name, MIB, &[]);
    assert!(child.wait().unwrap().success());
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    assert!(close(seen.by(child.id()).written, MIB), "{:?}", seen.by(child.id()));
    assert!(close(seen.by(0).written, 8 * MIB), "{:?}", seen.by(0));
}

#[test]
fn pages_that_the_kernel_moves_keep_their_owners() {
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 300), watching()) else { return };
    let mut first = disk.start("small", "first", 64 * MIB, &[]);
    assert!(first.wait().unwrap().success());
    if let Err(error) = fs::write("/proc/sys/vm/compact_memory", "1") {
        println!("skipped: {error}");
        return;
    }
    let mut second = disk.start("small", "second", 32 * MIB, &[]);
    assert!(second.wait().unwrap().success());
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    let written = [&first, &second].map(|child| seen.by(child.id()).written);
    assert!(close(written[0], 64 * MIB) && close(written[1], 32 * MIB), "{written:?}");
}

#[test]
fn a_file_that_has_the_number_of_a_deleted_one_has_its_own_name() {
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 200), watching()) else { return };
    assert!(disk.start("unlink", "first", MIB, &[]).wait().unwrap().success());
    let mut child = disk.start("large", "second", MIB, &[]);
    assert!(child.wait().unwrap().success());
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    let whose = seen.by.keys().find(|whose| whose.process.pid == child.id()).unwrap();
    assert_eq!(probes.path(whose.file).unwrap(), Some(("second".to_owned(), true)));
    // A name that there is no room for is cut, and that is shown.
    let name = "n".repeat(100);
    let mut child = disk.start("large", &name, MIB, &[]);
    assert!(child.wait().unwrap().success());
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    let whose = seen.by.keys().find(|whose| whose.process.pid == child.id()).unwrap();
    assert_eq!(probes.path(whose.file).unwrap(), Some(("n".repeat(63) + "...", true)));
}

#[test]
fn more_files_than_there_is_room_for_lose_their_names_and_no_bytes() {
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 1200), watching()) else { return };
    let before = disk.told_by_kernel().0;
    // 70,000 files: more than 65,536.
    let bytes = 70_000 * 4096;
    let mut child = disk.start("many", "many", bytes, &[]);
    assert!(child.wait().unwrap().success());
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    let traffic = seen.by(child.id());
    for found in [traffic.dirtied, traffic.written] {
        let is_counted = close(found, bytes) || (found..=found + seen.missed).contains(&bytes);
        assert!(is_counted, "{traffic:?}, {} bytes missed", seen.missed);
    }
    let kernel = disk.told_by_kernel().0 - before;
    assert!(close(seen.sum().to_device(), kernel), "{:?} of {kernel}", seen.sum());
}

#[test]
fn what_a_journal_keeps_whole_is_still_its_writers() {
    // Earlier kernels don't report who made such a page dirty.
    if !is_release_at_least(6, 10) {
        println!("skipped: with data=journal, kernels before 6.10 do not tell who wrote");
        return;
    }
    let tune = ["tune2fs", "-o", "journal_data"];
    let (Some(disk), Some(mut probes)) = (Disk::tuned("ext4", 400, &tune), watching()) else {
        return;
    };
    let mut child = disk.start("large", "twice", 8 * MIB, &[]);
    assert!(child.wait().unwrap().success());
    disk.sync();
    // Once to the journal, and from there to its place.
    run(Command::new("umount").arg(disk.file(".")));
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    let traffic = seen.by(child.id());
    assert!(close(traffic.written, 8 * MIB), "{traffic:?} {:?}", seen.sum());
    assert!(seen.sum().journal >= 8 * MIB, "{:?}", seen.sum());
}

#[test]
fn whoever_writes_to_a_device_itself_has_the_bytes() {
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 200), watching()) else { return };
    run(Command::new("umount").arg(disk.file(".")));
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "bs=64k", "count=256", "conv=fsync", "status=none"]);
    let mut child = command.arg(format!("of={}", disk.loop_device)).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    assert!(close(seen.by(child.id()).written, 16 * MIB), "{:?}", seen.sum());
}

#[test]
fn a_thread_of_the_kernel_that_writes_owns_what_it_makes_dirty() {
    let (Some(disk), Some(mut probes)) = (Disk::new("ext4", 200), watching()) else { return };
    // A disk on a file of this one: a thread of the kernel writes the file.
    let image = disk.file("image");
    fs::File::create(&image).unwrap().set_len(64 * MIB).unwrap();
    let mut losetup = nightwatt_needs::command("losetup");
    let found = losetup.args(["--find", "--show"]).arg(&image).output().unwrap();
    let inner = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    let inode = fs::metadata(&image).unwrap().st_ino();
    disk.sync();
    DeviceTraffic::of(&mut probes, disk.device);
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=64k", "count=800", "conv=fsync", "status=none"]);
    run(dd.arg(format!("of={inner}")));
    disk.sync();
    let seen = DeviceTraffic::of(&mut probes, disk.device);
    run(nightwatt_needs::command("losetup").arg("--detach").arg(&inner));
    let of_image = seen.by.iter().filter(|(whose, _)| whose.file.inode == inode);
    let sum = of_image.fold(Traffic::default(), |sum, (_, (_, traffic))| sum.and(traffic));
    assert!(close(sum.written, 50 * MIB), "{sum:?}");
    let missed = seen.missed;
    let is_kept =
        close(sum.dirtied, 50 * MIB) || (sum.dirtied..=sum.dirtied + missed).contains(&(50 * MIB));
    assert!(is_kept, "{sum:?}, {missed} bytes missed");
}
