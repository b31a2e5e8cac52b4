//! Rows for the fit, out of a power log and the sleep cycles that happened in it.

use std::time::Duration;

use super::{EnergyErrors, StatesFit, StatesRow, doubts, fit_states};
use crate::pure::calibrate::{CalibrateError, Estimate};
use crate::pure::power_log::PowerLog;
use nightwatt_energy::least_squares::{Design, Fit, LeastSquaresError, RowErrors};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;

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
/// Power steps between two readings when the machine is told to sleep and when it is awake again, and
/// the line between the readings tells each side a part of the other's. So the time of a reading on
/// either side of a cycle, in which the machine was awake, stands in the cycle's row: over the whole
/// step the line errs to neither side.
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
    let beside = whole / readings;
    let mut awake_from = first.time;
    for (index, cycle) in cycles.iter().enumerate() {
        let next = cycles.get(index + 1).map_or(last.time, |next| next.sleep_commanded);
        let before = beside.min(cycle.sleep_commanded.since(awake_from));
        let after = beside.min(next.since(cycle.wake_answered) / 2);
        rows.awake(log, awake_from, cycle.sleep_commanded - before, stretch);
        rows.asleep(log, cycle, before, after, stretch);
        awake_from = (cycle.wake_answered + after).max(first.time);
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

    /// A cycle, with so much time awake `before` and `after` it.
    fn asleep(
        &mut self,
        log: &PowerLog,
        cycle: &SleepCycle,
        before: Duration,
        after: Duration,
        stretch: Duration,
    ) {
        let (from, to) = (cycle.sleep_commanded, cycle.wake_answered);
        let (on, whole) = (before + after, log.energy(from - before, to + after));
        let Some((still_from, still_to)) = cycle.still else {
            self.push(on, to.since(from), 1, whole);
            return;
        };
        let still = log.energy(still_from, still_to);
        let rest = whole.zip(still).map(|(whole, still)| whole - still);
        self.push(on, still_from.since(from) + to.since(still_to), 1, rest);
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

/// Time and energy of a row, for the fits.
struct Stretch {
    on: f64,
    off: f64,
    joules: f64,
}

impl Stretch {
    fn time(&self) -> f64 {
        (self.on + self.off).max(1e-3)
    }
}

impl StatesRows {
    /// The three figures.
    ///
    /// Rows of two kinds err differently. A stretch in one state has the noise of its readings, in
    /// proportion to the root of its time. A sleep cycle has besides what the readings miss of its
    /// steps: power that changes between two readings, each time at another moment. So each kind is
    /// fitted by itself, and its own residuals say how sure its figures are.
    pub fn fit(&self) -> Result<StatesFit, CalibrateError> {
        let mut found = fit_states(&self.rows, EnergyErrors::Relative(&self.relative_errors))?;
        let of = |with_cycle: bool| -> Vec<Stretch> {
            let rows = self.rows.iter().filter(|row| (row.cycles > 0) == with_cycle);
            let stretch = |row: &StatesRow| Stretch {
                on: row.on.as_secs_f64(),
                off: row.off.as_secs_f64(),
                joules: row.energy.get(),
            };
            rows.map(stretch).collect()
        };
        // Where one of the kinds says too little by itself, both together have spoken.
        if let Ok(apart) = apart(&of(false), &of(true)) {
            (found.on, found.off, found.saved, found.switch) = apart;
            found.doubts = doubts(&found);
        }
        Ok(found)
    }
}

type Figures = (Estimate<Watts>, Estimate<Watts>, Estimate<Watts>, Estimate<Joules>);

/// `P_on`, `P_off`, their difference and `E_switch`.
fn apart(steady: &[Stretch], cycles: &[Stretch]) -> Result<Figures, LeastSquaresError> {
    let is_still = steady.iter().any(|row| row.off > 0.0);
    let mut design = Design::new(if is_still { 2 } else { 1 });
    for row in steady {
        design.push(&[row.on, row.off][..if is_still { 2 } else { 1 }], row.joules);
    }
    let errors: Vec<f64> = steady.iter().map(|row| row.time().sqrt()).collect();
    let fit = design.solve(RowErrors::Relative(&errors))?;
    let noise = if fit.residual_sd.is_finite() { fit.residual_sd.powi(2) } else { 0.0 };
    let on = Estimate::of(&fit, 0, Watts);
    if is_still {
        let off = Estimate::of(&fit, 1, Watts);
        let saved = fit.at(&[1.0, -1.0]);
        let saved = Estimate::new(Watts(saved.0), Watts(saved.1), fit.t_95);
        let mut design = Design::new(1);
        for row in cycles {
            let rest = row.joules - on.value.get() * row.on - off.value.get() * row.off;
            design.push(&[1.0], rest);
        }
        let fit = of_cycles(&design, cycles, noise)?;
        let mean_off = cycles.iter().map(|row| row.off).sum::<f64>() / cycles.len().max(1) as f64;
        let error = fit.standard_error(0).hypot(off.standard_error.get() * mean_off);
        let switch = Estimate::new(Joules(fit.coefficients[0]), Joules(error), fit.t_95);
        return Ok((on, off, saved, switch));
    }
    let mut design = Design::new(2);
    for row in cycles {
        design.push(&[row.off, 1.0], row.joules - on.value.get() * row.on);
    }
    let fit = of_cycles(&design, cycles, noise)?;
    let (off, switch) = (Estimate::of(&fit, 0, Watts), Estimate::of(&fit, 1, Joules));
    let error = on.standard_error.get().hypot(off.standard_error.get());
    let saved = Estimate::new(on.value - off.value, Watts(error), fit.t_95);
    Ok((on, off, saved, switch))
}

/// Fits sleep cycles: `noise` is the variance that readings have in a second, J^2; what their
/// residuals are beyond it, they have each whatever their length.
fn of_cycles(design: &Design, cycles: &[Stretch], noise: f64) -> Result<Fit, LeastSquaresError> {
    let plain = design.solve(RowErrors::Equal)?;
    let mean_time = cycles.iter().map(Stretch::time).sum::<f64>() / cycles.len().max(1) as f64;
    let steps = (plain.residual_sd.powi(2) - noise * mean_time).max(0.0);
    let error = |row: &Stretch| (noise * row.time() + steps).sqrt();
    let errors: Vec<f64> = cycles.iter().map(error).collect();
    if errors.iter().any(|error| !error.is_finite() || *error <= 0.0) {
        return Ok(plain);
    }
    design.solve(RowErrors::Relative(&errors))
}
