//! What servers do to text so that it fits into a line, undone.

use std::borrow::Cow;

use memchr::{memchr, memmem};

/// What Apache and nginx do to bytes they cannot log as they are.
pub(crate) fn clf(raw: &[u8]) -> Cow<'_, str> {
    if memchr(b'\\', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    Cow::Owned(String::from_utf8_lossy(&unescape(raw)).into_owned())
}

/// A JSON string without its quotes. Invalid JSON is left as it is.
pub(crate) fn json(raw: &[u8]) -> Cow<'_, str> {
    if memchr(b'\\', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    let quoted = [b"\"", raw, b"\""].concat();
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => Cow::Owned(text),
        Err(_) => String::from_utf8_lossy(raw),
    }
}

/// IIS writes a space as `+`, and a plus as it is: so of two in a row the second is one. (Of
/// `(compatible;++http://...)` that is right; two spaces in a row are lost.)
pub(crate) fn plus(raw: &[u8]) -> Cow<'_, str> {
    if memchr(b'+', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    let mut out = raw.to_vec();
    let mut after_space = false;
    for byte in &mut out {
        after_space = *byte == b'+' && !after_space;
        if after_space {
            *byte = b' ';
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// Percent-encoding; older logs of `CloudFront` have it twice, `%2520` for a space.
pub(crate) fn percent(raw: &[u8]) -> Cow<'_, str> {
    if memchr(b'%', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    let twice = memmem::find(raw, b"%25").is_some();
    let once = percent_decode(raw);
    let bytes = if twice { percent_decode(&once) } else { once };
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn percent_decode(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let byte = match *rest {
            [_, high, low, ..] => hex(high).zip(hex(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        out.push(byte.unwrap_or(b'%'));
        rest = &rest[if byte.is_some() { 3 } else { 1 }..];
    }
    out.extend_from_slice(rest);
    out
}

fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (byte, used) = match rest[at + 1..] {
            [b'x', high, low, ..] => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => (b'\\', 1),
            },
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b't', ..] => (b'\t', 2),
            [escaped @ (b'"' | b'\\'), ..] => (escaped, 2),
            // Not an escape of theirs: the log's own backslash.
            _ => (b'\\', 1),
        };
        out.push(byte);
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iis_writes_spaces_as_plus() {
        assert_eq!(
            plus(b"Mozilla/5.0+(compatible;+Googlebot/2.1;++http://www.google.com/bot.html)"),
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
        );
        assert_eq!(plus(b"curl/8.5.0"), "curl/8.5.0");
    }

    #[test]
    fn cloudfront_encodes_once_or_twice() {
        for raw in [&b"Mozilla/5.0%20(X11)%3B"[..], b"Mozilla/5.0%2520(X11)%253B"] {
            assert_eq!(percent(raw), "Mozilla/5.0 (X11);");
        }
        assert_eq!(percent(b"100%"), "100%");
        assert_eq!(percent(b"%zz%4"), "%zz%4");
    }

    #[test]
    fn json_has_its_own_escapes() {
        let raw = br#"/a?b=1\u0026c=\"\\\u00e9\ud83d\ude00\/"#;
        assert_eq!(json(raw), "/a?b=1&c=\"\\\u{e9}\u{1f600}/");
        assert_eq!(json(br"\q"), "\\q", "no escape of JSON");
    }
}
