//! `calibrate states`: `P_on`, `P_off` and `E_switch` from a table of runs, from a recording and the
//! times of its sleeps ([`log`]), or by driving the machine through sleep cycles ([`drive`]).

pub mod drive;
pub mod log;
mod readings;

use std::fmt::Write as _;
use std::time::Duration;

use crate::pure::calibrate::states::{
    EnergyErrors, SleepCycle, StatesFit, StatesRow, fit_states, rows_of_log,
};
use crate::pure::calibrate::{CalibrateError, Estimate};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_meters::log::tables::Quantity;
use serde::Serialize;

pub use readings::Readings;

use crate::calibrate::table::{self, Wanted};
use crate::error::Error;

/// A duration that was measured several times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Seconds at least.
    pub least: f64,
    /// The upper of the two middle values where there are two.
    pub median: f64,
    /// Seconds at most.
    pub most: f64,
}

impl Spread {
    /// None of none.
    fn of(times: impl Iterator<Item = Duration>) -> Option<Self> {
        let mut times: Vec<f64> = times.map(|time| time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let (least, most) = (*times.first()?, *times.last()?);
        Some(Self { least, median: times[times.len() / 2], most })
    }
}

/// What a recording says of the power states.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatesFound {
    /// Version of this form.
    pub schema: u32,
    /// Meter and channel.
    pub measured_by: String,
    /// The share that the meter may be off at `P_on`.
    pub meter_accuracy: Option<f64>,
    /// Sleep cycles.
    pub cycles: usize,
    /// Stretches that the recording does not cover.
    pub left_out: usize,
    /// The three figures.
    pub fit: StatesFit,
    /// From the sleep command until the machine was down.
    pub time_to_sleep_s: Option<Spread>,
    /// From the wake command to the first answer.
    pub time_to_wake_s: Option<Spread>,
    /// What to think twice about.
    pub warnings: Vec<String>,
}

impl StatesFound {
    /// The lines for the configuration: `[scenario.server]`. `uncertainty` is that of the power awake,
    /// which is most of every bill: the meter's, and the fit's 95 % interval.
    pub fn toml(&self) -> String {
        let fit = &self.fit;
        let half = |low: f64, high: f64| (high - low) / 2.0;
        let (on, switch) = (&fit.on, &fit.switch);
        let own = half(on.interval.0.get(), on.interval.1.get()) / on.value.get();
        let uncertainty = own.hypot(self.meter_accuracy.unwrap_or(0.0));
        let watts = |name: &str, it: &Estimate<Watts>| {
            let half = half(it.interval.0.get(), it.interval.1.get());
            format!("{name} = {:.2}  # +- {}\n", it.value.get(), of_use(half))
        };
        let mut text = String::from("[scenario.server]\n");
        text.push_str(&watts("on_w", on));
        text.push_str(&watts("off_w", &fit.off));
        let switch_half = half(switch.interval.0.get(), switch.interval.1.get());
        // Writing to a String cannot fail, here and below.
        let value = switch.value.get();
        let _ = writeln!(text, "switch_j = {value:.1}  # +- {}", of_use(switch_half));
        for (name, spread) in
            [("wake_time", self.time_to_wake_s), ("sleep_time", self.time_to_sleep_s)]
        {
            if let Some(Spread { least, median, most }) = spread {
                let millis = (median * 1000.0).round();
                let _ = writeln!(text, "{name} = \"{millis}ms\"  # {least:.1} to {most:.1} s");
            }
        }
        if uncertainty.is_finite() && (0.0..1.0).contains(&uncertainty) {
            // Rounded up: a printed zero would claim that there is no uncertainty.
            let _ = writeln!(text, "uncertainty = {:.3}", (uncertainty * 1000.0).ceil() / 1000.0);
        }
        text
    }
}

/// With as many digits as say something.
fn of_use(half: f64) -> String {
    let digits = if half >= 10.0 { 0 } else { 1 - (half.max(1e-6).log10().floor() as i32).min(0) };
    format!("{half:.*}", usize::try_from(digits).unwrap_or(0))
}

/// Fits readings and the sleep cycles that happened in them.
fn fit_log(
    readings: Readings,
    cycles: &[SleepCycle],
    measured_by: String,
) -> Result<StatesFound, Error> {
    let log = readings.log().map_err(CalibrateError::from)?;
    let rows = rows_of_log(&log, cycles)?;
    let fit = rows.fit()?;
    let mut warnings = Vec::new();
    if rows.left_out > 0 {
        let left_out = rows.left_out;
        warnings
            .push(format!("the readings do not cover {left_out} stretches: they were left out"));
    }
    Ok(StatesFound {
        schema: 1,
        measured_by,
        meter_accuracy: None,
        cycles: cycles.len(),
        left_out: rows.left_out,
        fit,
        time_to_sleep_s: None,
        time_to_wake_s: None,
        warnings,
    })
}

/// Columns of a table of runs.
const COLUMNS: [Wanted; 5] = [
    Wanted::new("on_s", Quantity::Time, &["on", "awake"]),
    Wanted::new("off_s", Quantity::Time, &["off", "asleep"]),
    Wanted::new("cycles", Quantity::Count, &["cycles"]),
    Wanted::new("joules_sd", Quantity::Energy, &["sd", "error", "stderr"]).optional(),
    Wanted::new("joules", Quantity::Energy, &[]),
];

/// Fits a table: CSV with a head that names `on_s`, `off_s`, `cycles`, `joules`, and, if every row has
/// one, `joules_sd`, the energy's standard error. Lines that begin with `#` are left out.
pub fn fit(table: &str) -> Result<StatesFit, Error> {
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for row in table::read(table, &COLUMNS)? {
        let time = |place: usize| -> Result<Duration, Error> {
            let seconds = row.of(place);
            Duration::try_from_secs_f64(seconds).map_err(|_| {
                bad(row.line, &format!("`{}` is {seconds}, which is no time", COLUMNS[place].name))
            })
        };
        let cycles = row.of(2);
        if cycles < 0.0 || cycles.fract() != 0.0 || cycles > f64::from(u32::MAX) {
            return Err(bad(row.line, &format!("`cycles` is {cycles}, and must be a count")));
        }
        let energy = Joules(row.of(4));
        rows.push(StatesRow { on: time(0)?, off: time(1)?, cycles: cycles as u32, energy });
        errors.extend(row.figures[3].map(Joules));
    }
    let errors = if errors.is_empty() { EnergyErrors::Equal } else { EnergyErrors::Known(&errors) };
    Ok(fit_states(&rows, errors)?)
}

fn bad(line: usize, why: &str) -> Error {
    Error::Table { line, why: why.to_owned() }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod table_tests {
    use super::*;

    #[test]
    fn exact_rows_give_the_published_server_back() {
        // 43.3 W, 1.6 W, 170.7 J: 600 x 43.3 + 3000 x 1.6 + 4 x 170.7, and so on.
        let table = "# a week\ncycles, on_s, off_s, joules\n4,600,3000,31462.8\n0,1000,0,43300\n\
                     1,0,10000,16170.7\n9,100,50,5946.3\n";
        let fit = fit(table).unwrap();
        assert!((fit.on.value.get() - 43.3).abs() < 1e-9, "{fit:?}");
        assert!((fit.off.value.get() - 1.6).abs() < 1e-9, "{fit:?}");
        assert!((fit.switch.value.get() - 170.7).abs() < 1e-7, "{fit:?}");
    }

    #[test]
    fn what_is_wrong_with_a_table_is_told_with_its_line() {
        let error = |table: &str| fit(table).unwrap_err().to_string();
        assert!(error("").contains("line 1"), "{}", error(""));
        assert!(error("on_s,off_s,joules\n1,2,3").contains("names no `cycles`"));
        let head = "on_s,off_s,cycles,joules\n";
        assert!(error(&format!("{head}1,2,1,3\n1,x,1,3")).contains("line 3: `off_s` is `x`"));
        assert!(error(&format!("{head}-1,2,1,3")).contains("no time"));
        assert!(error(&format!("{head}1,2,1.5,3")).contains("must be a count"));
        let unknown = error(&format!("{head}10,0,0,433\n20,0,0,866\n30,0,0,1299"));
        assert!(unknown.contains("cannot be determined"), "{unknown}");
    }
}
