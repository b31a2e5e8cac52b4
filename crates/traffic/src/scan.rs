//! Reads logs on all cores and gives their requests in the order of time.
//!
//! One thread reads, unpacks and cuts the logs into pieces at line ends; workers parse pieces into
//! batches and take [`Traits`] and sums; the calling thread puts the batches into the order of time
//! and gives request after request to its consumer. What comes out depends on the logs alone, not
//! on the number of threads or their speed.
//!
//! Memory is bounded whatever the logs hold: [`Hold`] says how much waits for its turn, beside it
//! there are a few pieces on their way for each core, and at most 64 KiB of a line and what a
//! decompressor needs for each log that is open. A log is open from its first request's time until
//! its end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nightwatt_energy::time::Wall;
use nightwatt_policy::visit::Visitor;

use crate::client::ClientFrom;
use crate::container::Container;
use crate::counts::Counts;
use crate::error::Error;
use crate::line_parser::{Format, Reading};
use crate::summary::{Distinct, Summary};
use crate::traits::{Rules, Traits};
use batch::Batch;
use order::Order;
use source::{Failure, Piece, Sources};
use work::Worker;

mod batch;
mod between;
mod order;
mod source;
mod work;

pub use between::Between;
pub use order::Hold;

/// A logged request and its answer, lent to the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged<'a> {
    /// When; never before the request given last.
    pub at: Wall,
    /// Local time of the log minus UTC, in seconds.
    pub utc_offset: i32,
    /// Address or name of the client.
    pub client: &'a str,
    /// Address and agent, by hash ([`visitor`](crate::traits::visitor)).
    pub visitor: Visitor,
    /// `GET`.
    pub method: &'a str,
    /// `/index.html?a=b`.
    pub target: &'a str,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// `User-Agent`.
    pub agent: Option<&'a str>,
    /// For [`Classifier::class_of`](crate::Classifier::class_of); `traits.client` is the number of
    /// the [`ClientKey`](crate::ClientKey).
    pub traits: Traits,
}

/// How to scan.
#[derive(Debug, Clone)]
pub struct Options {
    /// How all logs are to be read.
    pub reading: Reading,
    /// What reports and errors call logs that have another name than their path: a pipe from object storage.
    pub names: BTreeMap<PathBuf, String>,
    /// Only requests of this time.
    pub between: Between,
    /// How much may wait for its turn.
    pub hold: Hold,
    /// Threads that parse; `None`: one for each core.
    pub workers: Option<usize>,
    /// Bytes of a piece, roughly.
    pub piece: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reading: Reading::default(),
            names: BTreeMap::new(),
            between: Between::default(),
            hold: Hold::default(),
            workers: None,
            piece: 1 << 19,
        }
    }
}

impl Options {
    fn name(&self, path: &Path) -> String {
        self.names.get(path).cloned().unwrap_or_else(|| path.display().to_string())
    }
}

/// How far a scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read, compressed where a log is.
    pub done: u64,
    /// Bytes of all logs; `None` where one is no file, but standard input or a pipe.
    pub total: Option<u64>,
    /// Requests found.
    pub requests: u64,
}

/// What was found in one log.
#[derive(Debug)]
pub struct LogReport {
    /// As given.
    pub name: String,
    /// What it was read as; `None` where it is empty or in no known format.
    pub format: Option<Format>,
    /// What its lines are packed in one by one, from the outside in.
    pub containers: Vec<Container>,
    /// Lines read.
    pub lines: u64,
    /// Lines that were logged before the line in front of them.
    pub unsorted: u64,
    /// Times of its first and its last line.
    pub ends: Option<(Wall, Wall)>,
    /// Whether a line has a chain of forwarded addresses.
    pub has_chain: bool,
}

/// What was found.
#[derive(Debug)]
pub struct Scan {
    /// What the lines were.
    pub counts: Counts,
    /// Sums over the requests.
    pub summary: Summary,
    /// By log, in the order given.
    pub logs: Vec<LogReport>,
    /// Requests that came so late that others of a later time had gone out ([`Hold`]). They were
    /// given the time of the latest of those.
    pub late: u64,
    /// Why logs could not be read (on), one for each such log. All that came before in it was
    /// given, and so were the other logs.
    pub failures: Vec<Error>,
    /// Whether the consumer stopped the scan; all figures then cover what was read, which is more
    /// than what the consumer was given.
    pub stopped: bool,
}

impl Scan {
    /// Lines that were logged before the line in front of them, in the same log.
    pub fn unsorted(&self) -> u64 {
        self.logs.iter().map(|log| log.unsorted).sum()
    }

    /// Refuses logs that were read to their end and do not have what was asked for. Their figures are wrong.
    pub fn refuse(&mut self) -> Result<(), Error> {
        let is_refusal = |failure: &Error| matches!(failure, Error::NoChain { .. });
        match self.failures.iter().position(is_refusal) {
            Some(place) => Err(self.failures.swap_remove(place)),
            None => Ok(()),
        }
    }
}

/// Reads logs (`-` is standard input) and gives each request to `consume`, in the order of time
/// and, of equal times, in that of the logs' lines. It may stop the scan by `Break`.
///
/// Nothing that can go wrong with one log keeps the others from being read: see
/// [`Scan::failures`]. `rules` are those that a [`Classifier`](crate::Classifier) is to use with
/// the traits; `progress` is called on this thread, after each piece of about half a megabyte.
pub fn scan<F>(
    logs: &[PathBuf],
    rules: &Rules,
    options: &Options,
    mut progress: impl FnMut(Progress),
    mut consume: F,
) -> Scan
where
    F: FnMut(Logged<'_>) -> ControlFlow<()>,
{
    let read = Arc::new(AtomicU64::new(0));
    let workers = options
        .workers
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
        .max(1);
    let sources = Sources::look(logs, &options.reading, options.piece, &read);
    let mut state = ScanState::new(logs, &sources, options);
    let on_the_way = 2 * workers + 2;
    let (permit, permits) = sync_channel::<()>(on_the_way);
    let (pieces, taken) = sync_channel::<(Piece, Batch)>(on_the_way);
    let (parsed, batches) = channel::<Option<Batch>>();
    let (empty, emptied) = sync_channel::<Batch>(on_the_way);
    let (buffer, buffers) = channel::<Vec<u8>>();
    let taken = Mutex::new(taken);
    let between = options.between;
    let sources = thread::scope(|scope| {
        let reader = scope.spawn(move || cut(sources, &permit, &pieces, &emptied, &buffers));
        let start = |_| {
            let (taken, parsed, buffer) = (&taken, parsed.clone(), buffer.clone());
            scope.spawn(move || parse(Worker::new(rules, between), taken, &parsed, &buffer))
        };
        let workers: Vec<_> = (0..workers).map(start).collect();
        drop((parsed, buffer));
        // This call takes all ends of channels that this thread holds, so that no other thread waits for it.
        let ends = Ends { batches, permits, empty };
        take(ends, &mut state, &read, &mut progress, &mut consume);
        for worker in workers {
            state.summary.targets.merge(&joined(worker.join()));
        }
        joined(reader.join())
    });
    state.close(sources)
}

/// What a thread made; if it panicked, so does this one.
fn joined<T>(made: thread::Result<T>) -> T {
    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The reading thread: gives pieces to the workers, as many as there are permits.
fn cut(
    mut sources: Sources,
    permit: &SyncSender<()>,
    pieces: &SyncSender<(Piece, Batch)>,
    emptied: &Receiver<Batch>,
    buffers: &Receiver<Vec<u8>>,
) -> Sources {
    // A send fails once the receiver is dropped: the consumer has had enough.
    while permit.send(()).is_ok() {
        let mut batch = emptied.try_recv().unwrap_or_default();
        batch.clear();
        let buffer = buffers.try_recv().unwrap_or_default();
        let Some(piece) = sources.next(buffer) else { break };
        if pieces.send((piece, batch)).is_err() {
            break;
        }
    }
    sources
}

/// Tells the calling thread of a worker that panics: it would wait for its batch for ever.
struct Alarm<'a>(&'a Sender<Option<Batch>>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(None);
        }
    }
}

/// A worker.
fn parse(
    mut worker: Worker<'_>,
    taken: &Mutex<Receiver<(Piece, Batch)>>,
    parsed: &Sender<Option<Batch>>,
    buffer: &Sender<Vec<u8>>,
) -> Distinct {
    let _alarm = Alarm(parsed);
    loop {
        // A worker that panicked with the lock held did so in `recv`, which leaves the channel as it is.
        let next = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((piece, mut batch)) = next else { break };
        // Fails once the reader has come to the end.
        drop(buffer.send(worker.parse(piece, &mut batch)));
        if parsed.send(Some(batch)).is_err() {
            break;
        }
    }
    worker.into_targets()
}

/// The ends of channels that the calling thread holds.
struct Ends {
    batches: Receiver<Option<Batch>>,
    permits: Receiver<()>,
    empty: SyncSender<Batch>,
}

/// Bytes of the largest batch whose room is used again: what is larger was made of many.
const REUSED: usize = 4 << 20;

/// The calling thread: takes batches in the order of pieces.
fn take<F>(
    ends: Ends,
    state: &mut ScanState,
    read: &AtomicU64,
    progress: &mut impl FnMut(Progress),
    consume: &mut F,
) where
    F: FnMut(Logged<'_>) -> ControlFlow<()>,
{
    let Ends { batches, permits, empty } = ends;
    let mut waiting: BTreeMap<u32, Batch> = BTreeMap::new();
    let mut next = 0;
    let mut done = Vec::new();
    for batch in batches {
        // The panic goes on where the threads are joined.
        let Some(batch) = batch else { return };
        waiting.insert(batch.piece, batch);
        while let Some(mut batch) = waiting.remove(&next) {
            next += 1;
            // One more piece may be on its way.
            let _ = permits.try_recv();
            state.enter(&mut batch);
            let flow = state.order.push(batch, consume, &mut done);
            // Where there are enough of them already, or the reader has come to the end, they go: more
            // batches are done than are needed again, since `Order` puts what is left of many into one.
            let again = done.drain(..).filter(|batch| batch.cost() <= REUSED);
            again.for_each(|batch| drop(empty.try_send(batch)));
            progress(state.progress(read));
            if flow.is_break() {
                state.stopped = true;
                return;
            }
        }
    }
    state.stopped = state.order.finish(consume).is_break();
}

/// What the calling thread keeps.
struct ScanState {
    order: Order,
    counts: Counts,
    summary: Summary,
    logs: Vec<LogReport>,
    total: Option<u64>,
    stopped: bool,
    client_from: ClientFrom,
}

impl ScanState {
    fn new(paths: &[PathBuf], sources: &Sources, options: &Options) -> Self {
        let size = |path: &PathBuf| match std::fs::metadata(path) {
            Ok(metadata) => metadata.is_file().then_some(metadata.len()),
            // Nothing is read of what is not there, except for standard input.
            Err(_) => (path.as_os_str() != "-").then_some(0),
        };
        Self {
            order: Order::new(options.hold),
            counts: Counts::default(),
            summary: Summary::default(),
            logs: paths
                .iter()
                .enumerate()
                .map(|(input, path)| LogReport {
                    name: options.name(path),
                    format: sources.format(input),
                    containers: sources.containers(input).to_vec(),
                    lines: 0,
                    unsorted: 0,
                    ends: None,
                    has_chain: false,
                })
                .collect(),
            total: paths.iter().map(size).sum(),
            stopped: false,
            client_from: options.reading.client_from,
        }
    }

    /// Takes in what a batch says beside its requests.
    fn enter(&mut self, batch: &mut Batch) {
        let log = &mut self.logs[batch.input];
        let counts = std::mem::take(&mut batch.counts).placed(&log.name, log.lines);
        log.lines += counts.lines;
        log.unsorted += batch.unsorted;
        log.has_chain |= batch.has_chain;
        if let Some((first, last)) = batch.ends {
            log.unsorted += u64::from(log.ends.is_some_and(|(_, before)| first < before));
            log.ends = Some((log.ends.map_or(first, |(first, _)| first), last));
        }
        self.counts.merge(&counts);
        self.summary.merge(&batch.summary);
        for agent in &batch.agents {
            let (from, to) = (agent.agent.from as usize, agent.agent.to as usize);
            self.summary.agents.add(&batch.text[from..to], agent.requests);
        }
    }

    fn progress(&self, read: &AtomicU64) -> Progress {
        let done = read.load(Ordering::Relaxed);
        Progress { done, total: self.total, requests: self.counts.requests }
    }

    fn close(self, sources: Sources) -> Scan {
        let error = |(input, failure): (usize, Failure)| {
            let log: &LogReport = &self.logs[input];
            failure.into_error(&log.name, log.lines)
        };
        let mut failures: Vec<Error> = sources.failures.into_iter().map(error).collect();
        let is_chosen = !self.stopped && self.client_from != ClientFrom::Public;
        let lacks = |log: &&LogReport| is_chosen && log.ends.is_some() && !log.has_chain;
        let lacking = self.logs.iter().filter(lacks);
        failures.extend(lacking.map(|log| Error::no_chain(log.name.clone(), self.client_from)));
        Scan {
            late: self.order.late(),
            counts: self.counts,
            summary: self.summary,
            logs: self.logs,
            failures,
            stopped: self.stopped,
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
