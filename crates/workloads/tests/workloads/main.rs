//! What tools printed here (`testdata/`), read. Every expected value is copied by hand from the file
//! that it is in, with the unit that it has there: `ms(0.88)` is `0.880 ms`.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read the outputs, and ask where the samples are"
)]
#![allow(
    clippy::unreadable_literal,
    clippy::inconsistent_digit_grouping,
    reason = "figures stand here as they stand in the files, so that they can be searched for"
)]

mod custom;
mod disks;
mod hostile;
mod networks;
mod postgresql;
mod processors;
mod published;
mod web;

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_workloads::{Outcome, Output, ReadError, tool};

/// An output that was kept.
#[derive(Debug, Clone)]
struct Kept {
    stdout: String,
    stderr: String,
    files: Vec<String>,
}

/// The folder of this package. Cargo says so when it runs the tests; what it said when they were built may be
/// another checkout, whose `CARGO_TARGET_DIR` is the same.
fn manifest_dir() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn testdata() -> PathBuf {
    manifest_dir().join("testdata")
}

impl Kept {
    /// `folder/name` of `testdata`.
    fn of(name: &str) -> Self {
        let part = |extension: &str| {
            std::fs::read_to_string(testdata().join(format!("{name}.{extension}"))).ok()
        };
        let (stdout, stderr) = (part("out"), part("err"));
        assert!(stdout.is_some() || stderr.is_some(), "there is no {name} in testdata");
        let files = [part("log"), part("yaml")].into_iter().flatten().collect();
        Self { stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default(), files }
    }

    fn read(&self, name: &str) -> Result<Outcome, ReadError> {
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        let output = Output { stdout: &self.stdout, stderr: &self.stderr, files: &files };
        tool(name).unwrap().read(&output)
    }
}

fn read(name: &str, kept: &str) -> Outcome {
    Kept::of(kept).read(name).unwrap_or_else(|error| panic!("{kept}: {error}"))
}

/// The error that an output of a run gives that failed.
fn refused(name: &str, kept: &str) -> String {
    match Kept::of(kept).read(name) {
        Ok(outcome) => panic!("{kept}: {outcome:?}"),
        Err(error) => error.to_string(),
    }
}

/// All figures, no more and no less: name, value, unit.
fn assert_figures(outcome: &Outcome, expected: &[(&str, f64, &str)]) {
    let names: Vec<&str> = outcome.figures.iter().map(|figure| figure.name.as_str()).collect();
    for (name, value, unit) in expected {
        let figure = outcome.figures.iter().find(|figure| figure.name == *name);
        let figure = figure.unwrap_or_else(|| panic!("there is no {name} in {names:?}"));
        let is_close = (figure.value - value).abs() <= value.abs() * 1e-9;
        assert!(is_close && figure.unit == *unit, "{figure:?} and not {value} {unit}");
    }
    let wanted: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
    let more: Vec<_> = names.iter().filter(|name| !wanted.contains(name)).collect();
    assert!(more.is_empty() && names.len() == wanted.len(), "more than expected: {more:?}");
}

/// Figures of `expected` among others.
fn assert_some(outcome: &Outcome, expected: &[(&str, f64, &str)]) {
    let wanted: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
    let mut outcome = outcome.clone();
    outcome.figures.retain(|figure| wanted.contains(&figure.name.as_str()));
    assert_figures(&outcome, expected);
}

fn assert_done(outcome: &Outcome, count: u64, what: &str, seconds: f64) {
    let operations = outcome.operations.as_ref().unwrap();
    assert_eq!((operations.count, operations.what.as_ref()), (count, what));
    let found = outcome.duration.unwrap().as_secs_f64();
    assert!((found - seconds).abs() <= seconds * 1e-6, "{found} s and not {seconds} s");
}

fn assert_percentiles(outcome: &Outcome, expected: &[(f64, f64)]) {
    let found: Vec<_> =
        outcome.percentiles.iter().map(|it| (it.percent, it.time.as_secs_f64())).collect();
    let is_close = |one: f64, other: f64| (one - other).abs() <= other.abs() * 1e-6;
    let all = found.iter().zip(expected);
    let same = all.into_iter().all(|(a, b)| is_close(a.0, b.0) && is_close(a.1, b.1));
    assert!(same && found.len() == expected.len(), "{found:?} and not {expected:?}");
}

fn micros(all: &[u64]) -> Vec<Duration> {
    all.iter().copied().map(Duration::from_micros).collect()
}

const fn ms(value: f64) -> f64 {
    value / 1e3
}

const fn us(value: f64) -> f64 {
    value / 1e6
}

const fn ns(value: f64) -> f64 {
    value / 1e9
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;
