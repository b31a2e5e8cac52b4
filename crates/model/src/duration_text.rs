//! Durations as people write them: `50ms`, `5s`, `1h30m`, `7d`. For use with
//! `#[serde(with = "duration_text")]`.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads `1h30m`; every number needs its unit (ms, s, m, h, d), except a bare `0`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{text}` is not a duration: write a number and a unit, as in `50ms`, `5s`, `1h30m`, `7d`"
        )
    };
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let &(_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part =
            Duration::try_from_secs_f64(number * millis as f64 / 1000.0).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail.trim_start();
    }
    Ok(total)
}

/// Writes what [`parse`] reads; what is finer than a millisecond is cut off.
pub fn format(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0".to_owned();
    }
    let mut text = String::new();
    for (name, size) in UNITS {
        if millis >= size {
            let _ = write!(text, "{}{name}", millis / size);
            millis %= size;
        }
    }
    text
}

/// For serde.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// For serde.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_write_durations_with_units() {
        assert_eq!(parse("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse(" 7d "), Ok(Duration::from_hours(168)));
        for wrong in ["", "5", "s", "5 parsecs", "-5s", "5s5", "1e400d", "..s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        // f64 holds whole milliseconds exactly up to 2^53.
        fn what_is_written_is_read_back(millis in 0_u64..1 << 53) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_is_too_odd(text in ".*") {
            let _ = parse(&text);
        }
    }
}
