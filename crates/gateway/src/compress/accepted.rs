//! `Accept-Encoding`: which coding a client gets (RFC 9110, 12.5.3).

/// A coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// zstd (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Brotli,
    /// gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// All, the best first: the one that saves most for the least work.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// The name in `Content-Encoding`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.as_str().as_bytes())
            || self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip")
    }
}

/// The coding that suits a client best; nothing if it accepts no coding, or prefers to get the answer as it is.
pub fn best<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Coding> {
    // In thousandths. What is not named has the weight of `*`.
    let (mut weights, mut plain, mut others) = ([None; 3], None, None);
    for item in values.flat_map(|value| value.split(|byte| *byte == b',')) {
        let mut parts = item.split(|byte| *byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let weight = parts.find_map(weight).unwrap_or(Some(1000));
        // A weight that cannot be read accepts nothing.
        let weight = weight.unwrap_or(0);
        if name == b"*" {
            others = Some(weight);
        } else if name.eq_ignore_ascii_case(b"identity") {
            plain = Some(weight);
        }
        for (coding, known) in Coding::ALL.iter().zip(&mut weights) {
            if coding.is_named(name) {
                *known = Some(weight);
            }
        }
    }
    let mut found: Option<(Coding, u16)> = None;
    for (coding, weight) in Coding::ALL.into_iter().zip(weights) {
        let weight = weight.or(others).unwrap_or(0);
        if weight > 0 && found.is_none_or(|(_, best)| weight > best) {
            found = Some((coding, weight));
        }
    }
    let (coding, weight) = found?;
    plain.is_none_or(|plain| plain <= weight).then_some(coding)
}

/// `q=0.5`: nothing for another parameter, and for a wrong weight nothing within.
#[expect(clippy::option_option, reason = "a weight that is wrong is not one that is missing")]
fn weight(parameter: &[u8]) -> Option<Option<u16>> {
    let text = parameter.trim_ascii();
    let (name, value) = text.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, rest) = match value.split_first() {
        Some((b'0', rest)) => (0, rest),
        Some((b'1', rest)) => (1000, rest),
        _ => return Some(None),
    };
    let digits = match rest.split_first() {
        None => return Some(Some(whole)),
        Some((b'.', digits)) if digits.len() <= 3 => digits,
        _ => return Some(None),
    };
    let mut part = 0;
    for place in 0..3 {
        part = part * 10
            + match digits.get(place) {
                None => 0,
                Some(digit @ b'0'..=b'9') => u16::from(digit - b'0'),
                Some(_) => return Some(None),
            };
    }
    Some((whole + part <= 1000).then_some(whole + part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_coding_wins_and_zero_refuses() {
        use Coding::{Brotli, Gzip, Zstd};
        for (value, coding) in [
            // Firefox 128, Chrome 126, Safari 17, curl --compressed.
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Brotli)),
            ("deflate, gzip", Some(Gzip)),
            // RFC 9110, 12.5.3.
            ("compress, gzip", Some(Gzip)),
            ("", None),
            ("*", Some(Zstd)),
            ("compress;q=0.5, gzip;q=1.0", Some(Gzip)),
            ("gzip;q=1.0, identity; q=0.5, *;q=0", Some(Gzip)),
            ("identity", None),
            ("br;q=0, gzip", Some(Gzip)),
            ("zstd;q=0.5, br;q=0.8, gzip;q=0.8", Some(Brotli)),
            ("gzip;q=0.001", Some(Gzip)),
            ("gzip;q=0.000", None),
            ("*;q=0", None),
            ("*;q=0.1, gzip;q=0", Some(Zstd)),
            ("identity;q=1, gzip;q=0.5", None),
            ("identity;q=0, gzip", Some(Gzip)),
            ("GZIP;Q=1", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("gzip;q=2", None),
            ("gzip;q=0.5555", None),
            ("gzip;q=x, br", Some(Brotli)),
            ("gzip;level=9;q=0", None),
            ("gzipped, brotli", None),
        ] {
            assert_eq!(best(std::iter::once(value.as_bytes())), coding, "{value}");
        }
        let two: [&[u8]; 2] = [b"gzip", b"br"];
        assert_eq!(best(two.into_iter()), Some(Brotli), "two fields are one list");
    }
}
