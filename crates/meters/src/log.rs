//! Recordings of other programs and meters, read as readings: for import, calibration and tests, and
//! for the meter `file`, which plays them again.
//!
//! A recording is read once, from its beginning to its end, in memory that does not grow with it.

mod cells;
mod columns;
mod decimal;
mod input;
mod own;
mod quantities;
mod rows;
mod samples;
mod stamp;
mod table;

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use nightwatt_energy::integration::{Piece, Reading};
use nightwatt_energy::time::Mono;
use serde::Deserialize;

use crate::channel::{Channel, Scope};
use crate::error::MeterError;
use crate::sense::Rail;
use crate::spec::MeterSpec;
use crate::wattsup;

pub use columns::{CellsOf, Columns};
pub use decimal::Decimal;

/// Cells, names and numbers of tables, for those of other things than power over time.
pub mod tables {
    pub use super::cells::{ColumnKind, cells, delimiter, kind, names_an_entity};
    pub use super::decimal::{Decimal, Shown, number};
    pub use super::quantities::{Quantity, has_word};
}
use input::Input;

/// A format of recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `YYYY-MM-DD HH:MM:SS;epoch;W;Wh`, a line for each interval of a Watts up? meter.
    WattsupText,
    /// What a Watts up? meter sends: `#d,...;` packets.
    WattsupRaw,
    /// `DD/MM/YYYY HH:MM:SS;W;W`: power over one second, and over eight.
    Tracebase,
    /// Columns of voltages, taken at an even rate.
    Daq,
    /// A line of names, then times and watts.
    Csv,
    /// Our own: Parquet, CSV or JSON lines.
    Recording,
}

/// What has to be said of a recording beside where it is.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What it is called in messages.
    pub name: String,
    /// Its format, where it is not to be guessed.
    pub format: Option<Format>,
    /// The zone of civil times without one; UTC if nothing is said.
    pub zone: Option<TimeZone>,
    /// Figures are means over this time. Without it, those of a Watts up? are over a second, and
    /// others are of a moment.
    pub mean: Option<Duration>,
    /// Rows per second of a DAQ log.
    pub rate: Option<f64>,
    /// Rails of a DAQ log.
    pub sense: Vec<Rail>,
    /// The column of time of a CSV file.
    pub time: Option<String>,
    /// Its columns of watts.
    pub watts: Vec<String>,
    /// How a CSV file writes fractions, where its rows do not show it.
    pub decimal: Option<Decimal>,
    /// Of a CSV file of several things: a column, and its value in the rows that are wanted.
    pub only: Option<(String, String)>,
    /// What its channels cover.
    pub scope: Option<Scope>,
    /// Of our own recordings: the meters that are wanted; all if none is named.
    pub meters: Vec<String>,
    /// And their channels.
    pub channels: Vec<String>,
}

impl Options {
    /// Their names in a [`MeterSpec`].
    pub const NAMES: [&str; 12] = [
        "format", "zone", "mean", "rate", "sense", "time", "watts", "decimal", "only", "scope",
        "meter", "channel",
    ];

    /// Reads them from what a user says of a meter.
    pub fn of(spec: &MeterSpec) -> Result<Self, MeterError> {
        let format =
            named(spec, "format", "wattsup-text, wattsup-raw, tracebase, daq, csv, recording")?;
        let scope = named(spec, "scope", "wall, system, package, core, uncore, dram, gpu, part")?;
        let zone = spec.text("zone").map(|name| {
            TimeZone::get(name).map_err(|_| {
                spec.wrong(format!("`zone` is one as `Europe/Berlin`, and not `{name}`"))
            })
        });
        let rate = spec.number("rate")?;
        if rate.is_some_and(|rate| rate <= 0.0) {
            return Err(spec.wrong("`rate` is more than 0 rows per second"));
        }
        let mean = spec.time("mean")?;
        if mean.is_some_and(|mean| mean.is_zero()) {
            return Err(spec.wrong("`mean` is a time that is not 0"));
        }
        let only = spec.text("only").map(|text| {
            let (column, value) = text
                .split_once(':')
                .ok_or_else(|| spec.wrong("`only` is a column and its value: `only=device:tv`"))?;
            Ok((column.to_owned(), value.to_owned()))
        });
        let list = |option: &str| -> Vec<String> {
            let texts = spec.text(option).into_iter().flat_map(|text| text.split('+'));
            texts.map(str::to_owned).collect()
        };
        Ok(Self {
            name: spec.name().to_owned(),
            format,
            zone: zone.transpose()?,
            mean,
            rate,
            sense: Rail::all(spec)?,
            time: spec.text("time").map(str::to_owned),
            watts: list("watts"),
            decimal: named(spec, "decimal", "point, comma")?,
            only: only.transpose()?,
            scope,
            meters: list("meter"),
            channels: list("channel"),
        })
    }

    fn wrong(&self, path: &Path, why: &str) -> MeterError {
        MeterError::Spec { meter: self.name.clone(), why: format!("{}: {why}", path.display()) }
    }
}

/// An option that is one of several names.
fn named<T: for<'de> Deserialize<'de>>(
    spec: &MeterSpec,
    option: &str,
    known: &str,
) -> Result<Option<T>, MeterError> {
    let Some(text) = spec.text(option) else { return Ok(None) };
    serde_json::from_value(text.into())
        .map(Some)
        .map_err(|_| spec.wrong(format!("`{option}` is one of {known}, and not `{text}`")))
}

/// A reading of a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Since the recording began.
    pub mono: Mono,
    /// The same in civil time: nanoseconds since 1970, UTC. None where the recording does not say.
    pub wall_ns: Option<i64>,
    /// The channel, by its place in [`Log::channels`].
    pub channel: usize,
    /// What the meter said.
    pub reading: Reading,
    /// What that added to the energy when it was recorded: of our own recordings alone.
    pub piece: Option<Piece>,
}

/// Rows or packets that were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub rows: u64,
    /// The first of them: its line, or the number of the packet, from 1.
    pub first: u64,
    /// Why that was left out.
    pub why: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, first, why } = self;
        let plural = if *rows == 1 { "row was" } else { "rows were" };
        write!(f, "{rows} {plural} left out; the first is row {first}: {why}")
    }
}

/// Times run backwards if more than one row in this many is earlier than a row before it.
const EARLIER: u64 = 20;

/// Readings that are looked at to know how far they are apart.
const LOOKED_AT: usize = 256;

/// Rows that are looked at for them.
const MOST_LOOKED_AT: u64 = 65_536;

/// A recording that is being read: an iterator over its readings.
pub struct Log {
    /// Of the meter, in messages.
    name: String,
    path: PathBuf,
    channels: Vec<Channel>,
    about: Duration,
    input: Input,
    reader: Reader,
    entries: VecDeque<Entry>,
    /// Rows and packets so far.
    rows: u64,
    skipped: Option<Skipped>,
    /// Rows that are earlier than one before them.
    earlier: u64,
    over: bool,
}

/// What makes readings of a recording.
enum Reader {
    Lines(Box<dyn rows::Rows>),
    Stream(samples::Stream),
    Columns(Box<own::Columns>),
}

/// Opens a recording. Gzipped ones are unpacked as they are read.
pub fn open(path: &Path, options: &Options) -> Result<Log, MeterError> {
    let mut input = Input::open(path).map_err(|error| MeterError::reading(path, error))?;
    let format = match options.format {
        Some(format) => format,
        None => guess(input.head(), options).ok_or_else(|| {
            let why = "no known format; `format=` names one, and a DAQ log needs `sense=`";
            options.wrong(path, why)
        })?,
    };
    let (wall, mut interval) = (wattsup::channel, None);
    let (channels, reader): (_, Reader) = match format {
        Format::WattsupRaw => {
            let stream = samples::Stream::new(options.mean);
            (vec![wall()], Reader::Stream(stream))
        }
        Format::WattsupText => lines(vec![wall()], rows::Dated::wattsup(options)),
        Format::Tracebase => lines(vec![rows::plug()], rows::Dated::tracebase(options)),
        Format::Csv => {
            let (channels, rows) = table::Table::new(&mut input, path, options)?;
            lines(channels, rows)
        }
        Format::Daq => {
            let (channels, rows) = samples::Daq::new(&mut input, path, options)?;
            lines(channels, rows)
        }
        Format::Recording => {
            if let Some(lined) = own::Lined::of(input.head()) {
                let (channels, rows) = own::Lines::new(&mut input, lined, path, options)?;
                interval = rows.places().interval();
                lines(channels, rows)
            } else {
                let (channels, columns) = own::Columns::new(path, options)?;
                interval = columns.places().interval();
                (channels, Reader::Columns(Box::new(columns)))
            }
        }
    };
    let channels = with_scope(channels, options.scope);
    let mut log = Log {
        name: options.name.clone(),
        path: path.to_owned(),
        channels,
        about: Duration::ZERO,
        input,
        reader,
        entries: VecDeque::with_capacity(2 * LOOKED_AT),
        rows: 0,
        skipped: None,
        earlier: 0,
        over: false,
    };
    while log.entries.len() < LOOKED_AT && log.rows < MOST_LOOKED_AT && log.advance()? {}
    if let Some(why) = log.backwards(2) {
        return Err(options.wrong(path, &why));
    }
    log.about = interval.or_else(|| log.distance()).ok_or_else(|| {
        let skipped = log.skipped.as_ref().map_or_else(String::new, |it| format!("; {it}"));
        options.wrong(path, &format!("it holds no two readings{skipped}"))
    })?;
    Ok(log)
}

fn lines(channels: Vec<Channel>, rows: impl rows::Rows + 'static) -> (Vec<Channel>, Reader) {
    (channels, Reader::Lines(Box::new(rows)))
}

fn with_scope(channels: Vec<Channel>, scope: Option<Scope>) -> Vec<Channel> {
    let scoped = |channel: Channel| Channel { scope: scope.unwrap_or(channel.scope), ..channel };
    channels.into_iter().map(scoped).collect()
}

/// The format of what begins so.
fn guess(head: &[u8], options: &Options) -> Option<Format> {
    if head.starts_with(b"PAR1") || own::Lined::of(head).is_some() {
        return Some(Format::Recording);
    }
    if head.windows(3).take(4096).any(|window| window == b"#d,") {
        return Some(Format::WattsupRaw);
    }
    if !options.sense.is_empty() {
        return Some(Format::Daq);
    }
    let head = String::from_utf8_lossy(head);
    // What the user calls its columns may not be there: that is told when it is opened.
    if table::is_table(&head, options) || table::is_table(&head, &Options::default()) {
        return Some(Format::Csv);
    }
    let zone = TimeZone::UTC;
    let mut lines = head.lines().filter(|line| !line.trim().is_empty()).take(5);
    lines.find_map(|line| {
        let first = line.split(';').next()?;
        match line.split(';').count() {
            4.. if stamp::year_first(first, &zone).is_some() => Some(Format::WattsupText),
            2 | 3 if stamp::day_first(first, &zone).is_some() => Some(Format::Tracebase),
            _ => None,
        }
    })
}

impl Log {
    /// What was measured.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// How far readings of one channel usually are apart: the median at the beginning.
    pub const fn about(&self) -> Duration {
        self.about
    }

    /// What was left out so far: rows and packets that make no sense, and rows that are not later than
    /// one before them.
    pub const fn skipped(&self) -> Option<&Skipped> {
        self.skipped.as_ref()
    }

    fn skip(&mut self, rows: u64, first: u64, why: impl FnOnce() -> String) {
        match &mut self.skipped {
            Some(skipped) => skipped.rows += rows,
            None => self.skipped = Some(Skipped { rows, first, why: why() }),
        }
    }

    /// Why a file is refused of which more than one row in `share` is earlier than one before it.
    fn backwards(&self, share: u64) -> Option<String> {
        let Self { rows, earlier, .. } = self;
        let skipped = self.skipped.as_ref().filter(|_| *earlier > 2 && earlier * share > *rows)?;
        Some(format!(
            "times run backwards: {earlier} of {rows} rows are earlier than one before them ({skipped}); \
             sort it by time"
        ))
    }

    /// Reads on; false at the end.
    fn advance(&mut self) -> Result<bool, MeterError> {
        if self.over {
            return Ok(false);
        }
        let more = match &mut self.reader {
            Reader::Lines(rows) => {
                let line = match self.input.line() {
                    Ok(Some(line)) => line.trim_ascii(),
                    Ok(None) => return self.end(),
                    Err(error) => return self.fail(MeterError::reading(&self.path, error)),
                };
                if line.is_empty() {
                    return Ok(true);
                }
                let refused = rows.row(line, &mut self.entries).err();
                self.rows += 1;
                return self.refuse(refused);
            }
            Reader::Stream(stream) => match self.input.chunk() {
                Ok([]) => Ok(false),
                Ok(chunk) => {
                    let damaged = stream.feed(chunk, &mut self.entries);
                    self.rows = stream.packets();
                    if damaged > 0 {
                        let first = self.rows;
                        self.skip(damaged, first, || "a damaged packet".to_owned());
                    }
                    Ok(true)
                }
                Err(error) => Err(error),
            },
            Reader::Columns(columns) => {
                let more = columns.next(&mut self.entries);
                self.over = !matches!(more, Ok(true));
                return more;
            }
        };
        match more {
            Ok(true) => Ok(true),
            Ok(false) => self.end(),
            Err(error) => self.fail(MeterError::reading(&self.path, error)),
        }
    }

    /// Counts a row that makes no readings; an error where it shows that all would be misread.
    fn refuse(&mut self, refused: Option<rows::Refused>) -> Result<bool, MeterError> {
        let row = self.input.number();
        match refused {
            None => {}
            Some(rows::Refused::Row(why)) => self.skip(1, row, || why),
            Some(rows::Refused::Earlier(why)) => {
                self.earlier += 1;
                self.skip(1, row, || why);
            }
            Some(rows::Refused::File(why)) => {
                let why = format!("{}: row {row}: {why}", self.path.display());
                return self.fail(MeterError::Spec { meter: self.name.clone(), why });
            }
        }
        Ok(true)
    }

    /// There is nothing more.
    fn end(&mut self) -> Result<bool, MeterError> {
        self.over = true;
        match self.backwards(EARLIER) {
            None => Ok(false),
            Some(why) => {
                let why = format!("{}: {why}", self.path.display());
                Err(MeterError::Spec { meter: self.name.clone(), why })
            }
        }
    }

    /// Whatever went wrong, it will again.
    fn fail(&mut self, error: MeterError) -> Result<bool, MeterError> {
        self.over = true;
        Err(error)
    }

    fn distance(&self) -> Option<Duration> {
        let of_first = |entry: &&Entry| entry.channel == 0;
        let times: Vec<_> = self.entries.iter().filter(of_first).map(|entry| entry.mono).collect();
        let mut apart: Vec<_> = times
            .windows(2)
            .map(|two| two[1].since(two[0]))
            .filter(|apart| !apart.is_zero())
            .collect();
        apart.sort_unstable();
        apart.get(apart.len() / 2).copied()
    }
}

impl Iterator for Log {
    type Item = Result<Entry, MeterError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Some(Ok(entry));
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
