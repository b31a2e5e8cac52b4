//! `Content-Range` of a part that is the whole (RFC 9110, 14.4).

use http::header::{CONTENT_LENGTH, CONTENT_RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};

/// The fields of the 200 that a 206 might have been: its one part is the whole representation.
///
/// Other parts are not kept. Putting parts together needs a strong validator in each of them
/// (RFC 9110, 15.3.7.3), and a server that is awake anyway for one part can send the next.
pub(crate) fn whole(status: StatusCode, headers: &HeaderMap) -> Option<HeaderMap> {
    if status != StatusCode::PARTIAL_CONTENT {
        return None;
    }
    let mut lines = headers.get_all(CONTENT_RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let text = line.as_bytes().trim_ascii();
    let (unit, range) = text.split_at_checked("bytes ".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes ") {
        return None;
    }
    let slash = range.iter().position(|&b| b == b'/')?;
    let length = number(&range[slash + 1..])?;
    let dash = range.iter().position(|&b| b == b'-')?;
    let (first, last) = (number(&range[..dash])?, number(range.get(dash + 1..slash)?)?);
    if first != 0 || last.checked_add(1) != Some(length) {
        return None;
    }
    let mut whole = headers.clone();
    whole.remove(CONTENT_RANGE);
    whole.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Some(whole)
}

/// Digits as a number, held at the largest.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    valid.then(|| {
        digits.iter().fold(0_u64, |n, b| n.saturating_mul(10).saturating_add(u64::from(b - b'0')))
    })
}
