//! The aligner: a DAQ log and the stamps of its sync channel to a log with a time for each sample.
//!
//! The log is read four times (range of the sync channel, histogram of its levels, toggles, result),
//! so that memory holds the toggles only, however long the log is.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::pure::calibrate::CalibrateError;
use crate::pure::calibrate::sync::{
    self, Alignment, Drift, Edge, EdgeDetector, Fault, Hysteresis, LevelRange, Placement, SyncRule,
};
use nightwatt_energy::time::Mono;
use nightwatt_host::files::{Access, Durability, Replacement, Successor};
use nightwatt_meters::MeterError;
use nightwatt_meters::log::{CellsOf, Columns};
use nightwatt_meters::recording::rfc3339;
use nightwatt_report::csv::quoted;
use serde::Serialize;

use super::stamps::Stamps;
use crate::error::Error;

/// Stretches over which the drift is told.
const DRIFT_OVER: Duration = Duration::from_mins(1);

/// A stamp that is uncertain by this share of a sample more than others are is left out.
const UNCERTAIN: f64 = 0.25;

/// Beyond this share of a sample, stamps are too uncertain to claim much.
const COARSE: f64 = 0.4;

/// Rows between two looks at how far it is.
const LOOK_EVERY: u64 = 1 << 16;

/// What is to be aligned.
#[derive(Debug, Clone)]
pub struct AlignOptions {
    /// The DAQ log: columns of text, gzipped or not.
    pub log: PathBuf,
    /// The generator's stamps.
    pub stamps: PathBuf,
    /// The column that recorded the line: its name or its number, from 0.
    pub channel: String,
    /// Rows per second, where the file beside the log does not say.
    pub rate: Option<f64>,
    /// Low and high level of the line, where they are not to be found in the log.
    pub levels: Option<(f64, f64)>,
    /// Where the log with its times goes: a new CSV file.
    pub output: Option<PathBuf>,
    /// Where the drift of each interval between two toggles goes: a new CSV file.
    pub intervals: Option<PathBuf>,
}

/// The levels of the line, in the unit of its column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Levels {
    /// Low.
    pub low: f64,
    /// High.
    pub high: f64,
}

/// Number of toggles of each kind that could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultCounts {
    /// Stamps without an edge in the log.
    pub missed: u64,
    /// Edges close to another one.
    pub doubled: u64,
    /// Edges without a stamp.
    pub no_stamp: u64,
    /// Pairs that their neighbours contradict.
    pub contradicted: u64,
    /// Pairs next to a place where nothing agrees.
    pub unconfirmed: u64,
    /// Places where the DAQ lost samples, or the clock was stepped.
    pub steps: u64,
}

/// The result of an alignment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Aligned {
    /// Version of this form.
    pub schema: u32,
    /// Nominal samples per second.
    pub rate_hz: f64,
    /// Rows of the log.
    pub samples: u64,
    /// Those of them whose sync channel holds no number.
    pub unreadable: u64,
    /// Of the line.
    pub levels: Levels,
    /// Toggles in the log.
    pub edges: usize,
    /// Toggles of the generator.
    pub stamps: usize,
    /// Stamps left out, since they are much more uncertain than the others.
    pub uncertain_stamps: usize,
    /// How uncertain the others are, in seconds: the median.
    pub stamp_uncertainty_s: f64,
    /// Toggles that pin a sample to a time.
    pub pins: usize,
    /// Toggles that do not.
    pub faults: FaultCounts,
    /// How far toggles scatter about their neighbours, in samples; 0.29 is the least there can be.
    /// None where there are too few to tell.
    pub scatter_samples: Option<f64>,
    /// Samples that have a time.
    pub synchronised: u64,
    /// First and last of those times on `CLOCK_MONOTONIC`.
    pub times: Option<(Mono, Mono)>,
    /// How much faster than nominal the DAQ sampled, minute by minute.
    pub drifts: Vec<Drift>,
    /// What to think twice about.
    pub warnings: Vec<String>,
}

/// Progress of an alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Reading of the log, from 1.
    pub pass: u32,
    /// Of how many.
    pub of: u32,
    /// Rows read in this one.
    pub rows: u64,
}

/// Aligns. `on_progress` gets now and then how far it is.
pub fn align(options: &AlignOptions, mut on_progress: impl FnMut(Pass)) -> Result<Aligned, Error> {
    let stamps = Stamps::read(&options.stamps)?;
    let log = Columns::open(&options.log)?;
    let rate = options.rate.or_else(|| log.rate());
    let rate = rate.ok_or_else(|| Error::NoRate { path: options.log.clone() })?;
    let column = log.find(&options.channel)?;
    // Made first, so that a path that cannot be written does not cost hours.
    let output = options.output.as_deref().map(Output::create).transpose()?;
    let intervals = options.intervals.as_deref().map(Output::create).transpose()?;
    let passes = 1 + 2 * u32::from(options.levels.is_none()) + u32::from(output.is_some());
    let mut reader =
        Reader { path: &options.log, column, pass: 0, passes, on_progress: &mut on_progress };

    let hysteresis = match options.levels {
        Some((low, high)) => Hysteresis::between(low, high),
        None => reader.levels()?,
    };
    let (edges, samples, unreadable) = reader.edges(hysteresis)?;
    let (times, uncertainty) = usable(&stamps, rate);
    let rule = SyncRule { bias: uncertainty, ..SyncRule::new(rate) };
    let found = sync::align(&edges, &times, &rule).map_err(CalibrateError::from)?;
    let (synchronised, ends) = claimed(&found, samples);
    let (low, high) = hysteresis.levels();
    let mut aligned = Aligned {
        schema: 1,
        rate_hz: rate,
        samples,
        unreadable,
        levels: Levels { low, high },
        edges: edges.len(),
        stamps: stamps.toggles.len(),
        uncertain_stamps: stamps.toggles.len() - times.len(),
        stamp_uncertainty_s: uncertainty.as_secs_f64(),
        pins: found.pins(),
        faults: FaultCounts::of(&found.faults),
        scatter_samples: Some(found.scatter).filter(|scatter| scatter.is_finite()),
        synchronised,
        times: ends,
        drifts: found.drifts(DRIFT_OVER, rate),
        warnings: Vec::new(),
    };
    aligned.warnings = warnings(&aligned);
    if let Some(output) = output {
        output.finish(|to| reader.write(to, &found, &stamps))?;
    }
    if let Some(intervals) = intervals {
        intervals.finish(|to| write_intervals(to, &found))?;
    }
    Ok(aligned)
}

/// Stamps whose uncertainty is about that of the others, and what that is.
fn usable(stamps: &Stamps, rate: f64) -> (Vec<Mono>, Duration) {
    let mut uncertain: Vec<_> = stamps.toggles.iter().map(|toggle| toggle.uncertainty).collect();
    uncertain.sort_unstable();
    let median = uncertain.get(uncertain.len() / 2).copied().unwrap_or_default();
    let most = median + Duration::try_from_secs_f64(UNCERTAIN / rate).unwrap_or_default();
    let close = stamps.toggles.iter().filter(|toggle| toggle.uncertainty <= most);
    (close.map(|toggle| toggle.time).collect(), median)
}

/// How many samples have a time, and the first and last of these times.
fn claimed(found: &Alignment, samples: u64) -> (u64, Option<(Mono, Mono)>) {
    let times = found.placements(0..samples).filter_map(|placement| match placement {
        Placement::At(time) => Some(time),
        Placement::Unsynchronised => None,
    });
    times.fold((0, None), |(count, ends): (u64, Option<(Mono, Mono)>), time| {
        (count + 1, Some((ends.map_or(time, |(first, _)| first), time)))
    })
}

fn warnings(aligned: &Aligned) -> Vec<String> {
    let sample = 1.0 / aligned.rate_hz;
    let mut warnings = Vec::new();
    if aligned.synchronised == 0 {
        warnings.push("no sample is synchronised".to_owned());
    }
    if aligned.stamp_uncertainty_s > COARSE * sample {
        warnings.push(format!(
            "driving the line takes {:.0} us, and a sample {:.0} us: use a line that is quicker to \
             drive (a pin of the machine itself rather than of a USB adapter), or sample slower",
            2e6 * aligned.stamp_uncertainty_s,
            1e6 * sample
        ));
    }
    if aligned.scatter_samples.is_some_and(|scatter| scatter > 0.6) {
        warnings.push(
            "the stamps scatter by more than half a sample: run the generator with a higher \
             priority (`chrt -f 50`), or sample slower"
                .to_owned(),
        );
    }
    warnings
}

impl FaultCounts {
    fn of(faults: &[Fault]) -> Self {
        let mut counts = Self::default();
        for fault in faults {
            *match fault {
                Fault::Missed { .. } => &mut counts.missed,
                Fault::Doubled { .. } => &mut counts.doubled,
                Fault::NoStamp { .. } => &mut counts.no_stamp,
                Fault::Contradicted { .. } => &mut counts.contradicted,
                Fault::Unconfirmed { .. } => &mut counts.unconfirmed,
                Fault::Step { .. } => &mut counts.steps,
            } += 1;
        }
        counts
    }
}

/// Reads the log again and again.
struct Reader<'a> {
    path: &'a Path,
    column: usize,
    pass: u32,
    passes: u32,
    on_progress: &'a mut dyn FnMut(Pass),
}

impl Reader<'_> {
    /// One pass; `take` is given each row.
    fn rows<E: From<MeterError>>(
        &mut self,
        mut take: impl FnMut(CellsOf<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.pass += 1;
        let mut log = Columns::open(self.path)?;
        let mut rows = 0;
        while let Some(row) = log.row()? {
            take(row)?;
            if rows % LOOK_EVERY == 0 {
                (self.on_progress)(Pass { pass: self.pass, of: self.passes, rows });
            }
            rows += 1;
        }
        Ok(rows)
    }

    fn levels(&mut self) -> Result<Hysteresis, Error> {
        let column = self.column;
        let mut range = LevelRange::default();
        self.rows(|row| {
            range.push(row.number(column));
            Ok::<_, Error>(())
        })?;
        let mut histogram = range.histogram().map_err(CalibrateError::from)?;
        self.rows(|row| {
            histogram.push(row.number(column));
            Ok::<_, Error>(())
        })?;
        Ok(histogram.hysteresis().map_err(CalibrateError::from)?)
    }

    /// Toggles, rows, and rows without a number.
    fn edges(&mut self, hysteresis: Hysteresis) -> Result<(Vec<Edge>, u64, u64), Error> {
        let column = self.column;
        let (mut edges, mut unreadable) = (Vec::new(), 0);
        let mut detector = EdgeDetector::new(hysteresis);
        let rows = self.rows(|row| {
            let level = row.number(column);
            unreadable += u64::from(!level.is_finite());
            edges.extend(detector.push(level));
            Ok::<_, Error>(())
        })?;
        Ok((edges, rows, unreadable))
    }

    /// The log with two more columns in front: empty where nothing is known.
    fn write(
        &mut self,
        to: &mut impl Write,
        found: &Alignment,
        stamps: &Stamps,
    ) -> Result<(), WriteError> {
        let names = Columns::open(self.path)?.names().to_vec();
        let cells = names.iter().map(|name| quoted(name));
        writeln!(to, "time,mono_ns,{}", cells.collect::<Vec<_>>().join(","))?;
        let mut placements = found.placements(0..u64::MAX);
        self.rows(|row| -> Result<(), WriteError> {
            match placements.next() {
                Some(Placement::At(time)) => {
                    write!(to, "{},{}", rfc3339(stamps.wall_ns(time)), time.0.as_nanos())?;
                }
                _ => write!(to, ",")?,
            }
            for cell in row.texts() {
                write!(to, ",{}", quoted(cell))?;
            }
            // Rows that are too short are filled up.
            for _ in row.texts().count()..names.len() {
                write!(to, ",")?;
            }
            Ok(writeln!(to)?)
        })?;
        Ok(())
    }
}

fn write_intervals(to: &mut impl Write, found: &Alignment) -> Result<(), WriteError> {
    writeln!(to, "from_mono_ns,to_mono_ns,from_sample,to_sample,drift_ppm")?;
    for span in &found.spans {
        let (from, to_pin) = (span.from, span.to);
        writeln!(
            to,
            "{},{},{},{},{}",
            from.time.0.as_nanos(),
            to_pin.time.0.as_nanos(),
            from.position,
            to_pin.position,
            span.drift_ppm
        )?;
    }
    Ok(())
}

/// What can go wrong while the log is copied.
enum WriteError {
    Read(MeterError),
    Write(io::Error),
}

impl From<MeterError> for WriteError {
    fn from(error: MeterError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// A file that gets its name when it is whole.
struct Output {
    path: PathBuf,
    file: BufWriter<Successor>,
}

impl Output {
    fn create(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::NotWritten { path: path.to_owned(), source };
        if path.exists() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let how = Replacement { access: Access::Usual, durability: Durability::ThisBoot };
        let partial = path.with_added_extension("partial");
        let file = Successor::begin_at(partial, path, how).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn finish(
        mut self,
        write: impl FnOnce(&mut BufWriter<Successor>) -> Result<(), WriteError>,
    ) -> Result<(), Error> {
        let failed = |source| Error::NotWritten { path: self.path.clone(), source };
        write(&mut self.file).map_err(|error| match error {
            WriteError::Read(error) => error.into(),
            WriteError::Write(source) => failed(source),
        })?;
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.put_in_place().map(drop).map_err(failed)
    }
}
