//! ioping: text, `-B` (one line of raw numbers) and `-J` (JSON).
//!
//! It tells two things: how long requests took without the pauses between them, and how many were
//! sent in the whole run, warm-up and pauses included. Power is drawn all the time, so the second is
//! what operations and duration come from; the first is the disk's speed.

use std::time::Duration;

use serde_json::Value;

use crate::error::ReadError;
use crate::json;
use crate::number::{BINARY, BYTES, amount, count, seconds, sized, thousands, time};
use crate::outcome::Better::{Higher, Lower};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::text::{between, line_only};
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "ioping",
    about: "latency of single requests to a disk",
    example: "ioping -B -c 1000 -i 0 /var/tmp",
    main: "iops",
    reader: read,
};

const NS: f64 = 1e-9;

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    if json::is_json(output) {
        let document = json::document(output);
        return from_json(&document.unwrap_or(Ok(Value::Null))?, output);
    }
    // With `-p` such lines are also among the others, one for each while.
    if output.stdout.contains(" requests completed in ") {
        return from_text(output);
    }
    let mut lines = output.stdout.lines().filter_map(batch);
    match (lines.next(), lines.next()) {
        (Some(words), None) => from_batch(&words, output),
        (Some(_), Some(_)) => Err(ReadError::Several),
        (None, _) => from_text(output),
    }
}

/// A line of ten numbers.
fn batch(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |word: &&str| word.starts_with(|it: char| it.is_ascii_digit());
    (words.len() >= 10 && words.iter().all(is_number)).then_some(words)
}

/// The figures that all forms have: times in seconds.
struct Totals {
    iops: f64,
    throughput: f64,
    /// Least, mean, most, deviation.
    times: [f64; 4],
    sent: u64,
    whole: f64,
}

impl Totals {
    fn outcome(&self, output: &Output<'_>) -> Result<Outcome, ReadError> {
        if self.sent == 0 {
            return Err(ReadError::no_operations("request", output));
        }
        let mut outcome = Outcome::default();
        outcome.operations(self.sent, "requests");
        outcome.duration = Some(seconds("the time of the run", self.whole)?);
        outcome.add("iops", self.iops, unit::PER_SECOND, Higher);
        outcome.add("throughput", self.throughput, unit::BYTES_PER_SECOND, Higher);
        let names = ["latency_min", "latency_mean", "latency_max", "latency_sd"];
        for (name, value) in names.into_iter().zip(self.times) {
            outcome.add(name, value, unit::SECONDS, Lower);
        }
        Ok(outcome)
    }
}

/// Requests, their time, iops, bytes/s, least, mean, most, deviation; then all requests and the
/// time of the run. Times in nanoseconds.
fn from_batch(words: &[&str], output: &Output<'_>) -> Result<Outcome, ReadError> {
    let value = |at: usize| amount("a figure of the line", words[at]);
    Totals {
        iops: value(2)?,
        throughput: value(3)?,
        times: [value(4)? * NS, value(5)? * NS, value(6)? * NS, value(7)? * NS],
        sent: count("requests", words[8])?,
        whole: value(9)? * NS,
    }
    .outcome(output)
}

fn from_json(document: &Value, output: &Output<'_>) -> Result<Outcome, ReadError> {
    let items = document.as_array().map_or(&[][..], Vec::as_slice);
    let mut lasts = items.iter().filter(|item| item.get("stat").is_some());
    let last = lasts.next().ok_or_else(|| ReadError::missing("`stat` in the JSON", output))?;
    if lasts.next().is_some() {
        return Err(ReadError::Several);
    }
    let value = |pointer: &str| json::number(last, pointer);
    let found = Totals {
        iops: value("/stat/iops")?,
        throughput: value("/stat/bps")?,
        times: [
            value("/stat/min")? * NS,
            value("/stat/avg")? * NS,
            value("/stat/max")? * NS,
            value("/stat/mdev")? * NS,
        ],
        sent: json::count(last, "/load/count")?,
        whole: value("/load/time")? * NS,
    };
    let mut outcome = found.outcome(output)?;
    for item in items.iter().filter(|item| item.get("io").is_some()) {
        if item.pointer("/io/ignored") != Some(&Value::Bool(true)) {
            outcome.responses.push(Duration::from_nanos(json::count(item, "/io/time")?));
        }
    }
    Ok(outcome)
}

/// `9 requests completed in 615.2 us, 36 KiB read, 14.6 k iops, 57.1 MiB/s` and two lines more.
fn from_text(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let line = |what: &str| {
        line_only(output.stdout, what)?
            .ok_or_else(|| ReadError::missing(format!("line `.. {} ..`", what.trim()), output))
    };
    let completed = line(" requests completed in ")?;
    let generated = line("generated ")?;
    let times = line("min/avg/max/mdev = ")?;
    // Versions before 1.0 do not have all parts.
    let part = |end: &str| {
        let part = completed.split(", ").find_map(|part| part.strip_suffix(end));
        part.ok_or_else(|| ReadError::missing(format!("`..{end}`"), output))
    };
    let (iops, bytes) = (part(" iops")?, part("/s")?);
    let sent = between(generated, "generated ", " requests in ").unwrap_or_default();
    let whole = between(generated, " requests in ", ",").unwrap_or_default();
    let mut all = [0.0; 4];
    let mut parts = times.split_once(" = ").map_or("", |(_, rest)| rest).split(" / ");
    for value in &mut all {
        *value = time("latency", parts.next().unwrap_or_default())?;
    }
    let found = Totals {
        iops: thousands("iops", iops)?,
        throughput: sized("throughput", bytes, BYTES, BINARY)?,
        times: all,
        sent: thousands("requests", sent)?.round() as u64,
        whole: time("the time of the run", whole)?,
    };
    let mut outcome = found.outcome(output)?;
    if sent.ends_with(|it: char| it.is_alphabetic()) {
        outcome
            .warn(format!("the number of requests is rounded ({sent}): `ioping -B` tells it all"));
    }
    for request in output.stdout.lines().filter(|line| line.contains(": request=")) {
        if request.contains("(warmup)") {
            continue;
        }
        let took = request.split_once(" time=").map_or("", |(_, rest)| rest);
        // Others have remarks behind their time.
        let took = took.split(" (").next().unwrap_or_default();
        outcome.responses.push(seconds("time of a request", time("time of a request", took)?)?);
    }
    Ok(outcome)
}
