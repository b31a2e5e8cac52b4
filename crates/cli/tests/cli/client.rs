//! As much of an HTTP/1.1 client as tests need; what it sends, it sends byte by byte as told.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than anything here is held.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A header's value; nothing if it is not there.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// How nightwatt says it answered.
    pub(crate) fn answer(&self) -> &str {
        self.header("nightwatt-answer").unwrap_or("(does not say)")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `GET`, by a program.
pub(crate) fn get(to: SocketAddr, path: &str) -> io::Result<Reply> {
    send(to, &head("GET", path, "User-Agent: test-program/1\r\n"), &[])
}

/// `GET`, by a browser that opens a page.
pub(crate) fn browse(to: SocketAddr, path: &str) -> io::Result<Reply> {
    let browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0\r\n\
                   Accept: text/html,application/xhtml+xml\r\nSec-Fetch-Dest: document\r\n";
    send(to, &head("GET", path, browser), &[])
}

/// `POST`, by a program.
pub(crate) fn post(to: SocketAddr, path: &str, body: &[u8]) -> io::Result<Reply> {
    let length = format!("Content-Length: {}\r\n", body.len());
    send(to, &head("POST", path, &length), body)
}

/// The head of a request whose connection is not kept.
pub(crate) fn head(method: &str, path: &str, fields: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n{fields}\r\n")
        .into_bytes()
}

/// Sends these bytes and reads one answer.
pub(crate) fn send(to: SocketAddr, head: &[u8], body: &[u8]) -> io::Result<Reply> {
    let mut stream = connect(to)?;
    // Who answers before it has read everything may not take all of it.
    let sent = stream.write_all(head).and_then(|()| stream.write_all(body));
    let reply = receive(stream);
    if reply.is_err() { sent.and(reply) } else { reply }
}

/// A connection that does not wait for ever.
pub(crate) fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads one answer. Every answer here says how long it is.
pub(crate) fn receive(mut stream: TcpStream) -> io::Result<Reply> {
    receive_from(&mut stream)
}

/// Reads one answer of a connection that is kept.
pub(crate) fn receive_from(stream: &mut TcpStream) -> io::Result<Reply> {
    let (mut bytes, mut part) = (Vec::new(), [0; 16_384]);
    loop {
        let read = stream.read(&mut part)?;
        bytes.extend_from_slice(&part[..read]);
        if let Some(reply) = parse(&bytes) {
            return Ok(reply);
        }
        if read == 0 {
            let what = format!("no whole answer: {:?}", String::from_utf8_lossy(&bytes));
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
    }
}

/// Nothing if it is not whole.
fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let fields = lines.filter_map(|line| line.split_once(':'));
    let headers: Vec<(String, String)> =
        fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    let mut reply = Reply { status, headers, body: Vec::new() };
    let body = &bytes[end + 4..];
    reply.body = if reply.header("transfer-encoding").is_some() {
        unchunk(body)?
    } else {
        let length = reply.header("content-length").unwrap_or("0");
        body.get(..length.parse().ok()?)?.to_vec()
    };
    Some(reply)
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}
