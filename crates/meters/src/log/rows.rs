//! Recordings of lines with a time on each: Watts up? logs, tracebase, CSV.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use nightwatt_model::quantity::Watts;
use nightwatt_model::sample::Reading;
use nightwatt_model::time::Mono;

use super::input::Input;
use super::{Entry, Options, stamp};
use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;

/// Makes readings of lines.
pub(super) trait Rows: Send {
    /// Adds the readings of a line; false if it makes no sense.
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> bool;
}

/// From times of a recording to time since it began, and from watts to readings.
#[derive(Debug, Clone)]
struct Timeline {
    begin: Option<i64>,
    mean: Option<Duration>,
}

impl Timeline {
    const fn new(mean: Option<Duration>) -> Self {
        Self { begin: None, mean }
    }

    /// A recording of means begins one interval before its first line. Lines that go back in time say
    /// so: whoever integrates them leaves them out.
    fn at(&mut self, ns: i64) -> Mono {
        let begin = *self.begin.get_or_insert(ns);
        let since = u64::try_from(ns.saturating_sub(begin)).unwrap_or(0);
        Mono(Duration::from_nanos(since) + self.mean.unwrap_or_default())
    }

    fn reading(&self, watts: f64) -> Reading {
        match self.mean {
            Some(over) => Reading::MeanPower { watts: Watts(watts), over },
            None => Reading::Power(Watts(watts)),
        }
    }
}

/// The channel of a tracebase plug: nobody states how exact they were.
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
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> bool {
        let Some((ns, watts)) = self.parse(line) else { return false };
        let mono = self.timeline.at(ns);
        let reading = self.timeline.reading(watts);
        out.push_back(Entry { mono, wall_ns: Some(ns), channel: 0, reading, piece: None });
        true
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// A CSV file with a line of names.
pub(super) struct Table {
    delimiter: char,
    time: usize,
    watts: Vec<usize>,
    zone: TimeZone,
    timeline: Timeline,
    header: bool,
}

/// Numbers below this count from the beginning of the recording, and not from 1970: three years.
const RELATIVE: i64 = 100_000_000_000_000_000;

const TIMES: [&str; 7] = ["time", "timestamp", "datetime", "date", "epoch", "seconds", "t"];

fn delimiter(header: &str) -> Option<char> {
    [',', ';', '\t'].into_iter().find(|delimiter| header.contains(*delimiter))
}

fn is_power(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    let named = |kind: &str| name == kind || name.ends_with(&format!("_{kind}"));
    ["watts", "power", "w"].into_iter().any(named)
}

fn is_time(name: &str) -> bool {
    TIMES.contains(&name.trim().to_ascii_lowercase().as_str())
}

impl Table {
    pub(super) fn is_header(line: &str) -> bool {
        let Some(delimiter) = delimiter(line) else { return false };
        let has = |is: fn(&str) -> bool| line.split(delimiter).any(is);
        has(is_time) && has(is_power)
    }

    pub(super) fn new(
        input: &mut Input,
        path: &Path,
        options: &Options,
    ) -> Result<(Vec<Channel>, Self), MeterError> {
        let header = input.first_line();
        let wrong = |why: String| options.wrong(path, &why);
        let delimiter = delimiter(&header)
            .ok_or_else(|| wrong("its first line has no `,`, `;` or tab".to_owned()))?;
        let names: Vec<_> =
            header.split(delimiter).map(|name| name.trim_matches([' ', '"'])).collect();
        let column = |name: &str| {
            names.iter().position(|it| *it == name).ok_or_else(|| {
                wrong(format!("there is no column `{name}`, but `{}`", names.join("`, `")))
            })
        };
        let time = match &options.time {
            Some(name) => column(name)?,
            None => names
                .iter()
                .position(|name| is_time(name))
                .ok_or_else(|| wrong("no column is called `time`; `time=` names one".to_owned()))?,
        };
        let watts: Vec<usize> = if options.watts.is_empty() {
            (0..names.len()).filter(|&index| index != time && is_power(names[index])).collect()
        } else {
            options.watts.iter().map(|name| column(name)).collect::<Result<_, _>>()?
        };
        if watts.is_empty() {
            return Err(wrong("no column is called `watts`; `watts=` names some".to_owned()));
        }
        // Whose figures they are is not known.
        let accuracy = Accuracy::relative(0.05);
        let channels = watts
            .iter()
            .map(|&index| Channel::power(names[index], Scope::Part, accuracy))
            .collect();
        let zone = options.zone.clone().unwrap_or(TimeZone::UTC);
        let timeline = Timeline::new(options.mean);
        Ok((channels, Self { delimiter, time, watts, zone, timeline, header: true }))
    }
}

impl Rows for Table {
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> bool {
        if std::mem::take(&mut self.header) {
            return true;
        }
        let Ok(line) = std::str::from_utf8(line) else { return false };
        let field = |index: usize| {
            line.split(self.delimiter).nth(index).map(|field| field.trim_matches([' ', '"']))
        };
        let Some(time) = field(self.time) else { return false };
        let ns = stamp::seconds(time).or_else(|| stamp::year_first(time, &self.zone));
        let Some(ns) = ns else { return false };
        let mono = self.timeline.at(ns);
        let wall_ns = (ns >= RELATIVE).then_some(ns);
        let mut all = true;
        for (channel, &index) in self.watts.iter().enumerate() {
            match field(index).map(number) {
                Some(Some(watts)) => {
                    let reading = self.timeline.reading(watts);
                    out.push_back(Entry { mono, wall_ns, channel, reading, piece: None });
                }
                // An empty field says nothing: that is no error.
                _ => all &= field(index) == Some(""),
            }
        }
        all
    }
}
