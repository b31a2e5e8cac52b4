//! Recordings without times, whose rows or packets come at an even rate.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;

use super::decimal;
use super::input::Input;
use super::rows::{Refused, Rows};
use super::{Entry, Options};
use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::sense::{Rail, Supply};
use crate::wattsup::{Packet, Parser};

/// What a Watts up? meter sent. A packet that was damaged took its interval, too.
pub(super) struct Stream {
    parser: Parser,
    interval: Duration,
    intervals: u32,
}

impl Stream {
    pub(super) fn new(mean: Option<Duration>) -> Self {
        let interval = mean.unwrap_or(Duration::from_secs(1));
        Self { parser: Parser::default(), interval, intervals: 0 }
    }

    /// Packets so far.
    pub(super) const fn packets(&self) -> u64 {
        self.intervals as u64
    }

    /// Adds the readings of what comes next; returns how many packets were damaged.
    pub(super) fn feed(&mut self, chunk: &[u8], out: &mut VecDeque<Entry>) -> u64 {
        let (over, intervals, mut damaged) = (self.interval, &mut self.intervals, 0);
        self.parser.feed(chunk, |packet| {
            if packet == Packet::Other {
                return;
            }
            *intervals += 1;
            match packet {
                Packet::Data(Some(watts)) => out.push_back(Entry {
                    mono: Mono(over * *intervals),
                    wall_ns: None,
                    channel: 0,
                    reading: Reading::MeanPower { watts, over },
                    piece: None,
                }),
                _ => damaged += 1,
            }
        });
        damaged
    }
}

/// A DAQ log: columns of volts, with or without a line of names.
pub(super) struct Daq {
    rails: Vec<Columns>,
    rate: f64,
    rows: u64,
    header: bool,
    values: Vec<f64>,
}

/// Where the figures of a rail are.
struct Columns {
    rail: Rail,
    drop: usize,
    supply: Option<usize>,
}

/// Resistors of 1 %, amplifiers and converters of a little less: assumed.
const ACCURACY: Accuracy = Accuracy { relative: 0.02, watts: Watts(0.05) };

/// Cells between whatever separates them; commas between semicolons are decimal ones.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    let all: &[char] = if line.contains(';') { &[';', '\t', ' '] } else { &[',', '\t', ' '] };
    line.split(all).filter(|field| !field.is_empty())
}

fn number(field: &str) -> Option<f64> {
    decimal::number(field, None).map(|(number, _)| number)
}

impl Daq {
    pub(super) fn new(
        input: &mut Input,
        path: &Path,
        options: &Options,
    ) -> Result<(Vec<Channel>, Self), MeterError> {
        let first = input.first_line();
        let names: Vec<_> = fields(&first).collect();
        let header = names.iter().any(|name| number(name).is_none());
        let column = |name: &str| {
            let place = names.iter().position(|it| header && *it == name);
            let found = place.or_else(|| name.parse().ok().filter(|it| *it < names.len()));
            found.ok_or_else(|| {
                let why = format!("there is no column `{name}` among its {}", names.len());
                options.wrong(path, &why)
            })
        };
        if options.sense.is_empty() {
            return Err(options.wrong(path, "`sense=` says how volts of a DAQ log become watts"));
        }
        let rate = options.rate.or_else(|| rate_beside(path)).ok_or_else(|| {
            options.wrong(path, "`rate=` says how many rows of a DAQ log are a second")
        })?;
        let rails = options.sense.iter().map(|rail| {
            let supply = match &rail.supply {
                Supply::Volts(_) => None,
                Supply::Measured { input, .. } => Some(column(input)?),
            };
            Ok(Columns { rail: rail.clone(), drop: column(&rail.drop)?, supply })
        });
        let rails = rails.collect::<Result<Vec<_>, MeterError>>()?;
        let channel = |rail: &Columns| Channel::power(&rail.rail.name, Scope::Part, ACCURACY);
        let channels = rails.iter().map(channel).collect();
        Ok((channels, Self { rails, rate, rows: 0, header, values: Vec::new() }))
    }
}

impl Rows for Daq {
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> Result<(), Refused> {
        if std::mem::take(&mut self.header) {
            return Ok(());
        }
        // A row that makes no sense was taken at its time all the same.
        let seconds = self.rows as f64 / self.rate;
        self.rows += 1;
        self.values.clear();
        let line = std::str::from_utf8(line).unwrap_or_default();
        self.values.extend(fields(line).map(|field| number(field).unwrap_or(f64::NAN)));
        let Ok(since) = Duration::try_from_secs_f64(seconds) else {
            return Err(Refused::Row("it is too far from the beginning".to_owned()));
        };
        let mut refused = None;
        for (channel, columns) in self.rails.iter().enumerate() {
            let value = |column: usize| self.values.get(column).copied().unwrap_or(f64::NAN);
            let supply = columns.supply.map_or(0.0, value);
            let watts = columns.rail.power(value(columns.drop), supply);
            if watts.get().is_finite() {
                let reading = Reading::Power(watts);
                out.push_back(Entry {
                    mono: Mono(since),
                    wall_ns: None,
                    channel,
                    reading,
                    piece: None,
                });
            } else {
                refused = Some(format!("it has no voltage for `{}`", columns.rail.name));
            }
        }
        refused.map_or(Ok(()), |why| Err(Refused::Row(why)))
    }
}

/// The rate in the file of settings that some DAQ programs write beside a log: `NAME_meta.csv` with a
/// line `Actual Scan Rate,1000.0`.
pub(super) fn rate_beside(path: &Path) -> Option<f64> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".csv")?;
    let beside: PathBuf = path.with_file_name(format!("{stem}_meta.csv"));
    let text = std::fs::read_to_string(beside).ok()?;
    let rate = text.lines().find_map(|line| line.strip_prefix("Actual Scan Rate,"))?;
    rate.trim().parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
}
