//! An answer's head: what it says.

use bytes::{Bytes, BytesMut};
use http::header::InvalidHeaderValue;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::head::{Field, Fields, length_of, no_fields};
use crate::response::is_bodyless;

/// No head of an answer is longer, in bytes.
pub(crate) const LONGEST_HEAD: usize = 400 << 10;

/// Why something is not taken as an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what came is no answer of HTTP/1.1: {0}")]
pub struct BadAnswer(pub(crate) &'static str);

/// An answer's head.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) is_1_1: bool,
    pub(crate) headers: HeaderMap,
}

/// An answer's head as it came, if it is plain: a final answer of HTTP/1.1, of a length that is given once,
/// after which the connection goes on.
#[derive(Debug)]
pub struct PlainResponse<'h, 'b> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub fields: &'h [Field<'b>],
    /// Bytes of the body.
    pub length: usize,
}

impl<'h, 'b> PlainResponse<'h, 'b> {
    /// Nothing, if `bytes` are not the whole head of a plain answer.
    pub(crate) fn of(bytes: &'b [u8], room: &'h mut Fields<'b>) -> Option<Self> {
        let (response, length) = read(bytes, room, &httparse::ParserConfig::default()).ok()??;
        let status = StatusCode::from_u16(response.code?).ok()?;
        if length != bytes.len() || response.version != Some(1) || is_bodyless(status) {
            return None;
        }
        let fields: &'h [Field<'b>] = response.headers;
        let mut told = None;
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                14 if is("content-length") => {
                    let length = usize::try_from(length_of(field.value)?).ok()?;
                    if told.replace(length).is_some() {
                        return None;
                    }
                }
                17 if is("transfer-encoding") => return None,
                10 if is("connection") && !field.value.eq_ignore_ascii_case(b"keep-alive") => {
                    return None;
                }
                _ => {}
            }
        }
        Some(Self { status, fields, length: told? })
    }

    /// The values of a field.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'b [u8]> + 'a {
        let named = move |field: &&Field<'b>| field.name.eq_ignore_ascii_case(name);
        self.fields.iter().filter(named).map(|field| field.value)
    }
}

/// Takes a head out of the buffer, if all of it is there.
pub(crate) fn parse(buffer: &mut BytesMut) -> Result<Option<Head>, BadAnswer> {
    let mut room = no_fields();
    let Some(end) = end_of(buffer) else {
        if buffer.len() >= LONGEST_HEAD {
            return Err(BadAnswer("there is no end to its head"));
        }
        // What cannot become an answer is not waited for.
        read(buffer, &mut room, &lenient())?;
        return Ok(None);
    };
    let head = buffer.split_to(end).freeze();
    let response = match read(&head, &mut room, &lenient())? {
        Some((response, length)) if length == end => response,
        _ => return Err(BadAnswer("its head is not well-formed")),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(BadAnswer("its status is not one"))?;
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for field in response.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let (Ok(name), Ok(value)) = (name, value_of(&head, field.value)) else {
            return Err(BadAnswer("one of its fields is not well-formed"));
        };
        headers.append(name, value);
    }
    Ok(Some(Head { status, is_1_1: response.version == Some(1), headers }))
}

/// Accepts from servers what is refused from clients: white space after a field name, which is removed (RFC 9112,
/// 5.1), folded lines (5.2), and several spaces in the status line.
fn lenient() -> httparse::ParserConfig {
    let mut parser = httparse::ParserConfig::default();
    parser
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true);
    parser
}

/// A field's value; line breaks of a folded value become spaces.
fn value_of(head: &Bytes, value: &[u8]) -> Result<HeaderValue, InvalidHeaderValue> {
    if memchr::memchr(b'\n', value).is_none() {
        return HeaderValue::from_maybe_shared(head.slice_ref(value));
    }
    let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    let unfolded: Vec<u8> = value.iter().map(blank).collect();
    HeaderValue::from_bytes(unfolded.trim_ascii())
}

/// Reads the trailers of an answer, with the empty line behind them.
pub(crate) fn trailers(bytes: &[u8]) -> Result<HeaderMap, BadAnswer> {
    let mut head = BytesMut::from(&b"HTTP/1.1 200\r\n"[..]);
    head.extend_from_slice(bytes);
    parse(&mut head)?.map(|head| head.headers).ok_or(BadAnswer("its trailers have no end"))
}

/// Where the empty line behind a head ends. Servers may end lines by a line feed alone.
pub(crate) fn end_of(bytes: &[u8]) -> Option<usize> {
    let ends = memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    });
    ends.filter(|end| *end <= LONGEST_HEAD)
}

/// What a head says and how long it is, if it is whole.
fn read<'h, 'b>(
    bytes: &'b [u8],
    room: &'h mut Fields<'b>,
    parser: &httparse::ParserConfig,
) -> Result<Option<(httparse::Response<'h, 'b>, usize)>, BadAnswer> {
    let mut response = httparse::Response::new(&mut []);
    match parser.parse_response_with_uninit_headers(&mut response, bytes, room) {
        Ok(httparse::Status::Complete(length)) => Ok(Some((response, length))),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => Err(BadAnswer(match error {
            httparse::Error::TooManyHeaders => "it has too many fields",
            httparse::Error::Version => "it speaks another version",
            httparse::Error::Status => "its status is not one",
            httparse::Error::HeaderName => "a field's name is not well-formed",
            httparse::Error::HeaderValue => "a field's value is not well-formed",
            httparse::Error::NewLine | httparse::Error::Token => "it does not begin as one",
        })),
    }
}

impl Head {
    /// Does another head follow?
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }
}
