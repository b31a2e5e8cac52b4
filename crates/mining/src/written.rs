//! Dates, hash rates and rows of tables as people write them.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::Path;

use crate::pure::Exact;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use nightwatt_energy::civil;

use super::Error;

/// Seconds of a day.
pub const SECONDS_PER_DAY: i64 = 86_400;

/// More than this is no table of days or devices.
const MOST_BYTES: u64 = 64 << 20;

/// No coin is older, and no history younger.
const YEARS: RangeInclusive<i16> = 1990..=2200;

/// Units of hash rates, and their powers of ten.
const UNITS: [(&str, i32); 7] =
    [("", 0), ("k", 3), ("m", 6), ("g", 9), ("t", 12), ("p", 15), ("e", 18)];

/// `1 Mhash/s`, `110 TH/s`, `1e6`: hashes a second.
///
/// # Errors
/// What is no number with such a unit, and 0.
pub fn hash_rate(text: &str) -> Result<Exact, Error> {
    let bad = || {
        let shown: String = text.chars().take(60).collect();
        Error::Text(format!(
            "`{shown}` is no hash rate; write a number and a unit, as in `1 Mhash/s` or `110 TH/s`"
        ))
    };
    let lower = text.trim().to_lowercase();
    let unitless = ["hashes/s", "hash/s", "h/s", "sol/s"].iter();
    let rest = unitless.clone().find_map(|unit| lower.strip_suffix(unit));
    let (number, power) = match rest {
        None => (lower.as_str(), 0),
        Some(rest) => {
            let rest = rest.trim_end();
            let unit = rest.chars().last().filter(char::is_ascii_alphabetic);
            let unit = unit.map(String::from).unwrap_or_default();
            let (_, power) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
            (&rest[..rest.len() - unit.len()], *power)
        }
    };
    let number: Exact = number.trim().parse().map_err(|_| bad())?;
    if number.is_zero() {
        return Err(Error::Text(
            "a hash rate of 0 never finds a block; give one above 0, as in `1 Mhash/s`".to_owned(),
        ));
    }
    Ok(number * format!("1e{power}").parse::<Exact>()?)
}

/// A date as days since 1970.
///
/// # Errors
/// What is no date.
pub fn day_of(text: &str) -> Result<i64, Error> {
    let bad = || {
        let shown: String = text.chars().take(60).collect();
        Error::Text(format!("`{shown}` is no date; write it as in 2016-04-01, from 1990 to 2200"))
    };
    let date: Date = text.trim().parse().map_err(|_| bad())?;
    Ok(second(date.to_datetime(jiff::civil::Time::midnight())).ok_or_else(bad)? / SECONDS_PER_DAY)
}

/// A civil time in UTC, as seconds since 1970.
fn second(time: DateTime) -> Option<i64> {
    let second = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    YEARS.contains(&time.year()).then_some(second)
}

/// A date, or a time with its zone or without one (which is UTC), as seconds since 1970.
pub(super) fn second_of(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return second(time.to_zoned(jiff::tz::TimeZone::UTC).datetime());
    }
    second(text.strip_suffix(" UTC").unwrap_or(text).parse().ok()?)
}

/// `2016-04-01`, of days since 1970.
pub(super) fn date(day: i64) -> String {
    civil::Date::from_days(day).to_string()
}

/// The year of a day, in days since the epoch of Unix.
pub(super) fn year_of(day: i64) -> i64 {
    civil::Date::from_days(day).year()
}

/// The text of a file that is a table.
pub(super) fn text_of(path: &Path) -> Result<String, Error> {
    // A pipe or a device does not tell its length beforehand.
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(io::Error::other("it is longer than 64 MiB, and no table of this kind"));
        }
        Ok(text)
    };
    read().map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// A row of a table: its number, and its cells.
pub(super) struct Row<'a> {
    pub(super) line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// A cell, if it is there and not empty.
    pub(super) fn cell(&self, column: Option<usize>) -> Option<&'a str> {
        column.and_then(|column| self.cells.get(column).copied()).filter(|cell| !cell.is_empty())
    }
}

/// The heading and the rows of comma-separated values. Lines that are empty or begin with `#` do not
/// count; cells may stand in quotes.
pub(super) fn table<'a>(name: &str, text: &'a str) -> Result<(Vec<String>, Vec<Row<'a>>), Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let empty = Error::Empty {
        name: name.to_owned(),
        what: "nothing",
        hint: "its first line names its columns, and each further line is a row",
    };
    let (_, heading) = lines.next().ok_or(empty)?;
    let heading: Vec<String> = cells(heading).iter().map(|cell| cell.to_lowercase()).collect();
    let mut rows = Vec::new();
    for (line, text) in lines {
        let cells = cells(text);
        if cells.len() != heading.len() {
            let why = format!(
                "it has {} cells, and the heading {}; write one for each column, empty where nothing \
                 is known",
                cells.len(),
                heading.len()
            );
            return Err(Error::Line { name: name.to_owned(), line, why });
        }
        rows.push(Row { line, cells });
    }
    Ok((heading, rows))
}

/// Cells between commas that do not stand in quotes.
fn cells(line: &str) -> Vec<&str> {
    let mut quoted = false;
    let split = line.split(|c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    split.map(|cell| cell.trim().trim_matches('"').trim()).collect()
}
