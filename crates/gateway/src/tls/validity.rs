//! The validity of a certificate (RFC 5280, 4.1.2.5): parses only as much of X.509 as that needs.

use nightwatt_energy::civil::Date;

/// Tags of DER.
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The first and the last second in which a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not before this.
    pub from: i64,
    /// Not after this.
    pub until: i64,
}

impl Validity {
    /// Reads a certificate in DER; nothing if it is not one.
    pub fn read(certificate: &[u8]) -> Option<Self> {
        let (signed, _) = element(certificate, Some(SEQUENCE))?;
        let (mut fields, _) = element(signed, Some(SEQUENCE))?;
        if fields.first() == Some(&VERSION) {
            fields = element(fields, None)?.1;
        }
        // Serial number, algorithm, issuer.
        for _ in 0..3 {
            fields = element(fields, None)?.1;
        }
        let (validity, _) = element(fields, Some(SEQUENCE))?;
        let (from, rest) = time(validity)?;
        let (until, rest) = time(rest)?;
        rest.is_empty().then_some(Self { from, until })
    }
}

/// The content of the first element, and what follows it. `tag`: the expected tag.
pub(super) fn element(bytes: &[u8], tag: Option<u8>) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk()?;
    if tag.is_some_and(|tag| tag != found) {
        return None;
    }
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        // A certificate is never longer than 16 MiB.
        if digits.is_empty() || digits.len() > 3 {
            return None;
        }
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    rest.split_at_checked(length)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, and what follows it.
fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let tag = *bytes.first()?;
    let (text, rest) = element(bytes, None)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (year, text) = match (tag, text.len()) {
        // Two digits mean the years from 1950 to 2049.
        (UTC_TIME, 12) => {
            let year: i64 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let two = |at: usize| text[at..at + 2].parse::<u32>().ok();
    let day = Date::new(year, two(0)?, two(2)?)?.days();
    let (hour, minute, second) = (two(4)?, two(6)?, two(8)?);
    let is_time = hour < 24 && minute < 60 && second < 60;
    let seconds = day * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
    is_time.then_some((seconds, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(tag: u8, text: &str) -> Option<i64> {
        let mut bytes = vec![tag, text.len() as u8];
        bytes.extend(text.as_bytes());
        time(&bytes).map(|(seconds, _)| seconds)
    }

    #[test]
    fn times_are_those_of_the_gregorian_calendar() {
        // By `date -u -d @..`.
        assert_eq!(seconds(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(seconds(UTC_TIME, "500101000000Z"), Some(-631_152_000));
        assert_eq!(seconds(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(GENERALIZED_TIME, "20240229120000Z"), Some(1_709_208_000));
        assert_eq!(seconds(GENERALIZED_TIME, "20261123154200Z"), Some(1_795_448_520));
        assert_eq!(seconds(GENERALIZED_TIME, "21000301000000Z"), Some(4_107_542_400));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for (tag, text) in [
            (UTC_TIME, "7001010000Z"),
            (UTC_TIME, "700101000000"),
            (UTC_TIME, "701301000000Z"),
            (UTC_TIME, "700230000000Z"),
            (UTC_TIME, "700101240000Z"),
            (UTC_TIME, "70010100000+Z"),
            (GENERALIZED_TIME, "700101000000Z"),
            (SEQUENCE, "700101000000Z"),
        ] {
            assert_eq!(seconds(tag, text), None, "{text}");
        }
        for bytes in [&b""[..], b"\x30", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x30\x05ab"] {
            assert_eq!(Validity::read(bytes), None, "{bytes:?}");
        }
    }
}
