use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::*;

/// A load that changes smoothly, at no common period.
fn load(time: f64) -> f64 {
    60.0 + 15.0 * (time / 7.0).sin() + 9.0 * (time / 3.1 + 1.0).sin() + 5.0 * (time / 23.0).cos()
}

/// Seconds from noon of 2026-03-01, every `step` of them, and what `power` says there.
fn write(folder: &Path, name: &str, (from, step): (f64, f64), power: impl Fn(f64) -> f64) {
    let mut text = "time,watts\n".to_owned();
    let mut time = from;
    while time < from + 600.0 {
        // 2026-03-01 12:00:00 UTC is 1772366400, by date -d.
        writeln!(text, "{:.3},{:.6}", 1_772_366_400.0 + time, power(time)).unwrap();
        time += step;
    }
    fs::write(folder.join(name), text).unwrap();
}

fn options(folder: &Path, [meter, reference]: [&str; 2]) -> CheckOptions {
    let side = |file: &str| Side {
        spec: format!("file={}/{file}", folder.display()).parse().unwrap(),
        channel: None,
    };
    CheckOptions {
        meter: side(meter),
        reference: side(reference),
        time: Duration::from_secs(1),
        interval: None,
        longest_lag: Duration::from_secs(10),
    }
}

fn checked(folder: &Path, files: [&str; 2]) -> Result<CheckReport, Error> {
    run(&options(folder, files), &Stop::new().unwrap(), |_| ())
}

#[test]
fn two_recordings_of_one_load_tell_scale_offset_and_lag() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "reference.csv", (0.0, 0.25), load);
    // Begins 100 s later, is 1.3 s late, reads 5 % and 2 W too much.
    write(folder, "meter.csv", (100.0, 1.0), |time| 2.0 + 1.05 * load(time - 1.3));
    let report = checked(folder, ["meter.csv", "reference.csv"]).unwrap();
    let relation = report.check.relation.as_ref().unwrap();
    assert!((relation.scale.value - 1.05).abs() < 2e-3, "{relation:?}");
    assert!((relation.offset.value.get() - 2.0).abs() < 0.1, "{relation:?}");
    assert!((relation.lag.value - 1.3).abs() < 0.01, "{relation:?}");
    // From 100 s to the end of the reference at 599.75 s.
    assert!((report.overlap_s - 499.75).abs() < 1e-6, "{}", report.overlap_s);
    assert_eq!((report.meter.readings, report.reference.readings), (600, 2400));
    // 5 % and 5 %, as squares add, of 60 W.
    assert!((report.allowed.get() - 4.24).abs() < 0.1, "{}", report.allowed);
    // 2 W + 5 % of 60 W are 5 W.
    let mean = report.check.mean_error.get();
    let chance = report.check.mean_error_95.unwrap().get();
    assert!((mean - 5.0).abs() < 0.1 && chance < 1.0, "{mean} {chance}");
    let said = report.verdict.join("\n");
    for words in ["%) more", "divided by 1.05", "1.300 s late", "scatters"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn a_meter_that_agrees_is_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Alternating noise, so that nothing fits better than the truth.
    let noise = |time: f64| if (time as u64).is_multiple_of(2) { 0.1 } else { -0.1 };
    write(folder, "reference.csv", (0.0, 0.25), load);
    write(folder, "meter.csv", (0.0, 1.0), |time| load(time) + noise(time));
    let report = checked(folder, ["meter.csv", "reference.csv"]).unwrap();
    let said = report.verdict.join("\n");
    assert!(said.contains("within what the two state"), "{said}");
    assert!(said.contains("scale and offset are those of the reference"), "{said}");
    assert!(!said.contains(" late") && !said.contains("light load"), "{said}");
}

#[test]
fn a_steady_load_says_nothing_of_the_scale() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "reference.csv", (0.0, 1.0), |_| 50.0);
    write(folder, "meter.csv", (0.0, 1.0), |_| 52.0);
    let report = checked(folder, ["meter.csv", "reference.csv"]).unwrap();
    assert_eq!(report.check.relation, None);
    assert!((report.check.mean_error.get() - 2.0).abs() < 1e-9);
    assert!(report.warnings[0].contains("cannot be known; change the load"), "{report:?}");
}

#[test]
fn what_cannot_be_compared_is_refused_with_what_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.csv", (0.0, 1.0), load);
    write(folder, "b.csv", (700.5, 1.0), load);
    let error = |files| checked(folder, files).unwrap_err().to_string();
    let same = error(["a.csv", "a.csv"]);
    assert!(same.contains("both the meter and the reference"), "{same}");
    let apart = error(["a.csv", "b.csv"]);
    assert!(apart.contains("lie 101.500 s apart"), "{apart}");
    let mut named = options(folder, ["a.csv", "b.csv"]);
    named.meter.channel = Some("volts".to_owned());
    let unknown = run(&named, &Stop::new().unwrap(), |_| ()).unwrap_err().to_string();
    assert!(unknown.contains("no channel `volts`, but `watts`"), "{unknown}");
}

#[test]
fn recordings_without_the_time_of_day_are_taken_to_begin_together() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows = |power: f64| {
        let row = |second: u32| format!("{second},{}\n", power * load(f64::from(second)));
        format!("time,watts\n{}", (0..300).map(row).collect::<String>())
    };
    fs::write(folder.join("a.csv"), rows(1.1)).unwrap();
    fs::write(folder.join("b.csv"), rows(1.0)).unwrap();
    let report = checked(folder, ["a.csv", "b.csv"]).unwrap();
    assert!(report.warnings[0].contains("begin at the same moment"), "{:?}", report.warnings);
    assert!((report.check.relation.unwrap().scale.value - 1.1).abs() < 1e-6);
}
