//! `nightwatt load --json`.

use serde_json::Value;

use crate::error::ReadError;
use crate::json::{self, count, number, perhaps};
use crate::number::seconds;
use crate::outcome::Better::{Higher, Lower};
use crate::outcome::{Outcome, Percentile, unit};
use crate::output::Output;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "nightwatt-load",
    about: "answers of a web server to requests at times of our own making",
    example: "nightwatt load http://10.0.0.2/ --rate 200 --for 1m --warm-up 5s --json",
    main: "requests_per_second",
    reader: read,
};

/// The form that is read.
const SCHEMA: u64 = 1;

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let document = json::document(output)
        .ok_or_else(|| ReadError::missing("JSON (run it with `--json`)", output))??;
    let schema = count(&document, "/schema")?;
    if schema != SCHEMA {
        let what = format!("`/schema` is {schema}, and only {SCHEMA} is known");
        return Err(ReadError::Contradiction { what });
    }
    let answered = count(&document, "/requests/answered")?;
    if answered == 0 {
        let error = output.stderr.lines().find(|line| line.starts_with("error:"));
        return Err(match error {
            Some(error) => ReadError::failed(error),
            None => ReadError::no_operations("request", output),
        });
    }
    let mut outcome = Outcome::default();
    outcome.operations(answered, "requests");
    let counted = number(&document, "/counted_s")?;
    outcome.duration = Some(seconds("/counted_s", counted)?);
    let rate = number(&document, "/rate/answered")?;
    outcome.add("requests_per_second", rate, unit::PER_SECOND, Higher);
    for (of, name) in [
        ("latency_s", "latency"),
        ("service_s", "service_time"),
        ("first_byte_s", "first_byte"),
        ("send_lag_s", "send_lag"),
    ] {
        for key in ["mean", "max"] {
            if let Some(value) = perhaps(&document, &format!("/{of}/{key}"))? {
                outcome.add(format!("{name}_{key}"), value, unit::SECONDS, Lower);
            }
        }
    }
    for (key, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99_9", 99.9)] {
        if let Some(time) = perhaps(&document, &format!("/latency_s/{key}"))? {
            let time = seconds("percentile", time)?;
            outcome.percentiles.push(Percentile { percent, time });
        }
    }
    if counted > 0.0 {
        let throughput = number(&document, "/body_bytes")? / counted;
        outcome.add("throughput", throughput, unit::BYTES_PER_SECOND, Higher);
    }
    outcome.errors =
        count(&document, "/requests/failed")?.saturating_add(count(&document, "/requests/unsent")?);
    let status = |class: &str| json::count_or_none(&document, &format!("/statuses/{class}"));
    let bad = status("4xx")?.saturating_add(status("5xx")?);
    outcome.bad_statuses(bad, answered);
    let warnings = document["warnings"].as_array().into_iter().flatten();
    outcome.warnings.extend(warnings.filter_map(Value::as_str).map(str::to_owned));
    Ok(outcome)
}
