//! What one line of a log says, still in the line's own bytes.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;
use nightwatt_model::time::Wall;

use crate::arrival::Arrival;

/// One field as it stands in the log, escapes included.
///
/// Logs may hold any bytes, so this is not a `str`; [`Field::text`] makes one.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Field<'a>(pub(crate) &'a [u8]);

impl<'a> Field<'a> {
    /// The bytes in the log, escapes as they are.
    pub const fn raw(self) -> &'a [u8] {
        self.0
    }

    /// The field as text: `\"`, `\\`, `\t`, `\n`, `\r` and `\xHH` undone, what is not UTF-8 then
    /// replaced. Borrows where there was nothing to undo.
    pub fn text(self) -> Cow<'a, str> {
        if memchr(b'\\', self.0).is_none() {
            return String::from_utf8_lossy(self.0);
        }
        Cow::Owned(String::from_utf8_lossy(&unescape(self.0)).into_owned())
    }

    /// `None` for what logs write in place of nothing: `-` or an empty field.
    pub(crate) fn given(self) -> Option<Self> {
        (!self.0.is_empty() && self.0 != b"-").then_some(self)
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.0), f)
    }
}

/// Undoes what Apache and nginx do to bytes they cannot log as they are.
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

/// A logged HTTP request and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// When the server logged it; most logs know whole seconds.
    pub at: Wall,
    /// Local time of the log minus UTC, in seconds.
    pub utc_offset: i32,
    /// Address or name of the client.
    pub client: &'a str,
    /// Name the client logged in with.
    pub user: Option<Field<'a>>,
    /// `GET`.
    pub method: &'a str,
    /// Request target: `/index.html?a=b`, `*`, or an absolute address.
    pub target: Field<'a>,
    /// `HTTP/1.1`; empty for a request of HTTP/0.9, which has no version.
    pub protocol: &'a str,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of the answer's body; none logged counts as 0.
    pub bytes: u64,
    /// The page the client came from.
    pub referer: Option<Field<'a>>,
    /// The client's `User-Agent`.
    pub agent: Option<Field<'a>>,
}

impl Record<'_> {
    /// A copy that outlives the line, escapes undone.
    pub fn to_arrival(&self) -> Arrival {
        let owned = |field: Field<'_>| field.text().into_owned();
        Arrival {
            at: self.at,
            utc_offset: self.utc_offset,
            client: self.client.to_owned(),
            method: self.method.to_owned(),
            target: owned(self.target),
            status: self.status,
            bytes: self.bytes,
            referer: self.referer.map(owned),
            agent: self.agent.map(owned),
        }
    }
}

/// A line that is whole, but whose request field holds no HTTP request: `"-"`, `""`, a TLS
/// handshake on the plain port. The server answered it by itself, mostly with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRequest<'a> {
    /// When the server logged it.
    pub at: Wall,
    /// Local time of the log minus UTC, in seconds.
    pub utc_offset: i32,
    /// Address or name of the client.
    pub client: &'a str,
    /// The request field.
    pub request: Field<'a>,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of the answer's body; none logged counts as 0.
    pub bytes: u64,
}

/// A well-formed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// With an HTTP request.
    Request(Record<'a>),
    /// Without one.
    Bad(BadRequest<'a>),
}

/// Why a line was not taken as a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Nothing on the line.
    #[error("empty line")]
    Empty,
    /// Longer than [`MAX_LINE`](crate::reader::MAX_LINE) bytes.
    #[error("line too long")]
    TooLong,
    /// No client name before the first space.
    #[error("no client")]
    Client,
    /// No `[time]`.
    #[error("no time in brackets")]
    NoTime,
    /// A `[time]` that does not exist or is not `dd/Mon/yyyy:hh:mm:ss +hhmm`.
    #[error("no such time")]
    BadTime,
    /// No quoted request after the time.
    #[error("no quoted request")]
    NoRequest,
    /// A quoted field that does not end.
    #[error("quote without end")]
    OpenQuote,
    /// Status is no number of three digits.
    #[error("no status")]
    Status,
    /// Size is neither a number nor `-`.
    #[error("no size")]
    Size,
    /// A whole line, but the request field holds no HTTP request ([`BadRequest`]).
    #[error("no HTTP request")]
    NoHttp,
}
