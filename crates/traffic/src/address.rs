//! Addresses of clients, as proxies and logs write them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address, with or without a port: `203.0.113.9`, `203.0.113.9:51008`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:443`, each also in quotes. The zone of an IPv6 address (`%eth0`) says
/// nothing elsewhere, and is left out.
pub fn read(text: &str) -> Option<IpAddr> {
    let text = unquoted(text.trim());
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let is_right = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return v6(address).filter(|_| is_right);
    }
    match text.split_once(':') {
        Some((address, port)) if is_port(port) => address.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        _ => v6(text),
    }
}

/// An address in the one spelling of RFC 5952, so that a client which a log spells in two ways is one; any other text
/// as it is.
pub fn canonical(text: &str) -> Cow<'_, str> {
    let address = text.parse::<Ipv6Addr>();
    address.map_or_else(|_| text.into(), |it| it.to_canonical().to_string().into())
}

/// An address of IPv4 as most logs write it: four numbers up to 255, without leading zeros. Quick; anything else is
/// left to the standard library.
pub(crate) fn quick_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let (mut rest, mut address) = (text, 0);
    for place in 0..4 {
        let (number, len) = leading_number(rest)?;
        address = address << 8 | number;
        rest = &rest[len..];
        if place < 3 {
            rest = rest.strip_prefix(b".")?;
        }
    }
    rest.is_empty().then(|| Ipv4Addr::from_bits(address))
}

/// The number up to 255 that a text begins with, and its digits.
#[inline]
fn leading_number(text: &[u8]) -> Option<(u32, usize)> {
    let digit = |at: usize| {
        let digit = text.get(at)?.wrapping_sub(b'0');
        (digit < 10).then(|| u32::from(digit))
    };
    let first = digit(0)?;
    let Some(second) = digit(1) else { return Some((first, 1)) };
    if first == 0 {
        return None;
    }
    let two = first * 10 + second;
    let Some(third) = digit(2) else { return Some((two, 2)) };
    let three = two * 10 + third;
    (three <= 255).then_some((three, 3))
}

/// The text between quotes, if it stands between quotes.
pub fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|it| it.strip_suffix('"')).map_or(text, str::trim)
}

fn v6(text: &str) -> Option<IpAddr> {
    let bare = text.split_once('%').map_or(text, |(address, _)| address);
    bare.parse().ok().map(IpAddr::V6)
}

/// A number, or a port that a proxy hides (RFC 7239, 6.1).
fn is_port(text: &str) -> bool {
    let hidden =
        |it: &str| it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    text.parse::<u16>().is_ok() || text.strip_prefix('_').is_some_and(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_brackets_quotes_and_zones_are_understood() {
        for (text, address) in [
            ("203.0.113.9", "203.0.113.9"),
            (" 203.0.113.9:51008 ", "203.0.113.9"),
            ("\"203.0.113.9:51008\"", "203.0.113.9"),
            ("203.0.113.9:_hidden", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("\"[2001:db8::1]:443\"", "2001:db8::1"),
            ("\"[::1]\"", "::1"),
            ("[fe80::1%eth0]:80", "fe80::1"),
            ("fe80::1%25eth0", "fe80::1"),
            ("::ffff:203.0.113.9", "::ffff:203.0.113.9"),
        ] {
            assert_eq!(read(text), Some(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn nothing_else_is_an_address() {
        for text in [
            "",
            "unknown",
            "_gazonk",
            "example.org",
            "example.org:80",
            "203.0.113.9:",
            "203.0.113.9:x",
            "203.0.113.9:65536",
            "203.0.113.9:80:81",
            "[203.0.113.9]",
            "[2001:db8::1",
            "[2001:db8::1]443",
            "[2001:db8::1]:",
            "2001:db8::1]",
            "\"203.0.113.9",
            "203.0.113.9\"",
            "1.2.3",
            "[]",
            "%eth0",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
