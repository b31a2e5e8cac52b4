//! httperf, and the modified one that writes a line per answer before its report: when it was asked
//! for (seconds since 1970), and how long it took (seconds).

use std::time::Duration;

use crate::error::ReadError;
use crate::number::{BINARY, amount, count, seconds};
use crate::outcome::Better::{self, Higher, Lower, Neither};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::text::{after, after_only, word_after};
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "httperf",
    about: "answers of a web server to requests at a rate",
    example: "httperf --server 10.0.0.2 --uri /index.html --num-conns 33434 --rate 10 --timeout 10",
    main: "replies_per_second",
    reader: read,
};

/// Seconds since 1970 are more.
const EPOCH: f64 = 1e8;

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let text = output.stdout;
    let total =
        after_only(text, "Total:")?.ok_or_else(|| ReadError::missing("line `Total:`", output))?;
    let of_total = |word: &str| count(word, word_after(total, word).unwrap_or_default());
    let replies = of_total("replies")?;
    let duration = word_after(total, "test-duration").unwrap_or_default();
    let duration = amount("test-duration", duration)?;
    if replies == 0 {
        let errors = after(text, "Errors:").map(|errors| format!("Errors: {errors}"));
        return Err(match errors {
            Some(errors) if !errors.contains("total 0 ") => ReadError::failed(&errors),
            _ => ReadError::no_operations("reply", output),
        });
    }
    // Its last line: without it the number of errors is unknown.
    if !text.lines().any(|line| line.starts_with("Errors: fd-unavail")) {
        return Err(ReadError::missing("line `Errors: fd-unavail ..`", output));
    }
    let mut outcome = Outcome::default();
    outcome.operations(replies, "requests");
    outcome.duration = Some(seconds("test-duration", duration)?);
    if duration <= 0.0 {
        let what = format!("{replies} replies took {duration} s");
        return Err(ReadError::Contradiction { what });
    }
    // Its own `Reply rate` is a mean over samples of 5 s, and 0 where there was none.
    outcome.add("replies_per_second", replies as f64 / duration, unit::PER_SECOND, Higher);
    for (word, name) in [("connections", "connections"), ("requests", "requests")] {
        outcome.add(name, of_total(word)? as f64, unit::COUNT, Neither);
    }
    report(text, &mut outcome)?;
    statuses(text, replies, &mut outcome)?;
    errors(text, &mut outcome)?;
    each_answer(text, &mut outcome)?;
    outcome.compare_listed(replies);
    Ok(outcome)
}

/// Line, its words (empty: the first number), the figure's name, factor, unit.
type Row = (&'static str, &'static str, &'static str, f64, &'static str, Better);

const MS: f64 = 1e-3;
const REPORT: &[Row] = &[
    ("Maximum connect burst length:", "", "connect_burst_max", 1.0, unit::COUNT, Neither),
    ("Connection rate:", "", "connections_per_second", 1.0, unit::PER_SECOND, Higher),
    ("Connection time [ms]: min", "min", "connection_time_min", MS, unit::SECONDS, Lower),
    ("Connection time [ms]: min", "avg", "connection_time_mean", MS, unit::SECONDS, Lower),
    ("Connection time [ms]: min", "max", "connection_time_max", MS, unit::SECONDS, Lower),
    ("Connection time [ms]: min", "median", "connection_time_median", MS, unit::SECONDS, Lower),
    ("Connection time [ms]: min", "stddev", "connection_time_sd", MS, unit::SECONDS, Lower),
    ("Connection time [ms]: connect", "", "connect_time_mean", MS, unit::SECONDS, Lower),
    ("Connection length [replies/conn]:", "", "replies_per_connection", 1.0, unit::COUNT, Neither),
    ("Request rate:", "", "requests_per_second", 1.0, unit::PER_SECOND, Higher),
    ("Request size [B]:", "", "request_size", 1.0, unit::BYTES, Neither),
    ("Reply time [ms]:", "response", "response_time_mean", MS, unit::SECONDS, Lower),
    ("Reply time [ms]:", "transfer", "transfer_time_mean", MS, unit::SECONDS, Lower),
    ("Reply size [B]:", "header", "reply_header_size", 1.0, unit::BYTES, Neither),
    ("Reply size [B]:", "content", "reply_content_size", 1.0, unit::BYTES, Neither),
    ("Reply size [B]:", "footer", "reply_footer_size", 1.0, unit::BYTES, Neither),
    ("Reply size [B]:", "total", "reply_size", 1.0, unit::BYTES, Neither),
    ("CPU time [s]:", "user", "cpu_user", 1.0, unit::SECONDS, Lower),
    ("CPU time [s]:", "system", "cpu_system", 1.0, unit::SECONDS, Lower),
];

/// Means over samples of 5 s: only where there were some.
const SAMPLES: &[Row] = &[
    ("Reply rate [replies/s]:", "min", "reply_rate_min", 1.0, unit::PER_SECOND, Higher),
    ("Reply rate [replies/s]:", "avg", "reply_rate_mean", 1.0, unit::PER_SECOND, Higher),
    ("Reply rate [replies/s]:", "max", "reply_rate_max", 1.0, unit::PER_SECOND, Higher),
    ("Reply rate [replies/s]:", "stddev", "reply_rate_sd", 1.0, unit::PER_SECOND, Lower),
];

fn report(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    rows(text, REPORT, outcome)?;
    if let Some(rate) = after(text, "Connection rate:").and_then(|it| it.split_once("<=")) {
        let most = rate.1.split(' ').next().unwrap_or_default();
        let most = count("concurrent connections", most)?;
        outcome.add("concurrent_connections_max", most as f64, unit::COUNT, Neither);
    }
    if let Some(rate) = after(text, "Reply rate [replies/s]:") {
        let samples = rate.rsplit_once('(').and_then(|(_, it)| it.split(' ').next());
        let samples = count("samples of the reply rate", samples.unwrap_or_default())?;
        outcome.add("reply_rate_samples", samples as f64, unit::COUNT, Neither);
        if samples > 0 {
            rows(text, SAMPLES, outcome)?;
        }
    }
    if let Some(net) = after(text, "Net I/O:") {
        let mut words = net.split_whitespace();
        let rate = amount("Net I/O", words.next().unwrap_or_default())?;
        match words.next() {
            Some("KB/s") => {
                outcome.add("throughput", rate * BINARY, unit::BYTES_PER_SECOND, Higher);
            }
            other => return Err(ReadError::unit("Net I/O", other.unwrap_or_default())),
        }
    }
    // `(user 23.9% system 76.1% total 100.0%)`
    let shares = after(text, "CPU time [s]:").and_then(|line| line.split_once('('));
    let shares = shares.map(|(_, rest)| rest.replace('%', " "));
    for (word, name) in
        [("user", "cpu_user_share"), ("system", "cpu_system_share"), ("total", "cpu_share")]
    {
        let Some(shares) = &shares else { continue };
        let share = amount("share of the processor", word_after(shares, word).unwrap_or_default())?;
        outcome.add(name, share, unit::PERCENT, Neither);
    }
    Ok(())
}

fn rows(text: &str, rows: &[Row], outcome: &mut Outcome) -> Result<(), ReadError> {
    for &(line, word, name, factor, unit, better) in rows {
        let Some(rest) = text.lines().find(|it| it.starts_with(line)) else { continue };
        let value = match word {
            "" => rest[line.len()..].split_whitespace().next(),
            word => word_after(rest, word),
        };
        let value = amount(name, value.unwrap_or_default())?;
        outcome.add(name, value * factor, unit, better);
    }
    Ok(())
}

/// `Reply status: 1xx=0 2xx=31781 3xx=2 4xx=1641 5xx=0`
fn statuses(text: &str, replies: u64, outcome: &mut Outcome) -> Result<(), ReadError> {
    let Some(line) = after(text, "Reply status:") else { return Ok(()) };
    let mut bad = 0_u64;
    for word in line.split_whitespace() {
        let Some((class, number)) = word.split_once('=') else { continue };
        let number = count("replies of a status", number)?;
        outcome.add(format!("status_{class}"), number as f64, unit::COUNT, Neither);
        if matches!(class, "4xx" | "5xx") {
            bad = bad.saturating_add(number);
        }
    }
    outcome.bad_statuses(bad, replies);
    Ok(())
}

/// Two lines of `name number`.
fn errors(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    for line in text.lines().filter_map(|line| line.strip_prefix("Errors:")) {
        let mut words = line.split_whitespace();
        while let (Some(name), Some(number)) = (words.next(), words.next()) {
            let number = count("errors", number)?;
            if name == "total" {
                outcome.errors = number;
            } else {
                let name = format!("errors_{}", name.replace('-', "_"));
                outcome.add(name, number as f64, unit::COUNT, Lower);
            }
        }
    }
    Ok(())
}

fn each_answer(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(at), Some(took), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if at.parse().is_ok_and(|at: f64| at > EPOCH) {
            let took = amount("time of an answer", took)?;
            let took: Duration = seconds("time of an answer", took)?;
            outcome.responses.push(took);
        }
    }
    Ok(())
}
