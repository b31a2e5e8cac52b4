//! `Accept-Encoding` (RFC 9110, 12.5.3): which codings a request accepts, in normal form.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

use crate::coding::Coding;

/// How much a request likes each coding, in thousandths; 0 means never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Accepted {
    identity: u16,
    gzip: u16,
    brotli: u16,
    zstd: u16,
}

impl Accepted {
    /// Only what is not coded.
    pub const IDENTITY: Self = Self { identity: 1000, gzip: 0, brotli: 0, zstd: 0 };

    /// What a request accepts. Members that cannot be read do not count.
    pub fn of(headers: &HeaderMap) -> Self {
        // Without the field any coding would do. But a client that doesn't name one may not know any.
        if !headers.contains_key(ACCEPT_ENCODING) {
            return Self::IDENTITY;
        }
        let [mut identity, mut gzip, mut brotli, mut zstd, mut any] = [None; 5];
        let lines = headers.get_all(ACCEPT_ENCODING).iter();
        let members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        for Weighed { token, weight } in members.filter_map(weighed) {
            let place = match Coding::of_token(token) {
                Some(Coding::Identity) => &mut identity,
                Some(Coding::Gzip) => &mut gzip,
                Some(Coding::Brotli) => &mut brotli,
                Some(Coding::Zstd) => &mut zstd,
                None if token == b"*" => &mut any,
                None => continue,
            };
            // Of two members for one coding the first counts.
            place.get_or_insert(weight);
        }
        Self {
            // Acceptable unless it is refused, itself or by `*` (RFC 9110, 12.5.3). Last of all.
            identity: identity.or(any.filter(|weight| *weight == 0)).unwrap_or(1),
            gzip: gzip.or(any).unwrap_or(0),
            brotli: brotli.or(any).unwrap_or(0),
            zstd: zstd.or(any).unwrap_or(0),
        }
    }

    /// How much a coding is liked.
    pub const fn weight(self, coding: Coding) -> u16 {
        match coding {
            Coding::Identity => self.identity,
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
        }
    }

    /// Whether a coding is accepted.
    pub const fn accepts(self, coding: Coding) -> bool {
        self.weight(coding) > 0
    }

    /// The coding to answer in, where the body lies in `stored`: what is liked best, of what is liked alike
    /// the stored one, because it costs nothing, then the quickest to make. `None` if none is accepted.
    pub fn choose(self, stored: Coding) -> Option<Coding> {
        // What lies there unpacked is not worth packing.
        if stored == Coding::Identity && self.accepts(Coding::Identity) {
            return Some(Coding::Identity);
        }
        let by_cost = [stored, Coding::Gzip, Coding::Zstd, Coding::Brotli, Coding::Identity];
        let accepted = by_cost.into_iter().rev().filter(|coding| self.accepts(*coding));
        accepted.max_by_key(|coding| self.weight(*coding))
    }
}

struct Weighed<'a> {
    token: &'a [u8],
    weight: u16,
}

/// A coding with its weight, `gzip;q=0.5`.
fn weighed(member: &[u8]) -> Option<Weighed<'_>> {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let token = parts.next().filter(|token| !token.is_empty())?;
    let Some(parameter) = parts.next() else { return Some(Weighed { token, weight: 1000 }) };
    let (name, value) = parameter.split_at(parameter.iter().position(|byte| *byte == b'=')?);
    if !name.trim_ascii().eq_ignore_ascii_case(b"q") {
        return None;
    }
    Some(Weighed { token, weight: thousandths(value[1..].trim_ascii())? })
}

/// `0.123`, `1`, `1.000` in thousandths.
fn thousandths(text: &[u8]) -> Option<u16> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    let (whole, decimals) = match text {
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        [whole] => (whole, &[][..]),
        _ => return None,
    };
    let mut weight = digit(*whole)?.checked_mul(1000)?;
    for (byte, worth) in decimals.iter().zip([100, 10, 1]) {
        weight += digit(*byte)? * worth;
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn accepted(lines: &[&str]) -> Accepted {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
        }
        Accepted::of(&headers)
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 9110, 12.5.3.
        let weights = |line| {
            let accepted = accepted(&[line]);
            Coding::ALL.map(|coding| accepted.weight(coding))
        };
        // identity, gzip, br, zstd
        assert_eq!(weights("compress, gzip"), [1, 1000, 0, 0]);
        assert_eq!(weights(""), [1, 0, 0, 0]);
        assert_eq!(weights("*"), [1, 1000, 1000, 1000]);
        assert_eq!(weights("compress;q=0.5, gzip;q=1.0"), [1, 1000, 0, 0]);
        assert_eq!(weights("gzip;q=1.0, identity; q=0.5, *;q=0"), [500, 1000, 0, 0]);
        assert_eq!(accepted(&[]), Accepted::IDENTITY);
    }

    #[test]
    fn identity_is_accepted_unless_it_is_refused() {
        assert!(accepted(&["gzip"]).accepts(Coding::Identity));
        assert!(!accepted(&["gzip, identity;q=0"]).accepts(Coding::Identity));
        assert!(!accepted(&["gzip, *;q=0"]).accepts(Coding::Identity));
        assert!(accepted(&["identity;q=0.1, *;q=0"]).accepts(Coding::Identity));
        assert_eq!(accepted(&["*;q=0"]).choose(Coding::Brotli), None);
        assert_eq!(accepted(&["identity;q=0"]).choose(Coding::Identity), None);
    }

    #[test]
    fn what_lies_there_is_sent_where_it_is_accepted() {
        for (lines, stored, chosen) in [
            (&["gzip, deflate, br, zstd"][..], Coding::Brotli, Coding::Brotli),
            (&["gzip, deflate"], Coding::Brotli, Coding::Gzip),
            (&["gzip", "br"], Coding::Brotli, Coding::Brotli),
            (&["br;q=0.5, gzip"], Coding::Brotli, Coding::Gzip),
            (&["zstd"], Coding::Brotli, Coding::Zstd),
            (&["deflate"], Coding::Brotli, Coding::Identity),
            (&[], Coding::Brotli, Coding::Identity),
            (&["gzip, br"], Coding::Identity, Coding::Identity),
            (&["gzip, identity;q=0"], Coding::Identity, Coding::Gzip),
            (&["GZIP; Q=0.3, X-GZIP"], Coding::Gzip, Coding::Gzip),
            (&["gzip;q=2, br;q=x, zstd;level=3"], Coding::Brotli, Coding::Identity),
            (&["identity, gzip;q=0.5"], Coding::Brotli, Coding::Identity),
        ] {
            assert_eq!(accepted(lines).choose(stored), Some(chosen), "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_accepted(line in "[a-z0-9*;=., -]{0,40}") {
            let accepted = accepted(&[&line]);
            for stored in Coding::ALL {
                let chosen = accepted.choose(stored);
                prop_assert!(chosen.is_none_or(|coding| accepted.accepts(coding)));
                let has_any = Coding::ALL.into_iter().any(|coding| accepted.accepts(coding));
                prop_assert_eq!(chosen.is_some(), has_any);
            }
        }
    }
}
