//! What one line of a log says, still in the line's own bytes.

use std::borrow::Cow;
use std::fmt;

/// Longest line that is parsed, in bytes without its end. Servers limit a request line to some
/// 8 KiB; what is far longer is no log, and a log without line ends must not fill the memory.
pub const MAX_LINE: usize = 64 * 1024;

use nightwatt_energy::time::Wall;

use crate::address;
use crate::arrival::Arrival;
use crate::escapes;

/// How a log writes what it cannot write as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Escapes {
    /// As Apache and nginx do: `\"`, `\\`, `\t`, `\n`, `\r` and `\xHH`.
    #[default]
    Clf,
    /// As in a string of JSON.
    Json,
    /// It does not.
    Never,
    /// A space as `+`, as IIS does in agents.
    Plus,
    /// Percent-encoded, once or twice, as `CloudFront` does with agents.
    Percent,
}

/// One field as it stands in the log, escapes included.
///
/// Logs may hold any bytes, so this is not a `str`; [`Field::text`] makes one.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Field<'a> {
    pub(crate) raw: &'a [u8],
    /// Of a target that the format has in two parts; else empty.
    pub(crate) query: &'a [u8],
    pub(crate) escapes: Escapes,
}

impl<'a> Field<'a> {
    /// The bytes in the log, escapes as they are; of a target whose query stands apart, the rest.
    pub const fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// The field as text: the format's escapes undone, what is not UTF-8 then replaced. Borrows
    /// where there was nothing to undo.
    pub fn text(self) -> Cow<'a, str> {
        let text = match self.escapes {
            Escapes::Clf => escapes::clf(self.raw),
            Escapes::Json => escapes::json(self.raw),
            Escapes::Never => String::from_utf8_lossy(self.raw),
            Escapes::Plus => escapes::plus(self.raw),
            Escapes::Percent => escapes::percent(self.raw),
        };
        if self.query.is_empty() {
            return text;
        }
        let mut whole = text.into_owned();
        whole.push('?');
        whole.push_str(&String::from_utf8_lossy(self.query));
        Cow::Owned(whole)
    }

    /// `None` for what logs write in place of nothing: `-` or an empty field.
    pub(crate) fn given(self) -> Option<Self> {
        (!self.raw.is_empty() && self.raw != b"-").then_some(self)
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.raw), f)
    }
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
            client: address::canonical(self.client).into_owned(),
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
    /// Longer than [`MAX_LINE`] bytes.
    #[error("line too long")]
    TooLong,
    /// No client, or none that can be one.
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
    /// No JSON object, or its fields are not what they are in this format.
    #[error("no JSON of this format")]
    Json,
    /// Not as the format describes a line.
    #[error("not as the format has it")]
    Pattern,
    /// Before any `#Fields` line that says what a line holds.
    #[error("no #Fields line before")]
    NoFields,
    /// A whole line, but the request field holds no HTTP request ([`BadRequest`]).
    #[error("no HTTP request")]
    NoHttp,
}
