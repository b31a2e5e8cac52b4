//! Dates of sitemaps and feeds: the W3C's form of ISO 8601, and RFC 822 with its zones.

use nightwatt_httpcache::{Timestamp, date};

/// Parses a date; `None` if the text isn't one or the date is before 1970.
pub fn parse(text: &str) -> Option<Timestamp> {
    w3c(text).or_else(|| rfc822(text))
}

/// `2005-01-01`, `2005-01`, `2005`, `2005-01-01T12:30:45.5+01:00`
fn w3c(text: &str) -> Option<Timestamp> {
    let (day, time) = match text.split_once(['T', 't', ' ']) {
        Some((day, time)) => (day, Some(time)),
        None => (text, None),
    };
    let mut parts = day.split('-');
    let year = number(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |it| number(it, 2))?;
    let date = parts.next().map_or(Some(1), |it| number(it, 2))?;
    if parts.next().is_some() {
        return None;
    }
    let midnight = midnight(year, month, date)?;
    let Some(time) = time else { return Some(midnight) };
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone_at);
    at(midnight, time.split('.').next()?, offset(zone)?)
}

/// `Sun, 06 Nov 1994 08:49:37 +0100`
fn rfc822(text: &str) -> Option<Timestamp> {
    const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let &[day, month, year, time, ..] = words.as_slice() else { return None };
    let month = month.get(..3)?.to_ascii_lowercase();
    let month = u64::try_from(MONTHS.find(&month)? / 3 + 1).ok()?;
    let year = number(year, 4).or_else(|| number(year, 2).map(|it| it + 2000))?;
    let day = number(day, 2).or_else(|| number(day, 1))?;
    at(midnight(year, month, day)?, time, offset(words.get(4).copied().unwrap_or(""))?)
}

/// Exactly this many digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn midnight(year: u64, month: u64, day: u64) -> Option<Timestamp> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if year < 1970 {
        return None;
    }
    let month = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    // The weekday does not matter to the reader of HTTP's dates.
    let text = format!("Mon, {day:02} {month} {year:04} 00:00:00 GMT");
    date::parse(text.as_bytes(), Timestamp::default())
}

/// Hours, minutes and perhaps seconds after midnight, in a zone this many seconds ahead of UTC.
fn at(midnight: Timestamp, time: &str, ahead: i64) -> Option<Timestamp> {
    let mut parts = time.split(':').map(|part| number(part, 2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let local = midnight.as_secs() + hour * 3600 + minute * 60 + second;
    Some(Timestamp::from_secs(local.saturating_add_signed(-ahead)))
}

/// Seconds ahead of UTC: `Z`, `GMT`, `+01:00`, `-0500`, and no zone at all, which is taken for UTC.
fn offset(zone: &str) -> Option<i64> {
    const NAMED: [(&str, i64); 8] = [
        ("EST", -5),
        ("EDT", -4),
        ("CST", -6),
        ("CDT", -5),
        ("MST", -7),
        ("MDT", -6),
        ("PST", -8),
        ("PDT", -7),
    ];
    if matches!(zone, "" | "Z" | "z" | "GMT" | "UT" | "UTC") {
        return Some(0);
    }
    if let Some((_, hours)) = NAMED.iter().find(|(name, _)| *name == zone) {
        return Some(hours * 3600);
    }
    let (sign, digits) = match zone.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, zone.strip_prefix('+')?),
    };
    let digits = digits.replace(':', "");
    let (hours, minutes) = (number(digits.get(..2)?, 2)?, number(digits.get(2..)?, 2)?);
    Some(sign * i64::try_from(hours * 3600 + minutes * 60).ok()?)
}
