//! The time of a log line: `03/Mar/2012:06:26:37 -0800`.

use nightwatt_energy::civil::Date;
use nightwatt_energy::time::Wall;

pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Length in bytes of `03/Mar/2012:06:26:37 -0800`.
pub(crate) const LEN: usize = 26;

/// A time and the bracket that ends it. UTC, and local time minus UTC in seconds.
pub(crate) fn parse(text: &[u8]) -> Option<(Wall, i32)> {
    let &[
        d1,
        d2,
        b'/',
        m1,
        m2,
        m3,
        b'/',
        y1,
        y2,
        y3,
        y4,
        b':',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        b' ',
        sign,
        z1,
        z2,
        z3,
        z4,
        b']',
        ..,
    ] = text
    else {
        return None;
    };
    let two = |high, low| number(&[high, low]).map(|value| i64::from(value as u32));
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    let month = MONTHS.iter().position(|name| name.as_bytes() == [m1, m2, m3])? as u32 + 1;
    let (day_of_month, hour, minute, second) =
        (two(d1, d2)?, two(h1, h2)?, two(n1, n2)?, two(s1, s2)?);
    let (zone_hour, zone_minute) = (two(z1, z2)?, two(z3, z4)?);
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    // A leap second has its place in the log and none in `Wall`: it reads as the next second.
    let exists = hour < 24 && minute < 60 && second <= 60 && zone_hour < 24 && zone_minute < 60;
    if !exists {
        return None;
    }
    let utc_offset = sign * (zone_hour * 3600 + zone_minute * 60);
    let local = day(year, month, day_of_month)? * 86_400 + hour * 3600 + minute * 60 + second;
    Some((Wall::from_secs(local - utc_offset), utc_offset as i32))
}

/// The time of the line before: most lines have it again, or another second of its minute.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeMemo {
    /// `03/Mar/2012:06:26:37 -0800]`, or nothing yet.
    text: [u8; LEN + 1],
    /// The beginning of its minute.
    minute: Wall,
    utc_offset: i32,
}

impl TimeMemo {
    /// As [`parse()`].
    pub(crate) fn parse(&mut self, text: &[u8]) -> Option<(Wall, i32)> {
        const SECOND: usize = 18;
        let text: &[u8; LEN + 1] = text.first_chunk()?;
        if text[..SECOND] == self.text[..SECOND] && text[SECOND + 2..] == self.text[SECOND + 2..] {
            let (ten, one) = (text[SECOND].wrapping_sub(b'0'), text[SECOND + 1].wrapping_sub(b'0'));
            if ten > 6 || one > 9 || (ten == 6 && one > 0) {
                return None;
            }
            let second = i64::from(ten) * 10 + i64::from(one);
            return Some((Wall(self.minute.0 + second * 1000), self.utc_offset));
        }
        let (at, utc_offset) = parse(text)?;
        let second = signed(&text[SECOND..SECOND + 2])?;
        *self = Self { text: *text, minute: Wall(at.0 - second * 1000), utc_offset };
        Some((at, utc_offset))
    }
}

/// Writes the time as [`parse`] reads it, without the bracket.
pub(crate) fn write(out: &mut String, at: Wall, utc_offset: i32) {
    let local = at.secs() + i64::from(utc_offset);
    let date = Date::from_days(local.div_euclid(86_400));
    let second = local.rem_euclid(86_400);
    let zone = i64::from(utc_offset.abs() / 60);
    let mut text = *b"00/Mar/0000:00:00:00 +0000";
    let mut two_digits = |place: usize, number: i64| {
        text[place] = b'0' + (number / 10).rem_euclid(10) as u8;
        text[place + 1] = b'0' + number.rem_euclid(10) as u8;
    };
    two_digits(0, date.day().into());
    two_digits(7, date.year() / 100);
    two_digits(9, date.year() % 100);
    two_digits(12, second / 3600);
    two_digits(15, second / 60 % 60);
    two_digits(18, second % 60);
    two_digits(22, zone / 60);
    two_digits(24, zone % 60);
    text[3..6].copy_from_slice(MONTHS[date.month() as usize - 1].as_bytes());
    if utc_offset < 0 {
        text[21] = b'-';
    }
    out.extend(std::str::from_utf8(&text));
}

/// `2012-03-03T06:26:37.123-08:00` and what else RFC 3339 and ISO 8601 allow of it: a space for the
/// `T`, slashes in the date, no fraction, `Z`, `-0800`; no zone at all reads as UTC.
pub(crate) fn parse_iso(text: &[u8]) -> Option<(Wall, i32)> {
    let day = parse_date(text.get(..10)?)?;
    let rest = text.get(10..)?.split_first().filter(|(mark, _)| matches!(mark, b'T' | b't' | b' '));
    let rest = rest?.1;
    let zone = rest.iter().position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
    let (time, zone) = rest.split_at(zone.unwrap_or(rest.len()));
    let two = |high, low| number(&[high, low]);
    let utc_offset = match *zone {
        [] | [b'Z' | b'z'] => 0,
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => {
            let seconds = (two(h1, h2).filter(|&hours| hours < 24)? * 60
                + two(m1, m2).filter(|&minutes| minutes < 60)?) as i32
                * 60;
            if sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let local = day * 1000 + parse_time_of_day(time)?;
    Some((Wall(local - i64::from(utc_offset) * 1000), utc_offset))
}

/// Seconds since 1970 at which a day begins: `2012-03-03`, or with slashes.
pub(crate) fn parse_date(text: &[u8]) -> Option<i64> {
    let &[y1, y2, y3, y4, b'-' | b'/', m1, m2, b'-' | b'/', d1, d2] = text else { return None };
    let year = signed(&[y1, y2, y3, y4])?;
    day(year, number(&[m1, m2])? as u32, signed(&[d1, d2])?).map(|days| days * 86_400)
}

/// Days since 1970 of a date; `None` for one that does not exist.
pub(crate) fn day(year: i64, month: u32, day: i64) -> Option<i64> {
    Date::new(year, month, u32::try_from(day).ok()?).map(Date::days)
}

/// Milliseconds since midnight: `06:26:37`, with a fraction or without.
pub(crate) fn parse_time_of_day(text: &[u8]) -> Option<i64> {
    let (&[h1, h2, b':', n1, n2, b':', s1, s2], fraction) = text.split_first_chunk()? else {
        return None;
    };
    let two = |high, low| signed(&[high, low]);
    let (hour, minute, second) = (two(h1, h2)?, two(n1, n2)?, two(s1, s2)?);
    let millis = match fraction {
        [] => 0,
        [b'.' | b',', fraction @ ..] if !fraction.is_empty() => millis(fraction)?,
        _ => return None,
    };
    let exists = hour < 24 && minute < 60 && second <= 60;
    exists.then(|| ((hour * 60 + minute) * 60 + second) * 1000 + i64::from(millis))
}

/// Milliseconds of the digits behind a decimal point, cut.
pub(crate) fn millis(fraction: &[u8]) -> Option<u16> {
    fraction.iter().all(u8::is_ascii_digit).then(|| {
        (0..3).fold(0, |sum, place| {
            sum * 10 + fraction.get(place).map_or(0, |digit| u16::from(digit - b'0'))
        })
    })
}

/// As [`number`], signed.
fn signed(digits: &[u8]) -> Option<i64> {
    number(digits).and_then(|value| i64::try_from(value).ok())
}

/// A plain decimal number; `None` for anything else, and for one that does not fit.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memo_changes_nothing() {
        let mut memo = TimeMemo::default();
        for text in [
            "03/Mar/2012:06:26:37 -0800]",
            "03/Mar/2012:06:26:37 -0800]",
            "03/Mar/2012:06:26:60 -0800]",
            "03/Mar/2012:06:26:61 -0800]",
            "03/Mar/2012:06:26:7: -0800]",
            "03/Mar/2012:06:26:00 -0700]",
            "03/Mar/2012:06:26:00 -0700",
            "03/Mar/2012:06:26:x0 -0700]",
            "03/Mar/2012:06:27:59 -0700]",
            "",
        ] {
            assert_eq!(memo.parse(text.as_bytes()), parse(text.as_bytes()), "{text}");
        }
    }
}
