//! `nightwatt caliper` on SQLite and PostgreSQL as Debian has them, beside the CPU time that the kernel counts
//! for their processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::caliper::taken;
use crate::harness::{can_probe, nightwatt};

/// What a function ran, and all that the shell's children ran, as the kernel counts it. Seconds.
struct Ran {
    calls: u64,
    function: f64,
    children: f64,
}

/// Seconds of the second line of `times`: `0m1.250000s 0m0.010000s`, in programs and in the kernel.
fn of_children(printed: &str) -> f64 {
    let last = printed.lines().last().unwrap_or_default();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    };
    last.split_whitespace().map(seconds).sum()
}

/// Runs a script of the shell with a function of what it starts watched.
fn watched(folder: &Path, function: &str, script: &str) -> Ran {
    let out = folder.join("report.json").display().to_string();
    let script = format!("{script}\ntimes");
    let arguments = ["caliper", "--json", "-o", &out, "-f", function, "--", "sh", "-c", &script];
    let output = nightwatt(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let section = &report["sections"][0];
    Ran {
        calls: section["calls"].as_u64().unwrap(),
        function: section["on_cpu_s"].as_f64().unwrap(),
        children: of_children(&String::from_utf8_lossy(&output.stdout)),
    }
}

/// That what one query more costs is in the function, as the kernel has it: start and end of the program are in both.
fn check(idle: &Ran, busy: &Ran, taken: f64) {
    let (function, children) = (busy.function - idle.function, busy.children - idle.children);
    // The kernel counts in ticks of 10 ms here, at the beginning and at the end.
    let bound = 0.05 * children + taken + 0.02;
    assert!(children > 0.3, "a query that says something: {children} s");
    assert!((function - children).abs() < bound, "{function} of {children} s, {taken} s taken");
}

#[test]
fn a_query_of_sqlite_is_in_its_step_function() {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0";
    if !can_probe() || nightwatt_needs::program("sqlite3").is_none() {
        return;
    }
    if !Path::new(LIBRARY).exists() {
        return println!("skipped: there is no {LIBRARY}");
    }
    let folder = tempfile::tempdir().unwrap();
    let query = |rows: u32| {
        let query = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT sum(i * i % 7) FROM n"
        );
        format!("sqlite3 :memory: '{query}' > /dev/null")
    };
    let function = format!("{LIBRARY}:sqlite3_step");
    let before = taken();
    let [idle, busy] = [1, 3_000_000].map(|rows| watched(folder.path(), &function, &query(rows)));
    check(&idle, &busy, taken() - before + 0.01);
    assert!(idle.calls >= 2 && idle.calls == busy.calls, "{} and {}", idle.calls, busy.calls);
    // Many calls, each of which may be single-stepped: no more than the process ran.
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n";
    let many = watched(folder.path(), &function, &format!("sqlite3 :memory: '{rows}' > /dev/null"));
    assert!(many.calls > 20_000, "{}", many.calls);
    assert!(many.function < many.children + 0.02, "{} of {} s", many.function, many.children);
}

/// A cluster of PostgreSQL, of an ordinary user.
fn cluster() -> Option<TempDir> {
    if !Path::new(SERVER).is_file() {
        println!("skipped: there is no {SERVER} (Debian: postgresql-15)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "mkdir {0}/db && chown postgres {0}/db && cd / && {AS_USER} {BIN}/initdb --no-sync -A trust -D {0}/db",
        folder.path().display()
    );
    let made = nightwatt_needs::command("sh").args(["-c", &script]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(folder)
}

const BIN: &str = "/usr/lib/postgresql/15/bin";
const SERVER: &str = "/usr/lib/postgresql/15/bin/postgres";
const AS_USER: &str = "setpriv --reuid=postgres --regid=postgres --clear-groups";

#[test]
fn a_query_of_postgresql_is_in_its_executor() {
    if !can_probe() {
        return;
    }
    let Some(folder) = cluster() else { return };
    let query = |rows: u32| {
        format!(
            "cd /; echo 'select sum(i::float8 * i) from generate_series(1, {rows}) i' | \
             {AS_USER} {SERVER} --single -c fsync=off -D {}/db postgres > /dev/null 2>&1",
            folder.path().display()
        )
    };
    let function = format!("{SERVER}:ExecutorRun");
    let before = taken();
    let [idle, busy] = [1, 4_000_000].map(|rows| watched(folder.path(), &function, &query(rows)));
    check(&idle, &busy, taken() - before + 0.01);
    assert_eq!((idle.calls, busy.calls), (1, 1));
}
