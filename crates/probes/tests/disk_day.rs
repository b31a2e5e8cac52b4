//! A day of processes and files, hour by hour: what is left of it in the kernel's tables.
//!
//! Without root, or if the kernel allows no loading of programs, it prints `skipped: <reason>`.

mod programs;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libbpf_rs::{MapCore, MapHandle};
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::storage::Process;
use nightwatt_probes::{DiskProbes, News, ProbeError};

/// The process of each row in the tables of sums that this process has open, as the kernel has them.
fn rows() -> Vec<Process> {
    let entries = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    // A process and a file: 24 bytes.
    let of_sums = texts.filter(|text| text.contains("key_size:\t24\n"));
    let id = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("map_id:"))?;
        line.trim().parse::<u32>().ok()
    };
    let tables: BTreeSet<u32> = of_sums.filter_map(id).collect();
    let keys = |table| MapHandle::from_map_id(table).unwrap().keys().collect::<Vec<_>>();
    tables.into_iter().flat_map(keys).map(|key| process(&key)).collect()
}

/// The owner in `struct whose` of `bpf/disk.h`.
fn process(key: &[u8]) -> Process {
    let word = |at: usize| u32::from_ne_bytes(key[at..at + 4].try_into().unwrap());
    Process { pid: word(16), started: word(20) }
}

/// The writers in this folder. Others write too, to the same device and to other ones.
fn writers_in(folder: &Path, news: &[News]) -> HashSet<Process> {
    let files = fs::read_dir(folder).unwrap();
    let inodes: HashSet<u64> = files.map(|entry| entry.unwrap().ino()).collect();
    let by_writers = news.iter().filter(|it| it.command == "writer").map(|it| it.whose);
    let here = by_writers.clone().find(|whose| inodes.contains(&whose.file.inode));
    let Some(device) = here.map(|whose| whose.file.device) else { return HashSet::new() };
    // Some files are gone: of a writer to the same device, the file does not matter.
    by_writers.filter(|whose| whose.file.device == device).map(|whose| whose.process).collect()
}

#[test]
fn a_day_of_processes_and_files_that_come_and_go_leaves_no_more_in_the_tables() {
    let mut probes = match DiskProbes::load() {
        Ok(probes) => probes,
        Err(error @ (ProbeError::Denied { .. } | ProbeError::NoBtf)) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    probes.start().unwrap();
    // Where the project's builds go is a disk; temporary files may be in memory. A guest has no builds.
    let builds = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let parent = if builds.exists() { builds } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(parent).unwrap();
    let writer = programs::put("writer", folder.path());
    let hour = Duration::from_hours(1);
    let (mut ours, mut after) = (HashSet::new(), Vec::new());
    for round in 0..24 {
        for (what, name, kib) in [("many", "many", "2048"), ("unlink", "gone", "1024")] {
            let file = folder.path().join(format!("{name}{}", round % 3));
            assert!(Command::new(&writer).arg(what).arg(file).arg(kib).status().unwrap().success());
        }
        assert!(Command::new("sync").arg("-f").arg(folder.path()).status().unwrap().success());
        let before = rows();
        // As if an hour had passed since.
        let news = probes.news(monotonic() + hour).unwrap();
        let left = rows();
        ours.extend(writers_in(folder.path(), &news));
        let count = |rows: &[Process]| rows.iter().filter(|it| ours.contains(*it)).count();
        let before = count(&before);
        if round == 0 && before < 500 {
            println!("skipped: {} is on no disk", folder.path().display());
            return;
        }
        after.push(count(&left));
        assert!(after[round] < before, "rows are taken out: {before} {after:?}");
    }
    // A row that stays is in every later hour, so in the least of them.
    let least = |hours: &[usize]| hours.iter().min().copied().unwrap();
    let (morning, evening) = (least(&after[..6]), least(&after[18..]));
    assert!(evening <= morning, "rows stay: {after:?}");
    let lost = probes.lost().unwrap();
    assert_eq!((lost.sums, lost.pages), (0, 0));
}
