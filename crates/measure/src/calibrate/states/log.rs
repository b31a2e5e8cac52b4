//! Power states out of a recording, and the times at which the machine was put to sleep and was awake
//! again.

use std::path::PathBuf;

use crate::pure::calibrate::states::SleepCycle;
use nightwatt_meters::MeterSpec;

use super::{StatesFound, fit_log};
use crate::calibrate::recorded::{Clock, Recorded, accuracy_of, no_time, rows};
use crate::error::Error;

/// What is to be read.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The recording, as the meter `file` has it: its path, and options of its format.
    pub log: MeterSpec,
    /// Its channel, where it has several; of a recording of nightwatt, `CHANNEL` or `METER/CHANNEL`.
    pub channel: Option<String>,
    /// A line for each sleep: when it was told to sleep, and when it was awake again.
    pub times: PathBuf,
}

/// Reads and fits.
pub fn run(options: &LogOptions) -> Result<StatesFound, Error> {
    let recorded = Recorded::read(&options.log, options.channel.as_deref())?;
    let text = std::fs::read_to_string(&options.times)
        .map_err(|error| nightwatt_meters::MeterError::reading(&options.times, error))?;
    let cycles = cycles(&text, recorded.begun_ns)?;
    let accuracy = accuracy_of(&options.log, &recorded.name);
    let mut found = fit_log(recorded.readings, &cycles, recorded.name)?;
    found.warnings.extend(recorded.skipped.map(|it| it.to_string()));
    let on = found.fit.on.value;
    found.meter_accuracy = accuracy.map(|accuracy| accuracy.at(on) / on);
    Ok(found)
}

/// Lines of two times.
fn cycles(text: &str, begun_ns: Option<i64>) -> Result<Vec<SleepCycle>, Error> {
    let bad = |line: usize, why: String| Error::Table { line, why };
    let mut cycles = Vec::new();
    let clock = Clock::of(text, begun_ns);
    for (number, cells) in rows(text, |cell| clock.moment(cell).is_some()) {
        let &[sleep, awake] = cells.as_slice() else {
            return Err(bad(
                number,
                "it must hold two times: sent to sleep, awake again".to_owned(),
            ));
        };
        let time = |cell: &str| clock.moment(cell).ok_or_else(|| bad(number, no_time(cell)));
        let (sleep_commanded, wake_answered) = (time(sleep)?, time(awake)?);
        cycles.push(SleepCycle { sleep_commanded, still: None, wake_answered });
    }
    Ok(cycles)
}
