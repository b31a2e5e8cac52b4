//! Writes every call to a file: one thread takes them out of the kernel's ring, another writes them as Parquet.
//!
//! ```text
//! ring ─► batches ─► waiting until a meter has spoken again ─► rows with their joules ─► groups ─► file
//! ```
//!
//! Taking is quick, and writing may have to wait for a disk. When batches pile up, the ring fills, and
//! the kernel counts what it cannot tell: memory is bounded, and nothing is lost unsaid.
//!
//! | column | unit | |
//! |---|---|---|
//! | `time` | ns since 1970, UTC | when it began |
//! | `mono_ns` | ns | the same on the host's monotonic clock |
//! | `section`, `outer` | | what was called, and the section right around it |
//! | `pid`, `tid` | | process and thread |
//! | `depth` | | how many sections there were around it |
//! | `length_ns` | ns | from begin to end; none of a call that was left by another way |
//! | `on_cpu_ns`, `preempted_ns` | ns | on a CPU; ready to run while another task had its CPU |
//! | `end` | | `ended`, or `left` by another way |
//! | `joules_METER_CHANNEL` | J | its CPU time's part of what that channel saw |

use std::collections::VecDeque;
use std::fmt::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::{Stamp, Stop, Woken, monotonic};
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::sections::{CallEvent, Rates};
use nightwatt_energy::time::Mono;
use nightwatt_meters::recording::{self, Cells, PartedTable};
use nightwatt_meters::sampler::Opened;
use nightwatt_meters::{Host, MeterError};
use nightwatt_probes::{CallEvents, ProbeError, SectionProbes};
use serde::Serialize;
use serde_json::{Value, json};

use super::{CaliperOptions, Section};
use crate::error::Error;

/// Bytes of the kernel's ring: 500,000 calls, which is 5 s of 100,000 calls a second.
pub(super) const RING: u32 = 32 << 20;

/// The ring is looked at at the latest after this time; sooner where much comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Batches of at most [`CallEvents::MOST`] calls that wait to be written.
const BATCHES: usize = 32;

/// Calls that wait for a meter; beyond that the oldest are written without their energy.
const MOST_WAITING: usize = 1 << 20;

/// Rows of a row group.
const GROUP: usize = 65_536;

/// After a SIGKILL no more than this is lost.
const PART: Duration = Duration::from_mins(1);

/// Version of the columns.
const SCHEMA: u32 = 1;

/// What became of the calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventsReport {
    /// Where they are.
    pub file: String,
    /// As many.
    pub written: u64,
    /// Ended and could not be written down: they came faster than they could be taken.
    pub lost: u64,
    /// Written without the energy of each channel, because that meter was not read then.
    pub without_joules: u64,
    /// Why the file could not be written. What was whole by then is beside it, in parts.
    pub error: Option<String>,
}

impl EventsReport {
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.error.is_some() {
            // What is told of a file that is there would be about none.
            return warnings;
        }
        if self.lost > 0 {
            warnings.push(format!(
                "{} calls are not in {}: they ended faster than they could be written down. The \
                 table has them",
                self.lost, self.file
            ));
        }
        if self.without_joules > 0 {
            warnings.push(format!(
                "{} calls in {} have no joules: no meter covered all of their time",
                self.without_joules, self.file
            ));
        }
        warnings
    }
}

/// What a busy CPU drew by each channel.
pub(super) type AllRates = Arc<Mutex<Vec<Rates>>>;

/// Calls that are being written down. Dropped before it is finished, it leaves no file, and what was
/// whole of it in parts.
pub(super) struct Recording {
    path: PathBuf,
    stop: Stop,
    threads: Option<(Reader, JoinHandle<Result<Worker, Error>>)>,
}

/// The thread that takes calls out of the ring.
type Reader = JoinHandle<Result<(), ProbeError>>;

/// The thread that writes.
struct Worker {
    table: PartedTable,
    sections: Vec<String>,
    rates: AllRates,
    waiting: VecDeque<CallEvent>,
    /// The next group of rows, and when each began by the wall clock.
    rows: Vec<(CallEvent, i64)>,
    /// Their joules, by channel.
    joules: Vec<Vec<Option<f64>>>,
    written: u64,
    without_joules: u64,
}

/// A file for calls that is there, and holds none yet.
pub(super) struct Prepared {
    table: PartedTable,
    path: PathBuf,
    channels: usize,
}

impl Prepared {
    /// Made before anything is measured, so that a path that cannot be written costs nothing.
    pub(super) fn create(
        path: &Path,
        options: &CaliperOptions,
        sections: &[Section],
        meters: &[Opened],
    ) -> Result<Self, Error> {
        let columns = columns(meters);
        let meta = meta(options, sections, meters, &columns).to_string();
        let table = PartedTable::create(path, PART, schema(&columns), meta)?;
        Ok(Self { table, path: path.to_owned(), channels: columns.len() })
    }

    /// From now on what ends is written down.
    pub(super) fn start(
        self,
        probes: &SectionProbes,
        sections: &[Section],
        rates: AllRates,
    ) -> Result<Recording, Error> {
        let cannot = |source| Error::System { what: "start to write down calls", source };
        let stop = Stop::new().map_err(cannot)?;
        let (batches, taken) = sync_channel(BATCHES);
        let worker = Worker {
            table: self.table,
            sections: sections.iter().map(|section| section.name.clone()).collect(),
            rates,
            waiting: VecDeque::new(),
            rows: Vec::new(),
            joules: vec![Vec::new(); self.channels],
            written: 0,
            without_joules: 0,
        };
        let (theirs, mut events) = (stop.clone(), probes.events()?);
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let writer = named("calls to disk").spawn(move || worker.run(&taken)).map_err(cannot)?;
        let read = move || read(&mut events, &batches, &theirs);
        let reader = named("calls").spawn(read).map_err(cannot)?;
        Ok(Recording { path: self.path, stop, threads: Some((reader, writer)) })
    }
}

impl Recording {
    /// Writes what is left. What went wrong is in the report: there is more to it than these calls.
    pub(super) fn finish(mut self, probes: &SectionProbes) -> Result<EventsReport, Error> {
        self.stop.stop();
        let (reader, writer) = self.threads.take().expect("they are taken here only");
        let panicked = || {
            let source = std::io::Error::other("a thread panicked");
            Error::System { what: "write down calls", source }
        };
        let read = reader.join().map_or_else(|_| Err(panicked()), |read| Ok(read?));
        let worker = writer.join().unwrap_or_else(|_| Err(panicked()));
        let worker = worker.and_then(|worker| read.map(|()| worker));
        let lost = probes.events_lost()?;
        let mut report = EventsReport {
            file: self.path.display().to_string(),
            written: 0,
            lost,
            without_joules: 0,
            error: None,
        };
        let closed = worker.and_then(|worker| {
            report.written = worker.written;
            report.without_joules = worker.without_joules;
            let end = json!({
                "calls": report.written, "lost": lost, "without_joules": report.without_joules,
            });
            Ok(worker.table.finish(Some(&end))?)
        });
        if let Err(error) = closed {
            report.written = 0;
            report.error = Some(error.to_string());
        }
        Ok(report)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some((reader, writer)) = self.threads.take() {
            self.stop.stop();
            let _ = (reader.join(), writer.join());
        }
    }
}

/// Takes calls out of the ring until it is stopped, and those that are in it then.
fn read(
    events: &mut CallEvents,
    batches: &SyncSender<Vec<CallEvent>>,
    stop: &Stop,
) -> Result<(), ProbeError> {
    loop {
        let woken = stop.readable_until(events.as_fd(), monotonic() + LOOK_EVERY);
        loop {
            let calls = events.take()?;
            let are_all = calls.len() < CallEvents::MOST;
            // An empty one, too: a meter may have sent a reading. A closed channel means that the writer
            // ended; it reports why.
            if batches.send(calls).is_err() {
                return Ok(());
            }
            if are_all {
                break;
            }
        }
        if woken == Woken::Stopped {
            return Ok(());
        }
    }
}

impl Worker {
    /// To the last batch.
    fn run(mut self, batches: &Receiver<Vec<CallEvent>>) -> Result<Self, Error> {
        for calls in batches {
            self.waiting.extend(calls);
            self.write(false)?;
        }
        self.write(true)?;
        self.write_group()?;
        Ok(self)
    }

    /// Writes those whose energy is known by now, or all.
    fn write(&mut self, all: bool) -> Result<(), Error> {
        let now = Stamp::now();
        let clocks = now.wall_ns.saturating_sub(nanos(now.mono.0));
        while self.settle(clocks, all) {
            self.write_group()?;
        }
        // A part is begun with its first rows.
        if !self.table.is_open() || self.table.is_due() {
            self.write_group()?;
        }
        if self.table.is_due() {
            self.table.end_part()?;
        }
        Ok(())
    }

    /// Makes rows of calls whose energy is known. Is a group full?
    fn settle(&mut self, clocks: i64, all: bool) -> bool {
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let known = rates.iter().map(Rates::end).min().unwrap_or(Mono::NEVER);
        while let Some(call) = self.waiting.front() {
            if call.end > known && !all && self.waiting.len() <= MOST_WAITING {
                return false;
            }
            let mut is_known = true;
            for (rates, joules) in rates.iter().zip(&mut self.joules) {
                let of_call = rates.joules(call).map(Joules::get);
                is_known &= of_call.is_some();
                joules.push(of_call);
            }
            self.without_joules += u64::from(!is_known);
            self.rows.push((*call, clocks.saturating_add(nanos(call.begin.0))));
            self.waiting.pop_front();
            if self.rows.len() == GROUP {
                return true;
            }
        }
        false
    }

    fn write_group(&mut self) -> Result<(), MeterError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let int64 = |value: fn(&CallEvent) -> Option<i64>| {
            Cells::Int64(self.rows.iter().map(|(call, _)| value(call)).collect())
        };
        let name = |section: usize| self.sections.get(section).map_or("", String::as_str);
        let sections = |value: fn(&CallEvent) -> Option<usize>| {
            let of_call = |call: &CallEvent| value(call).map(name);
            Cells::Text(self.rows.iter().map(|(call, _)| of_call(call)).collect())
        };
        let end = |call: &CallEvent| Some(if call.is_left { "left" } else { "ended" });
        let mut cells = vec![
            Cells::Int64(self.rows.iter().map(|(_, time)| Some(*time)).collect()),
            int64(|call| Some(nanos(call.begin.0))),
            sections(|call| Some(call.section)),
            int64(|call| Some(call.pid.into())),
            int64(|call| Some(call.tid.into())),
            int64(|call| Some(call.depth.into())),
            sections(|call| call.outer),
            int64(|call| (!call.is_left).then(|| nanos(call.length()))),
            int64(|call| Some(nanos(call.ran))),
            int64(|call| Some(nanos(call.preempted))),
            Cells::Text(self.rows.iter().map(|(call, _)| end(call)).collect()),
        ];
        cells.extend(self.joules.iter_mut().map(|joules| Cells::Double(std::mem::take(joules))));
        self.table.write(&cells)?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The columns of joules: one for each channel of each meter.
fn columns(meters: &[Opened]) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for meter in meters {
        for channel in meter.channels() {
            let name = format!("joules_{}_{}", meter.name(), channel.name);
            let mut name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            while columns.contains(&name) {
                name.push('_');
            }
            columns.push(name);
        }
    }
    columns
}

fn schema(columns: &[String]) -> String {
    let mut schema = "message nightwatt_calls {
        required int64 time (TIMESTAMP(NANOS, true));
        required int64 mono_ns;
        required binary section (STRING);
        required int64 pid;
        required int64 tid;
        required int64 depth;
        optional binary outer (STRING);
        optional int64 length_ns;
        required int64 on_cpu_ns;
        required int64 preempted_ns;
        required binary end (STRING);\n"
        .to_owned();
    for column in columns {
        // Writing to a String cannot fail.
        let _ = writeln!(schema, "optional double {column};");
    }
    schema + "}"
}

/// What the file is of.
fn meta(
    options: &CaliperOptions,
    sections: &[Section],
    meters: &[Opened],
    columns: &[String],
) -> Value {
    let host = Host::default();
    let name = host.read("/proc/sys/kernel/hostname").unwrap_or_default();
    let kernel = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let section =
        |it: &Section| json!({"name": it.name, "file": it.begin.path.display().to_string()});
    json!({
        "schema": SCHEMA,
        "nightwatt": env!("CARGO_PKG_VERSION"),
        "host": json!({"name": name, "kernel": kernel}),
        "started": format!("{} UTC", nightwatt_energy::civil::to_minute(Clock::real().now().wall.secs())),
        "mono_ns": nanos(monotonic().0),
        "command": options.target.command(),
        "pids": options.target.pids(),
        "sections": sections.iter().map(section).collect::<Vec<_>>(),
        "meters": meters.iter().map(|it| recording::describe(it, options.interval)).collect::<Vec<_>>(),
        "joules": {
            "columns": columns,
            "kind": "shared out by CPU time between two readings of the meter, nested sections \
                     included; not measured by call",
        },
    })
}
