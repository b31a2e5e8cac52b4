//! fio 3: its JSON, and its text.
//!
//! Jobs of a group run at the same time, and groups after each other: the time of the run is the sum
//! of the longest of each group. The text rounds bytes to three or four digits; the JSON does not.

mod json_form;
mod text_form;

use std::collections::BTreeMap;

use crate::error::ReadError;
use crate::number::seconds;
use crate::outcome::Better::{Higher, Lower};
use crate::outcome::{Outcome, Percentile, unit};
use crate::output::Output;
use crate::tool::Tool;
use crate::{json, quote};

pub(crate) const TOOL: Tool = Tool {
    name: "fio",
    about: "reads and writes of files and disks",
    example: "fio --output-format=json --group_reporting job.fio",
    main: "iops",
    reader: read,
};

/// What a job can do, in fio's order.
const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// What one job, or one group of them, did in one direction.
#[derive(Debug, Default, Clone)]
struct Side {
    group: u64,
    /// Of [`DIRECTIONS`].
    direction: usize,
    ios: u64,
    bytes: f64,
    /// From the first to the last, s.
    run: f64,
    latency: Option<Latency>,
    /// Percent and s.
    percentiles: Vec<(f64, f64)>,
}

/// Seconds.
#[derive(Debug, Clone, Copy)]
struct Latency {
    min: f64,
    mean: f64,
    max: f64,
}

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let sides = match json::document(output) {
        Some(document) => json_form::read(&document?, output)?,
        None => text_form::read(output)?,
    };
    let done: u64 = sides.iter().fold(0, |sum, side| sum.saturating_add(side.ios));
    if done == 0 {
        let errors = output.stderr.lines().chain(output.stdout.lines());
        return Err(
            match errors.into_iter().find(|it| it.contains("err") && !it.contains("err= 0")) {
                Some(said) if said.starts_with("fio: ") => ReadError::failed(said),
                _ => ReadError::NoOperations {
                    what: "read or write",
                    last: quote::last_words(output),
                },
            },
        );
    }
    let mut outcome = Outcome::default();
    outcome.operations(done, "reads and writes");
    let whole = run_time(sides.iter());
    if whole <= 0.0 {
        let what = format!("{done} reads and writes took no time (fio counts milliseconds)");
        return Err(ReadError::Contradiction { what });
    }
    outcome.duration = Some(seconds("the time of the run", whole)?);
    outcome.add("iops", done as f64 / whole, unit::PER_SECOND, Higher);
    let bytes: f64 = sides.iter().map(|side| side.bytes).sum();
    outcome.add("throughput", bytes / whole, unit::BYTES_PER_SECOND, Higher);
    if whole < 0.1 {
        outcome.warn(
            "fio counts milliseconds, and the run has less than a hundred: let it run longer",
        );
    }
    for direction in 0..DIRECTIONS.len() {
        let of_it: Vec<&Side> = sides.iter().filter(|it| it.direction == direction).collect();
        add_direction(&mut outcome, &of_it)?;
    }
    if let [only] = &sides[..] {
        for (percent, time) in &only.percentiles {
            let time = seconds("percentile", *time)?;
            outcome.percentiles.push(Percentile { percent: *percent, time });
        }
    }
    Ok(outcome)
}

/// Groups come after each other.
fn run_time<'a>(sides: impl Iterator<Item = &'a Side>) -> f64 {
    let mut groups = BTreeMap::<u64, f64>::new();
    for side in sides {
        let longest = groups.entry(side.group).or_default();
        *longest = longest.max(side.run);
    }
    groups.values().sum()
}

fn add_direction(outcome: &mut Outcome, sides: &[&Side]) -> Result<(), ReadError> {
    let Some(first) = sides.first() else { return Ok(()) };
    let name = DIRECTIONS[first.direction];
    let ios: f64 = sides.iter().map(|side| side.ios as f64).sum();
    let bytes: f64 = sides.iter().map(|side| side.bytes).sum();
    let run = run_time(sides.iter().copied());
    if run <= 0.0 {
        return Err(ReadError::Contradiction { what: format!("{ios} {name}s took no time") });
    }
    outcome.add(format!("{name}_iops"), ios / run, unit::PER_SECOND, Higher);
    outcome.add(format!("{name}_throughput"), bytes / run, unit::BYTES_PER_SECOND, Higher);
    // Of several jobs the mean is weighted, as if they had been one.
    let told: Vec<(f64, Latency)> =
        sides.iter().filter_map(|side| Some((side.ios as f64, side.latency?))).collect();
    if told.len() == sides.len() {
        let mean = told.iter().map(|(ios, it)| ios * it.mean).sum::<f64>() / ios;
        let min = told.iter().map(|(_, it)| it.min).fold(f64::INFINITY, f64::min);
        let max = told.iter().map(|(_, it)| it.max).fold(0.0, f64::max);
        outcome.add(format!("{name}_latency_min"), min, unit::SECONDS, Lower);
        outcome.add(format!("{name}_latency_mean"), mean, unit::SECONDS, Lower);
        outcome.add(format!("{name}_latency_max"), max, unit::SECONDS, Lower);
    }
    if let [only] = sides {
        for (percent, time) in &only.percentiles {
            if [50.0, 90.0, 99.0, 99.9].contains(percent) {
                let percent = percent.to_string().replace('.', "_");
                let name = format!("{name}_latency_p{percent}");
                outcome.add(name, *time, unit::SECONDS, Lower);
            }
        }
    }
    Ok(())
}
