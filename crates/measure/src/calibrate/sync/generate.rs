//! The generator: toggles a line at the intervals of a [`SyncPlan`], by absolute deadlines, and stamps
//! each toggle.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::pure::calibrate::sync::SyncPlan;
use nightwatt_clock::meter::{Stamp, Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use serde::Serialize;

use super::line::{Line, LineSpec, open};
use super::stamps::{StampMeta, StampWriter, Toggle};
use crate::error::Error;

/// The clock of the generator.
pub trait Timer {
    /// The present.
    fn now(&self) -> Mono;
    /// Waits for this moment. False: it is over.
    fn wait_until(&self, deadline: Mono) -> bool;
}

/// The kernel's monotonic clock, until the run is stopped.
impl Timer for Stop {
    fn now(&self) -> Mono {
        monotonic()
    }

    fn wait_until(&self, deadline: Mono) -> bool {
        self.wait_until(deadline) != Woken::Stopped
    }
}

/// Options of the generator.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// The line.
    pub line: LineSpec,
    /// For how long; until stopped if nothing is said.
    pub time: Option<Duration>,
    /// Where the stamps go: a new file.
    pub output: PathBuf,
}

/// What was generated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Generated {
    /// Version of this form.
    pub schema: u32,
    /// Toggles that have a stamp: all.
    pub toggles: u64,
    /// How uncertain the worst of the stamps is, in seconds.
    pub worst_uncertainty_s: f64,
    /// How uncertain they are on average, in seconds.
    pub mean_uncertainty_s: f64,
    /// How late the latest toggle came after its deadline, in seconds. That costs nothing.
    pub latest_s: f64,
}

/// Drives the line until the time is over or the run is stopped. Calls `on_progress` for each toggle.
pub fn generate(
    options: &GenerateOptions,
    stop: &Stop,
    on_progress: impl FnMut(&Toggle),
) -> Result<Generated, Error> {
    let path = &options.output;
    let failed = |source| Error::NotWritten { path: path.clone(), source };
    let file = File::create_new(path).map_err(failed)?;
    // A file without a stamp in it would stand in the way of the next attempt.
    let mut line = open(&options.line).inspect_err(|_| drop(std::fs::remove_file(path)))?;
    let now = Stamp::now();
    let meta = StampMeta {
        schema: 1,
        nightwatt: env!("CARGO_PKG_VERSION").to_owned(),
        line: options.line.to_string(),
        // Another run has other intervals, so that its log matches no stamps of this one.
        seed: now.wall_ns.cast_unsigned(),
        mono_ns: u64::try_from(now.mono.0.as_nanos()).unwrap_or(u64::MAX),
        wall_ns: now.wall_ns,
    };
    let mut stamps = StampWriter::new(file, &meta).map_err(failed)?;
    let ends = options.time.map_or(Mono::NEVER, |time| now.mono + time);
    let plan = SyncPlan::new(meta.seed);
    let ended = toggle(line.as_mut(), stop, plan, ends, &mut stamps, on_progress);
    if ended.is_err() {
        // As far as it still can be driven.
        let _ = line.set(false);
    }
    ended.map_err(|error| error.of(options))
}

/// What failed: the line, or the file of stamps.
#[derive(Debug)]
pub enum ToggleError {
    /// The line.
    Line(io::Error),
    /// The file.
    Stamps(io::Error),
}

impl ToggleError {
    fn of(self, options: &GenerateOptions) -> Error {
        match self {
            Self::Line(source) => {
                Error::Line { line: options.line.to_string(), what: "driven", source }
            }
            Self::Stamps(source) => Error::NotWritten { path: options.output.clone(), source },
        }
    }
}

/// Toggles from now on until `ends` or the timer's end, and leaves the line low.
pub fn toggle<W: Write>(
    line: &mut dyn Line,
    timer: &impl Timer,
    plan: SyncPlan,
    ends: Mono,
    stamps: &mut StampWriter<W>,
    mut on_progress: impl FnMut(&Toggle),
) -> Result<Generated, ToggleError> {
    let mut log = Log::default();
    let (mut due, mut high) = (timer.now(), false);
    for interval in plan {
        due = due + interval;
        let goes_on = timer.wait_until(due.min(ends)) && due <= ends;
        if !goes_on {
            break;
        }
        high = !high;
        let toggle = stamped(line, timer, high).map_err(ToggleError::Line)?;
        stamps.write(&toggle).map_err(ToggleError::Stamps)?;
        log.add(&toggle, due);
        on_progress(&toggle);
    }
    if high {
        // The DAQ sees this one, too.
        let toggle = stamped(line, timer, false).map_err(ToggleError::Line)?;
        stamps.write(&toggle).map_err(ToggleError::Stamps)?;
        log.add(&toggle, toggle.time);
    }
    Ok(log.generated())
}

fn stamped(line: &mut dyn Line, timer: &impl Timer, high: bool) -> io::Result<Toggle> {
    let before = timer.now();
    line.set(high)?;
    let uncertainty = timer.now().since(before) / 2;
    Ok(Toggle { time: before + uncertainty, uncertainty, high })
}

#[derive(Default)]
struct Log {
    toggles: u64,
    worst: Duration,
    sum: Duration,
    latest: Duration,
}

impl Log {
    fn add(&mut self, toggle: &Toggle, due: Mono) {
        self.toggles += 1;
        self.worst = self.worst.max(toggle.uncertainty);
        self.sum += toggle.uncertainty;
        self.latest = self.latest.max(toggle.time.since(due));
    }

    fn generated(&self) -> Generated {
        Generated {
            schema: 1,
            toggles: self.toggles,
            worst_uncertainty_s: self.worst.as_secs_f64(),
            mean_uncertainty_s: self.sum.as_secs_f64() / (self.toggles as f64).max(1.0),
            latest_s: self.latest.as_secs_f64(),
        }
    }
}
