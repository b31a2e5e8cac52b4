//! HTTP/1.1 as a server reads it that takes nothing on trust: one way to frame a request, one way
//! to write a line. Whatever could be read in another way is malformed.

use std::io::BufRead;

/// Longest line that is read. Nothing that the gateway passes on is longer.
const LONGEST_LINE: usize = 1 << 17;

/// Fields that speak of one connection, and must not go beyond it.
const HOPS: [&str; 6] =
    ["connection", "keep-alive", "te", "upgrade", "proxy-connection", "http2-settings"];

/// Fields that say how a message is framed, whom it is for or who sent it. Trailers must not.
const NO_TRAILERS: [&str; 14] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-request-id",
];

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum Bad {
    /// It broke off: the client went away.
    Cut,
    /// It can be read in more than one way, or in none.
    Malformed(String),
}

impl From<std::io::Error> for Bad {
    fn from(_: std::io::Error) -> Self {
        Self::Cut
    }
}

type Result<T> = std::result::Result<T, Bad>;

fn malformed<T>(what: &str, bytes: &[u8]) -> Result<T> {
    let shown = &bytes[..bytes.len().min(500)];
    Err(Bad::Malformed(format!("{what}: \"{}\"", shown.escape_ascii())))
}

/// The head of a request.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names in lower case; bytes beyond ASCII as the characters of the same number.
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads a head; nothing if the connection ends before one begins.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Option<Self>> {
        let nothing = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        match from.fill_buf() {
            Ok([]) => return Ok(None),
            Ok(_) => {}
            Err(_) => return Err(nothing().into()),
        }
        let first = line(from)?;
        let words: Vec<&[u8]> = first.split(|&byte| byte == b' ').collect();
        let [method, target, b"HTTP/1.1"] = words[..] else {
            return malformed("request line", &first);
        };
        let path = target.starts_with(b"/") || (method, target) == (b"OPTIONS", b"*");
        let visible = target.iter().all(|&byte| byte > b' ' && byte != 0x7f && byte != b'#');
        if !is_token(method) || !path || !visible {
            return malformed("request line", &first);
        }
        let mut fields = Vec::new();
        loop {
            let line = line(from)?;
            if line.is_empty() {
                break;
            }
            fields.push(field(&line)?);
        }
        let head = Self { method: text(method), target: text(target), fields };
        head.check()?;
        Ok(Some(head))
    }

    /// Every value of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(own, _)| own == name).map(|(_, value)| &**value).collect()
    }

    /// The value of a field that is there once.
    pub(crate) fn only(&self, name: &str) -> Option<&str> {
        let [value] = self.all(name)[..] else { return None };
        Some(value)
    }

    /// The gateway asks on its own account whether the origin is awake, on a connection of its own.
    pub(crate) fn is_probe(&self) -> bool {
        self.only("user-agent") == Some("nightwatt-probe")
    }

    fn check(&self) -> Result<()> {
        let bad = |what: &str| malformed(what, format!("{self:?}").as_bytes());
        if self.is_probe() {
            return Ok(());
        }
        let host = self.only("host").unwrap_or_default();
        let of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(of_host) {
            return bad("not one right Host");
        }
        // What the gateway wants of this connection: that may be another protocol, or trailers.
        // Never another HTTP: it would see no request of that.
        let is_http = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.contains("h2c") || name.contains("http")
        };
        let own_hops: &[&str] = match self.only("connection") {
            Some("upgrade") if self.only("upgrade").is_some_and(|it| !is_http(it)) => {
                &["connection", "upgrade"]
            }
            Some("te") if self.only("te") == Some("trailers") => &["connection", "te"],
            _ => &[],
        };
        for hop in HOPS.iter().filter(|hop| !own_hops.contains(hop)) {
            if !self.all(hop).is_empty() {
                return bad("a field of another connection");
            }
        }
        if !self.all("expect").is_empty() {
            return bad("an expectation that is the gateway's to meet");
        }
        // The gateway trusts no proxy here: it names the client itself, and no other address.
        match self.only("x-forwarded-for") {
            Some(client) if client.parse::<std::net::IpAddr>().is_ok() => Ok(()),
            _ => bad("not one X-Forwarded-For"),
        }
    }

    /// Reads the body, and gives it to `sink` in parts.
    pub(crate) fn body(&self, from: &mut impl BufRead, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (lengths, codings) = (self.all("content-length"), self.all("transfer-encoding"));
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(()),
            ([length], []) => match number(length.as_bytes(), 10) {
                Some(length) => part(from, length, sink),
                None => malformed("Content-Length", length.as_bytes()),
            },
            ([], ["chunked"]) => chunks(from, sink),
            _ => malformed("framing", format!("{self:?}").as_bytes()),
        }
    }
}

/// A line that ends as it should, without its end.
fn line(from: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    std::io::Read::take(&mut *from, LONGEST_LINE as u64).read_until(b'\n', &mut line)?;
    if line.len() >= LONGEST_LINE {
        return malformed("line without end", &line);
    }
    if line.last() != Some(&b'\n') {
        return Err(Bad::Cut);
    }
    match line.strip_suffix(b"\r\n") {
        Some(text) if !text.contains(&b'\r') => Ok(text.to_vec()),
        _ => malformed("end of line", &line),
    }
}

fn field(line: &[u8]) -> Result<(String, String)> {
    let colon = line.iter().position(|&byte| byte == b':').unwrap_or(0);
    let (name, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
    let plain = value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
    if !is_token(name) || !plain {
        return malformed("field", line);
    }
    let value = value.trim_ascii();
    Ok((text(name).to_ascii_lowercase(), text(value)))
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn is_token(text: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(fits)
}

/// Digits and nothing else.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(|&byte| char::from(byte).is_digit(radix));
    u64::from_str_radix(&text(digits), radix).ok().filter(|_| plain)
}

fn part(from: &mut impl BufRead, length: u64, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut left = length;
    while left > 0 {
        let there = from.fill_buf()?;
        if there.is_empty() {
            return Err(Bad::Cut);
        }
        let taken = there.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        sink(&there[..taken]);
        from.consume(taken);
        left -= taken as u64;
    }
    Ok(())
}

fn chunks(from: &mut impl BufRead, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
    loop {
        let size = line(from)?;
        let Some(length) = number(&size, 16) else { return malformed("chunk size", &size) };
        if length == 0 {
            break;
        }
        part(from, length, sink)?;
        let end = line(from)?;
        if !end.is_empty() {
            return malformed("end of a chunk", &end);
        }
    }
    loop {
        let trailer = line(from)?;
        if trailer.is_empty() {
            return Ok(());
        }
        let (name, _) = field(&trailer)?;
        if NO_TRAILERS.contains(&name.as_str()) {
            return malformed("trailer", &trailer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /a HTTP/1.1\r\nHost: b\r\nX-Forwarded-For: ::1\r\n";

    fn read(bytes: &str) -> Result<Option<(String, Vec<u8>)>> {
        let mut from = bytes.as_bytes();
        let Some(head) = Head::read(&mut from)? else { return Ok(None) };
        let mut body = Vec::new();
        head.body(&mut from, &mut |part| body.extend_from_slice(part))?;
        Ok(Some((head.target, body)))
    }

    #[test]
    fn one_framing_is_read() {
        for framing in [
            "Content-Length: 5\r\n\r\nhello",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n",
        ] {
            let (target, body) = read(&format!("{HEAD}{framing}")).unwrap().unwrap();
            assert_eq!((target.as_str(), &body[..]), ("/a", &b"hello"[..]), "{framing}");
        }
        assert!(read("").unwrap().is_none());
    }

    #[test]
    fn what_breaks_off_is_not_malformed() {
        for framing in
            ["Content-Length: 6\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nh"]
        {
            let read = read(&format!("{HEAD}{framing}"));
            assert!(matches!(read, Err(Bad::Cut)), "{framing}: {read:?}");
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        for rest in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
            "Content-Length: +5\r\n\r\nhello",
            "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
            "X: a\n\r\n",
            "X: a\rb\r\n\r\n",
            "X : a\r\n\r\n",
            " folded\r\n\r\n",
            "Connection: close\r\n\r\n",
            "Expect: 100-continue\r\n\r\n",
            "Host: c\r\n\r\n",
            "X-Forwarded-For: ::1\r\n\r\n",
        ] {
            let read = read(&format!("{HEAD}{rest}"));
            assert!(matches!(read, Err(Bad::Malformed(_))), "{rest}: {read:?}");
        }
        for line in ["GET  / HTTP/1.1", "GET / HTTP/1.0", "GET a HTTP/1.1", "G(T / HTTP/1.1"] {
            let read = read(&format!("{line}\r\nHost: b\r\nX-Forwarded-For: ::1\r\n\r\n"));
            assert!(matches!(read, Err(Bad::Malformed(_))), "{line}: {read:?}");
        }
    }
}
