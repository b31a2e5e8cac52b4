//! Durations as people write them: `50ms`, `5s`, `1h30m`, `7d`. For use with
//! `#[serde(with = "duration_text")]`.

use std::fmt::{self, Write};
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Ten years: what is longer was not meant, and sums of times must not run out of their range.
const LONGEST: Duration = Duration::from_hours(3650 * 24);

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
        // What is beyond any bound is beyond ours.
        let part = Duration::try_from_secs_f64(number * millis as f64 / 1000.0);
        total = total.saturating_add(part.unwrap_or(Duration::MAX));
        rest = tail.trim_start();
    }
    if total > LONGEST {
        return Err(format!("`{text}` is too long: at most {} (ten years)", format(LONGEST)));
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
    deserializer.deserialize_any(Text)
}

/// For serde, of a duration that may be left out.
pub mod option {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    /// For serde; nothing is written as nothing.
    pub fn serialize<S: Serializer>(
        it: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match it {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// For serde; what is there is a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with a unit, such as `\"120s\"`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Duration, E> {
        Err(E::custom(format!("`{number}` has no unit: write a duration as `\"{number}s\"`")))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Duration, E> {
        Err(E::custom(format!("`{number}` has no unit: write a duration as `\"{number}s\"`")))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Duration, E> {
        Err(E::custom(format!("`{number}` has no unit: write a duration as `\"{number}s\"`")))
    }
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

    #[test]
    fn nothing_takes_longer_than_ten_years() {
        assert_eq!(parse("3650d"), Ok(Duration::from_hours(87_600)));
        for long in ["3650d1ms", "99999999999d", "99999999999999999999999d", "3649d25h"] {
            let error = parse(long).unwrap_err();
            assert!(error.contains(long) && error.contains("at most 3650d"), "{error}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_told_to_have_one() {
        let read = |json: &str| deserialize(&mut serde_json::Deserializer::from_str(json));
        assert_eq!(read("\"120s\"").unwrap(), Duration::from_mins(2));
        for (json, wanted) in [
            ("120", "`120` has no unit: write a duration as `\"120s\"`"),
            ("1.5", "`\"1.5s\"`"),
            ("true", "expected a duration with a unit, such as `\"120s\"`"),
            ("\"120\"", "`120` is not a duration"),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0..=LONGEST.as_millis() as u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_is_too_odd(text in ".*") {
            let _ = parse(&text);
        }
    }
}
