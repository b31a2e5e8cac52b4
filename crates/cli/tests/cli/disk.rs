//! `nightwatt disk` on the disk that temporary files are on.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{eventually, nightwatt, program, told, without_rights};

const MIB: u64 = 1 << 20;

/// A folder on a disk. `None` without a disk, or where probes cannot be loaded.
fn folder() -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root may load programs into the kernel");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    if rustix::fs::major(fs::metadata(folder.path()).unwrap().st_dev()) == 0 {
        println!("skipped: temporary files are on no block device");
        return None;
    }
    Some(folder)
}

/// A shell's word for writing so many MiB.
fn dd(file: &Path, mebibytes: u64) -> String {
    format!("dd if=/dev/zero of={} bs=1M count={mebibytes} 2>/dev/null", file.display())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The rows of files with that name at the end of their path.
fn rows<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().filter(|row| row["path"].as_str().is_some_and(|it| it.ends_with(name))).collect()
}

/// Bytes at most that are missing from a report: of each event that the kernel skipped, a page.
fn missed(report: &Value) -> u64 {
    let warnings = report["warnings"].as_array().unwrap();
    let events = warnings.iter().find_map(|warning| {
        let rest = warning.as_str()?.strip_prefix("the kernel did not report ")?;
        rest.split(' ').next()?.parse::<u64>().ok()
    });
    events.unwrap_or(0) * rustix::param::page_size() as u64
}

/// The report of a measurement, and the bytes that it misses. Under load the kernel skips events of probes: then it
/// is measured again, up to five times.
fn measured(measure: impl Fn() -> Value) -> (Value, u64) {
    let mut report = measure();
    for _ in 0..4 {
        if missed(&report) == 0 {
            break;
        }
        report = measure();
    }
    let missed = missed(&report);
    (report, missed)
}

/// Whether that many bytes were counted, or fewer by no more than those that were missed.
fn is_counted(found: &Value, bytes: u64, missed: u64) -> bool {
    let found = found.as_u64().unwrap();
    (found..=found + missed).contains(&bytes)
}

#[test]
fn what_a_command_wrote_is_on_the_disk_and_in_the_log() {
    let Some(folder) = folder() else { return };
    let (written, deleted) = (folder.path().join("written.bin"), folder.path().join("deleted.bin"));
    let (out, log) = (folder.path().join("report.json"), folder.path().join("log.jsonl"));
    let work =
        format!("{}; {}; rm {}; exit 3", dd(&written, 24), dd(&deleted, 12), deleted.display());
    let (out_name, log_name) = (out.display().to_string(), log.display().to_string());
    let options = ["disk", "--json", "--sync", "-I", "200ms", "-o", &out_name, "--log", &log_name];
    let (report, missed) = measured(|| {
        let output = nightwatt(&[&options[..], &["--", "sh", "-c", &work]].concat());
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        json(&out)
    });
    let [row] = rows(&report, "/written.bin")[..] else { panic!("{report}") };
    assert_eq!(row["command"], "dd");
    for what in ["dirtied", "written"] {
        assert!(is_counted(&row[what], 24 * MIB, missed), "{what}, {missed} missed: {row}");
    }
    assert!(missed > 0 || row["on_device_percent"] == 100.0, "{row}");
    let [gone] = rows(&report, "/deleted.bin")[..] else { panic!("{report}") };
    // What the kernel wrote of it before it was deleted is its own affair: a busy one writes early.
    let of_it = ["dropped", "written"].map(|it| gone[it].as_u64().unwrap());
    let sum = of_it.iter().sum::<u64>().into();
    assert!(is_counted(&sum, 12 * MIB, missed), "{of_it:?}, {missed} missed");
    // The log says the same, piece by piece.
    let lines = fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let inode = &row["inode"];
    let its = lines.iter().filter(|line| line["inode"] == *inode && line["pid"] == row["pid"]);
    let sum = its.map(|line| line["written"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(Some(sum), row["written"].as_u64());
}

#[test]
fn joules_come_with_the_kind_of_the_device_and_are_modelled() {
    let Some(folder) = folder() else { return };
    let (file, out) = (folder.path().join("file.bin"), folder.path().join("report.json"));
    let report = |options: &[&str]| {
        let out_name = out.display().to_string();
        let begin = ["disk", "--json", "--sync", "-o", &out_name];
        let output = nightwatt(&[&begin, options, &["--", "sh", "-c", &dd(&file, 16)]].concat());
        assert!(output.status.success(), "{}", told(&output));
        json(&out)
    };
    let device = rows(&report(&[]), "/file.bin")[0]["device"].as_str().unwrap().to_owned();
    let (hdd, missed) = measured(|| report(&["--class", &format!("{device}=hdd")]));
    let row = rows(&hdd, "/file.bin")[0];
    assert!(is_counted(&row["written"], 16 * MIB, missed), "{missed} missed: {row}");
    // 2.5 W for as long as they take at 180 MB/s, and for 12 ms a burst.
    let (written, bursts) = (row["written"].as_f64().unwrap(), row["bursts"].as_f64().unwrap());
    let expected = 2.5 * (written / 180e6 + 0.012 * bursts);
    assert!((row["joules"].as_f64().unwrap() / expected - 1.0).abs() < 1e-6, "{row}");
    let devices = hdd["devices"].as_array().unwrap();
    let its = devices.iter().find(|it| it["device"] == device.as_str()).unwrap();
    assert_eq!(its["provenance"]["kind"], "modelled");
}

#[test]
fn a_kind_or_a_device_that_there_is_not_is_named() {
    let wrong = nightwatt(&["disk", "--class", "vda=tape", "--", "true"]);
    assert!(told(&wrong).contains("hdd, sata-ssd, nvme"), "{}", told(&wrong));
    let Some(_folder) = folder() else { return };
    let missing = nightwatt(&["disk", "--class", "sdzz=hdd", "--", "true"]);
    assert!(told(&missing).contains("no block device `sdzz`"), "{}", told(&missing));
    assert_eq!(missing.status.code(), Some(125));
}

#[test]
fn whoever_may_not_is_told_what_is_missing() {
    let Some(_folder) = folder() else { return };
    let Some(output) = without_rights(&["disk", "--for", "1s"]) else { return };
    let text = told(&output);
    for what in ["CAP_BPF", "CAP_PERFMON", "setcap cap_bpf"] {
        assert!(text.contains(what), "{what}: {text}");
    }
}

#[test]
fn a_dry_run_names_what_is_missing_and_runs_nothing() {
    let Some(folder) = folder() else { return };
    let ran = folder.path().join("ran");
    let ran_name = ran.display().to_string();
    let dry = ["disk", "--dry-run", "--for", "1h", "--", "touch", &ran_name];
    let whole = nightwatt(&dry);
    assert_eq!(whole.status.code(), Some(0), "{}", told(&whole));
    let command = format!("run `touch {ran_name}`");
    for words in ["watch all disks for 1h", &command, "nothing is missing"] {
        assert!(told(&whole).contains(words), "{words}: {}", told(&whole));
    }
    assert!(!ran.exists());
    let Some(lacking) = without_rights(&dry) else { return };
    assert_eq!(lacking.status.code(), Some(1), "{}", told(&lacking));
    assert!(told(&lacking).contains("CAP_BPF"), "{}", told(&lacking));
}

#[test]
fn it_ends_at_sigint_with_its_figures() {
    let Some(_folder) = folder() else { return };
    let child = program()
        .args(["disk", "--json", "-o", "-"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    // It is loaded when it holds programs.
    let holds = || {
        let folder = fs::read_dir(format!("/proc/{}/fd", child.id())).ok()?;
        let links = folder.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        (links.filter(|link| link.to_string_lossy().contains("bpf_link")).count() == 4)
            .then_some(())
    };
    eventually("its programs are attached", holds);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 1);
}
