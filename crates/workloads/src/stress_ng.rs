//! stress-ng: `--yaml FILE`, `--metrics` and `--metrics-brief`.
//!
//! Bogo operations of different stressors are different things: only those of a single stressor are
//! the operations of the run.

use crate::error::ReadError;
use crate::number::{amount, count, seconds};
use crate::outcome::Better::{self, Higher, Neither};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "stress-ng",
    about: "bogo operations of stressors: processor, memory, kernel",
    example: "stress-ng --cpu 4 --cpu-method fft -t 60 --metrics --yaml metrics.yaml",
    main: "bogo_ops_per_second",
    reader: read,
};

/// Of one stressor.
#[derive(Default)]
struct Stressor {
    name: String,
    operations: Option<u64>,
    /// The names of [`FIGURES`] with their values.
    figures: Vec<(&'static str, f64)>,
}

/// Key of the YAML, our name, factor, unit; in the order of the columns of the table from the third
/// on.
const FIGURES: [(&str, &str, f64, &str, Better); 7] = [
    ("wall-clock-time", "time", 1.0, unit::SECONDS, Neither),
    ("user-time", "cpu_user", 1.0, unit::SECONDS, Neither),
    ("system-time", "cpu_system", 1.0, unit::SECONDS, Neither),
    ("bogo-ops-per-second-real-time", "bogo_ops_per_second", 1.0, unit::PER_SECOND, Higher),
    ("bogo-ops-per-second-usr-sys-time", "bogo_ops_per_cpu_second", 1.0, unit::PER_SECOND, Higher),
    ("cpu-usage-per-instance", "cpu_share_of_an_instance", 1.0, unit::PERCENT, Neither),
    // Told in KB of 1024 bytes, as `getrusage` does.
    ("max-rss", "memory_max", 1024.0, unit::BYTES, Neither),
];

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let yaml = output.texts().find(|text| text.lines().any(|line| line.trim_end() == "metrics:"));
    let stressors = match yaml {
        Some(text) => from_yaml(text)?,
        None => from_table(output)?,
    };
    let one_of = |line: &str| match yaml {
        Some(_) => line.trim_end() == "metrics:",
        None => line.contains("run completed in"),
    };
    if output.texts().flat_map(str::lines).filter(|line| one_of(line)).nth(1).is_some() {
        return Err(ReadError::Several);
    }
    // Further stressors may follow where it was cut off, and then nothing is as it seems.
    let mut lines = output.texts().flat_map(str::lines);
    let ended = match yaml {
        Some(text) => text.lines().any(|line| line == "..."),
        None => lines.any(|line| line.contains("run completed in")),
    };
    if !ended {
        return Err(ReadError::missing(
            "end of the metrics (`...`, or `run completed in`)",
            output,
        ));
    }
    if stressors.is_empty() {
        return Err(ReadError::missing("metrics (run it with `--metrics`)", output));
    }
    let mut outcome = Outcome::default();
    let alone = stressors.len() == 1;
    for stressor in &stressors {
        let operations = stressor
            .operations
            .ok_or_else(|| ReadError::missing(format!("bogo ops of {}", stressor.name), output))?;
        if operations == 0 {
            return Err(ReadError::no_operations("bogo operation", output));
        }
        let name_of =
            |name: &str| if alone { name.to_owned() } else { format!("{}_{name}", stressor.name) };
        for (_, name, factor, unit, better) in FIGURES {
            let value = stressor.figures.iter().find(|(it, _)| *it == name);
            if let Some((_, value)) = value {
                outcome.add(name_of(name), value * factor, unit, better);
            }
        }
        if alone {
            outcome.operations(operations, "bogo operations");
        } else {
            outcome.add(name_of("bogo_ops"), operations as f64, unit::COUNT, Higher);
        }
    }
    let longest = stressors.iter().flat_map(|it| &it.figures).filter(|(name, _)| *name == "time");
    let longest = longest.map(|(_, time)| *time).fold(0.0, f64::max);
    if longest > 0.0 {
        outcome.duration = Some(seconds("time", longest)?);
    }
    if !alone {
        outcome.warn(
            "bogo operations of different stressors are different things and are not added up: run \
             one stressor at a time to have energy per operation",
        );
    }
    if outcome.figure(TOOL.main).is_none() && alone {
        return Err(ReadError::missing("bogo operations a second", output));
    }
    ending(output, &mut outcome);
    Ok(outcome)
}

/// What stress-ng itself thinks of the run: `failed: 0`, `metrics untrustworthy: 0` since 0.16.
fn ending(output: &Output<'_>, outcome: &mut Outcome) {
    let says = |what: &str| output.texts().flat_map(str::lines).any(|line| line.contains(what));
    if says("unsuccessful run") || says(": fail:") {
        outcome.warn("stress-ng calls the run unsuccessful");
    }
    for what in ["failed", "metrics untrustworthy"] {
        if says(&format!("] {what}: ")) && !says(&format!("] {what}: 0")) {
            outcome.warn(format!("stress-ng says of some stressors: {what}"));
        }
    }
}

/// A list under `metrics:`; the values are plain numbers, and nothing of YAML beyond that is used.
fn from_yaml(text: &str) -> Result<Vec<Stressor>, ReadError> {
    let mut all: Vec<Stressor> = Vec::new();
    let list = text.lines().skip_while(|line| line.trim_end() != "metrics:").skip(1);
    for line in list {
        let entry = line.trim();
        // With `--yaml /dev/stdout` the messages are in between.
        if line.starts_with("stress-ng:") {
            continue;
        }
        // The next section begins where a line does.
        if !line.starts_with(' ') && !entry.is_empty() {
            break;
        }
        let Some((key, value)) = entry.split_once(": ") else { continue };
        if key == "- stressor" {
            all.push(Stressor { name: value.trim().to_owned(), ..Stressor::default() });
            continue;
        }
        let Some(stressor) = all.last_mut() else { continue };
        if key == "bogo-ops" {
            stressor.operations = Some(count(key, value)?);
        } else if let Some(figure) = FIGURES.iter().find(|figure| figure.0 == key) {
            stressor.figures.push((figure.1, amount(key, value)?));
        }
    }
    Ok(all)
}

/// `stress-ng: metrc: [21985] matrix  4896  2.00  0.94  0.00  2446.01  5187.64`
fn from_table(output: &Output<'_>) -> Result<Vec<Stressor>, ReadError> {
    let mut all = Vec::new();
    let mut in_table = false;
    for line in output.texts().flat_map(str::lines) {
        let Some(row) = line.split_once("stress-ng: ").and_then(|(_, it)| it.split_once("] "))
        else {
            continue;
        };
        let words: Vec<&str> = row.1.split_whitespace().collect();
        if words.starts_with(&["stressor", "bogo", "ops"]) {
            in_table = true;
        }
        let [name, operations, figures @ ..] = &words[..] else { continue };
        let is_row = figures.len() >= 5
            && operations.starts_with(|it: char| it.is_ascii_digit())
            && figures.iter().all(|it| it.starts_with(|it: char| it.is_ascii_digit()));
        if !in_table || !is_row {
            continue;
        }
        let mut stressor = Stressor { name: (*name).to_owned(), ..Stressor::default() };
        stressor.operations = Some(count("bogo ops", operations)?);
        for (value, figure) in figures.iter().zip(FIGURES) {
            stressor.figures.push((figure.1, amount(figure.1, value)?));
        }
        all.push(stressor);
    }
    Ok(all)
}
