//! The whole days that the events of a calendar cover.

use std::collections::BTreeSet;
use std::fmt::Write;

use nightwatt_energy::civil::Date;
use rrule::RRuleSet;

use super::{Calendar, Property, duration, get, is_cancelled, name_of};

/// Events are expanded up to the end of this year.
const LAST_YEAR: i64 = 2099;

/// More instances than an event has that recurs once a week until then.
const MOST_INSTANCES: u16 = 8_000;

/// The days of an event, at most.
const MOST_DAYS: i64 = 400;

/// The whole days in a calendar.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WholeDays {
    /// Days since 1970-01-01.
    pub days: BTreeSet<i64>,
    /// Names of the events that cannot be understood, with the reason.
    pub broken: Vec<(String, String)>,
    /// Names of the events that have a time of day, and cover no whole day for that reason.
    pub timed: Vec<String>,
}

impl Calendar {
    /// The whole days that its events cover, those that recur up to the end of 2099.
    pub fn whole_days(&self) -> WholeDays {
        let mut found = WholeDays::default();
        for event in self.events.iter().filter(|event| !is_cancelled(event)) {
            if get(event, "DTSTART").is_some_and(|it| it.value.contains('T') && !is_date(it)) {
                found.timed.push(name_of(event));
                continue;
            }
            match self.days_of(event) {
                Ok(days) => found.days.extend(days),
                Err(why) => found.broken.push((name_of(event), why)),
            }
        }
        found
    }

    fn days_of(&self, event: &[Property]) -> Result<Vec<i64>, String> {
        let start = get(event, "DTSTART").ok_or("it has no DTSTART")?;
        let wrong = || format!("its DTSTART is `{}`", start.value);
        let first = day(date_of(&start.value)).ok_or_else(wrong)?;
        let length = length(event, first)?;
        let recurs = event.iter().any(|it| matches!(it.name.as_str(), "RRULE" | "RDATE"));
        if !recurs {
            return Ok((first..first + length).collect());
        }
        // Days of UTC, so that no clock is put forward or back within them.
        let mut text = format!("DTSTART:{}", midnights(&start.value)?);
        if get(event, "RRULE").is_none() {
            // The start is an instance beside RDATE (RFC 5545, 3.8.5.2).
            let _ = write!(text, "\nRDATE:{}", midnights(&start.value)?);
        }
        for property in event {
            match property.name.as_str() {
                "RRULE" => {
                    let _ = write!(text, "\nRRULE:{}", rule(&property.value)?);
                }
                name @ ("RDATE" | "EXDATE") => {
                    let _ = write!(text, "\n{name}:{}", midnights(&property.value)?);
                }
                _ => {}
            }
        }
        for property in self.replaced(event) {
            let _ = write!(text, "\nEXDATE:{}", midnights(&property.value)?);
        }
        let set: RRuleSet = text.parse().map_err(|error: rrule::RRuleError| error.to_string())?;
        let end = Date::new(LAST_YEAR, 12, 31).map_or(0, Date::days);
        let until = *set.get_dt_start() + std::time::Duration::from_secs(days_s(end - first));
        let found = set.before(until).all(MOST_INSTANCES);
        if found.limited {
            return Err(format!("it recurs more than {MOST_INSTANCES} times until {LAST_YEAR}"));
        }
        let begins = found.dates.iter().map(|date| date.timestamp().div_euclid(86_400));
        Ok(begins.flat_map(|day| day..day + length).collect())
    }
}

fn days_s(days: i64) -> u64 {
    u64::try_from(days).unwrap_or(0) * 86_400
}

/// How many days an event lasts (RFC 5545, 3.6.1: one, unless it says otherwise).
fn length(event: &[Property], first: i64) -> Result<i64, String> {
    let days = if let Some(end) = get(event, "DTEND") {
        let wrong = || format!("its DTEND is `{}`", end.value);
        let (date, time) = end.value.trim().split_once('T').unwrap_or((&end.value, ""));
        // With a time of day other than midnight, that day counts.
        let is_within = time.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
        day(date).ok_or_else(wrong)? + i64::from(is_within) - first
    } else if let Some(length) = get(event, "DURATION") {
        let wrong = || format!("its DURATION is `{}`", length.value);
        let seconds = duration(&length.value).ok_or_else(wrong)?.as_secs();
        i64::try_from(seconds.div_ceil(86_400)).unwrap_or(i64::MAX)
    } else {
        1
    };
    if days > MOST_DAYS {
        return Err(format!("it lasts {days} days, and {MOST_DAYS} are the most"));
    }
    // Some programs write an end that is the day itself.
    Ok(days.max(1))
}

/// Whether a property says itself that it is a date.
fn is_date(property: &Property) -> bool {
    property.parameters.split(';').any(|it| it.trim().eq_ignore_ascii_case("VALUE=DATE"))
}

/// The date of a value. Some programs write a time of day behind it: whole days have none.
fn date_of(written: &str) -> &str {
    written.split('T').next().unwrap_or_default().trim()
}

/// `20261224`, as days since 1970.
fn day(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, month, day) = (text[..4].parse().ok()?, text[4..6].parse().ok()?, &text[6..]);
    Some(Date::new(year, month, day.parse().ok()?)?.days())
}

/// A list of dates, as midnights of UTC.
fn midnights(text: &str) -> Result<String, String> {
    let mut midnights = Vec::new();
    for written in text.split(',') {
        let date = date_of(written);
        day(date).ok_or_else(|| format!("`{written}` is not a date"))?;
        midnights.push(format!("{date}T000000Z"));
    }
    Ok(midnights.join(","))
}

/// A rule whose UNTIL, if it has one, is a day that counts.
fn rule(text: &str) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in text.split(';') {
        parts.push(match part.trim().strip_prefix("UNTIL=") {
            Some(date) => format!("UNTIL={}", midnights(date)?),
            None => part.trim().to_owned(),
        });
    }
    Ok(parts.join(";"))
}
