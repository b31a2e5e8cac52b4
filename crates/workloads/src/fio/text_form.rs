//! The normal form.

use super::{DIRECTIONS, Latency, Side};
use crate::error::ReadError;
use crate::number::{BYTES, DECIMAL, amount, count, sized, thousands, time, time_unit};
use crate::output::Output;
use crate::text::{self, between};

pub(super) fn read(output: &Output<'_>) -> Result<Vec<Side>, ReadError> {
    let whole = output.texts().find(|text| text.contains("Run status group"));
    let text = whole.ok_or_else(|| ReadError::missing("line `Run status group ..`", output))?;
    // `--status-interval`: each report has all jobs again.
    if text.lines().filter(|line| line.starts_with("Run status group 0")).count() > 1 {
        return Err(ReadError::Several);
    }
    let mut jobs = Jobs::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.contains("(groupid=") {
            if jobs.waits {
                return Err(ReadError::missing("line `issued rwts: ..` of a job", output));
            }
            jobs.begin(line)?;
        } else if let Some(issued) = issued(line) {
            jobs.issued(issued)?;
        } else if let Some((direction, rest)) = direction(line) {
            jobs.side(direction, rest)?;
        } else if let Some((form, rest)) = latency(line) {
            jobs.latency(form, rest)?;
        } else if let Some(unit) = percentiles(line) {
            jobs.forget_percentiles();
            while let Some(row) = lines.next_if(|line| line.trim_start().starts_with('|')) {
                jobs.percentiles(unit, row)?;
            }
        }
    }
    if jobs.waits {
        return Err(ReadError::missing("line `issued rwts: ..` of a job", output));
    }
    jobs.sides.retain(|side| side.ios > 0);
    Ok(jobs.sides)
}

#[derive(Default)]
struct Jobs {
    sides: Vec<Side>,
    group: u64,
    /// Index of the first side of the job that is read.
    first: usize,
    /// For how many operations the job did.
    waits: bool,
}

impl Jobs {
    /// `name: (groupid=0, jobs=2): err= 0: pid=..`
    fn begin(&mut self, line: &str) -> Result<(), ReadError> {
        self.first = self.sides.len();
        let group = between(line, "(groupid=", ",").unwrap_or_default();
        self.group = count("groupid", group)?;
        match line.split_once("err=").map(|(_, rest)| rest.trim_start()) {
            Some(rest) if !rest.starts_with("0:") => Err(ReadError::failed(line)),
            _ => Ok(()),
        }
    }

    /// `IOPS=51.1k, BW=200MiB/s (209MB/s)(200MiB/1001msec)`
    fn side(&mut self, direction: usize, rest: &str) -> Result<(), ReadError> {
        let amount =
            rest.rsplit_once('(').and_then(|(_, it)| it.split_once(')')?.0.split_once('/'));
        let (bytes, run) = amount.ok_or_else(|| ReadError::number("bytes of a job", rest))?;
        self.waits = true;
        self.sides.push(Side {
            group: self.group,
            direction,
            bytes: sized("bytes of a job", bytes, BYTES, DECIMAL)?,
            run: time("time of a job", run)?,
            ..Side::default()
        });
        Ok(())
    }

    /// `min=158, max=4140, avg=295.40, stdev=690.02`, in the unit of `lat (usec)`.
    fn latency(&mut self, form: &str, rest: &str) -> Result<(), ReadError> {
        let (kind, unit) = form.split_once(" (").unwrap_or((form, ""));
        let unit = time_unit("latency", unit.trim_end_matches(')'))?;
        let value = |name: &str| {
            let value = text::word_after(&rest.replace('=', " "), name).map(str::to_owned);
            thousands("latency", value.as_deref().unwrap_or_default()).map(|it| it * unit)
        };
        let latency = Latency { min: value("min")?, mean: value("avg")?, max: value("max")? };
        if let Some(side) = self.sides[self.first..].last_mut() {
            // `clat` comes first, and `lat`, if it is there, is the whole of it.
            if kind != "slat" {
                side.latency = Some(latency);
            }
        }
        Ok(())
    }

    /// Those from the request on (`lat`) come after those from its submission (`clat`), and count.
    fn forget_percentiles(&mut self) {
        if let Some(side) = self.sides[self.first..].last_mut() {
            side.percentiles.clear();
        }
    }

    /// `|  1.00th=[    434],  5.00th=[    564],`
    fn percentiles(&mut self, unit: &str, row: &str) -> Result<(), ReadError> {
        let unit = time_unit("percentiles", unit)?;
        let Some(side) = self.sides[self.first..].last_mut() else { return Ok(()) };
        for cell in row.trim_start_matches([' ', '|']).split("],") {
            let Some((percent, value)) = cell.split_once("th=[") else { continue };
            let percent = amount("percentile", percent)?;
            let value = amount("percentile", value.trim_end_matches([' ', ']']))?;
            side.percentiles.push((percent, value * unit));
        }
        Ok(())
    }

    /// `707,317,0,0 short=..`
    fn issued(&mut self, issued: &str) -> Result<(), ReadError> {
        self.waits = false;
        let totals = issued.split_whitespace().next().unwrap_or_default();
        for (direction, total) in totals.split(',').take(DIRECTIONS.len()).enumerate() {
            let total = count("issued", total)?;
            let mut sides = self.sides[self.first..].iter_mut();
            if let Some(side) = sides.find(|side| side.direction == direction) {
                side.ios = total;
            }
        }
        Ok(())
    }
}

fn issued(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("issued rwt")?;
    rest.split_once("total=").map(|(_, rest)| rest)
}

/// `  read: IOPS=..`, with the index of its direction.
fn direction(line: &str) -> Option<(usize, &str)> {
    let (name, rest) = line.trim_start().split_once(':')?;
    let direction = DIRECTIONS.iter().position(|it| *it == name.trim())?;
    rest.trim_start().starts_with("IOPS=").then_some((direction, rest))
}

/// `     lat (usec): min=..`, but not the histogram, `  lat (usec)   : 250=95.31%`.
fn latency(line: &str) -> Option<(&str, &str)> {
    let (form, rest) = line.trim_start().split_once("): ")?;
    let is_one = ["slat (", "clat (", "lat ("].iter().any(|kind| form.starts_with(kind));
    (is_one && rest.trim_start().starts_with("min=")).then_some((form, rest))
}

/// The unit of `clat percentiles (nsec):`, but not of the times until a submission.
fn percentiles(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let is_one = line.starts_with("clat percentiles (") || line.starts_with("lat percentiles (");
    if is_one { between(line, "(", ")") } else { None }
}
