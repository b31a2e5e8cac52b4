//! Numbers and their units. Nothing is guessed: what is not known is an error.

use std::time::Duration;

use crate::error::ReadError;

/// What `k` stands for.
pub(crate) const DECIMAL: f64 = 1000.0;
/// What `K` stands for where programs count memory, and what `Ki` always does.
pub(crate) const BINARY: f64 = 1024.0;

/// How bytes are written.
pub(crate) const BYTES: &[&str] = &["B", "Byte", "Bytes", "byte", "bytes"];
/// How bits are written.
pub(crate) const BITS: &[&str] = &["b", "bit", "bits", "Bit", "Bits"];

/// A finite number, with a point, and nothing else.
pub(crate) fn number(what: &str, text: &str) -> Result<f64, ReadError> {
    let is_sign = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let value = text.trim().bytes().all(is_sign).then(|| text.trim().parse::<f64>().ok()).flatten();
    value.filter(|it| it.is_finite()).ok_or_else(|| ReadError::number(what, text))
}

/// A finite number that is not below nothing.
pub(crate) fn amount(what: &str, text: &str) -> Result<f64, ReadError> {
    let value = number(what, text)?;
    if value < 0.0 { Err(ReadError::number(what, text)) } else { Ok(value) }
}

/// A whole number.
pub(crate) fn count(what: &str, text: &str) -> Result<u64, ReadError> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().ok_or_else(|| ReadError::number(what, text))
}

/// A length of time from seconds.
pub(crate) fn seconds(what: &str, seconds: f64) -> Result<Duration, ReadError> {
    Duration::try_from_secs_f64(seconds).map_err(|_| ReadError::number(what, &seconds.to_string()))
}

/// `12.5ms`, `12.5 ms` taken apart.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    // A comma belongs to the number, so that `1,5` is no `1` in the unit `,5`.
    let end = text.find(|it: char| !it.is_ascii_digit() && !"+-.,".contains(it));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    if number.trim().is_empty() { (text, "") } else { (number.trim(), unit.trim()) }
}

/// `12.5 ms` in seconds.
pub(crate) fn time(what: &str, text: &str) -> Result<f64, ReadError> {
    let (value, unit) = split(text);
    Ok(amount(what, value)? * time_unit(what, unit)?)
}

/// Seconds in a unit of time.
pub(crate) fn time_unit(what: &str, unit: &str) -> Result<f64, ReadError> {
    Ok(match unit {
        "ns" | "nsec" | "nsecs" => 1e-9,
        "us" | "µs" | "μs" | "usec" | "usecs" => 1e-6,
        "ms" | "msec" | "msecs" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return Err(ReadError::unit(what, unit)),
    })
}

/// `12.5 MiB` in bytes, or in whatever `bases` are names of. `kilo` is what `K` stands for.
pub(crate) fn sized(what: &str, text: &str, bases: &[&str], kilo: f64) -> Result<f64, ReadError> {
    let (value, unit) = split(text);
    let factor = factor(unit, bases, kilo).ok_or_else(|| ReadError::unit(what, unit))?;
    Ok(amount(what, value)? * factor)
}

/// What a unit is in its base: `MiB` is 1048576 bytes.
pub(crate) fn factor(unit: &str, bases: &[&str], kilo: f64) -> Option<f64> {
    if bases.contains(&unit) {
        return Some(1.0);
    }
    let mut rest = unit.chars();
    let power = match rest.next()? {
        'k' | 'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        'P' => 5,
        'E' => 6,
        _ => return None,
    };
    let rest = rest.as_str();
    let (kilo, base) = match rest.strip_prefix('i') {
        Some(base) => (BINARY, base),
        None => (kilo, rest),
    };
    bases.contains(&base).then(|| kilo.powi(power))
}

/// A number of things that may be printed in thousands: `10.0k`, `10.0 k`.
pub(crate) fn thousands(what: &str, text: &str) -> Result<f64, ReadError> {
    sized(what, text, &[""], DECIMAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_nothing_that_only_looks_like_one() {
        assert_eq!(number("it", " -1.5e3 ").unwrap().to_bits(), (-1500.0_f64).to_bits());
        for text in
            ["", "1,5", "nan", "NaN", "inf", "-inf", "infinity", "1e999", "1 2", "0x10", "+"]
        {
            let error = number("it", text).unwrap_err();
            assert!(matches!(error, ReadError::Number { .. }), "{text}: {error}");
        }
        assert_eq!(count("it", "18446744073709551615").unwrap(), u64::MAX);
        for text in ["", "-1", "1.0", "18446744073709551616", "1 000", "1k"] {
            assert!(count("it", text).is_err(), "{text}");
        }
        assert!(amount("it", "-1").is_err());
        assert!(seconds("it", -1.0).is_err() && seconds("it", 1e30).is_err());
    }

    #[test]
    fn units_are_what_they_say() {
        let close = |found: f64, wanted: f64| (found - wanted).abs() <= wanted * 1e-12;
        for (text, wanted) in [
            ("3.91 ms", 0.003_91),
            ("851us", 0.000_851),
            ("15.00µs", 15e-6),
            ("1.50m", 90.0),
            ("2h", 7200.0),
            ("7 nsec", 7e-9),
        ] {
            assert!(close(time("it", text).unwrap(), wanted), "{text}");
        }
        // Powers of 1024 and of 1000, by hand.
        let bytes = |text, kilo| sized("it", text, BYTES, kilo).unwrap();
        assert!(close(bytes("1.5 MiB", DECIMAL), 1_572_864.0));
        assert!(close(bytes("1.5MB", DECIMAL), 1_500_000.0));
        assert!(close(bytes("2 GBytes", BINARY), 2_147_483_648.0));
        assert!(close(bytes("7 B", BINARY), 7.0));
        assert!(close(thousands("it", "10.3 k").unwrap(), 10_300.0));
        assert!(close(thousands("it", "124").unwrap(), 124.0));
    }

    #[test]
    fn an_unknown_unit_is_an_error_and_no_guess() {
        assert!(matches!(time("it", "5 fortnights"), Err(ReadError::Unit { .. })));
        assert!(matches!(time("it", "5"), Err(ReadError::Unit { .. })));
        for text in ["5 XB", "5 Mb", "5 mB", "5 MiBs", "5 i", "5"] {
            assert!(
                matches!(sized("it", text, BYTES, BINARY), Err(ReadError::Unit { .. })),
                "{text}"
            );
        }
        // A decimal comma stays with its number.
        assert!(matches!(time("it", "1,5 ms"), Err(ReadError::Number { .. })));
        assert!(matches!(time("it", "nan ms"), Err(ReadError::Number { .. })));
    }
}
