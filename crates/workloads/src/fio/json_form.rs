//! `--output-format=json`.

use serde_json::Value;

use super::{DIRECTIONS, Latency, Side};
use crate::error::ReadError;
use crate::json::{self, count, number};
use crate::number;
use crate::output::Output;
use crate::quote;

const NS: f64 = 1e-9;
const MS: f64 = 1e-3;

pub(super) fn read(document: &Value, output: &Output<'_>) -> Result<Vec<Side>, ReadError> {
    let version = document["fio version"].as_str().unwrap_or_default();
    // Version 2 printed bytes in KiB under the same name.
    if !version.starts_with("fio-") || ["fio-1.", "fio-2."].iter().any(|it| version.starts_with(it))
    {
        let what = format!("`fio version` is `{}`, and 3 or later is known", quote::short(version));
        return Err(ReadError::Contradiction { what });
    }
    let jobs = json::at(document, "/jobs")?.as_array().map_or(&[][..], Vec::as_slice);
    let mut sides = Vec::new();
    for job in jobs {
        if json::count_or_none(job, "/error")? != 0 {
            let error = count(job, "/error")?;
            let name = job["jobname"].as_str().unwrap_or_default();
            let said = output.stderr.lines().find(|line| line.contains("err="));
            let said = said.map_or_else(|| format!("job {name}: error {error}"), str::to_owned);
            return Err(ReadError::failed(&said));
        }
        for (direction, name) in DIRECTIONS.into_iter().enumerate() {
            let Some(side) = job.get(name) else { continue };
            let ios = count(side, "/total_ios")?;
            if ios == 0 {
                continue;
            }
            sides.push(Side {
                group: json::count_or_none(job, "/groupid")?,
                direction,
                ios,
                bytes: number(side, "/io_bytes")?,
                run: number(side, "/runtime")? * MS,
                latency: latency(side)?,
                percentiles: percentiles(side)?,
            });
        }
    }
    Ok(sides)
}

/// From the request to its end (`lat`); where that is switched off, from its submission (`clat`).
fn latency(side: &Value) -> Result<Option<Latency>, ReadError> {
    for form in ["lat_ns", "clat_ns"] {
        let Some(times) = side.get(form) else { continue };
        if json::count_or_none(times, "/N")? == 0 {
            continue;
        }
        return Ok(Some(Latency {
            min: number(times, "/min")? * NS,
            mean: number(times, "/mean")? * NS,
            max: number(times, "/max")? * NS,
        }));
    }
    Ok(None)
}

fn percentiles(side: &Value) -> Result<Vec<(f64, f64)>, ReadError> {
    for form in ["lat_ns", "clat_ns"] {
        let Some(found) = side.get(form).and_then(|it| it.get("percentile")?.as_object()) else {
            continue;
        };
        let mut all = Vec::new();
        for (percent, time) in found {
            let percent = number::amount("percentile", percent)?;
            all.push((percent, number(time, "")? * NS));
        }
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        return Ok(all);
    }
    Ok(Vec::new())
}
