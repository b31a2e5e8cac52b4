//! `nightwatt run` of commands that a real systemd moves into transient units.

use std::process::Command;

use serde_json::Value;

use crate::guest::Guest;

const NIGHTWATT: &str = env!("CARGO_BIN_EXE_nightwatt");

/// Runs for this many hundredths of a second of CPU time, and writes what the kernel counted for it.
const BURN: &str = r"#!/bin/sh
while :; do
  i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done
  read stat </proc/self/stat; set -- $1 ${stat##*) }
  used=$(( ${13} + ${14} )); [ $used -ge $1 ] && break
done
echo ticks $used >/run/ticks
";

/// What `run` counted, and what the kernel counted for the script itself, s.
struct Counted {
    ours: f64,
    kernels: f64,
    report: String,
}

fn run(guest: &Guest, command: &str) -> Counted {
    let said = guest.exec(&format!(
        "rm -f /run/ticks; nightwatt run --json -o /run/run.json -- {command} >/run/said 2>&1; \
         cat /run/ticks || cat /run/said; cat /run/run.json"
    ));
    let (ticks, report) = said.split_once('\n').unwrap_or_else(|| panic!("{said}"));
    let ticks = ticks.strip_prefix("ticks ").unwrap_or_else(|| panic!("{said}"));
    let parsed: Value = serde_json::from_str(report).unwrap_or_else(|_| panic!("{said}"));
    let time = |key: &str| parsed["runs"][0][key].as_f64().unwrap_or_else(|| panic!("{said}"));
    Counted {
        ours: time("user_s") + time("sys_s"),
        kernels: ticks.trim().parse::<f64>().unwrap() / 100.0,
        report: report.to_owned(),
    }
}

/// A scope is the command's child in another cgroup, and is counted. A service is a child of systemd, and is named.
#[test]
#[ignore = "make test-vm: starts a guest, which takes a minute"]
fn a_transient_unit_is_counted_to_2_percent_of_its_cpu_time_or_named() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("nightwatt");
    // With its symbols it would not fit.
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(NIGHTWATT).status().unwrap();
    assert!(stripped.success());
    let program = program.display().to_string();
    let put = format!("{program}:/usr/bin/nightwatt");
    let memory = ["--root", "debian", "--memory", "1024"];
    let files = ["--put", &put, "--libraries-of", &program];
    let Some(guest) = Guest::up(&[memory, files].concat()) else { return };
    guest.exec(&format!("cat >/run/burn <<'END'\n{BURN}END\nchmod 755 /run/burn"));
    // `systemd-run --scope` becomes the script, so its own time is in both.
    let scope = run(&guest, "systemd-run --quiet --scope sh /run/burn 1000");
    let (ours, kernels) = (scope.ours, scope.kernels);
    println!("scope: {ours:.3} s of {kernels:.3} s");
    // The kernel tells the time in hundredths of a second, and the script's end comes after that: in an emulated
    // machine that is a tenth of a second, so it runs for ten.
    assert!((ours - kernels).abs() < 0.02 * kernels + 0.02, "{}", scope.report);
    let service = run(&guest, "systemd-run --quiet --wait sh /run/burn 200");
    println!("service: {:.3} s of {:.3} s", service.ours, service.kernels);
    assert!(service.ours < 0.5 * service.kernels, "{}", service.report);
    assert!(service.report.contains("other processes used"), "{}", service.report);
}
