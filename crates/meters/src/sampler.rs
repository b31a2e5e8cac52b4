//! Reads meters, each in a thread of its own, and turns readings into energy.
//!
//! Polled meters are read at absolute deadlines, and once more at the beginning and at the end;
//! meters that speak by themselves are listened to. Nothing is allocated while that goes on. A meter
//! that fails is opened again after a while: what it did not say is a gap, never a repeated value.

mod schedule;
mod worker;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::integration::{Piece, Reading, Totals, Track, TrackSpec};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;

use crate::channel::Channel;
use crate::error::MeterError;
use crate::meter::{Meter, Opening, Pace};
use crate::spec::MeterSpec;

pub use schedule::Schedule;

/// Readings of power further apart than this many intervals have a gap between them.
const GAP_AFTER: f64 = 2.5;

/// A counter is read at least this many times before it can wrap.
const READS_PER_WRAP: u32 = 4;

/// An open meter, and how to open it again.
pub struct Opened {
    name: String,
    host: Host,
    spec: MeterSpec,
    meter: Box<dyn Meter>,
}

impl Opened {
    /// Opens a meter.
    pub fn open(host: &Host, spec: &MeterSpec) -> Result<Self, MeterError> {
        let meter = crate::open(host, spec)?;
        Ok(Self { name: spec.name().to_owned(), host: host.clone(), spec: spec.clone(), meter })
    }

    /// What the user calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which kind of meter it is.
    pub fn driver(&self) -> &str {
        &self.spec.driver
    }

    /// What it measures.
    pub fn channels(&self) -> &[Channel] {
        self.meter.channels()
    }

    /// Time between two readings, `requested` by the user or the usual one.
    pub fn interval(&self, requested: Option<Duration>) -> Duration {
        let interval = self.meter.pace().interval(requested);
        let counters = self.meter.channels().iter().filter_map(|channel| channel.counter);
        let wraps = counters.map(|counter| counter.longest_interval() / READS_PER_WRAP).min();
        wraps.map_or(interval, |wraps| interval.min(wraps.max(Duration::from_millis(1))))
    }

    fn again(&self) -> Opening {
        let meter = crate::open(&self.host, &self.spec)?;
        let names = |meter: &dyn Meter| -> Vec<String> {
            meter.channels().iter().map(|channel| channel.name.clone()).collect()
        };
        if names(meter.as_ref()) == names(self.meter.as_ref()) {
            return Ok(meter);
        }
        let why = "it came back with other channels than before".to_owned();
        Err(MeterError::Absent { meter: self.name.clone(), why })
    }
}

/// A reading with its time, and what it adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When it was taken, on the monotonic clock.
    pub mono: Mono,
    /// The same in civil time: nanoseconds since 1970, UTC.
    pub wall_ns: i64,
    /// The channel, by its place in [`Opened::channels`].
    pub channel: usize,
    /// What the meter said.
    pub reading: Reading,
    /// What that adds to the energy so far.
    pub piece: Piece,
}

/// Takes samples as they come, in the meter's thread.
pub trait Sink: Send {
    /// Takes one. Must not block for long.
    fn take(&mut self, sample: &Sample);
}

/// Discards the samples.
impl Sink for () {
    fn take(&mut self, _: &Sample) {}
}

/// What a meter has come to.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What the user calls the meter.
    pub meter: String,
    /// What it measures.
    pub channels: Vec<Channel>,
    /// Of each channel.
    pub totals: Vec<Totals>,
    /// Of each channel: the last power known, and when.
    pub latest: Vec<Option<(Mono, Watts)>>,
    /// Time between two readings.
    pub interval: Duration,
    /// The longest that a reading took that did not fail, of a meter that is asked.
    pub slowest: Duration,
    /// Deadlines missed while the meter worked.
    pub missed: u64,
    /// Readings that failed.
    pub errors: u64,
    /// The last of them.
    pub last_error: Option<String>,
    /// What the user has to know beside the figures, as the meter says it.
    pub remarks: Vec<String>,
    /// Times the host's civil clock was set.
    pub clock_steps: u64,
    /// Times the host was suspended.
    pub suspends: u64,
}

impl Measured {
    /// What a report has to say of the meter: its remarks, and readings that failed.
    pub fn warnings(&self) -> Vec<String> {
        let remark = |remark: &String| format!("{}: {remark}", self.meter);
        let error = |error: &String| format!("{} failed at times: {error}", self.meter);
        self.remarks.iter().map(remark).chain(self.last_error.iter().map(error)).collect()
    }
}

/// What a worker and those who watch it share.
#[derive(Debug)]
struct Board {
    tracks: Vec<Track>,
    measured: Measured,
}

impl Board {
    fn new(opened: &Opened, interval: Duration, begins: Mono) -> Self {
        let longest_gap = interval.mul_f64(GAP_AFTER).max(Duration::from_millis(20));
        let channels = opened.channels().to_vec();
        let track = |channel: &Channel| {
            let track = Track::new(TrackSpec { counter: channel.counter, longest_gap }, begins);
            // Rails of a board may carry a current either way; a machine draws power.
            if channel.scope.is_whole() { track.at_least(Watts::ZERO) } else { track }
        };
        let tracks: Vec<_> = channels.iter().map(track).collect();
        let measured = Measured {
            meter: opened.name.clone(),
            totals: vec![Totals::default(); channels.len()],
            latest: vec![None; channels.len()],
            channels,
            interval,
            slowest: Duration::ZERO,
            missed: 0,
            errors: 0,
            last_error: None,
            remarks: opened.meter.remarks(),
            clock_steps: 0,
            suspends: 0,
        };
        Self { tracks, measured }
    }

    fn measured(&self) -> Measured {
        let totals = self.tracks.iter().map(Track::totals).collect();
        Measured { totals, ..self.measured.clone() }
    }
}

/// Meters that are being read.
pub struct Sampler {
    stop: Stop,
    workers: Vec<(Arc<Mutex<Board>>, JoinHandle<Opened>)>,
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    /// As [`Sampler::start`], where only the sums are needed.
    pub fn start_without_sinks(
        meters: Vec<Opened>,
        requested: Option<Duration>,
    ) -> io::Result<Self> {
        Self::start(meters, requested, |_| Box::new(()))
    }

    /// Begins to read: every meter that can be asked has been read once when this returns. `requested` is
    /// the time between two readings that the user wants; each meter's samples go to the sink that
    /// `sink` makes for it. All that is read counts, until
    /// [`Sampler::begin`] says from when on.
    pub fn start(
        meters: Vec<Opened>,
        requested: Option<Duration>,
        mut sink: impl FnMut(&Opened) -> Box<dyn Sink>,
    ) -> io::Result<Self> {
        let (stop, begun) = (Stop::new()?, monotonic());
        let mut workers = Vec::with_capacity(meters.len());
        let (ready, waits) = std::sync::mpsc::channel();
        for opened in meters {
            let interval = opened.interval(requested);
            let board = Arc::new(Mutex::new(Board::new(&opened, interval, begun)));
            let polled = matches!(opened.meter.pace(), Pace::Polled { .. });
            let ready = Some(ready.clone()).filter(|_| polled);
            let worker = worker::Worker::new(sink(&opened), Arc::clone(&board), &stop, interval);
            let name = format!("meter {}", opened.name);
            let thread = std::thread::Builder::new().name(name);
            workers.push((board, thread.spawn(move || worker.run(opened, ready))?));
        }
        drop(ready);
        // Ends when each has said so, or is gone.
        while waits.recv().is_ok() {}
        Ok(Self { stop, workers })
    }

    /// Only what lies after this moment counts.
    pub fn begin(&self, begin: Mono) {
        for (board, _) in &self.workers {
            lock(board).tracks.iter_mut().for_each(|track| track.begin(begin));
        }
    }

    /// What there is so far.
    pub fn so_far(&self) -> Vec<Measured> {
        self.workers.iter().map(|(board, _)| lock(board).measured()).collect()
    }

    /// Counts to `end` and stops. Meters that speak by themselves are given the time to say what they
    /// measured up to then. Returns the meters, to be used again.
    pub fn finish(self, end: Mono) -> (Vec<Measured>, Vec<Opened>) {
        for (board, _) in &self.workers {
            lock(board).tracks.iter_mut().for_each(|track| track.end(end));
        }
        self.stop.stop();
        let ended = self.workers.into_iter().map(|(board, thread)| {
            // A driver that panicked is gone with its meter; what it measured stays.
            let opened = thread.join().ok();
            let mut board = lock(&board);
            board.tracks.iter_mut().for_each(Track::close);
            (board.measured(), opened)
        });
        let (measured, opened): (Vec<_>, Vec<_>) = ended.unzip();
        (measured, opened.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests;
