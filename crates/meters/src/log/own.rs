//! Recordings of nightwatt itself: Parquet, CSV and JSON lines.
//!
//! They hold what each reading added to the energy ([`Entry::piece`]) beside what the meter reported, so
//! that a replay has the energy, the coverage and the gaps of its source, and counters stay counters.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nightwatt_energy::integration::{Piece, Reading};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;
use nightwatt_energy::wrapping_counter::CounterSpec;
use serde::Deserialize;

use super::cells::cells;
use super::input::Input;
use super::rows::{Refused, Rows};
use super::{Entry, Options};
use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::recording::{Groups, Row, gap_named};

/// The first line, which tells of all meters, is no longer than this.
const LONGEST_META: usize = 1 << 20;

/// Assumed maximum of counted power if the recording does not state it.
const MOST: Watts = Watts(1e6);

/// Who said how exact a channel is: what a recording may say.
const SOURCES: [&str; 6] = [
    "assumed",
    "data sheet",
    "said by the user",
    "NVML reference",
    "95 % of such machines",
    "calibrated on this machine",
];

/// Nothing in a recording takes longer than this: 32 years.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// Seconds of a recording; none where they make no sense.
fn time(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST)
}

/// What a recording says of itself.
#[derive(Debug, Deserialize)]
struct About {
    #[serde(default)]
    mono_ns: Option<i64>,
    meters: Vec<AboutMeter>,
}

#[derive(Debug, Deserialize)]
struct AboutMeter {
    name: String,
    #[serde(default)]
    interval_s: Option<f64>,
    channels: Vec<AboutChannel>,
}

#[derive(Debug, Deserialize)]
struct AboutChannel {
    name: String,
    scope: Scope,
    kind: String,
    accuracy: Accuracy,
    #[serde(default)]
    accuracy_source: String,
    joules_per_count: Option<f64>,
    #[serde(default)]
    counter_range: Option<u64>,
    #[serde(default)]
    counter_most_w: Option<Watts>,
    #[serde(default)]
    step: f64,
}

impl AboutChannel {
    fn channel(&self, name: String) -> Channel {
        let is = |source: &&&str| **source == self.accuracy_source;
        let counter = self.joules_per_count.map(|joules_per_count| CounterSpec {
            joules_per_count,
            range: self.counter_range,
            most: self.counter_most_w.unwrap_or(MOST),
        });
        Channel {
            counter,
            accuracy_source: SOURCES.iter().find(is).copied().unwrap_or("the recording"),
            step: self.step,
            is_modelled: self.kind == "modelled",
            ..Channel::power(name, self.scope, self.accuracy)
        }
    }
}

/// Which rows are of which channel, and when the recording began.
pub(super) struct Places {
    /// Meter and channel, by their place among those that are played.
    names: Vec<(String, String)>,
    begin: Option<i64>,
    interval: Option<Duration>,
}

impl Places {
    /// The channels that are wanted of a recording that says `about` of itself.
    fn new(
        about: &str,
        path: &Path,
        options: &Options,
    ) -> Result<(Vec<Channel>, Self), MeterError> {
        let about: About = serde_json::from_str(about).map_err(|error| {
            options.wrong(path, &format!("what the recording says of its meters: {error}"))
        })?;
        let is_wanted =
            |list: &[String], name: &str| list.is_empty() || list.iter().any(|it| it == name);
        let several = about.meters.len() > 1;
        let (mut channels, mut names, mut interval) = (Vec::new(), Vec::new(), None);
        for meter in about.meters.iter().filter(|it| is_wanted(&options.meters, &it.name)) {
            let wanted = |it: &&AboutChannel| is_wanted(&options.channels, &it.name);
            for channel in meter.channels.iter().filter(wanted) {
                let name = if several {
                    format!("{}/{}", meter.name, channel.name)
                } else {
                    channel.name.clone()
                };
                channels.push(channel.channel(name));
                names.push((meter.name.clone(), channel.name.clone()));
                let its = meter.interval_s.and_then(time);
                interval = its.into_iter().chain(interval).filter(|it| !it.is_zero()).min();
            }
        }
        if channels.is_empty() {
            let all = about.meters.iter().flat_map(|meter| {
                meter.channels.iter().map(|it| format!("`{}` of `{}`", it.name, meter.name))
            });
            let all = all.collect::<Vec<_>>().join(", ");
            let why = format!("it has no such channel; `channel=` and `meter=` name some of {all}");
            return Err(options.wrong(path, &why));
        }
        Ok((channels, Self { names, begin: about.mono_ns, interval }))
    }

    /// A row as a reading; none where it is of another channel, or no number.
    fn entry(&mut self, meter: &str, channel: &str, row: &Row) -> Option<Entry> {
        let covers = row.covers_s.and_then(time);
        let begin = *self.begin.get_or_insert_with(|| {
            let covers = covers.and_then(|it| i64::try_from(it.as_nanos()).ok());
            row.mono_ns.saturating_sub(covers.unwrap_or(0))
        });
        let is_it = |(its_meter, its_channel): &(String, String)| {
            its_meter == meter && its_channel == channel
        };
        let channel = self.names.iter().position(is_it)?;
        let watts = row.watts.filter(|it| it.is_finite()).map(Watts);
        let over = row.over_s.and_then(time);
        let reading = match (row.counter, over) {
            (Some(counter), _) => Reading::Counter(counter.cast_unsigned()),
            (None, Some(over)) => Reading::MeanPower { watts: watts?, over },
            (None, None) => Reading::Power(watts?),
        };
        let joules = row.joules.filter(|it| it.is_finite()).map(Joules);
        let piece = match (joules, covers.filter(|it| !it.is_zero()), row.gap) {
            (Some(joules), Some(time), _) => Piece::Covers { joules, time },
            (.., Some(why)) => Piece::Gap(why),
            _ => Piece::Begins,
        };
        let since = u64::try_from(row.mono_ns.saturating_sub(begin)).unwrap_or(0);
        let mono = Mono(Duration::from_nanos(since));
        Some(Entry { mono, wall_ns: Some(row.time_ns), channel, reading, piece: Some(piece) })
    }

    /// Time between two readings, as the recorder had it.
    pub(super) const fn interval(&self) -> Option<Duration> {
        self.interval
    }
}

/// A recording in Parquet.
pub(super) struct Columns {
    groups: Groups,
    places: Places,
}

impl Columns {
    pub(super) fn new(path: &Path, options: &Options) -> Result<(Vec<Channel>, Self), MeterError> {
        let groups = Groups::open(path)?;
        let about = groups.meta().unwrap_or_default();
        let (channels, places) = Places::new(&about, path, options)?;
        Ok((channels, Self { groups, places }))
    }

    pub(super) const fn places(&self) -> &Places {
        &self.places
    }

    /// Adds the readings of the next group of rows; false at the end.
    pub(super) fn next(&mut self, out: &mut VecDeque<Entry>) -> Result<bool, MeterError> {
        let Self { groups, places } = self;
        groups.next(&mut |meter, channel, row| out.extend(places.entry(meter, channel, row)))
    }
}

/// How the rows of a recording in lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lined {
    Csv,
    Json,
}

impl Lined {
    /// By how the recording begins.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        let begins = |with: &str| head.starts_with(with.as_bytes());
        if begins("# {\"schema\":") {
            Some(Self::Csv)
        } else if begins("{\"meta\":{\"schema\":") {
            Some(Self::Json)
        } else {
            None
        }
    }
}

/// A recording in lines.
pub(super) struct Lines {
    places: Places,
    lined: Lined,
    /// The line of names is still to come.
    header: bool,
}

/// A line of JSON.
#[derive(Deserialize)]
struct Line {
    time: String,
    mono_ns: i64,
    meter: String,
    channel: String,
    watts: Option<f64>,
    counter: Option<i64>,
    over_s: Option<f64>,
    joules: Option<f64>,
    covers_s: Option<f64>,
    gap: Option<String>,
}

impl Lines {
    /// Reads the line that tells of the meters.
    pub(super) fn new(
        input: &mut Input,
        lined: Lined,
        path: &Path,
        options: &Options,
    ) -> Result<(Vec<Channel>, Self), MeterError> {
        let line = input.line_up_to(LONGEST_META);
        let line = line.map_err(|error| MeterError::reading(path, error))?.unwrap_or_default();
        let line = String::from_utf8_lossy(line).trim().to_owned();
        let about = match lined {
            Lined::Csv => line.strip_prefix("# "),
            Lined::Json => line.strip_prefix("{\"meta\":").and_then(|it| it.strip_suffix('}')),
        };
        let (channels, places) = Places::new(about.unwrap_or_default(), path, options)?;
        Ok((channels, Self { places, lined, header: lined == Lined::Csv }))
    }

    pub(super) const fn places(&self) -> &Places {
        &self.places
    }
}

impl Rows for Lines {
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> Result<(), Refused> {
        if std::mem::take(&mut self.header) {
            return Ok(());
        }
        let line = match self.lined {
            Lined::Json => serde_json::from_slice(line).ok(),
            Lined::Csv => std::str::from_utf8(line).ok().and_then(from_csv),
        };
        let no_row = || Refused::Row("it is no row of a recording".to_owned());
        let line = line.ok_or_else(no_row)?;
        let time = line.time.parse::<jiff::Timestamp>().map_err(|_| no_row())?;
        let row = Row {
            time_ns: i64::try_from(time.as_nanosecond()).unwrap_or_default(),
            mono_ns: line.mono_ns,
            name: 0,
            watts: line.watts,
            counter: line.counter,
            over_s: line.over_s,
            joules: line.joules,
            covers_s: line.covers_s,
            gap: line.gap.as_deref().and_then(gap_named),
        };
        out.extend(self.places.entry(&line.meter, &line.channel, &row));
        Ok(())
    }
}

/// An empty cell says nothing; in one that is no number nothing can be believed.
fn number<T: FromStr>(text: &str) -> Result<Option<T>, T::Err> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

fn from_csv(line: &str) -> Option<Line> {
    let cells: Vec<String> = cells(line, ',').into_iter().map(Cow::into_owned).collect();
    let [time, mono_ns, meter, channel, watts, counter, over_s, joules, covers_s, gap] =
        <[String; 10]>::try_from(cells).ok()?;
    Some(Line {
        time,
        mono_ns: mono_ns.parse().ok()?,
        meter,
        channel,
        watts: number(&watts).ok()?,
        counter: number(&counter).ok()?,
        over_s: number(&over_s).ok()?,
        joules: number(&joules).ok()?,
        covers_s: number(&covers_s).ok()?,
        gap: Some(gap).filter(|gap| !gap.is_empty()),
    })
}

#[cfg(test)]
mod tests;
