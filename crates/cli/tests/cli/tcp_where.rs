//! `nightwatt tcp where` on this very machine.

use std::fs;

use serde_json::Value;

use crate::harness::{nightwatt, told};

fn sum(rows: &Value, of: impl Fn(&Value) -> Option<f64>) -> f64 {
    rows.as_array().unwrap().iter().map(|row| of(row).unwrap_or_else(|| panic!("{row}"))).sum()
}

#[test]
fn all_time_and_energy_is_in_a_category_and_the_commands_exit_status_is_ours() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root may sample what everybody does");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [written, stacks] = ["out.json", "out.folded"].map(|name| folder.path().join(name));
    let line = "head -c 400000000 /dev/zero | cat >/dev/null; exit 7";
    let paths = [&written, &stacks].map(|path| path.display().to_string());
    let options = ["tcp", "where", "--json", "-o", &paths[0], "--folded", &paths[1], "-m", "model"];
    let output = nightwatt(&[&options[..], &["--", "sh", "-c", line]].concat());
    if told(&output).contains("perf_event_open") {
        println!("skipped: {}", told(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    let report: Value = serde_json::from_str(&fs::read_to_string(written).unwrap()).unwrap();
    let busy = report["samples"]["busy"].as_f64().unwrap();
    assert!(busy > 0.0, "{report}");
    let all = sum(&report["os"], |row| row["samples"].as_f64());
    assert!((all - busy).abs() < 0.5, "{all} of {busy}");
    let share = sum(&report["os"], |row| row["share"]["share"].as_f64());
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    // The meter's joules are those of all categories; nothing was measured to be idle.
    let channel = &report["channels"][0];
    let joules = channel["joules"].as_f64().unwrap();
    let shared = sum(&report["os"], |row| row["energy"][0]["joules"].as_f64());
    assert!((shared - joules).abs() < 1e-6 * joules.max(1.0), "{shared} of {joules}");
    assert!(fs::read_to_string(stacks).unwrap().lines().count() > 0);
}
