//! The days on which hours of `awake` do not apply, from an iCalendar file.

use std::path::Path;

use nightwatt_host::calendar::{Calendar, LONGEST_FILE};
use nightwatt_policy::hours::DaysOff;
use nightwatt_policy::scenario::Scenario;

/// Reads the file of holidays that a scenario names, if it names one.
///
/// # Errors
///
/// If it cannot be read, if an event in it cannot be understood, or if none covers a whole day.
pub fn read_holidays(scenario: &mut Scenario) -> Result<(), String> {
    if let Some(path) = &scenario.holidays {
        scenario.days_off = days_off(path).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(())
}

fn days_off(path: &Path) -> Result<DaysOff, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read it: {error}"))?;
    if bytes.len() > LONGEST_FILE {
        return Err(format!("it is larger than {} MiB", LONGEST_FILE >> 20));
    }
    let found = Calendar::parse(&String::from_utf8_lossy(&bytes)).whole_days();
    if let Some((name, why)) = found.broken.first() {
        return Err(format!("event `{name}`: {why}. Correct that event, or remove it"));
    }
    if found.days.is_empty() {
        let text = "it has no event that covers a whole day: write an iCalendar file with an event for each \
                    holiday (`DTSTART;VALUE=DATE:20261225`)";
        return Err(text.to_owned());
    }
    Ok(DaysOff::new(found.days))
}
