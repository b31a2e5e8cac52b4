//! Recordings: every reading of every meter, with what it adds to the energy so far.
//!
//! Parquet is written in parts, in a folder beside the file to be: each part is whole once it has its
//! name, so that a recorder that is killed loses at most the one that was open. At the end, or by
//! [`recover`], the parts are joined. CSV and JSON lines are appended to and flushed as they come.
//!
//! | column | unit | |
//! |---|---|---|
//! | `time` | ns since 1970, UTC | when it was read |
//! | `mono_ns` | ns | the same on the host's monotonic clock, which never steps |
//! | `meter`, `channel` | | |
//! | `watts` | W | what the meter said; for counters, the mean since the reading before |
//! | `counter` | counts | what a counter showed |
//! | `over_s` | s | the time that `watts` is the meter's own mean over |
//! | `joules` | J | energy since the reading before; their sum is the channel's energy |
//! | `covers_s` | s | the time of which `joules` is the energy; their sum is the time covered |
//! | `gap` | | why nothing is known since the reading before |

mod lines;
mod parted;
mod parts;
mod rows;
mod table;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_energy::integration::{Gap, MEANS_TOUCH, Piece, Reading};
use nightwatt_energy::time::Mono;
use serde::Serialize;
use serde_json::Value;

use crate::error::MeterError;
use crate::sampler::{Opened, Sample, Sink};
pub use lines::rfc3339;
pub use parted::PartedTable;
pub(crate) use parts::Groups;
pub(crate) use rows::gap_named;
pub use rows::{Names, Row};
pub use table::Cells;

/// How a recording is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Columns, packed: for databases and data frames.
    Parquet,
    /// Comma-separated values.
    Csv,
    /// One JSON object a line.
    JsonLines,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Parquet, Self::Csv, Self::JsonLines];

    /// By the end of a file's name.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "ndjson" => Some(Self::JsonLines),
            extension => Self::ALL.into_iter().find(|format| format.extension() == extension),
        }
    }

    /// The usual end of a file's name, behind the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }
}

/// Rows are handed to the writer at the latest after this time.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Or after this many rows.
const FLUSH_ROWS: usize = 16_384;

/// Rows that wait for a writer that is stuck (a full disk, a network that is gone): beyond that they
/// are dropped and counted, for meters must not wait.
const MOST_WAITING: usize = 4_000_000;

/// What a recording is of: its first words.
#[derive(Debug, Clone, Serialize)]
pub struct Meta {
    /// Version of the columns.
    pub schema: u32,
    /// What wrote it.
    pub nightwatt: String,
    /// The machine.
    pub host: Value,
    /// Civil time at the start, RFC 3339.
    pub started: String,
    /// The monotonic clock then: nothing in the recording is older.
    pub mono_ns: i64,
    /// Meters and their channels.
    pub meters: Vec<Value>,
    /// What the user asked for.
    pub settings: Value,
}

/// Version of the columns.
pub const SCHEMA: u32 = 1;

/// A meter, for [`Meta`].
pub fn describe(opened: &Opened, requested: Option<Duration>) -> Value {
    let channel = |channel: &crate::channel::Channel| {
        serde_json::json!({
            "name": channel.name,
            "scope": channel.scope,
            "kind": if channel.is_modelled { "modelled" } else { "measured" },
            "accuracy": channel.accuracy,
            "accuracy_source": channel.accuracy_source,
            "joules_per_count": channel.counter.map(|counter| counter.joules_per_count),
            "counter_range": channel.counter.and_then(|counter| counter.range),
            "counter_most_w": channel.counter.map(|counter| counter.most.get()),
            "step": channel.step,
        })
    };
    serde_json::json!({
        "name": opened.name(),
        "interval_s": opened.interval(requested).as_secs_f64(),
        "channels": opened.channels().iter().map(channel).collect::<Vec<_>>(),
    })
}

/// Writes a recording, in a thread of its own.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<(), MeterError>>,
    names: Names,
    path: PathBuf,
    format: Format,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    rows: Vec<Row>,
    dropped: u64,
    ended: bool,
    failed: bool,
}

/// What writes rows of one format.
trait Writer: Send {
    fn write(&mut self, rows: &[Row]) -> Result<(), MeterError>;
    /// The last rows have been written.
    fn close(&mut self) -> Result<(), MeterError>;
}

impl Recorder {
    /// Begins a recording of these meters. What is there already is never written over.
    pub fn start(
        path: &Path,
        format: Format,
        part: Duration,
        meters: &[Opened],
        meta: &Meta,
    ) -> Result<Self, MeterError> {
        let names = Names::of(meters);
        let text = serde_json::to_string(meta).unwrap_or_default();
        let mut writer: Box<dyn Writer> = match format {
            Format::Parquet => {
                Box::new(parted::PartedRows::create(path, part, names.clone(), text)?)
            }
            Format::Csv | Format::JsonLines => {
                Box::new(lines::Lines::create(path, format, names.clone(), &text)?)
            }
        };
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || {
                let result = write_all(&theirs, writer.as_mut());
                theirs.lock().failed = result.is_err();
                result
            })
            .map_err(|error| MeterError::Io { what: "start a thread".to_owned(), error })?;
        Ok(Self { shared, thread, names, path: path.to_owned(), format })
    }

    /// Takes the samples of the `meter`-th of the meters.
    pub fn sink(&self, meter: usize) -> Box<dyn Sink> {
        let (shared, first) = (Arc::clone(&self.shared), self.names.first(meter));
        Box::new(Feeder { shared, first, last: vec![None; self.names.len()] })
    }

    /// Has writing failed? Then there is no use in going on.
    pub fn has_failed(&self) -> bool {
        self.shared.lock().failed
    }

    /// Writes what is left and what is to be said at the end, and joins the parts. Returns how many
    /// rows were dropped since they could not be written in time.
    pub fn finish(self, end: &Value) -> Result<u64, MeterError> {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        let result = self.thread.join();
        result.unwrap_or_else(|_| {
            let error = io::Error::other("the writer panicked");
            Err(MeterError::Io { what: "write the recording".to_owned(), error })
        })?;
        if self.format == Format::Parquet {
            parts::join(&self.path, Some(end))?;
        }
        Ok(self.shared.lock().dropped)
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_all(shared: &Shared, writer: &mut dyn Writer) -> Result<(), MeterError> {
    let mut rows = Vec::new();
    loop {
        let ended = {
            let waiting = shared.lock();
            let idle = |waiting: &mut Waiting| !waiting.ended && waiting.rows.len() < FLUSH_ROWS;
            let (mut waiting, _) = shared
                .changed
                .wait_timeout_while(waiting, FLUSH_EVERY, idle)
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut waiting.rows, &mut rows);
            waiting.ended
        };
        writer.write(&rows)?;
        rows.clear();
        if ended && shared.lock().rows.is_empty() {
            return writer.close();
        }
    }
}

/// Hands samples of one meter to the writer.
struct Feeder {
    shared: Arc<Shared>,
    first: u32,
    /// When each channel was read last.
    last: Vec<Option<Mono>>,
}

impl Feeder {
    /// Means over a time may leave a hole between them, and say what they say all the same.
    fn has_hole(&mut self, sample: &Sample) -> bool {
        let (Some(last), false) =
            (self.last.get_mut(sample.channel), sample.piece == Piece::Ignored)
        else {
            return false;
        };
        match (last.replace(sample.mono), sample.reading) {
            (Some(last), Reading::MeanPower { over, .. }) => {
                sample.mono.since(last) > over.mul_f64(MEANS_TOUCH)
            }
            _ => false,
        }
    }
}

impl Sink for Feeder {
    fn take(&mut self, sample: &Sample) {
        let mut row = Row::of(sample, self.first);
        if self.has_hole(sample) {
            row.gap = row.gap.or(Some(Gap::Stalled));
        }
        let mut waiting = self.shared.lock();
        if waiting.rows.len() >= MOST_WAITING {
            waiting.dropped += 1;
            return;
        }
        waiting.rows.push(row);
        if waiting.rows.len() == FLUSH_ROWS {
            self.shared.changed.notify_all();
        }
    }
}

/// Joins the parts that a killed recorder has left beside `path`; says how many there were.
pub fn recover(path: &Path) -> Result<usize, MeterError> {
    parts::join(path, None)
}

/// Reads a Parquet recording, or one of its parts: its metadata, and every row in order.
pub fn read(path: &Path, take: impl FnMut(&str, &str, &Row)) -> Result<Option<String>, MeterError> {
    parts::read(path, take)
}

/// Creates a file that must not be there yet.
fn create(path: &Path) -> Result<File, MeterError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::metadata(folder).map_err(|error| MeterError::reading(folder, error))?;
    }
    File::options().write(true).create_new(true).open(path).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("write {}: nothing is written over, name another file", path.display())
            }
            _ => format!("write {}", path.display()),
        };
        MeterError::Io { what, error }
    })
}

#[cfg(test)]
mod tests;
