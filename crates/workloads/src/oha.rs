//! oha 1: `--output-format json`, and text.
//!
//! Its requests per second count failed ones too (those that were refused within a microsecond, say):
//! here the rate is that of answers.

use serde_json::Value;

use crate::error::ReadError;
use crate::json::{self, number, perhaps};
use crate::number::{BINARY, BYTES, amount, count, seconds, sized, time};
use crate::outcome::Better::{Higher, Lower, Neither};
use crate::outcome::{Outcome, Percentile, unit};
use crate::output::Output;
use crate::text::{after, after_only, between};
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "oha",
    about: "answers of a web server, closed or open loop",
    example: "oha --no-tui --output-format json -z 60s -q 1000 --latency-correction http://10.0.0.2/",
    main: "requests_per_second",
    reader: read,
};

/// Requests that were on their way when the time was over: no errors, as oha's own success rate has it.
const DEADLINE: &str = "aborted due to deadline";

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    match json::document(output) {
        Some(document) => from_json(&document?),
        None => from_text(output),
    }
}

/// What both forms tell. Statuses and errors by how often.
struct Totals {
    statuses: Vec<(u64, u64)>,
    errors: Vec<(String, u64)>,
    total: f64,
}

impl Totals {
    fn outcome(self) -> Result<Outcome, ReadError> {
        let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::saturating_add);
        let answered = sum(&mut self.statuses.iter().map(|it| it.1));
        if answered == 0 {
            let said = self.errors.first().map_or("no request was answered", |(error, _)| error);
            return Err(ReadError::failed(said));
        }
        if self.total <= 0.0 {
            let what = format!("{answered} requests took {} s", self.total);
            return Err(ReadError::Contradiction { what });
        }
        let mut outcome = Outcome::default();
        outcome.operations(answered, "requests");
        outcome.duration = Some(seconds("the time of the run", self.total)?);
        let rate = answered as f64 / self.total;
        outcome.add("requests_per_second", rate, unit::PER_SECOND, Higher);
        let (ended, failed): (Vec<_>, Vec<_>) =
            self.errors.iter().partition(|(error, _)| error == DEADLINE);
        outcome.errors = sum(&mut failed.iter().map(|it| it.1));
        let ended = sum(&mut ended.iter().map(|it| it.1));
        // Where there is no such line, it may have been cut off.
        if ended > 0 {
            outcome.add("unfinished", ended as f64, unit::COUNT, Neither);
        }
        let bad = self.statuses.iter().filter(|(status, _)| *status >= 400);
        outcome.bad_statuses(sum(&mut bad.map(|it| it.1)), answered);
        Ok(outcome)
    }
}

fn from_json(document: &Value) -> Result<Outcome, ReadError> {
    let object = |pointer: &str| {
        json::at(document, pointer).map(|it| it.as_object().cloned().unwrap_or_default())
    };
    let mut statuses = Vec::new();
    for (status, number) in object("/statusCodeDistribution")? {
        statuses.push((count("status", &status)?, json::count(&number, "")?));
    }
    let mut errors = Vec::new();
    for (error, number) in object("/errorDistribution")? {
        errors.push((error, json::count(&number, "")?));
    }
    let total = number(document, "/summary/total")?;
    let mut outcome = Totals { statuses, errors, total }.outcome()?;
    for (key, name) in
        [("average", "latency_mean"), ("fastest", "latency_min"), ("slowest", "latency_max")]
    {
        if let Some(value) = perhaps(document, &format!("/summary/{key}"))? {
            outcome.add(name, value, unit::SECONDS, Lower);
        }
    }
    if let Some(value) = perhaps(document, "/summary/sizePerSec")? {
        outcome.add("throughput", value, unit::BYTES_PER_SECOND, Higher);
    }
    for (percent, time) in object("/latencyPercentiles")? {
        let percent = amount("percentile", percent.trim_start_matches('p'))?;
        if !time.is_null() {
            let time = seconds("percentile", number(&time, "")?)?;
            outcome.percentiles.push(Percentile { percent, time });
        }
    }
    outcome.percentiles.sort_by(|one, other| one.percent.total_cmp(&other.percent));
    Ok(outcome)
}

fn from_text(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let text = output.stdout;
    let total = after(text, "Total:").ok_or_else(|| ReadError::missing("line `Total:`", output))?;
    let total = time("time of the run", total)?;
    let list = |head: &'static str| text.lines().skip_while(move |it| it.trim() != head).skip(1);
    let rows =
        |head: &'static str| list(head).take_while(|line| line.trim_start().starts_with('['));
    let mut statuses = Vec::new();
    for row in rows("Status code distribution:") {
        let status = count("status", between(row, "[", "]").unwrap_or_default())?;
        let number = row.split_once(']').map_or("", |(_, rest)| rest).split_whitespace().next();
        statuses.push((status, count("answers", number.unwrap_or_default())?));
    }
    if !text.lines().any(|line| line.trim() == "Status code distribution:") {
        return Err(ReadError::missing("`Status code distribution:`", output));
    }
    let mut errors = Vec::new();
    for row in rows("Error distribution:") {
        let number = count("errors", between(row, "[", "]").unwrap_or_default())?;
        let error = row.split_once(']').map_or("", |(_, rest)| rest).trim();
        errors.push((error.to_owned(), number));
    }
    let mut outcome = Totals { statuses, errors, total }.outcome()?;
    success_rate(text, &outcome, output)?;
    for (line, name) in
        [("Average:", "latency_mean"), ("Fastest:", "latency_min"), ("Slowest:", "latency_max")]
    {
        if let Some(value) = after(text, line) {
            outcome.add(name, time(name, value)?, unit::SECONDS, Lower);
        }
    }
    if let Some(rate) = after(text, "Size/sec:") {
        let rate = sized("Size/sec", rate, BYTES, BINARY)?;
        outcome.add("throughput", rate, unit::BYTES_PER_SECOND, Higher);
    }
    for row in list("Response time distribution:") {
        let Some((percent, value)) = row.split_once("% in ") else { break };
        let percent = amount("percentile", percent)?;
        let time = seconds("percentile", time("percentile", value)?)?;
        outcome.percentiles.push(Percentile { percent, time });
    }
    Ok(outcome)
}

/// The list of errors comes last: where it was cut off, the rate tells.
fn success_rate(text: &str, outcome: &Outcome, output: &Output<'_>) -> Result<(), ReadError> {
    let told = after_only(text, "Success rate:")?.and_then(|rate| rate.strip_suffix('%'));
    let told =
        amount("success rate", told.ok_or_else(|| ReadError::missing("success rate", output))?)?;
    let answered = outcome.operations.as_ref().map_or(0.0, |it| it.count as f64);
    let found = 100.0 * answered / (answered + outcome.errors as f64);
    if (told - found).abs() <= 0.011 {
        return Ok(());
    }
    let what =
        format!("a success rate of {told} % was told, and {found:.2} % of requests are listed");
    Err(ReadError::Contradiction { what })
}
