//! Ranges cut from a complete stored response (RFC 9110, 14).
//!
//! One range is answered by its part; several are answered in full, which is always allowed, since
//! a client that asks for many small ones asks for more work than the whole.

use crate::conditional::is_weak;
use crate::content_range::number;
use crate::date;
use crate::request::RequestHead;
use crate::stored::Stored;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

/// Bytes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The first byte, counted from 0.
    pub first: u64,
    /// The last byte, never before the first.
    pub last: u64,
}

impl ByteRange {
    /// How many bytes it spans, at least one.
    #[allow(clippy::len_without_is_empty, reason = "a range of bytes is never empty")]
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// What a request's `Range` asks of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeAnswer {
    /// No range, none that counts, or several: the whole response with its own status.
    Whole,
    /// 206 with this part: see [`partial_headers`].
    Part(ByteRange),
    /// 416: see [`unsatisfiable_headers`].
    NotSatisfiable,
}

impl Stored {
    /// What to send of a body of `length` bytes. Ask this after [`Stored::precondition`].
    pub fn range(&self, request: &RequestHead<'_>, length: u64) -> RangeAnswer {
        let mut lines = request.headers.get_all(RANGE).iter();
        let (Some(range), None) = (lines.next(), lines.next()) else { return RangeAnswer::Whole };
        let counts = *request.method == Method::GET
            && self.status() == StatusCode::OK
            && self.meets_if_range(request.headers);
        if counts { answer(range.as_bytes(), length) } else { RangeAnswer::Whole }
    }

    /// `If-Range`: the client's part is of this very response. Only a strong validator can tell.
    fn meets_if_range(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(IF_RANGE) else { return true };
        let condition = condition.as_bytes().trim_ascii();
        if condition.ends_with(b"\"") {
            let own = self.headers().get(ETAG).map(|tag| tag.as_bytes().trim_ascii());
            return !is_weak(condition) && own == Some(condition);
        }
        let Some(changed) = self.headers().get(LAST_MODIFIED) else { return false };
        let received = self.times().received;
        let (Some(since), Some(changed)) =
            (date::parse(condition, received), date::parse_value(changed, received))
        else {
            return false;
        };
        // A date is a strong validator once the second it names was over when the response was
        // made (RFC 9110, 8.8.2.2).
        since == changed && changed < self.date()
    }
}

/// Reads the value of `Range` for a representation of `length` bytes.
pub fn answer(range: &[u8], length: u64) -> RangeAnswer {
    let Some(equals) = range.iter().position(|&b| b == b'=') else { return RangeAnswer::Whole };
    let (unit, list) = (range[..equals].trim_ascii(), &range[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return RangeAnswer::Whole;
    }
    let mut members = list.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|m| !m.is_empty());
    match (members.next(), members.next()) {
        (Some(only), None) => answer_one(only, length),
        _ => RangeAnswer::Whole,
    }
}

/// One range; what is not one does not count.
fn answer_one(range: &[u8], length: u64) -> RangeAnswer {
    let Some(dash) = range.iter().position(|&b| b == b'-') else { return RangeAnswer::Whole };
    let (first, last) = (&range[..dash], &range[dash + 1..]);
    match (number(first), number(last)) {
        (None, Some(0)) if first.is_empty() => RangeAnswer::NotSatisfiable,
        // Of nothing, the end is the whole: no `Content-Range` can say so.
        (None, Some(_)) if first.is_empty() && length == 0 => RangeAnswer::Whole,
        (None, Some(suffix)) if first.is_empty() => {
            RangeAnswer::Part(ByteRange { first: length.saturating_sub(suffix), last: length - 1 })
        }
        (Some(first), Some(last)) if last < first => RangeAnswer::Whole,
        (Some(first), Some(last)) => within(first, last, length),
        (Some(first), None) if last.is_empty() => within(first, u64::MAX, length),
        _ => RangeAnswer::Whole,
    }
}

fn within(first: u64, last: u64, length: u64) -> RangeAnswer {
    if first >= length {
        return RangeAnswer::NotSatisfiable;
    }
    RangeAnswer::Part(ByteRange { first, last: last.min(length - 1) })
}

/// Makes the fields of a whole response those of a 206 with a part of it.
pub fn partial_headers(headers: &mut HeaderMap, range: ByteRange, length: u64) {
    let text = format!("bytes {}-{}/{length}", range.first, range.last);
    headers.insert(CONTENT_RANGE, HeaderValue::from_str(&text).expect("digits are ASCII"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.len()));
}

/// The fields of a 416 about a representation of `length` bytes; its body is empty.
pub fn unsatisfiable_headers(length: u64) -> HeaderMap {
    let text = format!("bytes */{length}");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_RANGE, HeaderValue::from_str(&text).expect("digits are ASCII"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
    headers
}
