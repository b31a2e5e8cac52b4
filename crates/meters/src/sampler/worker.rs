//! The thread of one meter.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nightwatt_clock::meter::{Stamp, Stop, Woken, monotonic};
use nightwatt_energy::integration::{Gap, Piece, Reading};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;

use super::{Board, Opened, Sample, Schedule, Sink, lock};
use crate::error::MeterError;
use crate::meter::{Pace, Readings, Turn};

/// Readings that may come in one turn without allocating.
const ROOM: usize = 4096;

/// First and longest pause before a failed meter is opened again; each pause is twice the one before.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(32));

/// A polled meter is opened again after this many failures in a row.
const FAILURES: u32 = 3;

/// A failure of a meter is logged once in this time.
const COMPLAIN_EVERY: Duration = Duration::from_mins(1);

/// A meter that sends readings by itself counts as silent after this many of its intervals.
const SILENT_AFTER: u32 = 10;

/// Timeout for the last reading of a polled meter.
const LAST_READING: Duration = Duration::from_secs(5);

/// A polled meter whose failure takes longer than this counts as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(1);

/// The civil clock was set if it moved by more than this against the monotonic one between two
/// readings; less is how it is kept in step.
const CLOCK_STEP: Duration = Duration::from_millis(100);

pub(super) struct Worker {
    sink: Box<dyn Sink>,
    board: Arc<Mutex<Board>>,
    stop: Stop,
    interval: Duration,
    readings: Readings,
    before: Stamp,
    failures: u32,
    /// The last reading failed, and took its time over it.
    hangs: bool,
    complained: Option<Mono>,
}

impl Worker {
    pub(super) fn new(
        sink: Box<dyn Sink>,
        board: Arc<Mutex<Board>>,
        stop: &Stop,
        interval: Duration,
    ) -> Self {
        Self {
            sink,
            board,
            stop: stop.clone(),
            interval,
            readings: Readings::with_capacity(ROOM),
            before: Stamp::now(),
            failures: 0,
            hangs: false,
            complained: None,
        }
    }

    /// Reads until stopped. `ready` is dropped after the first reading.
    pub(super) fn run(mut self, mut opened: Opened, mut ready: Option<Sender<()>>) -> Opened {
        let mut schedule = Schedule::new(monotonic(), self.interval);
        loop {
            let failed = match opened.meter.pace() {
                Pace::Polled { .. } => self.poll(&mut opened, &mut schedule),
                Pace::Pushed { about } => self.listen(&mut opened, about),
            };
            // Wakes the caller that waits for the first reading.
            drop(ready.take());
            match failed {
                Ok(Woken::Stopped) => return self.end(opened),
                Ok(_) => (self.failures, self.hangs) = (0, false),
                Err(error) => {
                    self.recover(&mut opened, &error);
                    // What was not read meanwhile was not too late: it is counted as an error.
                    schedule.skip_to(monotonic());
                }
            }
        }
    }

    /// Reads at the next deadline; the first is now.
    fn poll(&mut self, opened: &mut Opened, schedule: &mut Schedule) -> Result<Woken, MeterError> {
        let woken = self.stop.wait_until(schedule.next());
        if woken == Woken::Stopped {
            return Ok(woken);
        }
        let turn = Turn { stop: &self.stop, until: schedule.next() + self.interval };
        let started = monotonic();
        let result = opened.meter.read(&turn, &mut self.readings);
        let waited = self.readings.waited;
        let answered = monotonic() - waited;
        let result = self.parts(result);
        let now = self.take();
        match result {
            Ok(()) => {
                schedule.kept(now);
                let measured = &mut lock(&self.board).measured;
                measured.missed = schedule.missed();
                measured.slowest = measured.slowest.max(answered.since(started));
                Ok(woken)
            }
            Err(error) => {
                self.hangs = answered.since(started) >= HANGS_AFTER;
                Err(error)
            }
        }
    }

    /// Notes what parts could not be read. The meter failed where that is all of them.
    fn parts(&mut self, result: Result<(), MeterError>) -> Result<(), MeterError> {
        for error in self.readings.outcome(result)? {
            self.note(&error);
        }
        Ok(())
    }

    /// Waits for what the meter says next.
    fn listen(&mut self, opened: &mut Opened, about: Duration) -> Result<Woken, MeterError> {
        let timeout = (about * SILENT_AFTER).max(Duration::from_secs(5));
        let until = monotonic() + timeout;
        let result = opened.meter.read(&Turn { stop: &self.stop, until }, &mut self.readings);
        let silent = self.readings.is_empty();
        self.take();
        result?;
        if self.stop.is_stopped() {
            return Ok(Woken::Stopped);
        }
        if silent && monotonic() >= until {
            let (meter, seconds) = (opened.name.clone(), timeout.as_secs());
            return Err(MeterError::Silent { meter, seconds });
        }
        Ok(Woken::Readable)
    }

    /// The last reading: at the end of what is counted, or of what the meter has still to say of it.
    fn end(mut self, mut opened: Opened) -> Opened {
        let listening = match opened.meter.pace() {
            Pace::Polled { .. } => self.interval.max(LAST_READING),
            Pace::Pushed { about } => about.mul_f64(1.5),
        };
        // This turn ends by its deadline, without a stop. It is skipped for a meter that hangs, so that the
        // caller does not wait for it.
        if let (false, Ok(stop)) = (self.hangs, Stop::new()) {
            let turn = Turn { stop: &stop, until: monotonic() + listening };
            let result = opened.meter.read(&turn, &mut self.readings);
            if let Err(error) = self.parts(result) {
                self.note(&error);
            }
            self.take();
        }
        lock(&self.board).measured.remarks = opened.meter.remarks();
        opened
    }

    /// Books the readings; says when that was.
    fn take(&mut self) -> Mono {
        let now = Stamp::now();
        let before = std::mem::replace(&mut self.before, now);
        let mut board = lock(&self.board);
        let board = &mut *board;
        if now.suspended > before.suspended + CLOCK_STEP {
            board.measured.suspends += 1;
            board.tracks.iter_mut().for_each(|track| track.interrupt(Gap::Suspended));
        }
        let offset = |stamp: &Stamp| stamp.wall_ns - nanos(stamp.mono.0 + stamp.suspended);
        if offset(&now).abs_diff(offset(&before)) > CLOCK_STEP.as_nanos() as u64 {
            board.measured.clock_steps += 1;
        }
        for (&(channel, mono, reading), known) in self.readings.with_known() {
            let track = &mut board.tracks[channel];
            let piece = match known {
                None => track.add(mono, reading),
                Some(piece) => track.replay(mono, reading, piece),
            };
            if let Some(watts) = latest(reading, piece) {
                board.measured.latest[channel] = Some((mono, watts));
            }
            let wall_ns = now.wall_ns - nanos(now.mono.since(mono));
            self.sink.take(&Sample { mono, wall_ns, channel, reading, piece });
        }
        self.readings.clear();
        now.mono
    }

    /// Waits a little; opens the meter again if that may help.
    fn recover(&mut self, opened: &mut Opened, error: &MeterError) {
        self.note(error);
        self.failures += 1;
        let polled = matches!(opened.meter.pace(), Pace::Polled { .. });
        if polled && self.failures < FAILURES {
            return;
        }
        let (least, most) = RETRY;
        let doublings = self.failures.min(FAILURES + 10) - u32::from(polled) * FAILURES;
        let pause = least.saturating_mul(1 << doublings.min(10)).min(most);
        if self.stop.wait_until(monotonic() + pause) == Woken::Stopped {
            return;
        }
        opened.meter.release();
        match opened.again() {
            Ok(meter) => opened.meter = meter,
            Err(error) => self.note(&error),
        }
    }

    fn note(&mut self, error: &MeterError) {
        let mut board = lock(&self.board);
        board.measured.errors += 1;
        board.measured.last_error = Some(error.to_string());
        let now = monotonic();
        if self.complained.is_none_or(|last| now.since(last) >= COMPLAIN_EVERY) {
            self.complained = Some(now);
            tracing::warn!(meter = board.measured.meter, %error, "a meter failed");
        }
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The power that a reading tells.
fn latest(reading: Reading, piece: Piece) -> Option<Watts> {
    match (reading, piece) {
        (_, Piece::Ignored) => None,
        (Reading::Power(watts) | Reading::MeanPower { watts, .. }, _) => Some(watts),
        (Reading::Counter(_), Piece::Covers { joules, time }) => Some(joules / time),
        (Reading::Counter(_), _) => None,
    }
}
