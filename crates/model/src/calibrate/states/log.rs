//! Rows for the fit, out of a power log and the sleep cycles that happened in it.

use std::time::Duration;

use super::StatesRow;
use crate::calibrate::CalibrateError;
use crate::power_log::PowerLog;
use crate::quantity::Joules;
use crate::time::Mono;

/// One sleep and the wake-up that ends it, on the time line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SleepCycle {
    /// When the machine was told to sleep.
    pub sleep_commanded: Mono,
    /// Between these it was surely asleep and still (after it fell asleep, before it was told to
    /// wake). With them `P_off` stands by itself, even when all sleeps are equally long.
    pub still: Option<(Mono, Mono)>,
    /// When it first answered after being told to wake.
    pub wake_answered: Mono,
}

/// Rows, and how sure each is.
#[derive(Debug, Clone, PartialEq)]
pub struct StatesRows {
    /// Stretches of the log that do not overlap.
    pub rows: Vec<StatesRow>,
    /// Standard errors up to a common factor: of independent readings, the integral over a time T
    /// has an error in proportion to the root of T.
    pub relative_errors: Vec<Joules>,
    /// Stretches that the log does not cover: it begins too late, ends too early, or has a gap.
    pub left_out: usize,
}

/// Cuts a log into rows: each sleep cycle is one (less its still part, which is another), and the
/// time between cycles is cut into stretches about as long as the shortest cycle (of ten readings
/// at least), so that the residuals know the scatter.
///
/// Cycles must be in order and must not overlap.
pub fn rows_of_log(log: &PowerLog, cycles: &[SleepCycle]) -> Result<StatesRows, CalibrateError> {
    check(cycles)?;
    let mut rows = StatesRows { rows: Vec::new(), relative_errors: Vec::new(), left_out: 0 };
    let (Some(first), Some(last)) = (log.readings().first(), log.readings().last()) else {
        rows.left_out = cycles.len();
        return Ok(rows);
    };
    let whole = last.time.since(first.time);
    let readings = u32::try_from(log.readings().len()).unwrap_or(u32::MAX);
    // Neighbours share the reading between them: of ten readings that is little.
    let shortest = (whole / readings).saturating_mul(10);
    let stretch = cycles
        .iter()
        .map(|cycle| cycle.wake_answered.since(cycle.sleep_commanded))
        .min()
        .unwrap_or(whole)
        .max(shortest);
    let mut awake_from = first.time;
    for cycle in cycles {
        rows.awake(log, awake_from, cycle.sleep_commanded, stretch);
        rows.asleep(log, cycle, stretch);
        awake_from = cycle.wake_answered.max(first.time);
    }
    rows.awake(log, awake_from, last.time, stretch);
    Ok(rows)
}

fn check(cycles: &[SleepCycle]) -> Result<(), CalibrateError> {
    let mut before = Mono::ZERO;
    for (index, cycle) in cycles.iter().enumerate() {
        let bad = |why| Err(CalibrateError::Bad { what: "sleep cycle", index: index + 1, why });
        if cycle.sleep_commanded < before {
            return bad("begins before the one before it has ended");
        }
        if cycle.wake_answered <= cycle.sleep_commanded {
            return bad("ends before it begins");
        }
        if let Some((from, to)) = cycle.still
            && !(cycle.sleep_commanded <= from && from < to && to <= cycle.wake_answered)
        {
            return bad("is still at a time that does not lie within it");
        }
        before = cycle.wake_answered;
    }
    Ok(())
}

impl StatesRows {
    /// Energy in proportion to time, in equal stretches.
    fn steady(&mut self, log: &PowerLog, from: Mono, to: Mono, stretch: Duration, asleep: bool) {
        let time = to.since(from);
        if time.is_zero() {
            return;
        }
        let pieces = (time.as_secs_f64() / stretch.as_secs_f64()).floor().max(1.0) as u32;
        let edge = |piece: u32| if piece == pieces { to } else { from + time / pieces * piece };
        for piece in 0..pieces {
            let (from, to) = (edge(piece), edge(piece + 1));
            let time = to.since(from);
            let (on, off) = if asleep { (Duration::ZERO, time) } else { (time, Duration::ZERO) };
            self.push(on, off, 0, log.energy(from, to));
        }
    }

    fn awake(&mut self, log: &PowerLog, from: Mono, to: Mono, stretch: Duration) {
        self.steady(log, from, to, stretch, false);
    }

    fn asleep(&mut self, log: &PowerLog, cycle: &SleepCycle, stretch: Duration) {
        let (from, to) = (cycle.sleep_commanded, cycle.wake_answered);
        let whole = log.energy(from, to);
        let Some((still_from, still_to)) = cycle.still else {
            self.push(Duration::ZERO, to.since(from), 1, whole);
            return;
        };
        let still = log.energy(still_from, still_to);
        let rest = whole.zip(still).map(|(whole, still)| whole - still);
        self.push(Duration::ZERO, still_from.since(from) + to.since(still_to), 1, rest);
        self.steady(log, still_from, still_to, stretch, true);
    }

    fn push(&mut self, on: Duration, off: Duration, cycles: u32, energy: Option<Joules>) {
        let Some(energy) = energy else {
            self.left_out += 1;
            return;
        };
        self.rows.push(StatesRow { on, off, cycles, energy });
        // A cycle that was still from command to answer has no time left to weigh it by.
        let time = (on + off).max(Duration::from_millis(1));
        self.relative_errors.push(Joules(time.as_secs_f64().sqrt()));
    }
}
