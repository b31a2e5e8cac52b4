//! The load generator: requests at times of our own making, whatever becomes of those before.
//!
//! ```text
//! Arrivals ─► Schedule ─► Worker (one thread, epoll) ─► Sample ─► Tally, rows
//!   Mix ───────┘             │ connections, AnswerReader
//!                            └ absolute deadlines: sent when due, not when there is time
//! ```
//!
//! [`Schedule`] is pure: the same [`Plan`] gives the same requests at the same times. Each of some
//! threads takes every n-th of them. A request that finds no free connection waits in the client,
//! and its latency counts from when it was due: nothing that the server does moves a due time.

pub mod answer_reader;
mod connection;
mod limits;
pub mod mix;
mod report;
mod rows;
mod sample;
pub mod schedule;
mod server;
pub mod sources;
mod tally;
mod text;
mod worker;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_policy::arrivals::Arrivals;

pub use mix::{Mix, MixEntry, RequestDefaults};
pub use report::{LoadReport, Quantiles, SCHEMA};
pub use rows::{COLUMNS, Rows};
pub use sample::{Carrier, Fault, Sample};
pub use schedule::{Due, Schedule, Until, Window};
pub use server::{ServerIs, ServerReport, ServerWatch};
pub use text::text;

use crate::error::Error;
use tally::Tally;
use worker::Worker;

/// A thread is given so many requests a second before there is another one.
const RATE_OF_A_THREAD: f64 = 25_000.0;

/// Between two tellings of how far it is.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// The first request is not due before every thread is ready.
const LEAD: Duration = Duration::from_millis(50);

/// What is to be sent, when, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// When requests are due.
    pub arrivals: Arrivals,
    /// What they ask for.
    pub mix: Mix,
    /// Same seed, same requests at the same times.
    pub seed: u64,
    /// When it is over.
    pub until: Until,
    /// Requests due this early are sent and not counted.
    pub warm_up: Duration,
    /// Nor are those due so shortly before the end.
    pub cool_down: Duration,
    /// A request is given up if its whole answer isn't there within this time after it was due.
    pub timeout: Duration,
    /// At most so many connections at once, of all threads together.
    pub connections: usize,
    /// Use connections again.
    pub keep_alive: bool,
    /// So many threads send; else as many as the rate asks for.
    pub threads: Option<usize>,
    /// 99 % of requests must leave within this after they were due, or the client is said to have
    /// been the bottleneck.
    pub lag_limit: Duration,
}

impl Plan {
    /// How many threads send.
    pub fn threads(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let rate = self.arrivals.mean_rate().unwrap_or(0.0);
        let wanted = (rate / RATE_OF_A_THREAD).ceil() as usize;
        self.threads.unwrap_or(wanted.min(cpus)).clamp(1, self.connections.max(1))
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(&self.arrivals, &self.mix, self.seed, self.until)
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// Time since the start.
    pub elapsed: Duration,
    /// When the last request will have been due, where that is known.
    pub end: Option<Duration>,
    /// Requests that were due so far.
    pub due: u64,
    /// Requests that are over: answered, failed, or never sent.
    pub done: u64,
}

/// What threads tell while they work.
#[derive(Debug, Default)]
struct Live {
    due: AtomicU64,
    done: AtomicU64,
}

/// What happens at the borders of the time that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowEdge {
    /// The first request that counts is due.
    Begin,
    /// The last one was, or it ended early.
    End,
}

/// Sends all of `plan`, or what is due until `stop` is told; waits for the answers and reports.
///
/// Every request but those skipped leaves one [`Sample`], in batches to `samples` if wanted: if that is
/// full, sending waits. `progress` is told twice a second; `border` when the time that counts begins and
/// ends.
pub fn generate(
    plan: &Plan,
    stop: &Stop,
    samples: Option<&SyncSender<Vec<Sample>>>,
    mut progress: impl FnMut(Sending),
    mut border: impl FnMut(WindowEdge),
) -> Result<LoadReport, Error> {
    let end = plan.end(stop);
    let window = Window::of(plan, end);
    let room = limits::prepare(plan)?;
    let threads = plan.threads();
    let live = Live::default();
    let finished = Stop::new().map_err(Error::Threads)?;
    let running = AtomicU64::new(threads as u64);
    let start = monotonic() + LEAD;
    let worker = |number| Worker::new(plan, number, threads, window, start, samples.cloned());
    let workers = (0..threads).map(worker).collect::<Result<Vec<Worker>, Error>>()?;
    let tallies = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (number, worker) in workers.into_iter().enumerate() {
            let (live, finished, running) = (&live, &finished, &running);
            let work = move || {
                let tally = worker.run(stop, live);
                if running.fetch_sub(1, Ordering::AcqRel) == 1 {
                    finished.stop();
                }
                tally
            };
            let named = std::thread::Builder::new().name(format!("load-{number}"));
            handles.push(named.spawn_scoped(scope, work).map_err(|error| {
                // Those that run already would go on to the end.
                stop.stop();
                Error::Threads(error)
            })?);
        }
        watch(start, end, window, &finished, &live, &mut progress, &mut border);
        let joined = handles.into_iter().map(|handle| handle.join().map_err(|_| Error::Panicked));
        joined.collect::<Result<Vec<Result<Tally, Error>>, Error>>()
    })?;
    let tallies = tallies.into_iter().collect::<Result<Vec<Tally>, Error>>()?;
    let ended = monotonic().since(start);
    Ok(LoadReport::of(plan, window, &tallies, room, ended, stop.is_stopped()))
}

/// Reports progress until all threads are done.
fn watch(
    start: Mono,
    end: Option<Duration>,
    window: Window,
    finished: &Stop,
    live: &Live,
    progress: &mut impl FnMut(Sending),
    border: &mut impl FnMut(WindowEdge),
) {
    let borders = [
        (start + window.from, WindowEdge::Begin),
        (window.to.map_or(Mono::NEVER, |to| start + to), WindowEdge::End),
    ];
    let mut borders = borders.into_iter().peekable();
    let mut tell = start + TELL_EVERY;
    loop {
        let next = borders.peek().map_or(tell, |(at, _)| tell.min(*at));
        let is_over = finished.wait_until(next) == Woken::Stopped;
        let now = monotonic();
        // At the end of the run, report the remaining borders too: callers wait for them.
        while let Some((_, which)) = borders.next_if(|(at, _)| *at <= now || is_over) {
            border(which);
        }
        if is_over {
            return;
        }
        if now >= tell {
            tell = now + TELL_EVERY;
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let (due, done) = (load(&live.due), load(&live.done));
            progress(Sending { elapsed: now.since(start), end, due, done });
        }
    }
}

/// Where a server is reached, and the `Host` that it is asked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `example.org:8080`, as in the URL.
    pub authority: String,
    /// Where connections go.
    pub address: SocketAddr,
}
