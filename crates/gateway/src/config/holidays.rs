//! The days on which hours of `awake` do not apply, from an iCalendar file.

use std::path::Path;

use nightwatt_host::calendar::{Calendar, LONGEST_FILE};
use nightwatt_policy::hours::DaysOff;
use nightwatt_policy::scenario::Scenario;

use super::{Wrong, named_file};

/// What happens if an event of the file cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OddEvents {
    /// It is an error.
    Refuse,
    /// The log warns of it, and its days count as all others.
    Skip,
}

/// Reads the file of holidays that a scenario names, if it names one.
///
/// # Errors
///
/// If it cannot be read, if an event in it cannot be understood and none is skipped, or if none covers a whole day.
pub fn read_holidays(scenario: &mut Scenario, odd: OddEvents) -> Result<(), String> {
    let Some(path) = &scenario.holidays else { return Ok(()) };
    let file = path.display();
    let found = read(path, odd).map_err(|why| format!("{file}: {why}"))?;
    for skipped in &found.skipped {
        tracing::warn!(
            "{file}: {skipped}. It is skipped: correct it or remove it, then `nightwatt reload`"
        );
    }
    scenario.days_off = found.days_off;
    Ok(())
}

/// That error, with the key.
pub(super) fn wrong(text: &str) -> Wrong {
    Wrong::new("scenario.holidays", format!("`scenario.holidays` is {text}"))
}

struct Holidays {
    days_off: DaysOff,
    /// Events that cannot be understood, with the reason.
    skipped: Vec<String>,
}

fn read(path: &Path, odd: OddEvents) -> Result<Holidays, String> {
    let bytes = named_file::read(path, "Save a calendar there (iCalendar)")?;
    if bytes.len() > LONGEST_FILE {
        return Err(format!("it is larger than {} MiB", LONGEST_FILE >> 20));
    }
    let found = Calendar::parse(&String::from_utf8_lossy(&bytes)).whole_days();
    let broken = found.broken.into_iter();
    let skipped: Vec<_> = broken.map(|(name, why)| format!("event `{name}`: {why}")).collect();
    if odd == OddEvents::Refuse
        && let Some(first) = skipped.first()
    {
        return Err(format!("{first}. Correct that event, or remove it"));
    }
    if found.days.is_empty() && skipped.is_empty() {
        let text = "it has no event that covers a whole day: write an iCalendar file with an event for each \
                    holiday (`DTSTART;VALUE=DATE:20261225`)";
        return Err(text.to_owned());
    }
    Ok(Holidays { days_off: DaysOff::new(found.days), skipped })
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::civil::Date;

    use super::*;
    use crate::config::Config;

    const HEAD: &str = "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
                        power.simulated = {}\n";

    #[test]
    fn an_event_that_cannot_be_read_stops_check_and_not_serve() {
        let folder = tempfile::tempdir().unwrap();
        let (file, days) = (folder.path().join("nightwatt.toml"), folder.path().join("days.ics"));
        let hours = format!("awake = [\"08:00-10:00\"]\nholidays = \"{}\"\n", days.display());
        let odd = "BEGIN:VEVENT\r\nSUMMARY:Odd\r\nDTSTART;VALUE=DATE:2026122\r\nEND:VEVENT\r\n";
        let good =
            "BEGIN:VEVENT\r\nSUMMARY:Christmas\r\nDTSTART;VALUE=DATE:20261225\r\nEND:VEVENT\r\n";
        let christmas = Date::new(2026, 12, 25).unwrap().days();
        std::fs::write(&days, format!("{odd}{good}")).unwrap();
        for table in ["[scenario]", "[site.scenario]"] {
            std::fs::write(&file, format!("{HEAD}{table}\n{hours}")).unwrap();
            let error = Config::load(&file).unwrap_err().to_string();
            assert!(error.contains("days.ics: event `Odd`: its DTSTART is `2026122`"), "{error}");
            let config = Config::load_to_serve(&file).unwrap();
            let scenario = config.scenario_of(&config.site[0]);
            assert_eq!(scenario.days_off.days().collect::<Vec<_>>(), [christmas]);
        }
        let found = read(&days, OddEvents::Skip).unwrap();
        assert_eq!(found.skipped, ["event `Odd`: its DTSTART is `2026122`"]);
        // One that is the only one is skipped too; a file without events is not what was meant.
        std::fs::write(&days, odd).unwrap();
        let config = Config::load_to_serve(&file).unwrap();
        assert_eq!(config.scenario_of(&config.site[0]).days_off, DaysOff::default());
        std::fs::write(&days, "").unwrap();
        let error = Config::load_to_serve(&file).unwrap_err().to_string();
        assert!(error.contains("it has no event that covers a whole day"), "{error}");
    }
}
