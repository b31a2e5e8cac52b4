//! Answers as a client reads them: strictly, since what a gateway writes is never in doubt.

use std::io::{self, BufRead, BufReader};
use std::net::TcpStream;

/// The head of an answer.
#[derive(Debug, Clone)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    /// Names in lower case.
    fields: Vec<(String, String)>,
}

/// Why there is no whole answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The connection ended, before anything of it came.
    Closed,
    /// The connection ended or broke in the middle of it.
    Cut,
    /// Nothing came for as long as the socket waits.
    Hung,
    /// It is not HTTP.
    Garbled(String),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Hung,
            _ => Self::Cut,
        }
    }
}

type Result<T> = std::result::Result<T, NoAnswer>;

impl ResponseHead {
    /// Reads the next head that is not interim.
    pub(crate) fn read(from: &mut BufReader<TcpStream>) -> Result<Self> {
        loop {
            match from.fill_buf() {
                Ok([]) => return Err(NoAnswer::Closed),
                // A peer that closes with unread bytes resets the connection.
                Err(error) => {
                    let ended = NoAnswer::from(error).is_end();
                    return Err(if ended { NoAnswer::Closed } else { NoAnswer::Hung });
                }
                Ok(_) => {}
            }
            let answer = Self::read_one(from)?;
            if answer.status >= 200 {
                return Ok(answer);
            }
        }
    }

    fn read_one(from: &mut impl BufRead) -> Result<Self> {
        let first = line(from)?;
        let garbled = |line: &str| NoAnswer::Garbled(line.to_owned());
        let status = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
        let status = status.and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| garbled(&first))?;
        let mut fields = Vec::new();
        loop {
            let line = line(from)?;
            if line.is_empty() {
                return Ok(Self { status, fields });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| garbled(&line))?;
            if name.is_empty() || name.contains(' ') {
                return Err(garbled(&line));
            }
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// A field's first value.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// The server will close the connection behind this answer.
    pub(crate) fn closes(&self) -> bool {
        self.field("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"))
    }

    /// Reads the body, and gives it to `sink` in parts.
    pub(crate) fn body(
        &self,
        from: &mut BufReader<TcpStream>,
        head_only: bool,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        if head_only || matches!(self.status, 204 | 304) {
            return Ok(());
        }
        if self.field("transfer-encoding").is_some() {
            return chunks(from, sink);
        }
        let Some(length) = self.field("content-length") else {
            return Err(NoAnswer::Garbled(format!("no length: {self:?}")));
        };
        match length.parse() {
            Ok(length) => part(from, length, sink),
            Err(_) => Err(NoAnswer::Garbled(format!("length: {self:?}"))),
        }
    }
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed without a word",
            Self::Cut => "cut",
            Self::Hung => "neither answered nor closed",
            Self::Garbled(what) => return write!(f, "no HTTP: {what}"),
        })
    }
}

impl NoAnswer {
    /// Does it say that the connection is over?
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self, Self::Closed | Self::Cut)
    }
}

fn line(from: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(text) if text.is_ascii() => Ok(String::from_utf8_lossy(text).into_owned()),
        _ if line.last() == Some(&b'\n') => Err(NoAnswer::Garbled(line.escape_ascii().to_string())),
        _ => Err(NoAnswer::Cut),
    }
}

fn part(from: &mut impl BufRead, length: usize, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut left = length;
    while left > 0 {
        let there = from.fill_buf()?;
        if there.is_empty() {
            return Err(NoAnswer::Cut);
        }
        let taken = there.len().min(left);
        sink(&there[..taken]);
        from.consume(taken);
        left -= taken;
    }
    Ok(())
}

fn chunks(from: &mut impl BufRead, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
    loop {
        let size = line(from)?;
        let length = usize::from_str_radix(&size, 16).map_err(|_| NoAnswer::Garbled(size))?;
        part(from, length, sink)?;
        // Behind the last chunk this is the empty line of the trailers: the gateway sends none.
        let end = line(from)?;
        if !end.is_empty() {
            return Err(NoAnswer::Garbled(end));
        }
        if length == 0 {
            return Ok(());
        }
    }
}
