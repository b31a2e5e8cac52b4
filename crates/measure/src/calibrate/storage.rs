//! `calibrate storage`: what a write takes by its size, `E = w0 + w1 x bytes`, from a recording of power
//! and the times and sizes of writes, or from a table of sizes and energies.

use std::path::PathBuf;

use crate::pure::calibrate::storage::{ActivityRule, StorageFit, Write, activity, fit_storage};
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::storage::StorageModel;
use nightwatt_energy::time::Mono;
use nightwatt_meters::MeterSpec;
use nightwatt_meters::log::tables::Quantity;
use serde::Serialize;

use crate::calibrate::recorded::{Clock, Recorded, accuracy_of, no_time, rows};
use crate::calibrate::table::{self, Wanted};
use crate::error::Error;

/// What is to be read.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The recording, as the meter `file` has it: its path, and options of its format.
    pub log: MeterSpec,
    /// Its channel, where it has several.
    pub channel: Option<String>,
    /// A line for each write: when it was issued, and its bytes.
    pub writes: PathBuf,
    /// How to find its activity in the recording.
    pub rule: ActivityRule,
}

/// A write that was found in the recording, or was not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WriteFound {
    /// The line of the table.
    pub line: usize,
    /// Its size.
    pub bytes: u64,
    /// Energy above the baseline; `None` if no rise was found.
    pub joules: Option<f64>,
    /// Its standard error.
    pub standard_error_j: Option<f64>,
    /// Why no energy was found.
    pub why: Option<String>,
}

/// Power and duration of writes, as measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StorageFound {
    /// Version of this form.
    pub schema: u32,
    /// The recording's meter and channel, or the table.
    pub measured_by: String,
    /// Each write.
    pub writes: Vec<WriteFound>,
    /// The two figures.
    pub fit: StorageFit,
    /// The power model for `disk --model DEVICE=FILE`.
    pub model: StorageModel,
    /// What to think twice about.
    pub warnings: Vec<String>,
}

/// From a recording.
pub fn of_log(options: &LogOptions) -> Result<StorageFound, Error> {
    let recorded = Recorded::read(&options.log, options.channel.as_deref())?;
    let text = std::fs::read_to_string(&options.writes)
        .map_err(|error| nightwatt_meters::MeterError::reading(&options.writes, error))?;
    let issued = issued(&text, recorded.begun_ns)?;
    let log = recorded.readings.log()?;
    let mut found = Vec::new();
    for (place, &(line, at, bytes)) in issued.iter().enumerate() {
        let next = issued.get(place + 1).map_or(Mono::NEVER, |(_, at, _)| *at);
        let (joules, standard_error_j, why) = match activity(&log, at, &options.rule) {
            Ok(it) if it.to > next => (
                None,
                None,
                Some("the next write was issued before this one\'s activity ended".to_owned()),
            ),
            Ok(it) => (Some(it.energy.get()), Some(it.standard_error.get()), None),
            Err(error) => (None, None, Some(error.to_string())),
        };
        found.push(WriteFound { line, bytes, joules, standard_error_j, why });
    }
    let accuracy = accuracy_of(&options.log, &recorded.name).map_or(0.0, |it| {
        let peak = log
            .readings()
            .iter()
            .map(|reading| reading.power)
            .max_by(|a, b| a.get().total_cmp(&b.get()));
        peak.map_or(0.0, |power| it.at(power) / power)
    });
    let mut found = StorageFound::of(found, recorded.name, accuracy)?;
    found.warnings.extend(recorded.skipped.map(|it| it.to_string()));
    Ok(found)
}

/// From a table with the columns `bytes,joules`.
pub fn of_table(text: &str) -> Result<StorageFound, Error> {
    let mut found = Vec::new();
    let size = Wanted::new(
        "bytes",
        Quantity::Size,
        &["bytes", "size", "length", "kb", "mb", "kib", "mib"],
    );
    let energy = Wanted::new("joules", Quantity::Energy, &[]);
    for row in table::read(text, &[size, energy])? {
        let (line, bytes) = (row.line, row.of(0));
        if bytes < 1.0 || bytes.fract() != 0.0 {
            let why = format!("`bytes` is {bytes}, and must be a whole number from 1");
            return Err(Error::Table { line, why });
        }
        let (bytes, joules) = (bytes as u64, Some(row.of(1)));
        found.push(WriteFound { line, bytes, joules, standard_error_j: None, why: None });
    }
    StorageFound::of(found, "a table".to_owned(), 0.0)
}

impl StorageFound {
    /// `accuracy` is the share by which the meter may be off.
    fn of(writes: Vec<WriteFound>, measured_by: String, accuracy: f64) -> Result<Self, Error> {
        let known = writes
            .iter()
            .filter_map(|write| Some(Write { bytes: write.bytes, energy: Joules(write.joules?) }));
        let fit = fit_storage(&known.collect::<Vec<_>>())?;
        let mut warnings = Vec::new();
        let missing = writes.iter().filter(|write| write.joules.is_none()).count();
        if let Some(first) = writes.iter().find(|write| write.joules.is_none()) {
            warnings.push(format!(
                "{missing} of {} writes are left out; the first, of line {}: {}",
                writes.len(),
                first.line,
                first.why.as_deref().unwrap_or_default()
            ));
        }
        if fit.per_write.value.get() < 0.0 {
            warnings.push(
                "a write of nothing would take less than nothing: small sizes are missing, or the \
                 noise is larger than they are; w0 is taken as 0"
                    .to_owned(),
            );
        }
        let model = model(&fit, &measured_by, accuracy);
        Ok(Self { schema: 1, measured_by, writes, fit, model, warnings })
    }
}

/// The model of this device. Reading is taken to cost as much as writing: it was not measured.
fn model(fit: &StorageFit, measured_by: &str, accuracy: f64) -> StorageModel {
    // Of a write of middling size, as far as the fit may be off there at 95 %.
    let bytes = u64::midpoint(fit.covered.0, fit.covered.1) as f64;
    let half = |low: f64, high: f64| (high - low) / 2.0;
    let (w0, w1) = (&fit.per_write, &fit.per_byte);
    let off = half(w0.interval.0.get(), w0.interval.1.get())
        .hypot(bytes * half(w1.interval.0.get(), w1.interval.1.get()));
    let energy = w0.value.get().max(0.0) + bytes * w1.value.get();
    let relative = if energy > 0.0 { (off / energy).hypot(accuracy) } else { 1.0 };
    let (burst, byte) = (Joules(w0.value.get().max(0.0)), w1.value);
    StorageModel {
        burst,
        byte,
        read_burst: burst,
        read_byte: byte,
        relative,
        origin: format!(
            "fitted to {} writes of {} to {} bytes measured by {measured_by}; reading assumed alike",
            fit.writes, fit.covered.0, fit.covered.1
        ),
    }
}

/// Line, time and size of each write, in the order of their times.
fn issued(text: &str, begun_ns: Option<i64>) -> Result<Vec<(usize, Mono, u64)>, Error> {
    let mut issued = Vec::new();
    let clock = Clock::of(text, begun_ns);
    for (line, cells) in rows(text, |cell| clock.moment(cell).is_some()) {
        let bad = |why: String| Error::Table { line, why };
        let &[time, bytes] = cells.as_slice() else {
            return Err(bad("it must hold when the write was issued, and its bytes".to_owned()));
        };
        let at = clock.moment(time).ok_or_else(|| bad(no_time(time)))?;
        let bytes = size(bytes).ok_or_else(|| bad(format!("`{bytes}` is no number of bytes")))?;
        issued.push((line, at, bytes));
    }
    issued.sort_by_key(|(_, at, _)| *at);
    Ok(issued)
}

fn size(cell: &str) -> Option<u64> {
    cell.parse().ok().filter(|bytes| *bytes > 0)
}
