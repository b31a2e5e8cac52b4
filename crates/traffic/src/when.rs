//! Times as logs write them: any of the usual forms, or by a format of `strftime`.

use nightwatt_energy::time::Wall;

use crate::clf_time::{self, MONTHS};

/// A time in one of the forms that servers write, recognised by its looks: Common Log's and `HAProxy`'s,
/// ISO 8601, seconds since 1970 (or milli-, micro-, nanoseconds), RFC 9110's, C's `ctime`. One that
/// does not name its zone reads as UTC.
pub(crate) fn any(text: &[u8]) -> Option<(Wall, i32)> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(text);
    if text.get(2) == Some(&b'/') {
        return common(text);
    }
    if matches!(text.get(4), Some(b'-' | b'/')) {
        let (time, zone) = zone_behind(text);
        let (at, utc_offset) = clf_time::parse_iso(time)?;
        return Some((Wall(at.0 - i64::from(zone) * 1000), utc_offset + zone));
    }
    if text.first()?.is_ascii_digit() {
        return epoch(std::str::from_utf8(text).ok()?).map(|at| (at, 0));
    }
    let forms: [&[u8]; 3] = [b"%a, %d %b %Y %T %Z", b"%a %b %e %T %Y", b"%b %e, %Y %T"];
    forms.into_iter().find_map(|form| {
        let mut clock = Clock::default();
        let used = clock.take(form, text)?;
        if used == text.len() { clock.time() } else { None }
    })
}

/// ` +0100`, ` UTC` or ` GMT` behind a time: the time without it, and its seconds.
fn zone_behind(text: &[u8]) -> (&[u8], i32) {
    let Some(space) = text.iter().rposition(|&byte| byte == b' ').filter(|&at| at > 10) else {
        return (text, 0);
    };
    match zone(&text[space + 1..]) {
        Some((seconds, used)) if space + 1 + used == text.len() => (&text[..space], seconds),
        _ => (text, 0),
    }
}

/// `03/Mar/2012:06:26:37`, with a fraction or without, with a zone or without.
fn common(text: &[u8]) -> Option<(Wall, i32)> {
    let mut clock = Clock::default();
    let mut at = clock.take(b"%d/%b/%Y:%H:%M:%S", text)?;
    if text.get(at) == Some(&b'.') {
        let digits = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        clock.millis = i64::from(clf_time::millis(&text[at + 1..at + 1 + digits])?);
        at += 1 + digits;
    }
    let rest = text[at..].trim_ascii_start();
    if !rest.is_empty() {
        let (seconds, used) = zone(rest)?;
        (used == rest.len()).then_some(())?;
        clock.utc_offset = seconds;
    }
    clock.time()
}

/// Seconds, milli-, micro- or nanoseconds, whichever of them makes a year up to 5138.
pub(crate) fn epoch(number: &str) -> Option<Wall> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let count = i64::try_from(clf_time::number(whole.as_bytes())?).ok()?;
    let at = match count {
        0..100_000_000_000 => count * 1000 + i64::from(clf_time::millis(fraction.as_bytes())?),
        100_000_000_000..100_000_000_000_000 => count,
        100_000_000_000_000..100_000_000_000_000_000 => count / 1000,
        _ => count / 1_000_000,
    };
    Some(Wall(at))
}

/// `+0100`, `-01:00`, `Z`, `UTC` or `GMT`: seconds, and bytes of it.
fn zone(text: &[u8]) -> Option<(i32, usize)> {
    if text.starts_with(b"UTC") || text.starts_with(b"GMT") {
        return Some((0, 3));
    }
    let sign = match text.first()? {
        b'Z' | b'z' => return Some((0, 1)),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let colon = usize::from(text.get(3) == Some(&b':'));
    let hours = two(text.get(1..3)?)?;
    let minutes = two(text.get(3 + colon..5 + colon)?)?;
    let fits = hours < 24 && minutes < 60;
    fits.then_some((sign * (hours * 3600 + minutes * 60) as i32, 5 + colon))
}

fn two(digits: &[u8]) -> Option<i64> {
    clf_time::number(digits).and_then(|value| i64::try_from(value).ok())
}

/// A time that comes in parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    year: i64,
    month: u32,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    pub(crate) millis: i64,
    utc_offset: i32,
    /// Afternoon, where hours are counted to twelve.
    afternoon: Option<bool>,
    /// Seconds since 1970, where it is given so.
    epoch: Option<i64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            year: 1970,
            month: 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            millis: 0,
            utc_offset: 0,
            afternoon: None,
            epoch: None,
        }
    }
}

impl Clock {
    /// Reads a text by a format of `strftime`; how many bytes that took.
    pub(crate) fn take(&mut self, form: &[u8], text: &[u8]) -> Option<usize> {
        let (mut at, mut form) = (0, form.iter());
        while let Some(&byte) = form.next() {
            let rest = text.get(at..)?;
            if byte != b'%' {
                let is_blank = byte.is_ascii_whitespace();
                at += match rest.first() {
                    Some(&first) if first == byte && !is_blank => 1,
                    Some(_) if is_blank => {
                        rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
                    }
                    _ => return None,
                };
                continue;
            }
            let mut directive = *form.next()?;
            if matches!(directive, b'-' | b'_' | b'0' | b'E' | b'O') {
                directive = *form.next()?;
            }
            at += self.directive(directive, rest)?;
        }
        Some(at)
    }

    fn directive(&mut self, directive: u8, text: &[u8]) -> Option<usize> {
        match directive {
            b'T' | b'X' => return self.take(b"%H:%M:%S", text),
            b'R' => return self.take(b"%H:%M", text),
            b'F' => return self.take(b"%Y-%m-%d", text),
            b'D' | b'x' => return self.take(b"%m/%d/%y", text),
            b'c' => return self.take(b"%a %b %e %H:%M:%S %Y", text),
            b'r' => return self.take(b"%I:%M:%S %p", text),
            b'n' | b't' => {
                return Some(text.iter().take_while(|byte| byte.is_ascii_whitespace()).count());
            }
            b'%' => return text.starts_with(b"%").then_some(1),
            b'b' | b'h' | b'B' | b'a' | b'A' | b'p' | b'P' => return self.name(directive, text),
            b'z' | b'Z' => {
                let (seconds, used) = zone(text).or_else(|| {
                    let letters = text.iter().take_while(|it| it.is_ascii_alphabetic()).count();
                    (directive == b'Z' && letters > 0).then_some((self.utc_offset, letters))
                })?;
                self.utc_offset = seconds;
                return Some(used);
            }
            _ => {}
        }
        let most = match directive {
            b'Y' => 4,
            b's' => 12,
            b'j' => 3,
            _ => 2,
        };
        let blanks = text.iter().take(1).take_while(|&&byte| byte == b' ').count();
        let digits = text[blanks..].iter().take(most).take_while(|it| it.is_ascii_digit()).count();
        let value = two(&text[blanks..blanks + digits])?;
        match directive {
            b'Y' => self.year = value,
            b'y' => self.year = if value < 69 { 2000 + value } else { 1900 + value },
            b'm' => self.month = u32::try_from(value).ok()?,
            b'd' | b'e' => self.day = value,
            b'H' | b'k' | b'I' | b'l' => self.hour = value,
            b'M' => self.minute = value,
            b'S' => self.second = value,
            b's' => self.epoch = Some(value),
            b'j' => (self.month, self.day) = (1, value),
            b'u' | b'w' | b'U' | b'W' | b'V' => {}
            _ => return None,
        }
        Some(blanks + digits)
    }

    /// Names of months and days, and halves of a day.
    fn name(&mut self, directive: u8, text: &[u8]) -> Option<usize> {
        let letters = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = &text[..letters];
        match directive {
            b'b' | b'h' | b'B' => {
                let is_it = |name: &str| word.get(..3) == Some(name.as_bytes());
                self.month = MONTHS.iter().position(|name| is_it(name))? as u32 + 1;
                Some(if directive == b'B' { letters } else { 3 })
            }
            b'a' | b'A' => (letters >= 3).then_some(letters),
            _ => {
                let half = word.get(..2)?;
                self.afternoon = Some(half.eq_ignore_ascii_case(b"PM"));
                Some(2)
            }
        }
    }

    /// Takes in a number that stands by itself: Apache's `%{msec}t` and its kin.
    pub(crate) fn number(&mut self, unit: Unit, text: &[u8]) -> Option<()> {
        let value = two(text)?;
        match unit {
            Unit::Second => self.epoch = Some(value),
            Unit::Milli => (self.epoch, self.millis) = (Some(value / 1000), value % 1000),
            Unit::Micro => {
                (self.epoch, self.millis) = (Some(value / 1_000_000), value / 1000 % 1000);
            }
            Unit::MilliFraction => self.millis = value,
            Unit::MicroFraction => self.millis = value / 1000,
        }
        Some(())
    }

    /// The moment and its offset; `None` for one that does not exist.
    pub(crate) fn time(&self) -> Option<(Wall, i32)> {
        if let Some(epoch) = self.epoch {
            let at = epoch.checked_mul(1000)?.checked_add(self.millis)?;
            return Some((Wall(at), self.utc_offset));
        }
        let hour = match self.afternoon {
            Some(afternoon) if (1..=12).contains(&self.hour) => {
                self.hour % 12 + if afternoon { 12 } else { 0 }
            }
            _ => self.hour,
        };
        let day = clf_time::day(self.year, self.month, self.day)?;
        let fits = hour < 24 && self.minute < 60 && self.second <= 60 && self.millis < 1000;
        let local = ((day * 24 + hour) * 60 + self.minute) * 60 + self.second;
        let at = (local - i64::from(self.utc_offset)) * 1000 + self.millis;
        fits.then_some((Wall(at), self.utc_offset))
    }
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Since 1970, likewise the next two.
    Second,
    Milli,
    Micro,
    /// Of the second.
    MilliFraction,
    MicroFraction,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_form_is_told_by_its_looks() {
        // date -u -d @1668038401 is 2022-11-10 00:00:01.
        for text in [
            "10/Nov/2022:00:00:01 +0000",
            "[10/Nov/2022:01:00:01 +0100]",
            "10/Nov/2022:00:00:01",
            "10/Nov/2022:02:00:01.000 +02:00",
            "2022-11-10T00:00:01Z",
            "2022-11-10T00:00:01+00:00",
            "2022-11-10 01:00:01 +0100",
            "2022-11-10 00:00:01 UTC",
            "2022/11/10 00:00:01",
            "1668038401",
            "1668038401.0",
            "1668038401000",
            "1668038401000000",
            "1668038401000000000",
            "Thu, 10 Nov 2022 00:00:01 GMT",
            "Thu Nov 10 00:00:01 2022",
        ] {
            assert_eq!(any(text.as_bytes()).map(|it| it.0.0), Some(1_668_038_401_000), "{text}");
        }
        assert_eq!(any(b"10/Nov/2022:01:00:01 +0100").unwrap().1, 3600);
        assert_eq!(any(b"2022-11-10 01:00:01 +0100").unwrap().1, 3600);
        assert_eq!(any(b"06/Feb/2009:12:14:14.655").unwrap().0.0, 1_233_922_454_655);
        for none in
            ["", "noon", "2022-02-30T00:00:00Z", "31/Nov/2022:00:00:00 +0000", "10/Nov/2022"]
        {
            assert_eq!(any(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn formats_of_strftime_read_what_they_write() {
        for (form, text, at) in [
            ("%d/%b/%Y %T", "10/Nov/2022 00:00:01", 1_668_038_401_000),
            ("%Y-%m-%dT%H:%M:%S%z", "2022-11-10T01:00:01+0100", 1_668_038_401_000),
            ("%F %R", "2022-11-10 00:01", 1_668_038_460_000),
            ("%s", "1668038401", 1_668_038_401_000),
            ("%D %I:%M:%S %p", "11/10/22 12:00:01 AM", 1_668_038_401_000),
            ("%D %I:%M %p", "11/10/22 12:00 PM", 1_668_081_600_000),
            ("%A, %e %B %Y %k:%M", "Thursday,  1 December 2022  9:05", 1_669_885_500_000),
        ] {
            let mut clock = Clock::default();
            assert_eq!(clock.take(form.as_bytes(), text.as_bytes()), Some(text.len()), "{form}");
            assert_eq!(clock.time().map(|it| it.0.0), Some(at), "{form}");
        }
    }
}
