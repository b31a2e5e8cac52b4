//! Meters that are checked: against each other, in time and in frequency; and recordings that others
//! read.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{nightwatt, program, shared_data, told};

/// A load that changes slowly.
fn load(time: f64) -> f64 {
    60.0 + 20.0 * (time / 20.0).sin() + 10.0 * (time / 9.0 + 1.0).sin()
}

/// Seconds from 1772366400 (2026-03-01 12:00 UTC, by date -d), one after the other.
fn write(path: &Path, count: u32, power: impl Fn(f64) -> f64) -> String {
    let mut text = "time,watts\n".to_owned();
    for second in 0..count {
        writeln!(text, "{},{:.6}", 1_772_366_400 + second, power(f64::from(second))).unwrap();
    }
    fs::write(path, text).unwrap();
    path.display().to_string()
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn json_of(args: &[&str]) -> Value {
    let output = nightwatt(args);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn two_recordings_are_checked_against_each_other_in_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let reference = write(&folder.path().join("a.csv"), 900, load);
    let meter = write(&folder.path().join("b.csv"), 900, |time| 3.0 + 1.1 * load(time - 2.0));
    let (meter, reference) = (format!("file={meter}"), format!("file={reference}"));
    let args = ["meters", "--check", &meter, "--against", &reference, "--for", "1h"];
    let report = json_of(&[&args[..], &["--json"]].concat());
    let relation = &report["check"]["relation"];
    assert!((figure(&relation["scale"]["value"]) - 1.1).abs() < 1e-3, "{relation}");
    assert!((figure(&relation["offset"]["value"]) - 3.0).abs() < 0.1, "{relation}");
    assert!((figure(&relation["lag"]["value"]) - 2.0).abs() < 0.01, "{relation}");
    assert_eq!((&report["schema"], figure(&report["overlap_s"])), (&1.into(), 899.0));
    let text = told(&nightwatt(&args));
    for words in ["error at light load", "scale", "2.000 s late", "divided by 1.1000"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let same = nightwatt(&["meters", "--check", &meter, "--against", &meter]);
    assert_eq!(same.status.code(), Some(2), "{}", told(&same));
    assert!(told(&same).contains("hint: name another by `--against`"), "{}", told(&same));
}

#[test]
fn meters_are_checked_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder.path().join("a.csv"), 900, load);
    let file = format!("file={path},speed=100,name=plug");
    // Longer than a busy machine stands still.
    let args = ["meters", "--check", "model", "--against", &file, "--for", "5s", "--json"];
    let report = json_of(&[&args[..], &["-I", "20ms"]].concat());
    assert_eq!(
        (&report["meter"]["kind"], &report["reference"]["name"]),
        (&"modelled".into(), &"plug".into())
    );
    let overlap = figure(&report["overlap_s"]);
    assert!(overlap > 0.0 && figure(&report["check"]["readings"]) >= 8.0, "{report}");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("is a model, not a meter"), "{warnings}");
    assert!(warnings.contains("covers `wall` and plug `part`"), "{warnings}");
}

#[test]
fn a_spectrum_says_how_often_a_meter_is_worth_reading() {
    let folder = tempfile::tempdir().unwrap();
    let sine = |hz: f64, time: f64| (std::f64::consts::TAU * hz * time + 0.3).sin();
    // Powers of 2 W² at 0.01 Hz and 0.02 W² at 0.3 Hz: 99 % lie at the first.
    let power = |time: f64| 50.0 + 2.0 * sine(0.01, time) + 0.2 * sine(0.3, time);
    let path = write(&folder.path().join("a.csv"), 9000, power);
    let file = format!("file={path}");
    let report = json_of(&["meters", "--spectrum", &file, "--json"]);
    let figures = ["rate_hz", "highest_hz", "resolution_hz"].map(|name| figure(&report[name]));
    for (found, expected) in figures.into_iter().zip([1.0, 0.5, 1.0 / 2048.0]) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{figures:?}");
    }
    let rate = figure(&report["rate_that_keeps_95_hz"]);
    assert!((rate - 0.02).abs() < 0.003, "{rate}");
    assert!((figure(&report["sd_w"]).powi(2) - 2.02).abs() < 0.01, "{}", report["sd_w"]);
    let text = told(&nightwatt(&["meters", "--spectrum", &file]));
    assert!(text.contains("half the rate, nothing is known"), "{text}");
    // Live, whatever comes of it.
    let args = ["meters", "--spectrum", "model", "-I", "10ms", "--for", "5s", "--json"];
    let live = json_of(&args);
    assert!(figure(&live["samples"]) >= 10.0 && live["missed_deadlines"].is_u64(), "{live}");
}

/// By scipy 1.17.1 of the same column (`scipy.signal.welch(x, 1000, nperseg=2048, noverlap=1024,
/// detrend=False)` of watts less their mean, then twice the frequency below which 95 % lie).
const SCIPY_RATE: f64 = 924.255_34;
const SCIPY_SD: f64 = 0.299_403_06;

#[test]
fn the_spectrum_of_a_real_daq_log_is_scipys() {
    let Some(data) = shared_data() else {
        println!("skipped: no shared data (NIGHTWATT_DATA)");
        return;
    };
    let log = data.join("power/daq/icelake_ddr4-32gb-3200-both_busywait_16fa508e.csv.gz");
    let file = format!("file={},sense=vdd:0:0.0025:100:4", log.display());
    let report = json_of(&["meters", "--spectrum", &file, "--json"]);
    let (rate, sd) = (figure(&report["rate_that_keeps_95_hz"]), figure(&report["sd_w"]));
    assert!((rate / SCIPY_RATE - 1.0).abs() < 1e-5, "{rate} {SCIPY_RATE}");
    assert!((sd / SCIPY_SD - 1.0).abs() < 1e-5, "{sd} {SCIPY_SD}");
}

#[test]
fn meters_that_are_recorded_together_are_calibrated_against_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let plug = write(&folder.path().join("a.csv"), 500, load);
    let other = write(&folder.path().join("b.csv"), 500, |time| 2.0 + 1.05 * load(time - 7.0));
    let played = |path: &str, name: &str| format!("file={path},speed=100,scope=wall,name={name}");
    let (plug, other) = (played(&plug, "plug"), played(&other, "other"));
    let path = folder.path().join("r.jsonl");
    let name = path.display().to_string();
    let args = ["record", "-o", &name, "-m", &other, "-m", &plug, "--reference", "plug"];
    let recorded = json_of(&[&args[..], &["--for", "6s", "--json"]].concat());
    let cross = &recorded["cross_calibration"][0];
    assert_eq!((&cross["meter"], &cross["reference"]), (&"other".into(), &"plug".into()));
    let value = |name: &str| figure(&cross["relation"][name]["value"]);
    assert!((value("scale") - 1.05).abs() < 0.01, "{cross}");
    assert!((value("offset") - 2.0).abs() < 0.5, "{cross}");
    // Seven seconds at a hundred times the speed, and what one began to play after the other.
    let text = fs::read_to_string(&path).unwrap();
    let rows: Vec<Value> =
        text.lines().skip(1).map(|it| serde_json::from_str(it).unwrap()).collect();
    let began = |meter: &str| {
        let first = rows.iter().find(|row| row["meter"] == meter).unwrap();
        first["mono_ns"].as_i64().unwrap() as f64 / 1e9
    };
    let lag = 0.07 + began("other") - began("plug");
    assert!((value("lag") - lag).abs() < 2e-3, "{lag} {cross}");
    let unknown = nightwatt(&["record", "-o", "x.csv", "-m", &plug, "--reference", "rack"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", told(&unknown));
}

/// A Python that reads Parquet by other hands than ours, and what it reads with.
pub(crate) fn python() -> Option<(String, &'static str)> {
    let named = std::env::var("NIGHTWATT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = |library: &&str| {
        let mut import = Command::new(&named);
        import.args(["-c", &format!("import {library}")]);
        import.output().is_ok_and(|output| output.status.success())
    };
    ["polars", "duckdb"].into_iter().find(has).map(|library| (named, library))
}

const POLARS: &str = "
import polars as pl, json, sys
rows = pl.read_parquet(sys.argv[1]).group_by('meter').agg(
    pl.col('joules').sum(), pl.col('covers_s').sum(), pl.len())
print(json.dumps({m: [j, c, n] for m, j, c, n in rows.rows()}))";

const DUCKDB: &str = "
import duckdb, json, sys
rows = duckdb.sql(f\"select meter, sum(joules), sum(covers_s), count(*) from '{sys.argv[1]}' group by meter\")
print(json.dumps({m: [j, c, n] for m, j, c, n in rows.fetchall()}))";

/// What the sources below come to, at a hundred times their speed.
struct Source {
    joules: f64,
    covered: f64,
    readings: u64,
}

/// Moments at uneven times, and twice nothing for more than two and a half of the usual seconds. The
/// integral is the sum of trapezoids between readings that are no further apart than that.
fn moments(path: &Path) -> Source {
    let mut text = "time,watts\n".to_owned();
    let (mut millis, mut before) = (0_u64, None::<(u64, f64)>);
    let mut source = Source { joules: 0.0, covered: 0.0, readings: 0 };
    for index in 0..200_u64 {
        let watts = 40.0 + (index * index % 83) as f64 / 8.0;
        writeln!(text, "{}.{:03},{watts}", millis / 1000, millis % 1000).unwrap();
        if let Some((then, power)) = before.filter(|(then, _)| millis - then <= 2500) {
            let time = (millis - then) as f64 / 1000.0;
            source.joules += f64::midpoint(power, watts) * time;
            source.covered += time;
        }
        source.readings += 1;
        before = Some((millis, watts));
        // Mostly a second, and anything from 0.4 s to 1.7 s.
        millis += match index % 5 {
            0 => 400 + index % 13 * 100,
            _ if index == 77 || index == 121 => 9_000,
            _ => 1000,
        };
    }
    fs::write(path, text).unwrap();
    source
}

/// Means over two seconds, one after the other, of which some are missing.
fn means(path: &Path) -> Source {
    let mut text = "time,watts\n".to_owned();
    let mut source = Source { joules: 0.0, covered: 0.0, readings: 0 };
    for index in (0..100_u32).filter(|index| !matches!(index, 30 | 31 | 64)) {
        let watts = 20.0 + f64::from(index * 37 % 64) / 4.0;
        writeln!(text, "{},{watts}", 2 * index).unwrap();
        source.joules += watts * 2.0;
        source.covered += 2.0;
        source.readings += 1;
    }
    fs::write(path, text).unwrap();
    source
}

/// A counter of 15.3 µJ that wraps at 2^32, as an older recording has it: a reading each second.
fn counts(path: &Path) -> Source {
    let mut text = concat!(
        r#"{"meta":{"schema":1,"mono_ns":0,"meters":[{"name":"rapl","interval_s":1.0,"#,
        r#""channels":[{"name":"package-0","scope":"package","kind":"measured","#,
        r#""accuracy":{"relative":0.05,"watts":0.0},"accuracy_source":"assumed","#,
        r#""joules_per_count":1.53e-5,"counter_range":4294967296,"counter_most_w":1200.0}]}]}}"#,
        "\n"
    )
    .to_owned();
    let mut counter = (1_u64 << 32) - 5_000_000;
    let mut source = Source { joules: 0.0, covered: 0.0, readings: 0 };
    for second in 1..150_i64 {
        let step = 2_000_000 + (second.unsigned_abs() * 7919 % 1_000_003);
        let first = second == 1;
        let shown = (counter + if first { 0 } else { step }) % (1 << 32);
        counter = shown;
        let joules = (!first).then_some(step as f64 * 1.53e-5);
        let row = json!({"time": format!("2026-03-01T12:{:02}:{:02}Z", second / 60, second % 60),
            "mono_ns": second * 1_000_000_000, "meter": "rapl", "channel": "package-0",
            "watts": joules, "counter": shown, "over_s": null, "joules": joules,
            "covers_s": joules.map(|_| 1.0), "gap": null});
        writeln!(text, "{row}").unwrap();
        source.joules += joules.unwrap_or(0.0);
        source.covered += f64::from(u8::from(!first));
        source.readings += 1;
    }
    fs::write(path, text).unwrap();
    source
}

#[test]
fn polars_or_duckdb_find_in_a_recording_the_integral_of_its_source() {
    let Some((python, library)) = python() else {
        println!("skipped: no Python with polars or duckdb (`tools/polars` makes one)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let sources = [
        ("moments", moments(&file("moments.csv"))),
        ("means", means(&file("means.csv"))),
        ("rapl", counts(&file("counts.jsonl"))),
    ];
    let spec = |name: &str, more: &str| format!("file={},speed=100,{more}", file(name).display());
    let recording = file("r.parquet").display().to_string();
    // 200 s at most at a hundred times the speed; what is due is read at the end at the latest.
    let output = program()
        .args(["record", "-o", &recording, "--for", "3s", "--json"])
        .args(["-m", &spec("moments.csv", "name=moments")])
        .args(["-m", &spec("means.csv", "name=means,mean=2s")])
        .args(["-m", &spec("counts.jsonl", "name=rapl")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let script = if library == "polars" { POLARS } else { DUCKDB };
    let output = Command::new(python).args(["-c", script, &recording]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, source) in sources {
        let close = |what: &str, found: f64, expected: f64| {
            let expected = expected / 100.0;
            let off = (found / expected - 1.0).abs();
            assert!(off <= 1e-9, "{name}, {what} by {library}: {found} {expected}");
        };
        close("joules", figure(&read[name][0]), source.joules);
        close("covered", figure(&read[name][1]), source.covered);
        assert_eq!(read[name][2], source.readings, "{name}");
        let told = said["channels"].as_array().unwrap().iter().find(|it| it["meter"] == name);
        close("covered as told", figure(&told.unwrap()["covered_s"]), source.covered);
        println!("{name}: {} by {library}", read[name]);
    }
}
