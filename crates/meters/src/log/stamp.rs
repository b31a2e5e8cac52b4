//! Times of recordings: nanoseconds since 1970, UTC.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// `31/12/2012 23:59:59`.
pub(super) fn day_first(text: &str, zone: &TimeZone) -> Option<i64> {
    let (date, time) = text.trim().split_once(' ')?;
    let mut parts = date.splitn(3, '/');
    let (day, month, year) =
        (digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?);
    civil(year, month, day, time, zone)
}

/// `2012-12-31 23:59:59`, with a `T` in the middle, a fraction, and `Z` or an offset at its end or not.
pub(super) fn year_first(text: &str, zone: &TimeZone) -> Option<i64> {
    let text = text.trim();
    let (date, time) = text.split_once([' ', 'T'])?;
    let after = time.find(['Z', '+', '-']).map_or("", |at| &time[at..]);
    if !after.is_empty() {
        let stamp: jiff::Timestamp = text.parse().ok()?;
        return i64::try_from(stamp.as_nanosecond()).ok();
    }
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?);
    civil(year, month, day, time, zone)
}

fn civil(year: i64, month: i64, day: i64, time: &str, zone: &TimeZone) -> Option<i64> {
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.splitn(3, ':');
    let (hour, minute, second) =
        (digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?);
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
    // An hour that comes twice in autumn is taken to be the first of the two.
    let stamp = zone.to_ambiguous_timestamp(civil.ok()?).compatible().ok()?;
    i64::try_from(stamp.as_nanosecond()).ok()
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
