//! Rows added up: by program, and by folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::row::DiskRow;

/// A folder with less than this share of all bytes is a part of the folder above it.
const SHARE: f64 = 0.02;

/// Rows of one kind, added up. Bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskTotal {
    /// The program, or the folder with all below it that has no row of its own.
    pub name: String,
    /// Processes.
    pub processes: usize,
    /// Files.
    pub files: usize,
    /// Made dirty in the page cache.
    pub dirtied: u64,
    /// Of that, gone before it was written.
    pub dropped: u64,
    /// From the page cache to the device.
    pub written: u64,
    /// Past the page cache.
    pub direct: u64,
    /// Read from the device.
    pub read: u64,
    /// Energy above the devices' idle states; none where a device's kind is not known.
    pub joules: Option<f64>,
    /// How far that may be off, at 95 %: a device's model errs in the same direction for all rows.
    pub uncertainty_j: Option<f64>,
}

/// What is summed up of a group.
#[derive(Debug, Default, Clone)]
struct Sum<'a> {
    processes: BTreeSet<Option<u32>>,
    files: BTreeSet<(&'a str, Option<u64>)>,
    bytes: [u64; 5],
    joules: Option<f64>,
    uncertainty_j: Option<f64>,
}

impl<'a> Sum<'a> {
    fn add(&mut self, row: &'a DiskRow) {
        self.processes.insert(row.pid);
        self.files.insert((&row.device, row.inode));
        let bytes = [row.dirtied, row.dropped, row.written, row.direct, row.read];
        self.bytes.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
        self.joules = more(self.joules, row.joules);
        self.uncertainty_j = more(self.uncertainty_j, row.uncertainty_j);
    }

    fn take(&mut self, other: Self) {
        self.processes.extend(other.processes);
        self.files.extend(other.files);
        self.bytes.iter_mut().zip(other.bytes).for_each(|(sum, bytes)| *sum += bytes);
        self.joules = more(self.joules, other.joules);
        self.uncertainty_j = more(self.uncertainty_j, other.uncertainty_j);
    }

    /// Bytes that move, by which totals are sorted.
    fn size(&self) -> u64 {
        let [dirtied, _, written, direct, read] = self.bytes;
        written.max(dirtied) + direct + read
    }

    fn total(self, name: String) -> DiskTotal {
        let [dirtied, dropped, written, direct, read] = self.bytes;
        let (processes, files) = (self.processes.len(), self.files.len());
        let Self { joules, uncertainty_j, .. } = self;
        DiskTotal {
            name,
            processes,
            files,
            dirtied,
            dropped,
            written,
            direct,
            read,
            joules,
            uncertainty_j,
        }
    }
}

fn more(sum: Option<f64>, joules: Option<f64>) -> Option<f64> {
    match (sum, joules) {
        (Some(sum), Some(joules)) => Some(sum + joules),
        (sum, joules) => sum.or(joules),
    }
}

/// The largest first.
fn sorted(sums: BTreeMap<String, Sum<'_>>) -> Vec<DiskTotal> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.size()));
    sums.into_iter().map(|(name, sum)| sum.total(name)).collect()
}

/// By the program's name.
pub(super) fn by_program(rows: &[DiskRow]) -> Vec<DiskTotal> {
    let mut sums: BTreeMap<String, Sum<'_>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.pid.is_some()) {
        sums.entry(row.command.trim().to_owned()).or_default().add(row);
    }
    sorted(sums)
}

/// By the folder of the file. Small folders are added to those above them, from the deepest on.
pub(super) fn by_folder(rows: &[DiskRow]) -> Vec<DiskTotal> {
    let mut sums: BTreeMap<String, Sum<'_>> = BTreeMap::new();
    for row in rows {
        let folder = row.path.as_deref().and_then(|path| Path::new(path).parent());
        let Some(folder) = folder else { continue };
        sums.entry(folder.display().to_string()).or_default().add(row);
    }
    let all: u64 = sums.values().map(Sum::size).sum();
    let is_small = |sum: &Sum<'_>| (sum.size() as f64) < SHARE * all as f64;
    let depth = |name: &str| Path::new(name).components().count();
    let deepest = sums.keys().map(|name| depth(name)).max().unwrap_or(0);
    for level in (2..=deepest).rev() {
        let of_level = sums.iter().filter(|(name, sum)| depth(name) == level && is_small(sum));
        let small: Vec<String> = of_level.map(|(name, _)| name.clone()).collect();
        for name in small {
            let (Some(sum), Some(above)) = (sums.remove(&name), Path::new(&name).parent()) else {
                continue;
            };
            sums.entry(above.display().to_string()).or_default().take(sum);
        }
    }
    sorted(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::report::DiskReport;

    fn row(pid: u32, command: &str, path: &str, inode: u64, written: u64) -> DiskRow {
        DiskRow {
            pid: Some(pid),
            command: command.to_owned(),
            device: "sda".to_owned(),
            inode: Some(inode),
            path: Some(path.to_owned()),
            folded: 0,
            carries: None,
            dirtied: written,
            dropped: 0,
            written,
            on_device_percent: None,
            direct: 0,
            read: 0,
            bursts: 1,
            read_bursts: 0,
            joules: Some(written as f64),
            uncertainty_j: Some(written as f64 / 2.0),
        }
    }

    /// A thousand files of a build, each by a compiler of its own, and one large file.
    fn build() -> Vec<DiskRow> {
        let object = |number: u32| {
            let path = format!("/src/obj/{}/{number}.o", number % 100);
            row(100 + number, "cc1", &path, number.into(), 10)
        };
        let mut rows: Vec<DiskRow> = (0..1000).map(object).collect();
        rows.push(row(7, "ld", "/src/bin/prog", 5000, 4000));
        rows
    }

    #[test]
    fn programs_are_added_up_whatever_their_number() {
        let totals = by_program(&build());
        let of =
            |total: &DiskTotal| (total.name.clone(), total.processes, total.files, total.written);
        let totals: Vec<_> = totals.iter().map(of).collect();
        assert_eq!(totals, [("cc1".into(), 1000, 1000, 10_000), ("ld".into(), 1, 1, 4000)]);
    }

    #[test]
    fn small_folders_are_a_part_of_those_above_and_nothing_is_lost() {
        let totals = by_folder(&build());
        let of = |total: &DiskTotal| {
            let energy = total.joules.zip(total.uncertainty_j);
            (total.name.clone(), total.files, total.written, energy)
        };
        let seen: Vec<_> = totals.iter().map(of).collect();
        // Each of the hundred folders has 0.7 % of the bytes.
        let expected = [
            ("/src/obj".to_owned(), 1000, 10_000, Some((10_000.0, 5000.0))),
            ("/src/bin".to_owned(), 1, 4000, Some((4000.0, 2000.0))),
        ];
        assert_eq!(seen, expected);
        assert!(by_folder(&[]).is_empty());
    }

    /// Of thousands of files, a table by file says little: programs and folders are above it.
    #[test]
    fn of_many_files_totals_come_first() {
        let report = |rows: Vec<DiskRow>| DiskReport {
            schema: 1,
            command: Vec::new(),
            exit_status: 0,
            elapsed_s: 1.0,
            programs: by_program(&rows),
            folders: by_folder(&rows),
            rows,
            devices: Vec::new(),
            lost_bytes: 0,
            warnings: Vec::new(),
        };
        let text = report(build()).text();
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start)).unwrap();
        let order = ["program", "cc1 ", "ld ", "folder", "/src/obj ", "/src/bin ", "command"];
        assert!(order.map(at).is_sorted(), "{text}");
        // Few files need no totals.
        let few = report(build().split_off(995)).text();
        assert!(!few.contains("program") && few.contains("/src/bin/prog"), "{few}");
    }
}
