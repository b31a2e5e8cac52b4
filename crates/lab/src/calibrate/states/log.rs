//! Power states out of a recording, and the times at which the machine was put to sleep and was awake
//! again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_meters::log::{self, Options};
use nightwatt_meters::sampler::Opened;
use nightwatt_meters::{Accuracy, Host, MeterSpec, recording};
use nightwatt_model::calibrate::states::SleepCycle;
use nightwatt_model::quantity::Watts;
use nightwatt_model::sample::Reading;
use nightwatt_model::time::Mono;

use super::readings::Readings;
use super::{StatesFound, fit_log};
use crate::error::Error;

/// Numbers of seconds from here on count from 1970, and others from the recording's beginning.
const SINCE_1970: f64 = 1e8;

/// What is to be read.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The recording, as the meter `file` has it: its path, and options of its format.
    pub log: MeterSpec,
    /// Its channel, where it has several; of a recording of nightwatt, `CHANNEL` or `METER/CHANNEL`.
    pub channel: Option<String>,
    /// A line for each sleep: when it was told to sleep, and when it was awake again.
    pub times: PathBuf,
}

/// Reads and fits.
pub fn run(options: &LogOptions) -> Result<StatesFound, Error> {
    let path = PathBuf::from(options.log.address("night.parquet")?);
    let recorded = if path.extension().is_some_and(|end| end == "parquet") {
        of_recording(&path, options.channel.as_deref())?
    } else {
        of_log(&path, options)?
    };
    let text = std::fs::read_to_string(&options.times)
        .map_err(|error| nightwatt_meters::MeterError::reading(&options.times, error))?;
    let cycles = cycles(&text, recorded.begun_ns)?;
    let accuracy = accuracy(options, &recorded.name);
    let mut found = fit_log(recorded.readings, &cycles, recorded.name)?;
    let on = found.fit.on.value;
    found.meter_accuracy = accuracy.map(|accuracy| accuracy.at(on) / on);
    Ok(found)
}

/// What the recording says of its meter, or what is assumed of such recordings.
fn accuracy(options: &LogOptions, name: &str) -> Option<Accuracy> {
    let opened = Opened::open(&Host::default(), &options.log).ok()?;
    let mut channels = opened.channels().iter();
    channels.find(|channel| channel.name == name).map(|channel| channel.accuracy)
}

/// Readings since a beginning, and when that was, in nanoseconds since 1970.
struct Recorded {
    name: String,
    readings: Readings,
    begun_ns: Option<i64>,
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
    Ok(Recorded { name, readings, begun_ns: wall })
}

fn of_log(path: &Path, options: &LogOptions) -> Result<Recorded, Error> {
    let log = log::open(path, &Options::of(&options.log)?)?;
    let names: Vec<String> = log.channels().iter().map(|channel| channel.name.clone()).collect();
    let wanted = |name: &&String| options.channel.as_ref().is_none_or(|it| it == *name);
    let chosen: Vec<String> = names.iter().filter(wanted).cloned().collect();
    let name = one_of(if chosen.is_empty() { &names } else { &chosen }, path)?;
    let place = names.iter().position(|it| *it == name);
    let (mut readings, mut begun_ns) = (Readings::new(log.about()), None);
    for entry in log {
        let entry = entry?;
        if Some(entry.channel) == place {
            let mono = i64::try_from(entry.mono.0.as_nanos()).unwrap_or(i64::MAX);
            begun_ns = begun_ns.or_else(|| entry.wall_ns.map(|wall| wall - mono));
            readings.take(entry.mono, entry.reading, None);
        }
    }
    Ok(Recorded { name, readings, begun_ns })
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

/// Lines of two times; a head, empty lines and those that begin with `#` are left out.
fn cycles(text: &str, begun_ns: Option<i64>) -> Result<Vec<SleepCycle>, Error> {
    let bad = |line: usize, why: String| Error::Table { line, why };
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut cycles = Vec::new();
    for (place, (number, line)) in lines.enumerate() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let &[sleep, awake] = cells.as_slice() else {
            return Err(bad(
                number,
                "it must hold two times: told to sleep, awake again".to_owned(),
            ));
        };
        let time = |cell: &str| {
            moment(cell, begun_ns).ok_or_else(|| {
                bad(
                    number,
                    format!(
                        "`{cell}` is no time within the recording; write it as \
                    2026-11-21T20:15:00Z, or in seconds since 1970 or since the recording began"
                    ),
                )
            })
        };
        if place == 0
            && time(sleep).is_err()
            && time(awake).is_err()
            && sleep.starts_with(|it: char| it.is_ascii_alphabetic())
        {
            continue;
        }
        let (sleep_commanded, wake_answered) = (time(sleep)?, time(awake)?);
        cycles.push(SleepCycle { sleep_commanded, still: None, wake_answered });
    }
    Ok(cycles)
}

fn moment(cell: &str, begun_ns: Option<i64>) -> Option<Mono> {
    let wall = match cell.parse::<f64>() {
        Ok(seconds) if seconds < SINCE_1970 => {
            return Duration::try_from_secs_f64(seconds).ok().map(Mono);
        }
        Ok(seconds) => (seconds * 1e9) as i64,
        Err(_) => i64::try_from(cell.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok()?,
    };
    let since = wall.checked_sub(begun_ns?)?;
    Some(Mono(Duration::from_nanos(u64::try_from(since).ok()?)))
}
