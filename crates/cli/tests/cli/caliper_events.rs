//! Every call of a section in a file, and a table that renews itself.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::caliper::Bench;
use crate::harness::{nightwatt, program, told};
use crate::meter_checks::python;

const POLARS: &str = "
import polars as pl, json, sys
rows = pl.read_parquet(sys.argv[1])
ended = pl.col('end') == 'ended'
sums = rows.group_by('section').agg(
    pl.len(), ended.sum(), pl.col('length_ns').sum(), pl.col('on_cpu_ns').filter(ended).sum(),
    pl.col('preempted_ns').filter(ended).sum(), pl.col('joules_model_machine').sum(),
    pl.col('tid').n_unique(), pl.col('pid').n_unique(), pl.col('depth').max(),
    pl.col('outer').drop_nulls().unique(), pl.col('time').cast(pl.Int64).min())
print(json.dumps({section: rest for section, *rest in sums.rows()}))";

const DUCKDB: &str = "
import duckdb, json, sys
rows = duckdb.sql(f\"\"\"select section, count(*), count(*) filter (\\\"end\\\" = 'ended'),
    sum(length_ns)::bigint, sum(on_cpu_ns) filter (\\\"end\\\" = 'ended')::bigint,
    sum(preempted_ns) filter (\\\"end\\\" = 'ended')::bigint, sum(joules_model_machine),
    count(distinct tid), count(distinct pid), max(depth),
    coalesce(list(distinct \\\"outer\\\") filter (\\\"outer\\\" is not null), []), epoch_ns(min(time))
    from '{sys.argv[1]}' group by section\"\"\")
print(json.dumps({section: rest for section, *rest in rows.fetchall()}))";

/// What others than we find in a file: by section, the columns above.
fn read(path: &Path) -> Option<Value> {
    let Some((python, library)) = python() else {
        println!("skipped: no Python with polars or duckdb (`tools/polars` makes one)");
        return None;
    };
    let script = if library == "polars" { POLARS } else { DUCKDB };
    let output = Command::new(python).args(["-c", script]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn polars_or_duckdb_find_in_a_file_of_calls_what_the_table_tells() {
    let Some(bench) = Bench::new() else { return };
    let (heavy, light) = (bench.at("heavy"), bench.at("light"));
    let file = bench.folder().join("calls.parquet");
    let name = file.display().to_string();
    let options = ["-f", &heavy, "-f", &light, "--events", &name, "-m", "model", "-I", "50ms"];
    let report = bench.report(&options, &["threads", "20"]);
    assert_eq!((&report["events"]["written"], &report["events"]["lost"]), (&320.into(), &0.into()));
    let Some(read) = read(&file) else { return };
    let now = nightwatt_clock::meter::Stamp::now().wall_ns;
    for section in report["sections"].as_array().unwrap() {
        let found = &read[section["name"].as_str().unwrap()];
        println!("{section} {found}");
        assert_eq!((&found[0], &found[1]), (&160.into(), &section["calls"]));
        let s = |place: usize| 1e-9 * found[place].as_f64().unwrap();
        let told = |key: &str| section[key].as_f64().unwrap();
        assert!((s(2) / 160.0 - told("mean_s")).abs() < 1e-9);
        // What is in no call that ended may have been seen too late to be in one.
        assert!((s(3) / told("on_cpu_s") - 1.0).abs() < 0.02);
        assert!((s(4) - section["off_cpu"]["preempted_s"].as_f64().unwrap()).abs() < 1e-9);
        // Eight threads of one process, no section in another.
        assert_eq!((&found[6], &found[7], &found[8]), (&8.into(), &1.into(), &0.into()));
        assert_eq!(found[9].as_array().unwrap().len(), 0);
        let age = now - found[10].as_i64().unwrap();
        assert!((0..600_000_000_000).contains(&age), "it began {age} ns ago");
        // A call has its CPU time's part of what the meter saw between two readings; when it was on a
        // CPU between them is not known.
        let joules = section["energy"][0]["joules"].as_f64().unwrap();
        let ratio = found[5].as_f64().unwrap() / joules;
        assert!((ratio - 1.0).abs() < 0.2, "{ratio} of {joules} J");
    }
}

#[test]
fn calls_within_others_are_told_so_and_a_file_is_never_written_over() {
    let Some(bench) = Bench::new() else { return };
    let (outer, light) = (bench.at("outer"), bench.at("light"));
    let file = bench.folder().join("calls.parquet");
    let (name, path) = (file.display().to_string(), bench.path().display().to_string());
    let options = ["caliper", "-f", &outer, "-f", &light, "--events", &name, "-m", "model"];
    let output = nightwatt(&[&options[..], &["--", &path, "nested", "50"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains(&format!("100 calls in {name}, 0 lost")), "{}", told(&output));
    if let Some(read) = read(&file) {
        assert_eq!((&read["outer"][8], &read["light"][8]), (&0.into(), &1.into()));
        assert_eq!(read["light"][9], serde_json::json!(["outer"]));
    }
    let before = fs::read(&file).unwrap();
    let output = nightwatt(&[&options[..], &["--", &path, "nested", "1"]].concat());
    assert_eq!(output.status.code(), Some(125), "{}", told(&output));
    assert!(told(&output).contains("nothing is written over"), "{}", told(&output));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn what_fails_before_the_program_runs_leaves_no_file() {
    let Some(bench) = Bench::new() else { return };
    let (heavy, file) = (bench.at("heavy"), bench.folder().join("calls.parquet"));
    let name = file.display().to_string();
    let output = nightwatt(&["caliper", "-f", &heavy, "--events", &name, "--", "/nowhere/prog"]);
    assert_ne!(output.status.code(), Some(0), "{}", told(&output));
    assert!(!file.exists() && !bench.folder().join("calls.parquet.parts").exists());
}

/// A file system of so little that it is soon full.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "nightwatt-test"]).arg(&path);
        if !mount.status().is_ok_and(|status| status.success()) {
            println!("skipped: nothing can be mounted here");
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_full_costs_the_calls_and_not_the_table() {
    let Some(bench) = Bench::new() else { return };
    let Some(small) = Small::mount(bench.folder().join("small")) else { return };
    let (nothing, path) = (bench.at("nothing"), bench.path().display().to_string());
    let file = small.0.join("calls.parquet");
    let name = file.display().to_string();
    let options = ["caliper", "-f", &nothing, "--events", &name, "--json", "-o", "-"];
    let output = nightwatt(&[&options[..], &["--", &path, "count", "200000"]].concat());
    assert_eq!(output.status.code(), Some(125), "{}", told(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["sections"][0]["calls"], 200_000);
    assert!(report["events"]["error"].as_str().unwrap().contains("calls.parquet"), "{report}");
    assert!(told(&output).contains("a disk with room"), "{}", told(&output));
    assert_eq!(fs::read_dir(&small.0).unwrap().count(), 0, "nobody could read what is there");
}

/// Runs it with its errors on a terminal of so many rows and columns; what that was sent.
fn on_a_terminal(arguments: &[&str], ws_row: u16, ws_col: u16) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave: OwnedFd = File::options().read(true).write(true).open(name).unwrap().into();
    tcsetwinsize(&slave, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = program();
    command.args(arguments).stdout(Stdio::null()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // Ours closes the other end; at its end reading fails.
    drop(command);
    let (mut master, mut shown) = (File::from(master), Vec::new());
    let _ = master.read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

/// Home, and nothing below it.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[test]
fn a_live_table_renews_itself_in_its_place_on_a_terminal() {
    let Some(bench) = Bench::new() else { return };
    let (heavy, light) = (bench.at("heavy"), bench.at("light"));
    let path = bench.path().display().to_string();
    let out = bench.folder().join("report").display().to_string();
    let options = ["caliper", "--live", "-f", &heavy, "-f", &light, "-m", "model", "-I", "100ms"];
    let target = ["-o", &out, "--", &path, "phases", "3"];
    let shown = on_a_terminal(&[&options[..], &target].concat(), 24, 60);
    // It runs for 6 s by its own clock, and a table comes every second, or later on a busy machine.
    let tables: Vec<&str> = shown.split(CLEAR).skip(1).collect();
    assert!(tables.len() >= 3, "{shown:?}");
    for table in &tables {
        assert!(table.contains("calls/s") && table.contains(" heavy "), "{table:?}");
        assert!(table.lines().all(|line| line.trim_end().chars().count() <= 60), "{table:?}");
    }
    assert!(!shown.replace(CLEAR, "").contains('\x1b'), "nothing is left to be set right");
    assert!(fs::read_to_string(out).unwrap().contains("Sections of"));
}

#[test]
fn without_a_terminal_live_tables_follow_each_other() {
    let Some(bench) = Bench::new() else { return };
    let (heavy, path) = (bench.at("heavy"), bench.path().display().to_string());
    let options = ["caliper", "--live", "-f", &heavy, "-m", "model", "-I", "100ms"];
    let output = nightwatt(&[&options[..], &["--", &path, "phases", "2"]].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("Sections after ") && text.contains(" s, by model/machine:"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    // The last word is the report.
    let (live, report) = text.rsplit_once("\n Sections of ").unwrap();
    assert!(live.contains("calls/s") && report.contains("heavy"), "{text}");
}

#[test]
fn disk_renews_its_table_in_its_place_too() {
    let Some(_) = Bench::new() else { return };
    let shown = on_a_terminal(&["disk", "--live", "-I", "300ms", "--for", "5s"], 24, 80);
    assert!(shown.matches(CLEAR).count() >= 2, "{shown:?}");
    assert!(!shown.replace(CLEAR, "").contains(['\x1b', char::REPLACEMENT_CHARACTER]));
}
