//! Days since 1970 as dates of the Gregorian calendar, and seconds since 1970 as text, all in UTC.
//!
//! Time zones, and dates in free form, are read with `jiff` in the crates that need them.

use std::fmt;

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

/// Days of 400 years: the calendar repeats after that.
const DAYS_PER_ERA: i64 = 146_097;

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: i64,
    month: u32,
    day: u32,
}

impl Date {
    /// The date with this year, month (from 1) and day (from 1); `None` if it does not exist.
    #[inline]
    pub fn new(year: i64, month: u32, day: u32) -> Option<Self> {
        let exists = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
        exists.then_some(Self { year, month, day })
    }

    /// The date of a day since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms",
    /// `civil_from_days`).
    #[inline]
    pub const fn from_days(days: i64) -> Self {
        let shifted = days + DAYS_BEFORE_1970;
        let (era, day_of_era) =
            (shifted.div_euclid(DAYS_PER_ERA), shifted.rem_euclid(DAYS_PER_ERA));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + (month <= 2) as i64;
        Self { year, month: month as u32, day: day as u32 }
    }

    /// Days since 1970. Years start in March here, so that the leap day is the last and months before
    /// it have fixed places.
    #[inline]
    pub const fn days(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let month_from_march = ((self.month + 9) % 12) as i64;
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day as i64 - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_1970
    }

    /// The year.
    pub const fn year(self) -> i64 {
        self.year
    }

    /// The month, from 1.
    pub const fn month(self) -> u32 {
        self.month
    }

    /// The day of the month, from 1.
    pub const fn day(self) -> u32 {
        self.day
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

const fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Seconds since 1970 as `2026-11-21 14:05`.
pub fn to_minute(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    format!("{} {:02}:{:02}", Date::from_days(days), second / 3600, second / 60 % 60)
}

/// Milliseconds since 1970 as `2026-11-20 12:00:00.250Z`.
pub fn utc(ms: i64) -> String {
    let date = Date::from_days(ms.div_euclid(86_400_000));
    let of_day = ms.rem_euclid(86_400_000);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{date} {hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_are_those_of_date_1() {
        // By `date -u -d @SECONDS`.
        assert_eq!(utc(1_795_176_000_250), "2026-11-20 12:00:00.250Z");
        assert_eq!(utc(951_782_399_000), "2000-02-28 23:59:59.000Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00.000Z");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999Z");
        assert_eq!(utc(4_102_444_800_000), "2100-01-01 00:00:00.000Z");
        assert_eq!(to_minute(1_795_176_000), "2026-11-20 12:00");
    }

    #[test]
    fn only_dates_that_exist_are_dates() {
        for (year, month, day) in [(2000, 2, 29), (2024, 2, 29), (2023, 12, 31), (1970, 1, 1)] {
            assert!(Date::new(year, month, day).is_some(), "{year}-{month}-{day}");
        }
        for (year, month, day) in
            [(1900, 2, 29), (2023, 2, 29), (2023, 4, 31), (2023, 13, 1), (2023, 0, 1), (2023, 1, 0)]
        {
            assert_eq!(Date::new(year, month, day), None, "{year}-{month}-{day}");
        }
    }

    proptest! {
        #[test]
        fn a_day_is_that_of_its_date(days in -1_000_000_000_i64..1_000_000_000) {
            let date = Date::from_days(days);
            prop_assert_eq!(date.days(), days);
            prop_assert_eq!(Date::new(date.year(), date.month(), date.day()), Some(date));
        }
    }
}
