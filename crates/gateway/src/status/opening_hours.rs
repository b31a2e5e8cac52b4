//! Hours of `awake` and `never_sleep`: when they begin and end.

use std::time::Duration;

use nightwatt_policy::hours::HoursEnd;
use nightwatt_policy::manager::AwakeHoursReport;
use serde::{Deserialize, Serialize};

/// When the hours of a site or machine begin and end; all is empty without any.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OpeningHoursStatus {
    /// Seconds until its hours of `awake` wake it. Not in hours that keep it awake, and if none are known.
    pub awake_hours_in_s: Option<f64>,
    /// Seconds until its hours of `awake` end, if it is in such, and if they end.
    pub awake_hours_end_in_s: Option<f64>,
    /// Whether its hours of `awake` have no end: all hours of every day, and no holiday to come.
    pub awake_hours_endless: bool,
    /// Whether an operator has put it to sleep in its hours of `awake`: they count again after `awake_hours_in_s`.
    pub awake_hours_suspended: bool,
    /// Seconds until its hours of `never_sleep` end, if it is in such, and if they end.
    pub never_sleep_end_in_s: Option<f64>,
    /// Whether its hours of `never_sleep` have no end: all hours of every day.
    pub never_sleep_endless: bool,
}

impl OpeningHoursStatus {
    pub(crate) fn of(awake: AwakeHoursReport, never_sleep: Option<HoursEnd>) -> Self {
        let seconds = |time: Duration| time.as_secs_f64();
        let left = |end: Option<HoursEnd>| end.and_then(HoursEnd::left).map(seconds);
        Self {
            awake_hours_in_s: awake.wakes_in.map(seconds),
            awake_hours_end_in_s: left(awake.end),
            awake_hours_endless: awake.end == Some(HoursEnd::Never),
            awake_hours_suspended: awake.is_suspended,
            never_sleep_end_in_s: left(never_sleep),
            never_sleep_endless: never_sleep == Some(HoursEnd::Never),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_without_an_end_have_null_for_it_and_a_field_that_says_so() {
        let minute = Duration::from_mins(1);
        let suspended = AwakeHoursReport {
            wakes_in: Some(minute),
            end: Some(HoursEnd::Never),
            is_suspended: true,
        };
        let json = |awake, never_sleep| {
            serde_json::to_value(OpeningHoursStatus::of(awake, never_sleep)).unwrap()
        };
        assert_eq!(
            json(suspended, Some(HoursEnd::In(minute))),
            serde_json::json!({
                "awake_hours_in_s": 60.0,
                "awake_hours_end_in_s": null,
                "awake_hours_endless": true,
                "awake_hours_suspended": true,
                "never_sleep_end_in_s": 60.0,
                "never_sleep_endless": false,
            })
        );
        let open =
            AwakeHoursReport { end: Some(HoursEnd::In(minute)), ..AwakeHoursReport::default() };
        assert_eq!(
            json(open, Some(HoursEnd::Never)),
            serde_json::json!({
                "awake_hours_in_s": null,
                "awake_hours_end_in_s": 60.0,
                "awake_hours_endless": false,
                "awake_hours_suspended": false,
                "never_sleep_end_in_s": null,
                "never_sleep_endless": true,
            })
        );
    }
}
