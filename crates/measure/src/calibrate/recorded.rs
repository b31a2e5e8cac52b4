//! One channel of a recording, and tables of times within it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_meters::log::tables::Quantity;
use nightwatt_meters::log::{self, Options, Skipped};
use nightwatt_meters::sampler::Opened;
use nightwatt_meters::{Accuracy, Host, MeterSpec, recording};

use super::states::Readings;
use crate::error::Error;

/// Numbers of seconds from here on count from 1970, and others from the recording's beginning.
const SINCE_1970: f64 = 1e8;

/// What the recording says of its meter, or what is assumed of such recordings.
pub(super) fn accuracy_of(log: &MeterSpec, name: &str) -> Option<Accuracy> {
    let opened = Opened::open(&Host::default(), log).ok()?;
    let mut channels = opened.channels().iter();
    channels.find(|channel| channel.name == name).map(|channel| channel.accuracy)
}

/// Readings since a beginning, and when that was, in nanoseconds since 1970.
pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) readings: Readings,
    pub(super) begun_ns: Option<i64>,
    /// What was left out.
    pub(super) skipped: Option<Skipped>,
}

impl Recorded {
    /// One channel of a recording, as the meter `file` has it.
    pub(super) fn read(log: &MeterSpec, channel: Option<&str>) -> Result<Self, Error> {
        let path = PathBuf::from(log.address("night.parquet")?);
        if path.extension().is_some_and(|end| end == "parquet") {
            of_recording(&path, channel)
        } else {
            of_log(&path, log, channel)
        }
    }
}

fn since(ns: i64, begin: i64) -> Mono {
    Mono(Duration::from_nanos(u64::try_from(ns.saturating_sub(begin)).unwrap_or(0)))
}

fn of_recording(path: &Path, channel: Option<&str>) -> Result<Recorded, Error> {
    let mut names: Vec<String> = Vec::new();
    let mut rows: Vec<(i64, Reading)> = Vec::new();
    let (mut origin, mut wall) = (None, None);
    recording::read(path, |meter, name, row| {
        let whole = format!("{meter}/{name}");
        let wanted = channel.is_none_or(|channel| channel == name || channel == whole);
        if wanted && !names.contains(&whole) {
            names.push(whole.clone());
        }
        if !wanted || names.first() != Some(&whole) {
            return;
        }
        origin.get_or_insert(row.mono_ns);
        wall.get_or_insert(row.time_ns);
        let Some(watts) = row.watts.map(Watts) else { return };
        // Of a counter, the mean since the reading before.
        let over = row.over_s.or_else(|| row.counter.and(row.covers_s));
        let over = over.and_then(|over| Duration::try_from_secs_f64(over).ok());
        let mean = |over| Reading::MeanPower { watts, over };
        rows.push((row.mono_ns, over.map_or(Reading::Power(watts), mean)));
    })?;
    let name = one_of(&names, path)?;
    let origin = origin.unwrap_or(0);
    let mut apart: Vec<i64> = rows.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    apart.sort_unstable();
    let interval = apart.get(apart.len() / 2).copied().unwrap_or(0);
    let mut readings = Readings::new(since(interval, 0).0);
    for (mono, reading) in rows {
        readings.take(since(mono, origin), reading, None);
    }
    Ok(Recorded { name, readings, begun_ns: wall, skipped: None })
}

fn of_log(path: &Path, spec: &MeterSpec, channel: Option<&str>) -> Result<Recorded, Error> {
    let mut log = log::open(path, &Options::of(spec)?)?;
    let names: Vec<String> = log.channels().iter().map(|channel| channel.name.clone()).collect();
    let wanted = |name: &&String| channel.is_none_or(|it| it == *name);
    let chosen: Vec<String> = names.iter().filter(wanted).cloned().collect();
    let name = one_of(if chosen.is_empty() { &names } else { &chosen }, path)?;
    let place = names.iter().position(|it| *it == name);
    let (mut readings, mut begun_ns) = (Readings::new(log.about()), None);
    for entry in log.by_ref() {
        let entry = entry?;
        if Some(entry.channel) == place {
            let mono = i64::try_from(entry.mono.0.as_nanos()).unwrap_or(i64::MAX);
            begun_ns = begun_ns.or_else(|| entry.wall_ns.map(|wall| wall - mono));
            readings.take(entry.mono, entry.reading, None);
        }
    }
    Ok(Recorded { name, readings, begun_ns, skipped: log.skipped().cloned() })
}

fn one_of(names: &[String], path: &Path) -> Result<String, Error> {
    match names {
        [name] => Ok(name.clone()),
        names => Err(Error::WhichChannel {
            path: path.to_owned(),
            names: names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// The rows of a table and the numbers of their lines; a head, empty lines and those that begin with
/// `#` are left out. A head is a first line that begins with a letter and has no cell that `is_good`.
pub(super) fn rows(text: &str, is_good: impl Fn(&str) -> bool) -> Vec<(usize, Vec<&str>)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut rows: Vec<(usize, Vec<&str>)> =
        lines.map(|(number, line)| (number, line.split(',').map(str::trim).collect())).collect();
    let is_head = |cells: &[&str]| {
        cells[0].starts_with(|it: char| it.is_ascii_alphabetic())
            && !cells.iter().any(|cell| is_good(cell))
    };
    if rows.first().is_some_and(|(_, cells)| is_head(cells)) {
        rows.remove(0);
    }
    rows
}

/// What is wrong with a cell that is no time.
pub(super) fn no_time(cell: &str) -> String {
    format!(
        "`{cell}` is no time within the recording; write it as 2026-11-21T20:15:00Z, or in seconds \
         since 1970 or since the recording began"
    )
}

/// Reads times as users write them.
pub(super) struct Clock {
    /// When the recording began.
    begun_ns: Option<i64>,
    /// Seconds of 1 in a column of numbers, where its name says so.
    unit: f64,
}

impl Clock {
    /// For a table whose head may name the unit: `issued_ms`.
    pub(super) fn of(text: &str, begun_ns: Option<i64>) -> Self {
        let mut lines = text.lines().map(str::trim);
        let head = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        let mut names = head.into_iter().flat_map(|head| head.split(','));
        let unit = names.find_map(|name| Quantity::Time.unit_in(name));
        Self { begun_ns, unit: unit.unwrap_or(1.0) }
    }

    /// A time since the recording began.
    pub(super) fn moment(&self, cell: &str) -> Option<Mono> {
        let wall = match cell.parse::<f64>().map(|number| number * self.unit) {
            Ok(seconds) if seconds < SINCE_1970 => {
                return Duration::try_from_secs_f64(seconds).ok().map(Mono);
            }
            // Milliseconds since 1970: as seconds they would be after the year 5000.
            Ok(seconds) if seconds >= 1e11 => (seconds * 1e6) as i64,
            Ok(seconds) => (seconds * 1e9) as i64,
            Err(_) => i64::try_from(cell.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok()?,
        };
        let since = wall.checked_sub(self.begun_ns?)?;
        Some(Mono(Duration::from_nanos(u64::try_from(since).ok()?)))
    }
}
