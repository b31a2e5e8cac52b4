//! CSV and JSON lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use nightwatt_report::csv::quoted;
use serde::Serialize;

use super::rows::{Names, Row, gap_name};
use super::{Format, Writer, create};
use crate::error::MeterError;

/// A line, in the order of the columns.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    mono_ns: i64,
    meter: &'a str,
    channel: &'a str,
    watts: Option<f64>,
    counter: Option<i64>,
    over_s: Option<f64>,
    joules: Option<f64>,
    covers_s: Option<f64>,
    gap: Option<&'static str>,
}

const HEADER: &str = "time,mono_ns,meter,channel,watts,counter,over_s,joules,covers_s,gap";

pub(super) struct Lines {
    file: BufWriter<File>,
    path: PathBuf,
    format: Format,
    names: Names,
}

impl Lines {
    pub(super) fn create(
        path: &Path,
        format: Format,
        names: Names,
        meta: &str,
    ) -> Result<Self, MeterError> {
        let mut file = BufWriter::new(create(path)?);
        let first = match format {
            Format::Csv => writeln!(file, "# {meta}\n{HEADER}"),
            Format::JsonLines | Format::Parquet => writeln!(file, "{{\"meta\":{meta}}}"),
        };
        let mut lines = Self { file, path: path.to_owned(), format, names };
        first.and_then(|()| lines.file.flush()).map_err(|error| lines.failed(error))?;
        Ok(lines)
    }

    fn failed(&self, error: std::io::Error) -> MeterError {
        MeterError::Io { what: format!("write {}", self.path.display()), error }
    }

    fn line(&self, row: &Row) -> String {
        let (meter, channel) = self.names.get(row.name);
        let line = Line {
            time: rfc3339(row.time_ns.into()),
            mono_ns: row.mono_ns,
            meter,
            channel,
            watts: row.watts,
            counter: row.counter,
            over_s: row.over_s,
            joules: row.joules,
            covers_s: row.covers_s,
            gap: row.gap.map(gap_name),
        };
        if self.format == Format::JsonLines {
            return serde_json::to_string(&line).unwrap_or_default();
        }
        let number = |number: Option<f64>| number.map(|it| it.to_string()).unwrap_or_default();
        [
            line.time,
            line.mono_ns.to_string(),
            quoted(line.meter).into_owned(),
            quoted(line.channel).into_owned(),
            number(line.watts),
            line.counter.map(|counter| counter.to_string()).unwrap_or_default(),
            number(line.over_s),
            number(line.joules),
            number(line.covers_s),
            line.gap.unwrap_or_default().to_owned(),
        ]
        .join(",")
    }
}

/// `2026-11-21T20:15:38.123456789Z`; nothing for what lies beyond the year 9999.
pub fn rfc3339(ns: i128) -> String {
    let time = jiff::Timestamp::from_nanosecond(ns);
    time.map(|time| format!("{time:.9}")).unwrap_or_default()
}

impl Writer for Lines {
    fn write(&mut self, rows: &[Row]) -> Result<(), MeterError> {
        for row in rows {
            let line = self.line(row);
            writeln!(self.file, "{line}").map_err(|error| self.failed(error))?;
        }
        self.file.flush().map_err(|error| self.failed(error))
    }

    fn close(&mut self) -> Result<(), MeterError> {
        self.file.flush().map_err(|error| self.failed(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_date_has_them() {
        // date -u -d @1774000799.5 +%FT%T.%NZ, and so on.
        for (time, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_827_696_000_000_001, "2000-02-29T12:34:56.000000001Z"),
            (1_735_689_599_999_999_999, "2024-12-31T23:59:59.999999999Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
        ] {
            assert_eq!(rfc3339(time), text);
        }
    }
}
