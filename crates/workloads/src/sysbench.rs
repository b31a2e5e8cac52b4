//! sysbench 1.0: cpu, memory, fileio, threads, mutex, and the database tests (oltp).
//!
//! What is general comes from the last section, which all of its tests have.

use crate::error::ReadError;
use crate::number::{BINARY, BYTES, amount, count, seconds, sized, time};
use crate::outcome::Better::{Higher, Lower, Neither};
use crate::outcome::{Outcome, Percentile, unit};
use crate::output::Output;
use crate::quote::last_words;
use crate::text::{after, after_only, between};
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "sysbench",
    about: "events of its tests: prime numbers, blocks of memory, file operations, transactions",
    example: "sysbench cpu --cpu-max-prime=20000 --threads=4 --time=60 run",
    main: "events_per_second",
    reader: read,
};

const MS: f64 = 1e-3;

/// Times are printed to 0.1 ms: below that they are off by more than a thousandth.
const TOLD_WELL: f64 = 0.05;

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let text = output.stdout;
    if let Some(said) = text.lines().chain(output.stderr.lines()).find(|it| it.starts_with("FATAL"))
    {
        return Err(ReadError::failed(said));
    }
    let missing = |what: &str| ReadError::missing(what, output);
    let events = after_only(text, "total number of events:")?
        .ok_or_else(|| missing("line `total number of events:`"))?;
    let events = count("number of events", events)?;
    let total = after(text, "total time:").ok_or_else(|| missing("line `total time:`"))?;
    let total = time("total time", total)?;
    if events == 0 {
        return Err(ReadError::NoOperations { what: "event", last: last_words(output) });
    }
    let mut outcome = Outcome::default();
    outcome.operations(events, "events");
    if total > 0.0 {
        outcome.duration = Some(seconds("total time", total)?);
    }
    outcome.add("total_time", total, unit::SECONDS, Lower);
    if total < TOLD_WELL {
        outcome.warn(
            "the run is so short that its time, told to 0.1 ms, says little: let it run longer",
        );
    }
    rates(text, &mut outcome)?;
    if outcome.figure(TOOL.main).is_none() {
        if total <= 0.0 {
            let what = format!("{events} events took {total} s");
            return Err(ReadError::Contradiction { what });
        }
        outcome.add(TOOL.main, events as f64 / total, unit::PER_SECOND, Higher);
    }
    database(text, &mut outcome)?;
    latencies(text, &mut outcome)?;
    if let Some(threads) = after(text, "Number of threads:") {
        outcome.add("threads", count("threads", threads)? as f64, unit::COUNT, Neither);
    }
    Ok(outcome)
}

/// What single tests say of their speed.
fn rates(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    if let Some(rate) = after(text, "events per second:") {
        let rate = amount("events per second", rate)?;
        outcome.add("events_per_second", rate, unit::PER_SECOND, Higher);
    }
    if let Some(line) = after(text, "Total operations:") {
        let rate = between(line, "(", " per second").unwrap_or_default();
        let rate = amount("operations per second", rate)?;
        outcome.add("events_per_second", rate, unit::PER_SECOND, Higher);
    }
    if let Some(line) = text.lines().find(|line| line.contains(" transferred (")) {
        let rate = between(line, "transferred (", "/sec").unwrap_or_default();
        let rate = sized("throughput", rate, BYTES, BINARY)?;
        outcome.add("throughput", rate, unit::BYTES_PER_SECOND, Higher);
    }
    for (line, name) in [
        ("reads/s:", "reads_per_second"),
        ("writes/s:", "writes_per_second"),
        ("fsyncs/s:", "fsyncs_per_second"),
    ] {
        if let Some(rate) = after(text, line) {
            outcome.add(name, amount(line, rate)?, unit::PER_SECOND, Higher);
        }
    }
    for (line, name) in
        [("read, MiB/s:", "read_throughput"), ("written, MiB/s:", "write_throughput")]
    {
        if let Some(rate) = after(text, line) {
            let rate = amount(line, rate)? * BINARY * BINARY;
            outcome.add(name, rate, unit::BYTES_PER_SECOND, Higher);
        }
    }
    Ok(())
}

/// `transactions:   10   (9.86 per sec.)`
fn database(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    for (line, name) in [("transactions:", "transactions"), ("queries:", "queries")] {
        let Some(rest) = after(text, line) else { continue };
        let rate = amount(name, between(rest, "(", " per sec").unwrap_or_default())?;
        outcome.add(format!("{name}_per_second"), rate, unit::PER_SECOND, Higher);
        let number = count(name, rest.split_whitespace().next().unwrap_or_default())?;
        if name == "transactions" && number > 0 {
            outcome.operations(number, "transactions");
        }
    }
    if let Some(rest) = after(text, "ignored errors:") {
        outcome.errors = count("errors", rest.split_whitespace().next().unwrap_or_default())?;
    }
    Ok(())
}

fn latencies(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    let Some(at) = text.find("Latency (ms):") else { return Ok(()) };
    let text = &text[at..];
    let mut rounded_away = false;
    for (line, name) in [("min:", "latency_min"), ("avg:", "latency_mean"), ("max:", "latency_max")]
    {
        let Some(value) = after(text, line) else { continue };
        let value = amount(name, value)?;
        outcome.add(name, value * MS, unit::SECONDS, Lower);
        rounded_away |= value <= 0.0;
    }
    let percentile = text.lines().find_map(|line| line.trim().split_once("th percentile:"));
    if let Some((percent, value)) = percentile {
        let (percent, value) = (amount("percentile", percent)?, amount("percentile", value)?);
        let time = seconds("percentile", value * MS)?;
        outcome.percentiles.push(Percentile { percent, time });
        rounded_away |= value <= 0.0;
    }
    if rounded_away {
        outcome.warn("latencies are told to 0.01 ms: those of 0 are shorter than that");
    }
    Ok(())
}
