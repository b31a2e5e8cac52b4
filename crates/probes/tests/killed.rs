//! What is left in the kernel of a process that is killed while it watches disks: nothing.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};
use nightwatt_probes::{DiskProbes, ProbeError};

/// What the kernel has loaded, and where that is attached.
fn in_kernel() -> (HashSet<u32>, HashSet<u32>) {
    (
        ProgInfoIter::default().map(|it| it.id).collect(),
        LinkInfoIter::default().map(|it| it.id).collect(),
    )
}

/// Numbers that a process's files tell of what they stand for.
fn held_by(pid: u32, what: &str) -> HashSet<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let of = |text: String| {
        let number = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))?;
        number.trim().parse().ok()
    };
    texts.filter_map(of).collect()
}

/// Run by the other test, in a process of its own.
#[test]
#[ignore = "waits to be killed"]
fn watches_disks_until_it_is_killed() {
    let mut probes = DiskProbes::load().unwrap();
    probes.start().unwrap();
    println!("it watches");
    loop {
        thread::park();
    }
}

#[test]
fn whoever_is_killed_while_watching_disks_leaves_nothing_in_the_kernel() {
    match DiskProbes::load() {
        Ok(_) => {}
        Err(error @ (ProbeError::Denied { .. } | ProbeError::NoBtf | ProbeError::PidNamespace)) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let mut watcher = Command::new(std::env::current_exe().unwrap());
    watcher.args(["--ignored", "--exact", "--nocapture", "watches_disks_until_it_is_killed"]);
    let mut watcher = watcher.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(watcher.stdout.take().unwrap()).lines();
    assert!(output.map_while(Result::ok).any(|line| line.ends_with("it watches")));
    let programs = held_by(watcher.id(), "prog_id");
    let links = held_by(watcher.id(), "link_id");
    assert!(programs.len() >= 4 && links.len() >= 4, "{programs:?} {links:?}");
    let before = in_kernel();
    assert!(programs.is_subset(&before.0) && links.is_subset(&before.1));
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    // The kernel takes them out on its own time: until it has, or the test's runner gives up.
    while {
        let now = in_kernel();
        !programs.is_disjoint(&now.0) || !links.is_disjoint(&now.1)
    } {
        thread::yield_now();
    }
}
