//! `Started: Tue Jan 24 15:49:59 CET 2012` and `Finished: ..`: written by a script around it.

use crate::error::ReadError;
use crate::number::{count, seconds};
use crate::outcome::Outcome;
use crate::text::after;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The whole run, if both dates are there, in the same zone.
pub(super) fn duration(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    let (Some(begin), Some(end)) = (after(text, "Started:"), after(text, "Finished:")) else {
        return Ok(());
    };
    let (Some((begin, zone)), Some((end, other))) = (date(begin), date(end)) else {
        outcome.warn("`Started:` and `Finished:` are no dates as of `LC_ALL=C date`, and not read");
        return Ok(());
    };
    if zone == other && begin <= end {
        outcome.duration = Some(seconds("the time between two dates", (end - begin) as f64)?);
    } else {
        outcome.warn("`Started:` and `Finished:` are of different zones, or the wrong way round");
    }
    Ok(())
}

/// Seconds since the year 0 in its own zone, and the zone.
fn date(text: &str) -> Option<(u64, &str)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, zone, year] = words[..] else { return None };
    let month = 1 + MONTHS.iter().position(|it| *it == month)? as u64;
    let (day, year) = (count("day", day).ok()?, count("year", year).ok()?);
    let mut clock = time.split(':').map(|part| count("time", part).ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let is_possible = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !is_possible || !(1970..=9999).contains(&year) {
        return None;
    }
    Some((((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second, zone))
}

/// Days up to a date of the Gregorian calendar, with years that begin in March.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        // By `date -d .. +%s`: 1970-01-01 is 0, 2000-03-01 is 11017 days, 2012-01-24 15363.
        let epoch = days(1970, 1, 1);
        for (year, month, day, wanted) in
            [(1970, 1, 2, 1), (2000, 2, 29, 11_016), (2000, 3, 1, 11_017), (2012, 1, 24, 15_363)]
        {
            assert_eq!(days(year, month, day) - epoch, wanted);
        }
    }

    #[test]
    fn a_run_may_go_over_the_end_of_a_year() {
        let mut outcome = Outcome::default();
        let text =
            "Started: Sat Dec 31 23:59:50 CET 2011\nFinished: Sun Jan  1 00:00:20 CET 2012\n";
        duration(text, &mut outcome).unwrap();
        assert_eq!(outcome.duration, Some(std::time::Duration::from_secs(30)));
        let mut outcome = Outcome::default();
        duration(&text.replace("CET 2012", "CEST 2012"), &mut outcome).unwrap();
        assert_eq!((outcome.duration, outcome.warnings.len()), (None, 1));
    }
}
