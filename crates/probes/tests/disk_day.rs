//! A day of processes and files, hour by hour: what is left of it in the kernel's memory. In a
//! process of its own, since the counts are per process.
//!
//! Without root, or if the kernel allows no loading of programs, it prints `skipped: <reason>`.

mod programs;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_probes::{DiskProbes, ProbeError};

/// Bytes of the kernel's memory in this process's tables of sums, by the kernel's own account.
fn memory_of_sums() -> u64 {
    let entries = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let of = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("memlock:").map(str::to_owned));
        // A process and a file: 24 bytes. Tables of dirty pages are as full as the whole machine makes them.
        line.filter(|_| text.contains("key_size:\t24\n"))?.trim().parse::<u64>().ok()
    };
    texts.filter_map(of).sum()
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
    let mut after = Vec::new();
    for round in 0..24 {
        for (what, name, kib) in [("many", "many", "2048"), ("unlink", "gone", "1024")] {
            let file = folder.path().join(format!("{name}{}", round % 3));
            assert!(Command::new(&writer).arg(what).arg(file).arg(kib).status().unwrap().success());
        }
        assert!(Command::new("sync").arg("-f").arg(folder.path()).status().unwrap().success());
        let before = memory_of_sums();
        // As if an hour had passed since.
        let news = probes.news(monotonic() + hour).unwrap();
        if news.len() < 500 {
            println!("skipped: {} is on no disk", folder.path().display());
            return;
        }
        after.push(memory_of_sums());
        assert!(after[round] < before, "rows are taken out: {before} {after:?}");
    }
    // Any other process that writes at that moment has a row too, and may have many. A row that stays is in every
    // later hour, so in the least of them.
    let least = |hours: &[u64]| hours.iter().min().copied().unwrap();
    let (morning, evening) = (least(&after[..6]), least(&after[18..]));
    assert!(evening < morning + 20 * 256, "rows stay: {after:?}");
    let lost = probes.lost().unwrap();
    assert_eq!((lost.sums, lost.pages), (0, 0));
}
