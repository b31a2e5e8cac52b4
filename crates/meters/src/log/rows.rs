//! Recordings of lines with a time on each: Watts up? logs, tracebase. See [`super::table`] for CSV.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::tz::TimeZone;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_host::text::quote;

use super::{Entry, Options, stamp};
use crate::channel::{Accuracy, Channel, Scope};

/// Why a line makes no readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is left out.
    Row(String),
    /// It is left out, and is earlier than one before it.
    Earlier(String),
    /// It shows that the whole file would be misread.
    File(String),
}

/// Makes readings of lines.
pub(super) trait Rows: Send {
    /// Adds the readings of a line.
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> Result<(), Refused>;
}

/// From times of a recording to time since it began, and from watts to readings.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    begin: Option<i64>,
    /// Of the last row that was taken.
    pub(super) last: Option<i64>,
    mean: Option<Duration>,
}

impl Timeline {
    pub(super) const fn new(mean: Option<Duration>) -> Self {
        Self { begin: None, last: None, mean }
    }

    /// A recording of means begins one interval before its first line. Time does not stand still, nor
    /// run backwards.
    pub(super) fn at(&mut self, ns: i64) -> Result<Mono, Refused> {
        match self.last {
            Some(last) if ns == last => {
                return Err(Refused::Row("it has the same time as the row before".to_owned()));
            }
            Some(last) if ns < last => {
                let seconds = (last - ns) as f64 / 1e9;
                return Err(Refused::Earlier(format!(
                    "it is {seconds} s earlier than a row before"
                )));
            }
            _ => self.last = Some(ns),
        }
        let begin = *self.begin.get_or_insert(ns);
        let since = u64::try_from(ns.saturating_sub(begin)).unwrap_or(0);
        Ok(Mono(Duration::from_nanos(since) + self.mean.unwrap_or_default()))
    }

    pub(super) fn reading(&self, watts: f64) -> Reading {
        match self.mean {
            Some(over) => Reading::MeanPower { watts: Watts(watts), over },
            None => Reading::Power(Watts(watts)),
        }
    }
}

/// The channel of a tracebase plug. Their accuracy is not documented.
pub(super) fn plug() -> Channel {
    let accuracy = Accuracy { relative: 0.05, watts: Watts(1.0) };
    Channel { step: 1.0, ..Channel::power("wall", Scope::Wall, accuracy) }
}

/// Lines that begin with a date, fields behind `;`.
pub(super) struct Dated {
    stamp: fn(&str, &TimeZone) -> Option<i64>,
    zone: TimeZone,
    /// The field of watts.
    field: usize,
    /// The field of seconds since 1970, which is better than a date without a zone.
    epoch: Option<usize>,
    timeline: Timeline,
}

impl Dated {
    /// `YYYY-MM-DD HH:MM:SS;epoch;W;Wh`. The meter reports means.
    pub(super) fn wattsup(options: &Options) -> Self {
        let mean = options.mean.unwrap_or(Duration::from_secs(1));
        Self { epoch: Some(1), field: 2, ..Self::new(stamp::year_first, Some(mean), options) }
    }

    /// `DD/MM/YYYY HH:MM:SS;W;W`. The first power is over a second of the several that lie between two
    /// lines, and stands for a moment; the second, smoothed over eight, is left.
    pub(super) fn tracebase(options: &Options) -> Self {
        Self::new(stamp::day_first, options.mean, options)
    }

    fn new(
        stamp: fn(&str, &TimeZone) -> Option<i64>,
        mean: Option<Duration>,
        options: &Options,
    ) -> Self {
        let zone = options.zone.clone().unwrap_or(TimeZone::UTC);
        Self { stamp, zone, field: 1, epoch: None, timeline: Timeline::new(mean) }
    }

    fn parse(&self, line: &[u8]) -> Option<(i64, f64)> {
        let fields: Vec<_> = std::str::from_utf8(line).ok()?.split(';').collect();
        let date = (self.stamp)(fields.first()?, &self.zone)?;
        let epoch = self.epoch.and_then(|field| stamp::seconds(fields.get(field)?));
        Some((epoch.unwrap_or(date), number(fields.get(self.field)?)?))
    }
}

impl Rows for Dated {
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> Result<(), Refused> {
        let (ns, watts) = self
            .parse(line)
            .ok_or_else(|| Refused::Row(format!("{} is no date, `;` and watts", quote(line))))?;
        let mono = self.timeline.at(ns)?;
        let reading = self.timeline.reading(watts);
        out.push_back(Entry { mono, wall_ns: Some(ns), channel: 0, reading, piece: None });
        Ok(())
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}
