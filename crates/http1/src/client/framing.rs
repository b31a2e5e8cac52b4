//! How the end of the body behind an answer's head is determined.

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Method, StatusCode};

use crate::answer_head::{BadAnswer, Head, LONGEST_HEAD};
use crate::chunked::Chunked;
use crate::head::{MOST_FIELDS, length_of};
use crate::response::is_bodyless;

/// How the end of an answer's body is determined.
#[derive(Debug)]
pub(super) enum Framing {
    /// There is no body, or no more of it.
    Nothing,
    /// So many bytes, at least one.
    Length(u64),
    Chunked(Chunked),
    /// The server closes the connection.
    Close,
}

impl Head {
    /// How the end of the body is determined (RFC 9112, 6.3), and whether another request can follow.
    pub(super) fn framing(&self, method: &Method) -> Result<(Framing, bool), BadAnswer> {
        let (framing, is_certain) = self.declared_framing(method)?;
        let persists = is_certain && self.persists() && !matches!(framing, Framing::Close);
        Ok((framing, persists && self.status != StatusCode::SWITCHING_PROTOCOLS))
    }

    fn declared_framing(&self, method: &Method) -> Result<(Framing, bool), BadAnswer> {
        if *method == Method::HEAD || is_bodyless(self.status) {
            return Ok((Framing::Nothing, true));
        }
        let length = self.length()?;
        // `identity`, which RFC 7230 took out of HTTP, changes nothing.
        let codings = self.headers.get_all(TRANSFER_ENCODING).iter();
        let mut codings =
            codings.filter(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if let Some(coding) = codings.next() {
            if !self.is_1_1 {
                return Err(BadAnswer("HTTP/1.0 knows no Transfer-Encoding"));
            }
            // What else was done to the body could not be undone, and would not be told.
            if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
                return Err(BadAnswer("its transfer coding is not chunked"));
            }
            // The chunks count. A server that sends a length as well may mean something else by the next
            // bytes.
            return Ok((
                Framing::Chunked(Chunked::of_answer(LONGEST_HEAD, MOST_FIELDS)),
                length.is_none(),
            ));
        }
        Ok((length.map_or(Framing::Close, Framing::of_length), true))
    }

    /// The length that is given, even if several times.
    fn length(&self) -> Result<Option<u64>, BadAnswer> {
        let values = self.headers.get_all(CONTENT_LENGTH).into_iter();
        let mut told = None;
        for text in values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
            let length = length_of(text.trim_ascii());
            let length = length.ok_or(BadAnswer("Content-Length must be a number"))?;
            if told.is_some_and(|told| told != length) {
                return Err(BadAnswer("its Content-Length fields differ"));
            }
            told = Some(length);
        }
        Ok(told)
    }

    /// Does the server keep the connection?
    fn persists(&self) -> bool {
        let listed = self.headers.get_all(CONNECTION).into_iter();
        let mut listed = listed.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut lists =
            |option: &[u8]| listed.any(|it| it.trim_ascii().eq_ignore_ascii_case(option));
        if self.is_1_1 { !lists(b"close") } else { lists(b"keep-alive") }
    }
}

impl Framing {
    fn of_length(length: u64) -> Self {
        if length == 0 { Self::Nothing } else { Self::Length(length) }
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
