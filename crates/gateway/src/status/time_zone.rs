//! By which clock hours are.

use std::fmt;

use nightwatt_clock::Clock;
use serde::{Deserialize, Serialize};

/// The time zone of the gateway's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeZoneStatus {
    /// Its name, as `Europe/Berlin`, if it has one.
    pub name: Option<String>,
    /// Local time minus UTC now, s.
    pub utc_offset_s: i32,
    /// Why it cannot be read; then hours are UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl TimeZoneStatus {
    /// That of a clock.
    pub fn of(clock: &Clock) -> Self {
        let utc_offset_s = clock.now().utc_offset;
        match clock.zone_name() {
            Ok(name) => Self { name, utc_offset_s, problem: None },
            Err(why) => Self { name: None, utc_offset_s, problem: Some(why) },
        }
    }
}

impl fmt::Display for TimeZoneStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.problem {
            return write!(
                f,
                "UTC, since the zone of this machine cannot be read: {why}. Set `TZ` to a name as in \
                 `TZ=Europe/Berlin`, or correct `/etc/localtime` (Debian: install tzdata)"
            );
        }
        if let Some(name) = &self.name {
            write!(f, "{name}, ")?;
        }
        let minutes = self.utc_offset_s / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        write!(f, "now UTC{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the tz database: Berlin in winter, St. John's, Nepal, Marquesas.
    #[test]
    fn offsets_are_written_as_iso_8601_has_them() {
        for (utc_offset_s, name, text) in [
            (3600, Some("Europe/Berlin"), "Europe/Berlin, now UTC+01:00"),
            (-9000, Some("America/St_Johns"), "America/St_Johns, now UTC-02:30"),
            (20_700, None, "now UTC+05:45"),
            (-34_200, None, "now UTC-09:30"),
            (0, None, "now UTC+00:00"),
        ] {
            let name = name.map(str::to_owned);
            let zone = TimeZoneStatus { name, utc_offset_s, problem: None };
            assert_eq!(zone.to_string(), text);
        }
    }
}
