//! How often this very kernel's CPUs come back from rest, by two of its own books.

use std::path::Path;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_probes::{IdleProbe, ProbeError};

/// Files of all idle states of all CPUs: the state's number, and what is in the file.
fn states(file: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for cpu in 0..4096 {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        for state in (0..16).take_while(|_| Path::new(&folder).exists()) {
            let text = std::fs::read_to_string(format!("{folder}/state{state}/{file}"));
            all.extend(text.map(|text| (state, text.trim().to_owned())));
        }
    }
    all
}

/// How often each state was entered, by cpuidle.
fn usage() -> Vec<u64> {
    let mut sums = vec![0; 16];
    for (state, text) in states("usage") {
        sums[state] += text.parse::<u64>().unwrap();
    }
    sums
}

#[test]
fn cpus_come_back_as_often_as_cpuidle_has_sent_them_to_rest() {
    let probe = match IdleProbe::start() {
        Ok(probe) => probe,
        Err(error @ (ProbeError::Denied { .. } | ProbeError::NoBtf)) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    if states("name").is_empty() {
        println!("skipped: this kernel has no idle states");
        return;
    }
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let stop = Stop::new().unwrap();
    // Between the two of cpuidle there are those of the probe, and between these cpuidle's again.
    let outer = usage();
    let before = probe.left().unwrap();
    let inner = usage();
    for _ in 0..20 {
        // Each wait ends with a timer that wakes a CPU, if it rests.
        stop.wait_until(monotonic() + Duration::from_millis(10));
    }
    let inner_end = usage();
    let after = probe.left().unwrap();
    let outer_end = usage();
    for state in 0..16 {
        let traced = after[state] - before[state];
        let (least, most) = (inner_end[state] - inner[state], outer_end[state] - outer[state]);
        // cpuidle counts just after the tracepoint, and each CPU may be between the two at either end. One that
        // rested when the probe came has come back to be counted by cpuidle alone.
        assert!(traced + 2 * cpus >= least, "state {state}: {traced}, and cpuidle {least}");
        assert!(traced <= most + cpus, "state {state}: {traced}, and cpuidle {most}");
        println!("state {state}: {traced} traced, {least} to {most} by cpuidle");
    }
}
