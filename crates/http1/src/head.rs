//! A request's head: where it ends, what it says, and how long the body behind it is.

use std::mem::MaybeUninit;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};

/// One field of a head, as it came.
pub type Field<'b> = httparse::Header<'b>;

/// No limit on the number of fields may be higher.
pub const MOST_FIELDS: usize = 256;

/// Where the parser puts the fields: on the caller's stack, so nothing is allocated.
pub(crate) type Fields<'b> = [MaybeUninit<Field<'b>>; MOST_FIELDS];

pub(crate) const fn no_fields<'b>() -> Fields<'b> {
    [const { MaybeUninit::uninit() }; MOST_FIELDS]
}

/// Why something is not taken as a request. The connection ends: where the next request would begin
/// is not certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// 400: it is not HTTP, or could be read in more than one way.
    Malformed(&'static str),
    /// 408: it did not come in time.
    TimedOut,
    /// 414: there is no end to its first line.
    LineTooLong,
    /// 431: its head is too long, or has too many fields.
    HeadTooLarge,
    /// 501: a transfer coding that is not `chunked`.
    Coding,
    /// 505: neither HTTP/1.0 nor HTTP/1.1.
    Version,
}

impl Refusal {
    /// The status to answer with.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT,
            Self::LineTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Coding => StatusCode::NOT_IMPLEMENTED,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        }
    }

    /// What is wrong, for the client.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Malformed(text) => text,
            Self::TimedOut => "The request did not come in time.",
            Self::LineTooLong => "The request's first line is too long.",
            Self::HeadTooLarge => "The request's header fields are too long or too many.",
            Self::Coding => "The only transfer coding is chunked.",
            Self::Version => "This server speaks HTTP/1.1 and HTTP/1.0.",
        }
    }

    /// A name of few letters, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::TimedOut => "timed-out",
            Self::LineTooLong => "line-too-long",
            Self::HeadTooLarge => "head-too-large",
            Self::Coding => "coding",
            Self::Version => "version",
        }
    }
}

/// What is known after a look for the end of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// It is not there yet.
    More,
    /// The head is this many bytes long, with the empty line.
    End(usize),
}

/// Looks for the end of a head. The first `seen` bytes were looked at before; so a head that comes
/// byte by byte is not read over and over.
pub fn scan(bytes: &[u8], seen: usize, most: usize) -> Result<Scan, Refusal> {
    if seen == 0 && bytes.first().is_some_and(|first| !first.is_ascii_graphic() && *first != b'\r')
    {
        // Most often the client speaks TLS. It would not send anything more.
        return Err(Refusal::Malformed("This is not HTTP. Perhaps it is meant for an HTTPS port?"));
    }
    for at in memchr::memchr_iter(b'\n', &bytes[seen..]).map(|at| at + seen) {
        if at == 0 || bytes[at - 1] != b'\r' {
            return Err(Refusal::Malformed("A line ends without a carriage return."));
        }
        if at >= 3 && bytes[at - 3] == b'\r' && bytes[at - 2] == b'\n' {
            return if at < most { Ok(Scan::End(at + 1)) } else { Err(Refusal::HeadTooLarge) };
        }
    }
    if bytes.len() < most {
        return Ok(Scan::More);
    }
    let has_line = memchr::memchr(b'\n', bytes).is_some();
    Err(if has_line { Refusal::HeadTooLarge } else { Refusal::LineTooLong })
}

/// How the end of a request's body is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// So many bytes, at least one.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// A head, as it lies in the connection's buffer.
#[derive(Debug, Clone, Copy)]
pub struct Head<'h, 'b> {
    /// `GET`.
    pub method: &'b str,
    /// As it was written: `/a?b`, `http://host/a?b`, `*`.
    pub target: &'b str,
    /// HTTP/1.1, else HTTP/1.0.
    pub is_1_1: bool,
    /// In the order they came.
    pub fields: &'h [Field<'b>],
}

impl<'h, 'b> Head<'h, 'b> {
    /// Reads a head that [`scan`] found the end of.
    pub(crate) fn parse(
        bytes: &'b [u8],
        room: &'h mut Fields<'b>,
        most_fields: usize,
    ) -> Result<Self, Refusal> {
        let mut request = httparse::Request::new(&mut []);
        let room = &mut room[..most_fields.min(MOST_FIELDS)];
        // One empty line before a request is allowed: some clients send one after a body.
        let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
        match request.parse_with_uninit_headers(bytes, room) {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            Ok(_) => return Err(Refusal::Malformed("The request's head is not well-formed.")),
            Err(error) => return Err(refusal_of(error)),
        }
        let (Some(method), Some(target), Some(version)) =
            (request.method, request.path, request.version)
        else {
            return Err(Refusal::Malformed("The request's first line is not well-formed."));
        };
        let head = Self { method, target, is_1_1: version == 1, fields: request.headers };
        Ok(head)
    }

    /// The values of a field, whose name is given in lower case.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> + use<'_, 'h, 'b> {
        let named = move |field: &&Field<'b>| field.name.eq_ignore_ascii_case(name);
        self.fields.iter().filter(named).map(|field| field.value)
    }

    /// How the end of the body is determined. Both ways at once are refused (RFC 9112, 6.3): that is how
    /// requests are smuggled.
    pub fn framing(&self) -> Result<Framing, Refusal> {
        let mut codings = self.values("transfer-encoding");
        let mut lengths = self.values("content-length");
        match (codings.next(), lengths.next()) {
            (None, None) => Ok(Framing::None),
            (Some(_), Some(_)) => Err(Refusal::Malformed(
                "Content-Length beside Transfer-Encoding: the body's end is not certain.",
            )),
            (Some(_), None) if !self.is_1_1 => {
                Err(Refusal::Malformed("HTTP/1.0 knows no Transfer-Encoding."))
            }
            (Some(coding), None) => {
                let only = coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
                if only { Ok(Framing::Chunked) } else { Err(Refusal::Coding) }
            }
            (None, Some(_)) if lengths.next().is_some() => {
                Err(Refusal::Malformed("More than one Content-Length."))
            }
            (None, Some(length)) => match length_of(length) {
                Some(0) => Ok(Framing::None),
                Some(length) => Ok(Framing::Length(length)),
                None => Err(Refusal::Malformed("Content-Length must be a number.")),
            },
        }
    }

    /// May the connection be used again after this request?
    pub fn persists(&self) -> bool {
        if self.is_1_1 { !self.has_connection("close") } else { self.has_connection("keep-alive") }
    }

    /// Does `Connection` list this?
    pub fn has_connection(&self, option: &str) -> bool {
        self.values("connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|listed| listed.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
    }

    /// Does the client wait for `100 Continue` before it sends the body?
    pub fn expects_continue(&self) -> bool {
        self.is_1_1 && self.values("expect").any(|it| it.eq_ignore_ascii_case(b"100-continue"))
    }

    /// The same as owned types.
    pub(crate) fn to_request<B>(self, body: B) -> Result<Request<B>, Refusal> {
        let malformed = |text| move |_| Refusal::Malformed(text);
        if self.target.contains('#') {
            return Err(Refusal::Malformed("A fragment is for the browser: it is not sent."));
        }
        let mut headers = HeaderMap::with_capacity(self.fields.len());
        for field in self.fields {
            let name = HeaderName::from_bytes(field.name.as_bytes());
            let name = name.map_err(|_| Refusal::Malformed("A field's name is not one."))?;
            let value = HeaderValue::from_bytes(field.value);
            let value = value.map_err(|_| Refusal::Malformed("A field's value is not one."))?;
            headers.append(name, value);
        }
        let mut request = Request::new(body);
        let method = Method::from_bytes(self.method.as_bytes());
        *request.method_mut() =
            method.map_err(|_| Refusal::Malformed("The request's method is not one."))?;
        *request.uri_mut() = address_of(self.target)
            .map_err(malformed("The request's target is not a well-formed address."))?;
        *request.version_mut() = if self.is_1_1 { Version::HTTP_11 } else { Version::HTTP_10 };
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// The address that a target means. What clients should have escaped, and many do not, is escaped: `?query=a{b="c"}`.
fn address_of(target: &str) -> Result<Uri, http::uri::InvalidUri> {
    target.parse().or_else(|error| {
        let mut escaped = String::with_capacity(target.len() + 8);
        for letter in target.chars() {
            match letter {
                '"' => escaped.push_str("%22"),
                '<' => escaped.push_str("%3C"),
                '>' => escaped.push_str("%3E"),
                '`' => escaped.push_str("%60"),
                other => escaped.push(other),
            }
        }
        if escaped.len() == target.len() { Err(error) } else { escaped.parse() }
    })
}

/// Digits, and nothing but digits; as many as a length can have.
pub(crate) fn length_of(text: &[u8]) -> Option<u64> {
    let digits = (1..=19).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    if !digits {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn refusal_of(error: httparse::Error) -> Refusal {
    use httparse::Error;
    Refusal::Malformed(match error {
        Error::TooManyHeaders => return Refusal::HeadTooLarge,
        Error::Version => return Refusal::Version,
        Error::HeaderName => "A field's name is not well-formed.",
        Error::HeaderValue => "A field's value is not well-formed.",
        Error::NewLine => "A line does not end as it must.",
        Error::Token | Error::Status => "The request's first line is not well-formed.",
    })
}

/// Reads fields without a first line: trailers.
pub(crate) fn parse_fields(bytes: &[u8], most_fields: usize) -> Result<HeaderMap, Refusal> {
    let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let room = &mut room[..most_fields.min(MOST_FIELDS)];
    match httparse::parse_headers(bytes, room) {
        Ok(httparse::Status::Complete((length, fields))) if length == bytes.len() => {
            let mut headers = HeaderMap::with_capacity(fields.len());
            for field in fields {
                let name = HeaderName::from_bytes(field.name.as_bytes());
                let value = HeaderValue::from_bytes(field.value);
                let (Ok(name), Ok(value)) = (name, value) else {
                    return Err(Refusal::Malformed("A trailer is not well-formed."));
                };
                headers.append(name, value);
            }
            Ok(headers)
        }
        Ok(_) => Err(Refusal::Malformed("The trailers are not well-formed.")),
        Err(error) => Err(refusal_of(error)),
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
