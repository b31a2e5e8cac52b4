//! A web server that accepts only well-formed HTTP/1.1 requests, byte by byte, and reports the
//! first malformed one. It ignores requests that break off.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};

static COMPLAINT: Mutex<Option<String>> = Mutex::new(None);

/// What the first malformed request was.
pub(crate) fn complaint() -> Option<String> {
    COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner).take()
}

pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(|| {
                if let Err(Bad::Malformed(what)) = serve(stream) {
                    let mut first = COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(what);
                }
            });
        }
    });
    address
}

enum Bad {
    /// The gateway went away.
    Broken,
    Malformed(String),
}

impl From<std::io::Error> for Bad {
    fn from(_: std::io::Error) -> Self {
        Self::Broken
    }
}

type Result<T> = std::result::Result<T, Bad>;

fn malformed<T>(what: &str, bytes: &[u8]) -> Result<T> {
    Err(Bad::Malformed(format!("{what}: {}", bytes.escape_ascii())))
}

fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut writing = stream.try_clone()?;
    let mut reading = BufReader::new(stream);
    loop {
        let head = Head::read(&mut reading)?;
        head.body(&mut reading)?;
        writing.write_all(&head.answer())?;
    }
}

struct Head {
    method: Vec<u8>,
    target: Vec<u8>,
    /// Names in lower case.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Head {
    fn read(reading: &mut impl BufRead) -> Result<Self> {
        let first = line(reading)?;
        let words: Vec<&[u8]> = first.split(|&byte| byte == b' ').collect();
        let [method, target, b"HTTP/1.1"] = words[..] else {
            return malformed("no request line", &first);
        };
        let visible = target.iter().all(|byte| byte.is_ascii_graphic() || *byte >= 0x80);
        if !is_token(method) || !target.starts_with(b"/") || !visible || target.contains(&b'#') {
            return malformed("request line", &first);
        }
        let mut fields = Vec::new();
        loop {
            let line = line(reading)?;
            if line.is_empty() {
                break;
            }
            fields.push(field(&line)?);
        }
        let head = Self { method: method.to_vec(), target: target.to_vec(), fields };
        if head.values(b"host").count() != 1 {
            return malformed("not one Host", &first);
        }
        for hop in ["keep-alive", "proxy-connection", "proxy-authorization"] {
            if head.values(hop.as_bytes()).next().is_some() {
                return malformed("a field of another connection", hop.as_bytes());
            }
        }
        head.connection(&first)?;
        Ok(head)
    }

    /// The gateway's own word on this connection: nothing, or that it takes trailers, or the wish to
    /// speak another protocol than HTTP.
    fn connection(&self, first: &[u8]) -> Result<()> {
        let values = |name: &'static str| self.values(name.as_bytes()).collect::<Vec<_>>();
        let h2 = |protocol: &&[u8]| protocol.to_ascii_lowercase().starts_with(b"h2");
        match (&values("connection")[..], &values("te")[..], &values("upgrade")[..]) {
            ([], [], []) | ([b"te"], [b"trailers"], []) => Ok(()),
            ([b"upgrade"], [], [protocol])
                if protocol.split(|&byte| byte == b'/').all(is_token) && !h2(protocol) =>
            {
                Ok(())
            }
            _ => malformed("what is said of the connection", first),
        }
    }

    fn values<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |field| field.0 == name).map(|field| &*field.1)
    }

    /// Reads the body and drops it.
    fn body(&self, reading: &mut impl BufRead) -> Result<()> {
        let lengths: Vec<&[u8]> = self.values(b"content-length").collect();
        let codings: Vec<&[u8]> = self.values(b"transfer-encoding").collect();
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(()),
            ([length], []) => match number(length, 10) {
                Some(length) => skip(reading, length),
                None => malformed("Content-Length", length),
            },
            ([], [b"chunked"]) => chunks(reading),
            _ => malformed("framing", &[lengths, codings].concat().join(&b" | "[..])),
        }
    }

    fn answer(&self) -> Vec<u8> {
        let has = |part: &[u8]| self.target.windows(part.len()).any(|window| window == part);
        let tag: &[u8] = b"\"1\"";
        let cached =
            if has(b"cached") { "Cache-Control: max-age=1\r\nETag: \"1\"\r\n" } else { "" };
        if has(b"cached") && self.values(b"if-none-match").any(|tags| tags == tag) {
            return format!("HTTP/1.1 304 Not Modified\r\n{cached}\r\n").into_bytes();
        }
        let (framing, body) = if has(b"chunked") {
            ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")
        } else {
            ("Content-Length: 5", "hello")
        };
        let body = if self.method == b"HEAD" { "" } else { body };
        format!("HTTP/1.1 200 OK\r\n{cached}{framing}\r\n\r\n{body}").into_bytes()
    }
}

/// A line that ends as it should, without its end.
fn line(reading: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    reading.read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(Bad::Broken);
    }
    match line.strip_suffix(b"\r\n") {
        Some(text) if !text.contains(&b'\r') => Ok(text.to_vec()),
        _ => malformed("end of line", &line),
    }
}

fn field(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let colon = line.iter().position(|&byte| byte == b':').unwrap_or(0);
    let (name, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
    let plain = value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
    if !is_token(name) || !plain {
        return malformed("field", line);
    }
    Ok((name.to_ascii_lowercase(), value.trim_ascii().to_vec()))
}

fn is_token(text: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(fits)
}

/// Digits and nothing else.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let digits = text.iter().all(|&byte| char::from(byte).is_digit(radix));
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    u64::from_str_radix(text, radix).ok()
}

fn skip(reading: &mut impl BufRead, length: u64) -> Result<()> {
    let read = std::io::copy(&mut reading.take(length), &mut std::io::sink())?;
    if read == length { Ok(()) } else { Err(Bad::Broken) }
}

/// What no trailer may be named: what frames a message, and what says who asks.
const NEVER_TRAILERS: [&[u8]; 6] = [
    b"content-length",
    b"transfer-encoding",
    b"host",
    b"connection",
    b"cookie",
    b"x-forwarded-for",
];

fn chunks(reading: &mut impl BufRead) -> Result<()> {
    loop {
        let size = line(reading)?;
        let Some(length) = number(&size, 16).filter(|_| !size.is_empty()) else {
            return malformed("chunk size", &size);
        };
        if length == 0 {
            break;
        }
        skip(reading, length)?;
        let end = line(reading)?;
        if !end.is_empty() {
            return malformed("end of a chunk", &end);
        }
    }
    loop {
        let trailer = line(reading)?;
        if trailer.is_empty() {
            return Ok(());
        }
        let (name, _) = field(&trailer)?;
        if NEVER_TRAILERS.contains(&&*name) {
            return malformed("trailer", &trailer);
        }
    }
}
