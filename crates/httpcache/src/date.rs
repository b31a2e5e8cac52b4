//! HTTP dates (RFC 9110, 5.6.7), in all three forms.
//!
//! A cache should ignore the case of a date but take nothing else for one (RFC 9111, 4.2): a zone
//! other than `GMT`, a missing comma or a one-digit hour makes it invalid, and an invalid `Expires`
//! is one that has passed. The day of the week is not compared with the date: it carries nothing.

use crate::time::Timestamp;
use http::HeaderValue;
use std::time::{Duration, UNIX_EPOCH};

const MONTHS: [&[u8; 3]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];
const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// The last second that a four-digit year can name.
const LAST_SECOND: u64 = 253_402_300_799;

/// Reads an HTTP date.
///
/// `now` is there for the two-digit years of RFC 850 dates, which never mean more than fifty years
/// ahead. Dates before 1970 are valid and become the start of 1970.
pub fn parse(value: &[u8], now: Timestamp) -> Option<Timestamp> {
    let value = value.trim_ascii();
    imf_fixdate(value).or_else(|| rfc850(value, now)).or_else(|| asctime(value))
}

/// Reads an HTTP date from a field value.
pub fn parse_value(value: &HeaderValue, now: Timestamp) -> Option<Timestamp> {
    parse(value.as_bytes(), now)
}

/// Writes a time as an HTTP date, rounded down to the second.
pub fn format(time: Timestamp) -> HeaderValue {
    let secs = time.as_secs().min(LAST_SECOND);
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs));
    HeaderValue::from_str(&text).expect("an HTTP date is ASCII")
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(s: &[u8]) -> Option<Timestamp> {
    if s.len() != 29 || !is_weekday(&s[..3], 3) || &s[3..5] != b", " {
        return None;
    }
    if s[7] != b' ' || s[11] != b' ' || s[16] != b' ' || !s[25..].eq_ignore_ascii_case(b" GMT") {
        return None;
    }
    let year = digits(&s[12..16])?;
    timestamp(year, month(&s[8..11])?, digits(&s[5..7])?, time_of_day(&s[17..25])?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(s: &[u8], now: Timestamp) -> Option<Timestamp> {
    let comma = s.iter().position(|&b| b == b',')?;
    let (weekday, rest) = (&s[..comma], &s[comma + 1..]);
    if !is_weekday(weekday, usize::MAX) || rest.len() != 23 {
        return None;
    }
    if rest[0] != b' ' || rest[3] != b'-' || rest[7] != b'-' || rest[10] != b' ' {
        return None;
    }
    if !rest[19..].eq_ignore_ascii_case(b" GMT") {
        return None;
    }
    let this_year = year_of(now);
    let mut year = this_year - this_year % 100 + digits(&rest[8..10])?;
    if year > this_year + 50 {
        year -= 100;
    }
    timestamp(year, month(&rest[4..7])?, digits(&rest[1..3])?, time_of_day(&rest[11..19])?)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(s: &[u8]) -> Option<Timestamp> {
    if s.len() != 24 || !is_weekday(&s[..3], 3) {
        return None;
    }
    if s[3] != b' ' || s[7] != b' ' || s[10] != b' ' || s[19] != b' ' {
        return None;
    }
    let day = if s[8] == b' ' { digits(&s[9..10])? } else { digits(&s[8..10])? };
    timestamp(digits(&s[20..24])?, month(&s[4..7])?, day, time_of_day(&s[11..19])?)
}

/// Whether `s` names a day of the week, cut to `letters`.
fn is_weekday(s: &[u8], letters: usize) -> bool {
    WEEKDAYS.iter().any(|day| day.as_bytes()[..letters.min(day.len())].eq_ignore_ascii_case(s))
}

/// 1 to 12.
fn month(s: &[u8]) -> Option<u64> {
    MONTHS.iter().zip(1..).find_map(|(name, n)| name.eq_ignore_ascii_case(s).then_some(n))
}

fn digits(s: &[u8]) -> Option<u64> {
    s.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u64::from(b - b'0')))
}

/// `08:49:37` as seconds; a leap second is the second after.
fn time_of_day(s: &[u8]) -> Option<u64> {
    let (hour, minute, second) = (digits(&s[..2])?, digits(&s[3..5])?, digits(&s[6..8])?);
    let valid = s[2] == b':' && s[5] == b':' && hour < 24 && minute < 60 && second <= 60;
    valid.then_some(hour * 3600 + minute * 60 + second)
}

fn timestamp(year: u64, month: u64, day: u64, secs_of_day: u64) -> Option<Timestamp> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day == 0 || day > longest {
        return None;
    }
    if year < 1970 {
        return Some(Timestamp::default());
    }
    Some(Timestamp::from_secs(days_since_1970(year, month, day) * 86400 + secs_of_day))
}

/// Days from the start of 1970, counted in years that begin in March so that a leap day comes last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let months_since_march = (month + 9) % 12;
    let day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719,468 days lie between 1 March of the year 0 and 1970.
    year * 365 + leap_days + day_of_year - 719_468
}

/// The year of a time, near enough (a day either way at the turn of the year).
fn year_of(time: Timestamp) -> u64 {
    1970 + time.as_secs() / 31_556_952
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

    fn secs(s: &str) -> Option<u64> {
        parse(s.as_bytes(), NOW).map(Timestamp::as_secs)
    }

    #[test]
    fn the_three_forms_name_the_same_second() {
        assert_eq!(secs("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(secs("Sunday, 06-Nov-94 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(secs("Sun Nov  6 08:49:37 1994"), Some(784_111_777));
    }

    #[test]
    fn case_and_a_wrong_weekday_do_not_matter() {
        let right = secs("Thu, 18 Aug 2050 02:01:18 GMT");
        assert!(right.is_some());
        assert_eq!(secs("THU, 18 AUG 2050 02:01:18 gMT"), right);
        assert_eq!(secs("Mon, 18 Aug 2050 02:01:18 GMT"), right);
        assert_eq!(secs("Thursday, 18-Aug-50 02:01:18 GMT"), right);
    }

    #[test]
    fn two_digit_years_never_lie_more_than_fifty_years_ahead() {
        assert!(secs("Friday, 18-Aug-76 02:01:18 GMT").unwrap() > NOW.as_secs());
        assert!(secs("Friday, 18-Aug-77 02:01:18 GMT").unwrap() < NOW.as_secs());
    }

    #[test]
    fn what_is_nearly_a_date_is_none() {
        for wrong in [
            "0",
            "",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 31 Feb 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
        ] {
            assert_eq!(secs(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn far_ends_of_the_calendar() {
        assert_eq!(secs("Fri, 01 Jan 1904 00:00:00 GMT"), Some(0));
        assert_eq!(secs("Sun, 21 Nov 2286 04:46:39 GMT"), Some(10_000_039_599));
        assert_eq!(format(Timestamp::from_millis(u64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    proptest! {
        #[test]
        fn written_dates_read_back(secs in 0..LAST_SECOND) {
            let time = Timestamp::from_secs(secs);
            prop_assert_eq!(parse_value(&format(time), NOW), Some(time));
        }

        #[test]
        fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&bytes, NOW);
        }

        #[test]
        fn reading_text_near_a_date_never_panics(text in "[A-Za-z]{3,9},?[ -][0-9 ]{1,2}[ -][A-Za-z]{3}[ -][0-9:. ]{2,20}[A-Z]{0,4}") {
            let _ = parse(text.as_bytes(), NOW);
        }
    }
}
