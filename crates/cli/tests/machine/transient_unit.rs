//! `nightwatt run` of commands that a real systemd moves into transient units.

use std::process::Command;

use serde_json::Value;

use crate::guest::Guest;

const NIGHTWATT: &str = env!("CARGO_BIN_EXE_nightwatt");

/// Runs for two seconds of CPU time, and prints what the kernel counted for it, in hundredths of a second.
const BURN: &str = r#"#!/bin/sh
while :; do
  i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done
  read stat </proc/self/stat; set -- ${stat##*) }
  used=$(( ${12} + ${13} )); [ $used -ge 200 ] && break
done
echo ticks $used >/run/ticks
"#;

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
    let program = program.display();
    let put = format!("{program}:/usr/bin/nightwatt");
    let options = ["--root", "debian", "--memory", "1024", "--put", &put];
    let options = [&options[..], &["--libraries-of", &program.to_string()]].concat();
    let Some(guest) = Guest::up(&options) else { return };
    guest.exec(&format!("cat >/run/burn <<'END'\n{BURN}END\nchmod 755 /run/burn"));
    // What systemd-run itself needs is in ours alone.
    let idle = run(&guest, "systemd-run --quiet --scope sh -c 'echo ticks 0 >/run/ticks'");
    let scope = run(&guest, "systemd-run --quiet --scope sh /run/burn");
    let (ours, kernels) = (scope.ours - idle.ours, scope.kernels);
    println!("scope: {ours:.3} s of {kernels:.3} s, and {:.3} s beside", idle.ours);
    let bound = 0.02 * kernels + 0.1 * idle.ours + 0.01;
    assert!((ours - kernels).abs() < bound, "{ours} of {kernels} s: {}", scope.report);
    let service = run(&guest, "systemd-run --quiet --wait sh /run/burn");
    println!("service: {:.3} s of {:.3} s", service.ours, service.kernels);
    assert!(service.ours < 0.5 * service.kernels, "{}", service.report);
    assert!(service.report.contains("other processes used"), "{}", service.report);
}
