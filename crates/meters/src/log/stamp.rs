//! Times of recordings: nanoseconds since 1970, UTC.

use std::borrow::Cow;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// `31/12/2012 23:59:59`.
pub(super) fn day_first(text: &str, zone: &TimeZone) -> Option<i64> {
    let (date, time) = text.trim().split_once(' ')?;
    let mut parts = date.splitn(3, '/');
    let (day, month, year) =
        (digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?);
    civil([year, month, day], time, zone, None)
}

/// How the times of a file are written.
#[derive(Debug, Clone)]
pub(super) struct Times {
    zone: TimeZone,
    /// Nanoseconds of 1 in a column of numbers, as its name or its first time has it.
    unit: Option<i64>,
}

impl Times {
    pub(super) const fn new(zone: TimeZone, unit: Option<i64>) -> Self {
        Self { zone, unit }
    }

    /// A time of a file whose last one was `before`. An hour that comes twice in autumn is the second of
    /// the two where it would be earlier than that.
    pub(super) fn read(&mut self, text: &str, before: Option<i64>) -> Option<i64> {
        let text = text.trim();
        let text =
            if text.contains(',') { Cow::Owned(text.replace(',', ".")) } else { text.into() };
        let (sign, number) = text.strip_prefix('-').map_or((1, &*text), |rest| (-1, rest));
        if let Some((whole, fraction)) = decimal(number) {
            let unit = *self.unit.get_or_insert_with(|| usual_unit(whole));
            let nanos = i128::from(fraction_ns(fraction)?) * i128::from(unit) / 1_000_000_000;
            let time = whole.checked_mul(unit)?.checked_add(i64::try_from(nanos).ok()?)?;
            return Some(sign * time);
        }
        civil_time(text.strip_suffix(" UTC").unwrap_or(&text), &self.zone, before)
    }
}

/// The unit of numbers of this size: since 1970 in ns, us, ms or s, or a few years at most in seconds.
const fn usual_unit(whole: i64) -> i64 {
    match whole.unsigned_abs() {
        100_000_000_000_000_000.. => 1,
        100_000_000_000_000.. => 1_000,
        100_000_000_000.. => 1_000_000,
        _ => 1_000_000_000,
    }
}

/// The parts of a number that is not negative.
fn decimal(text: &str) -> Option<(i64, &str)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.len() > 19 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let all = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
    Some((whole.parse().ok().filter(|_| all)?, fraction))
}

/// A date with a time: `2012-12-31 23:59:59`, `2012/12/31 23:59:59`, `31.12.2012 23:59:59`. `01/02/2012` is
/// ambiguous (January or February), so it is rejected.
fn civil_time(text: &str, zone: &TimeZone, before: Option<i64>) -> Option<i64> {
    let (date, _) = text.split_once([' ', 'T'])?;
    let [dots, slashes] = ['.', '/'].map(|it| date.matches(it).count());
    let text = match (dots, slashes) {
        (2, 0) => {
            let mut parts = date.split('.');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            Cow::Owned(format!("{year}-{month}-{day}{}", &text[date.len()..]))
        }
        (0, 2) => Cow::Owned(text.replace('/', "-")),
        _ => Cow::Borrowed(text),
    };
    year_first_after(&text, zone, before)
}

/// `2012-12-31 23:59:59`, with a `T` in the middle, a fraction, and `Z` or an offset at its end or not.
pub(super) fn year_first(text: &str, zone: &TimeZone) -> Option<i64> {
    year_first_after(text, zone, None)
}

fn year_first_after(text: &str, zone: &TimeZone, before: Option<i64>) -> Option<i64> {
    let text = text.trim();
    let (date, time) = text.split_once([' ', 'T'])?;
    let after = time.find(['Z', '+', '-']).map_or("", |at| &time[at..]);
    if !after.is_empty() {
        let stamp: jiff::Timestamp = text.parse().ok()?;
        return i64::try_from(stamp.as_nanosecond()).ok();
    }
    let mut parts = date.splitn(3, '-');
    // `02-01-2012` is not of the year 2.
    let year = parts.next().filter(|year| year.len() == 4)?;
    let (year, month, day) = (digits(year)?, digits(parts.next()?)?, digits(parts.next()?)?);
    civil([year, month, day], time, zone, before)
}

fn civil(
    [year, month, day]: [i64; 3],
    time: &str,
    zone: &TimeZone,
    before: Option<i64>,
) -> Option<i64> {
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.splitn(3, ':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    // Spreadsheets leave seconds out where all are 0.
    let second = parts.next().map_or(Some(0), digits)?;
    let small = |number: i64| i8::try_from(number).ok();
    let nanos = i32::try_from(fraction_ns(fraction)?).ok()?;
    let civil = DateTime::new(
        i16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        nanos,
    );
    // An hour that comes twice in autumn is taken to be the first of the two, unless time would run
    // backwards.
    let stamp = zone.to_ambiguous_timestamp(civil.ok()?);
    let ns = |stamp: jiff::Timestamp| i64::try_from(stamp.as_nanosecond()).ok();
    match ns(stamp.compatible().ok()?)? {
        first if before.is_some_and(|before| first <= before) => ns(stamp.later().ok()?),
        first => Some(first),
    }
}

/// Seconds with a fraction, exactly.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let (negative, text) = match text.trim().strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim()),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanos = digits(whole)?.checked_mul(1_000_000_000)?.checked_add(fraction_ns(fraction)?)?;
    Some(if negative { -nanos } else { nanos })
}

/// Digits behind a point as nanoseconds; more than nine of them are cut off.
fn fraction_ns(text: &str) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let first = text.get(..9).unwrap_or(text);
    format!("{first:0<9}").parse().ok()
}

fn digits(text: &str) -> Option<i64> {
    let all = !text.is_empty() && text.len() <= 18 && text.bytes().all(|it| it.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_zone() {
        let utc = TimeZone::UTC;
        // date -u -d '2012-01-13 00:00:03' +%s
        assert_eq!(day_first("13/01/2012 00:00:03", &utc), Some(1_326_412_803_000_000_000));
        assert_eq!(year_first("2012-01-13 00:00:03", &utc), Some(1_326_412_803_000_000_000));
        assert_eq!(year_first("2012-01-13T00:00:03.25Z", &utc), Some(1_326_412_803_250_000_000));
        assert_eq!(year_first("2012-01-13T01:00:03+01:00", &utc), Some(1_326_412_803_000_000_000));
        let Ok(berlin) = TimeZone::get("Europe/Berlin") else {
            println!("skipped: no time zones on this machine");
            return;
        };
        assert_eq!(day_first("13/01/2012 01:00:03", &berlin), Some(1_326_412_803_000_000_000));
    }

    #[test]
    fn numbers_are_in_the_unit_of_their_column_or_of_their_size() {
        let read = |text: &str, unit| Times::new(TimeZone::UTC, unit).read(text, None);
        let moment = 1_677_715_200_500_000_000;
        for text in ["1677715200.5", "1677715200500", "1677715200500000", "1677715200500000000"] {
            assert_eq!(read(text, None), Some(moment), "{text}");
        }
        assert_eq!(read("1677715200,5", None), Some(moment));
        assert_eq!(read("1500.25", Some(1_000_000)), Some(1_500_250_000));
        assert_eq!(read("1.5", Some(60_000_000_000)), Some(90_000_000_000));
        assert_eq!(read("-1.5", None), Some(-1_500_000_000));
        // So many seconds are no time of ours: the name of the column is wrong.
        assert_eq!(read("1677715200500", Some(1_000_000_000)), None);
        for wrong in ["", "x", "1e9", "1.5.5", "01/02/2023 00:00:00", "02-01-2023 00:00:00"] {
            assert_eq!(read(wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn dates_are_read_as_programs_write_them_and_an_hour_that_comes_twice_is_two() {
        let mut utc = Times::new(TimeZone::UTC, None);
        for text in [
            "2023-03-02 00:00:10.5",
            "2023-03-02T00:00:10,5",
            "2023/03/02 00:00:10.500",
            "02.03.2023 00:00:10.5",
            "2023-03-02T01:00:10.5+01:00",
        ] {
            assert_eq!(utc.read(text, None), Some(1_677_715_210_500_000_000), "{text}");
        }
        assert_eq!(utc.read("02.03.2023 00:00", None), Some(1_677_715_200_000_000_000));
        let Ok(berlin) = TimeZone::get("Europe/Berlin") else {
            println!("skipped: no time zones on this machine");
            return;
        };
        let mut berlin = Times::new(berlin, None);
        // 2023-10-29 03:00 CEST is 02:00 CET.
        let first = berlin.read("2023-10-29 02:30:00", None).unwrap();
        let second = berlin.read("2023-10-29 02:30:00", Some(first)).unwrap();
        assert_eq!(second - first, 3_600_000_000_000);
    }

    #[test]
    fn seconds_are_exact_and_what_is_no_time_is_none() {
        assert_eq!(seconds("1326412803.123456789"), Some(1_326_412_803_123_456_789));
        assert_eq!((seconds("0.5"), seconds("-1.5")), (Some(500_000_000), Some(-1_500_000_000)));
        for wrong in ["", ".", "1.x", "1e9", "99999999999999999999"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        let utc = TimeZone::UTC;
        for wrong in ["13/13/2012 00:00:03", "30/02/2012 00:00:00", "1/1/2012", "//", "a b"] {
            assert_eq!(day_first(wrong, &utc), None, "{wrong}");
            assert_eq!(year_first(wrong, &utc), None, "{wrong}");
        }
    }
}
