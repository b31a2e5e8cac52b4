//! Answers as bytes.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

/// How the end of an answer's body is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// No body: HEAD, 204, 304, 101.
    NoBody,
    /// After this many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// With the connection: HTTP/1.0 knows nothing else.
    Close,
}

/// Has an answer of this status no body, whatever its fields say (RFC 9112, 6.3)?
pub(crate) fn is_bodyless(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// What the request allows of the answer's form.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) method: Method,
    pub(crate) is_1_1: bool,
    /// The connection is to be used again, if nothing speaks against it.
    pub(crate) persists: bool,
    /// The client takes trailers.
    pub(crate) takes_trailers: bool,
}

impl Form {
    /// How an answer's end is to be marked. `exact` is the body's length where that is known.
    pub(crate) fn body_end<B>(&self, response: &Response<B>, exact: Option<u64>) -> BodyEnd {
        let status = response.status();
        if self.method == Method::HEAD || is_bodyless(status) {
            return BodyEnd::NoBody;
        }
        let told = response.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
        match told.and_then(|told| told.parse().ok()).or(exact) {
            Some(length) => BodyEnd::Length(length),
            None if self.is_1_1 => BodyEnd::Chunked,
            None => BodyEnd::Close,
        }
    }
}

/// Status line and fields, with what they say of the body's end; without the connection's fate.
fn write_fields(out: &mut BytesMut, status: StatusCode, headers: &HeaderMap, end: BodyEnd) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(status.canonical_reason().unwrap_or("Unnamed").as_bytes());
    out.put_slice(b"\r\n");
    let switches = status == StatusCode::SWITCHING_PROTOCOLS;
    // A length belongs to what a GET would get (RFC 9110, 8.6): these have no body by nature.
    let never = status.is_informational() || status == StatusCode::NO_CONTENT;
    for (name, value) in headers {
        let ours = *name == TRANSFER_ENCODING
            || *name == CONNECTION && !switches
            || *name == CONTENT_LENGTH && (never || end != BodyEnd::NoBody);
        if !ours {
            write_field(out, name.as_str(), value);
        }
    }
    match end {
        BodyEnd::Length(length) => {
            write_field(out, "content-length", &HeaderValue::from(length));
        }
        BodyEnd::Chunked => out.put_slice(b"transfer-encoding: chunked\r\n"),
        BodyEnd::NoBody | BodyEnd::Close => {}
    }
}

pub(crate) fn write_field(out: &mut BytesMut, name: &str, value: &HeaderValue) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value.as_bytes());
    out.put_slice(b"\r\n");
}

/// The head of an answer to a request of this form. `closes`: nothing follows on this connection.
pub(crate) fn write_head<B>(
    out: &mut BytesMut,
    response: &Response<B>,
    end: BodyEnd,
    form: &Form,
    closes: bool,
) {
    write_fields(out, response.status(), response.headers(), end);
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        if closes {
            out.put_slice(b"connection: close\r\n");
        } else if !form.is_1_1 {
            out.put_slice(b"connection: keep-alive\r\n");
        }
    }
    out.put_slice(b"\r\n");
}

/// The head of an interim answer.
pub(crate) fn write_interim(out: &mut BytesMut, status: StatusCode, headers: &HeaderMap) {
    write_fields(out, status, headers, BodyEnd::NoBody);
    out.put_slice(b"\r\n");
}

/// The head of an answer of this many bytes to an HTTP/1.1 GET whose connection goes on: for
/// [`Prepared`](crate::Prepared).
pub fn head_bytes(status: StatusCode, headers: &HeaderMap, length: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(512);
    write_fields(&mut out, status, headers, BodyEnd::Length(length));
    out.put_slice(b"\r\n");
    out.freeze()
}

/// The line before a chunk.
pub(crate) fn chunk_line(length: usize) -> Bytes {
    Bytes::from(format!("{length:x}\r\n"))
}

/// The end of a chunked body.
pub(crate) fn last_chunk(trailers: Option<&HeaderMap>) -> Bytes {
    let Some(trailers) = trailers else { return Bytes::from_static(b"0\r\n\r\n") };
    let mut out = BytesMut::from(&b"0\r\n"[..]);
    for (name, value) in trailers {
        write_field(&mut out, name.as_str(), value);
    }
    out.put_slice(b"\r\n");
    out.freeze()
}
