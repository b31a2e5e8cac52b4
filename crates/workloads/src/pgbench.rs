//! pgbench, `PostgreSQL`'s own: versions 9.6 to 18.
//!
//! `transactions / tps` is the time in which they ran. It is a measured time, where `duration:` is
//! only the one that was asked for, and it leaves out connecting as `tps` does.

use crate::error::ReadError;
use crate::number::{amount, count, seconds};
use crate::outcome::Better::{Higher, Lower, Neither};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::text::{after, after_only, between, word_after};
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "pgbench",
    about: "transactions of a PostgreSQL server",
    example: "pgbench -n -T 300 -c 8 -j 4 bench",
    main: "tps",
    reader: read,
};

const MS: f64 = 1e-3;

/// Times since 1970 in seconds are larger than that; numbers of clients are not.
const EPOCH: u64 = 100_000_000;

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    // Figures of single scripts come after those of all.
    let (all, scripts) = match output.stdout.find("\nSQL script ") {
        Some(at) => output.stdout.split_at(at),
        None => (output.stdout, ""),
    };
    let mut outcome = Outcome::default();
    let processed = after_only(output.stdout, "number of transactions actually processed:")?
        .ok_or_else(|| ReadError::missing("number of transactions", output))?;
    let (done, wanted) = match processed.split_once('/') {
        Some((done, wanted)) => (done, Some(count("number of transactions", wanted)?)),
        None => (processed, None),
    };
    let done = count("number of transactions", done)?;
    if done == 0 {
        return Err(ReadError::no_operations("transaction", output));
    }
    outcome.operations(done, "transactions");
    let tps = tps(all, output)?;
    outcome.add("tps", tps, unit::PER_SECOND, Higher);
    if tps <= 0.0 {
        let what = format!("{done} transactions ran at {tps} a second");
        return Err(ReadError::Contradiction { what });
    }
    outcome.duration = Some(seconds("the time of the run", done as f64 / tps)?);
    times(all, &mut outcome)?;
    failures(all, &mut outcome)?;
    if let Some(wanted) = wanted.filter(|wanted| *wanted > done) {
        outcome.warn(format!("{done} of {wanted} transactions were done"));
    }
    if output.stderr.contains("Run was aborted") || output.stderr.contains("aborted in") {
        outcome.warn("clients were aborted: the figures are those of a part of the run");
    }
    settings(all, &mut outcome)?;
    statements(all, "", &mut outcome)?;
    each_script(scripts, &mut outcome)?;
    logs(output.files, &mut outcome)?;
    outcome.compare_listed(done);
    Ok(outcome)
}

/// Without the time it took to connect, as all versions can tell it; where every transaction
/// connects, with it.
fn tps(all: &str, output: &Output<'_>) -> Result<f64, ReadError> {
    let lines = || all.lines().filter_map(|line| line.trim().strip_prefix("tps = "));
    let line = lines()
        .find(|line| !line.contains("(including connections establishing)"))
        .or_else(|| lines().next())
        .ok_or_else(|| ReadError::missing("line `tps = ..`", output))?;
    amount("tps", line.split_whitespace().next().unwrap_or_default())
}

fn times(all: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    for (line, name, better) in [
        ("latency average", "latency_mean", Lower),
        ("latency stddev", "latency_sd", Lower),
        ("initial connection time", "connection_time", Neither),
        ("average connection time", "connection_time_mean", Lower),
    ] {
        // Up to version 9.6 it is `latency average: 1.5 ms`.
        let Some(rest) = after(all, line) else { continue };
        let rest = rest.trim_start_matches([' ', '=', ':']);
        let (value, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if !rest.starts_with("ms") {
            return Err(ReadError::unit(line, rest));
        }
        outcome.add(name, amount(line, value)? * MS, unit::SECONDS, better);
        if rest.contains("including failures") {
            outcome.warn("the mean latency includes failed transactions");
        }
    }
    if let Some(lag) = after(all, "rate limit schedule lag:") {
        for (word, name) in [("avg", "schedule_lag_mean"), ("max", "schedule_lag_max")] {
            let value = amount("schedule lag", word_after(lag, word).unwrap_or_default())?;
            outcome.add(name, value * MS, unit::SECONDS, Lower);
        }
    }
    Ok(())
}

fn failures(all: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    for (line, name, is_error) in [
        ("number of failed transactions:", "failed", true),
        ("number of serialization failures:", "serialization_failures", false),
        ("number of deadlock failures:", "deadlock_failures", false),
        ("number of transactions retried:", "retried", false),
        ("total number of retries:", "retries", false),
        ("number of transactions skipped:", "skipped", true),
    ] {
        let Some(rest) = after(all, line) else { continue };
        let number = count(name, rest.split_whitespace().next().unwrap_or_default())?;
        outcome.add(name, number as f64, unit::COUNT, Lower);
        if is_error {
            outcome.errors = outcome.errors.saturating_add(number);
        }
    }
    if let Some(late) = after(all, "number of transactions above the") {
        let late = between(late, "limit: ", "(").unwrap_or_default();
        let late = late.split('/').next().unwrap_or_default();
        outcome.add("late", count("late transactions", late)? as f64, unit::COUNT, Lower);
    }
    Ok(())
}

fn settings(all: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    for (line, name) in [
        ("scaling factor:", "scale"),
        ("number of clients:", "clients"),
        ("number of threads:", "threads"),
    ] {
        if let Some(rest) = after(all, line) {
            outcome.add(name, count(name, rest)? as f64, unit::COUNT, Neither);
        }
    }
    Ok(())
}

/// `-r`: a line of `0.042  0  BEGIN;` each; before version 15 without the failures.
fn statements(text: &str, prefix: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    let is_head = |line: &str| line.contains("statement latencies in milliseconds");
    let mut lines = text.lines().skip_while(|line| !is_head(line));
    let Some(head) = lines.next() else { return Ok(()) };
    let with_failures = head.contains("failures");
    for (index, line) in lines.take_while(|line| line.starts_with("  ")).enumerate() {
        let mut words = line.split_whitespace();
        let what = format!("{prefix}statement_{}", index + 1);
        let mean = amount(&what, words.next().unwrap_or_default())?;
        outcome.add(format!("{what}_latency"), mean * MS, unit::SECONDS, Lower);
        if with_failures {
            let failures = count(&what, words.next().unwrap_or_default())?;
            outcome.add(format!("{what}_failures"), failures as f64, unit::COUNT, Lower);
        }
    }
    Ok(())
}

fn each_script(scripts: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    for (index, script) in scripts.split("\nSQL script ").skip(1).enumerate() {
        let prefix = format!("script_{}_", index + 1);
        let done = script.lines().find(|line| line.contains(" transactions ("));
        if let Some(line) = done {
            let number = line.trim_start_matches([' ', '-']).split(' ').next().unwrap_or_default();
            let number = count("transactions of a script", number)? as f64;
            outcome.add(format!("{prefix}transactions"), number, unit::COUNT, Neither);
            if let Some(tps) = between(line, "tps = ", ")") {
                let tps = amount("tps of a script", tps)?;
                outcome.add(format!("{prefix}tps"), tps, unit::PER_SECOND, Higher);
            }
        }
        for (line, name) in
            [("- latency average = ", "latency_mean"), ("- latency stddev = ", "latency_sd")]
        {
            let Some(value) = after(script, line).and_then(|rest| rest.strip_suffix(" ms")) else {
                continue;
            };
            let value = amount("latency of a script", value)? * MS;
            outcome.add(format!("{prefix}{name}"), value, unit::SECONDS, Lower);
        }
        statements(script, &prefix, outcome)?;
    }
    Ok(())
}

/// Files of `-l`: client, transaction, time in microseconds, script, seconds and microseconds of its
/// end. Where the time is a word, the transaction failed or was skipped.
fn logs(files: &[&str], outcome: &mut Outcome) -> Result<(), ReadError> {
    let mut broken = 0_u64;
    for line in files.iter().flat_map(|file| file.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [client, _, time, _, end, _, ..] = words[..] else {
            broken += u64::from(!words.is_empty());
            continue;
        };
        let is_whole = client.parse().is_ok_and(|client: u64| client < EPOCH)
            && end.parse().is_ok_and(|end: u64| end >= EPOCH);
        if !is_whole {
            broken += 1;
        } else if !matches!(time, "skipped" | "failed" | "serialization" | "deadlock" | "other") {
            let time = count("time of a transaction", time)?;
            outcome.responses.push(std::time::Duration::from_micros(time));
        }
    }
    if broken > 0 {
        outcome.warn(format!(
            "{broken} lines of the logs are not of single transactions (leave --aggregate-interval \
             out) or cut off, and were left out"
        ));
    }
    Ok(())
}
