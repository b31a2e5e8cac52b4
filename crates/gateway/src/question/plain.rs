//! Plain requests for the server: from the bytes they came in, to bytes.

use std::fmt::Display;
use std::io::Write as _;
use std::net::IpAddr;

use bytes::Bytes;
use nightwatt_http1::{Field, Head};

use crate::facts::REQUEST_ID_NAME;
use crate::mark::Mark;
use crate::request_rules::is_passed_unchanged;

/// A longer target goes to the slow path: at 64 KiB it is not valid any more.
const LONGEST_TARGET: usize = 8 << 10;

/// The client of a plain request.
pub(crate) struct Asker<'a, I> {
    /// The peer of the connection.
    pub(crate) peer: IpAddr,
    pub(crate) secure: bool,
    /// The value of the `Host` field.
    pub(crate) authority: &'a str,
    pub(crate) id: &'a I,
}

/// Whether the server can get the fields unchanged, except for additions. This depends on their names alone, if
/// `Connection` says nothing but `keep-alive`.
pub(crate) fn has_plain_fields(head: &Head<'_, '_>) -> bool {
    head.fields.iter().all(|field| is_passed_unchanged(field.name))
}

/// Whether the server can get the target unchanged.
pub(crate) fn has_plain_target(head: &Head<'_, '_>) -> bool {
    head.target.len() <= LONGEST_TARGET && head.target.bytes().all(is_plain_in_targets)
}

/// The characters that RFC 3986 allows in path and query, without those that are merely tolerated.
fn is_plain_in_targets(byte: u8) -> bool {
    // A pattern compiles to a test of one bit, and this runs for each byte. `$` to `/` are `$%&'()*+,-./`.
    let is_mark =
        matches!(byte, b'!' | b'$'..=b'/' | b':' | b';' | b'=' | b'?' | b'@' | b'_' | b'~');
    byte.is_ascii_alphanumeric() || is_mark
}

/// The request, as [`Forwarding::question`](crate::forward::Forwarding::question) makes it of fields.
pub(crate) fn question<I: Display>(
    head: &Head<'_, '_>,
    asker: &Asker<'_, I>,
    mark: &Mark,
) -> Bytes {
    let Asker { peer, secure, authority, id } = asker;
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(b"GET ");
    out.extend_from_slice(head.target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for field in head.fields.iter().filter(|it| !it.name.eq_ignore_ascii_case("connection")) {
        put_field(&mut out, field);
    }
    let proto = if *secure { "https" } else { "http" };
    let peer = peer.to_canonical();
    // Writing to memory cannot fail.
    let _ = write!(
        out,
        "{REQUEST_ID_NAME}: {id}\r\nx-forwarded-for: {peer}\r\nx-forwarded-proto: {proto}\r\n\
         x-forwarded-host: {authority}\r\nvia: "
    );
    out.extend_from_slice(mark.via[0].as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    out.into()
}

/// Appends a field unchanged, but with its name in lower case like all of ours.
pub(crate) fn put_field(out: &mut Vec<u8>, field: &Field<'_>) {
    let begin = out.len();
    out.extend_from_slice(field.name.as_bytes());
    out[begin..].make_ascii_lowercase();
    out.extend_from_slice(b": ");
    out.extend_from_slice(field.value);
    out.extend_from_slice(b"\r\n");
}
