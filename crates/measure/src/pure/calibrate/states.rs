//! Power awake, power asleep, and the energy of a sleep cycle, by least squares.
//!
//! Each row is a run, or a stretch of a log: the time awake, the time asleep (from the sleep command
//! to the answer to the wake command), how many whole sleep cycles, and the energy used:
//!
//! `T_on x P_on + T_off x P_off + N x E_switch = E`
//!
//! That is the definition of `E_switch` in [`PowerStates`]: energy of a whole cycle beyond `P_off` x its
//! time. `P_off` and `E_switch` can be told apart only when cycles of different lengths are seen, or
//! when the moments are known between which the machine was asleep and still.

pub mod drive;
mod log;

use std::time::Duration;

use serde::Serialize;

pub use self::log::{SleepCycle, StatesRows, rows_of_log};
use super::{CalibrateError, Estimate};
use nightwatt_energy::least_squares::{Design, LeastSquaresError, RowErrors};
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::{Joules, Watts};

/// A run or a stretch of a log.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StatesRow {
    /// Time awake.
    pub on: Duration,
    /// Time from sleep commands to wake commands answered.
    pub off: Duration,
    /// Whole sleep cycles.
    pub cycles: u32,
    /// Energy used in all.
    pub energy: Joules,
}

impl StatesRow {
    /// Whether it says anything.
    fn is_informative(&self) -> bool {
        self.on > Duration::ZERO || self.off > Duration::ZERO || self.cycles > 0
    }
}

/// What is known of the error of each row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EnergyErrors<'a> {
    /// Nothing but that all are alike.
    Equal,
    /// Standard errors up to a common factor: of stretches of a log, the root of their length.
    Relative(&'a [Joules]),
    /// Standard errors, from the meter's stated accuracy.
    Known(&'a [Joules]),
}

/// What to think twice about before using a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// `P_on` is not surely above zero.
    OnNotAboveZero,
    /// `P_off` is below zero: the meter's zero is off, or a row is wrong.
    OffBelowZero,
    /// `E_switch` is below zero: falling asleep and waking drew less than `P_off` throughout.
    SwitchBelowZero,
    /// The machine does not surely draw less asleep than awake.
    SavesNothing,
    /// The errors are unknown, since there are only as many rows as figures.
    NoRowToSpare,
}

/// The three figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatesFit {
    /// `P_on`.
    pub on: Estimate<Watts>,
    /// `P_off`.
    pub off: Estimate<Watts>,
    /// `E_switch`.
    pub switch: Estimate<Joules>,
    /// What sleeping saves per time: `P_on` - `P_off`, whose error is not that of either.
    pub saved: Estimate<Watts>,
    /// How many rows said something.
    pub rows: usize,
    /// Rows that said nothing: no time, no cycle.
    pub empty_rows: usize,
    /// Standard deviation of what the rows are off the fit: in joules for [`EnergyErrors::Equal`],
    /// else in units of the rows' own errors.
    pub residual_sd: f64,
    /// What is doubtful.
    pub doubts: Vec<Doubt>,
}

impl StatesFit {
    /// The power states for policies, with wake and sleep times that were measured elsewhere.
    pub const fn power_states(&self, sleep_time: Duration, wake_time: Duration) -> PowerStates {
        PowerStates {
            on: self.on.value,
            off: self.off.value,
            switch: self.switch.value,
            wake_time,
            sleep_time,
        }
    }
}

const ALL: &str = "P_on, P_off and E_switch";

/// Solves for the three figures.
///
/// A negative figure stays negative and is doubted aloud.
pub fn fit_states(
    rows: &[StatesRow],
    errors: EnergyErrors<'_>,
) -> Result<StatesFit, CalibrateError> {
    let errors = match errors {
        EnergyErrors::Equal => None,
        EnergyErrors::Relative(errors) | EnergyErrors::Known(errors) => Some(errors),
    }
    .map(|given| (given, matches!(errors, EnergyErrors::Known(_))));
    let mut design = Design::new(3);
    let mut sds = Vec::new();
    let mut informative = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let bad = |why| CalibrateError::Bad { what: "row", index: index + 1, why };
        if !row.energy.get().is_finite() {
            return Err(bad("has an energy that is not finite"));
        }
        if !row.is_informative() {
            continue;
        }
        if let Some((given, _)) = errors {
            let sd = given.get(index).ok_or(bad("has no error given"))?.get();
            if !(sd.is_finite() && sd > 0.0) {
                return Err(bad("has an error that is not above zero"));
            }
            sds.push(sd);
        }
        let (on, off) = (row.on.as_secs_f64(), row.off.as_secs_f64());
        design.push(&[on, off, f64::from(row.cycles)], row.energy.get());
        informative.push(*row);
    }
    check_enough(&informative)?;
    let row_errors = match errors {
        None => RowErrors::Equal,
        Some((_, true)) => RowErrors::Known(&sds),
        Some((_, false)) => RowErrors::Relative(&sds),
    };
    let fit = design.solve(row_errors).map_err(|error| undetermined(&error))?;
    if !fit.coefficients.iter().all(|figure| figure.is_finite()) {
        return Err(CalibrateError::Undetermined {
            figures: ALL,
            why: "the energies are too large to be added up".to_owned(),
            next: "give times in seconds and energies in joules",
        });
    }
    let difference = fit.at(&[1.0, -1.0, 0.0]);
    let mut found = StatesFit {
        on: Estimate::of(&fit, 0, Watts),
        off: Estimate::of(&fit, 1, Watts),
        switch: Estimate::of(&fit, 2, Joules),
        saved: Estimate::new(Watts(difference.0), Watts(difference.1), fit.t_95),
        rows: fit.rows,
        empty_rows: rows.len() - fit.rows,
        residual_sd: fit.residual_sd,
        doubts: Vec::new(),
    };
    found.doubts = doubts(&found);
    Ok(found)
}

/// Says which figure the rows say nothing of.
fn check_enough(rows: &[StatesRow]) -> Result<(), CalibrateError> {
    let undetermined = |figures, why: &str, next| {
        Err(CalibrateError::Undetermined { figures, why: why.to_owned(), next })
    };
    if rows.iter().all(|row| row.cycles == 0) {
        return undetermined(
            "E_switch",
            "no row has a sleep cycle",
            "put the machine to sleep and wake it in at least one run",
        );
    }
    if rows.iter().all(|row| row.on.is_zero()) {
        return undetermined("P_on", "no row has time awake", "add a run without sleep");
    }
    if rows.iter().all(|row| row.off.is_zero()) {
        return undetermined("P_off", "no row has time asleep", "add a run with a long sleep");
    }
    if rows.len() < 3 {
        return undetermined(
            ALL,
            &format!("{} informative rows for three figures", rows.len()),
            "measure at least five runs: two without sleep, one of many short sleeps, two of long ones",
        );
    }
    Ok(())
}

fn undetermined(error: &LeastSquaresError) -> CalibrateError {
    let LeastSquaresError::Dependent { columns } = error else {
        return CalibrateError::of_fit(error, "row", ALL, "measure at least five runs");
    };
    let (figures, why, next) = match columns.as_slice() {
        [0, 1] => (
            "P_on and P_off",
            "time awake and time asleep stand in the same ratio in every row",
            "add a run without sleep",
        ),
        [0, 2] => (
            "P_on and E_switch",
            "time awake and number of sleep cycles stand in the same ratio in every row",
            "add a run without sleep",
        ),
        [1, 2] => (
            "P_off and E_switch",
            "every sleep cycle lasted equally long",
            "run again with sleeps of different lengths, for example 30 s, 2 min and 10 min",
        ),
        _ => (
            ALL,
            "times and numbers of sleep cycles change together in every row",
            "add a run without sleep, and one with a single long sleep",
        ),
    };
    CalibrateError::Undetermined { figures, why: why.to_owned(), next }
}

fn doubts(fit: &StatesFit) -> Vec<Doubt> {
    [
        (fit.on.interval.0.get() <= 0.0, Doubt::OnNotAboveZero),
        (fit.off.value.get() < 0.0, Doubt::OffBelowZero),
        (fit.switch.value.get() < 0.0, Doubt::SwitchBelowZero),
        (fit.saved.interval.0.get() <= 0.0, Doubt::SavesNothing),
        (fit.on.standard_error.get().is_infinite(), Doubt::NoRowToSpare),
    ]
    .into_iter()
    .filter_map(|(doubtful, doubt)| doubtful.then_some(doubt))
    .collect()
}

#[cfg(test)]
mod tests;
