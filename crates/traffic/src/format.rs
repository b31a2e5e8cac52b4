//! The formats of logs, and how to tell them apart.

use std::fmt;
use std::str::FromStr;

use memchr::memchr;
use nightwatt_model::time::Wall;

use crate::clf::{self, Memo};
use crate::client::{self, ClientFrom};
use crate::error::Error;
use crate::json;
use crate::reader::MAX_LINE;
use crate::record::Reason;
use crate::spans::Spans;
use crate::w3c::Header;

/// A format of access logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `client ident user [time] "request" status bytes`.
    Common,
    /// Common, and ` "referer" "agent"`: Apache's, nginx's default, Traefik's text.
    Combined,
    /// The virtual host, and Combined or Common: Apache's `vhost_combined`.
    VhostCombined,
    /// Caddy's JSON.
    Caddy,
    /// Traefik's JSON.
    Traefik,
    /// W3C extended, with `#Fields` lines: IIS, `CloudFront`.
    W3c,
}

/// Every format, and the names that [`Format::from_str`] takes; the first is the format's own.
const NAMES: [(Format, &[&str]); 6] = [
    (Format::Common, &["common"]),
    (Format::Combined, &["combined", "nginx", "apache"]),
    (Format::VhostCombined, &["vcombined"]),
    (Format::Caddy, &["caddy"]),
    (Format::Traefik, &["traefik"]),
    (Format::W3c, &["w3c", "iis", "cloudfront"]),
];

impl Format {
    /// All names of formats, for help and errors.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().flat_map(|(_, names)| names.iter().copied())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            NAMES.iter().find(|(format, _)| format == self).map_or("", |(_, names)| names[0]);
        f.pad(name)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = NAMES.iter().find(|(_, names)| names.contains(&name));
        found.map(|(format, _)| *format).ok_or_else(|| Error::NoSuchFormat(name.to_owned()))
    }
}

/// Lines that tell a format.
const VOTES: usize = 100;

/// The format that most of the first hundred lines are in that are in any, and of two the one that
/// comes first; what stands between them is passed over. `None` where no line is in any.
pub(crate) fn detect(text: &[u8]) -> Option<Format> {
    let mut votes: Vec<(Format, usize)> = Vec::new();
    for format in text.split(|&byte| byte == b'\n').filter_map(detect_line).take(VOTES) {
        if format == Format::W3c {
            // It says so itself, and says it once.
            return Some(format);
        }
        match votes.iter_mut().find(|(voted, _)| *voted == format) {
            Some((_, count)) => *count += 1,
            None => votes.push((format, 1)),
        }
    }
    // Of equal ones the last is taken: here, the first.
    votes.into_iter().rev().max_by_key(|&(_, count)| count).map(|(format, _)| format)
}

/// The format of a line without its end; `None` where it is in none, or too long to be parsed.
pub(crate) fn detect_line(line: &[u8]) -> Option<Format> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > MAX_LINE {
        return None;
    }
    if line.starts_with(b"#Fields:") {
        return Some(Format::W3c);
    }
    if line.starts_with(b"{") {
        let caddy = || json::caddy(line).is_ok().then_some(Format::Caddy);
        return json::traefik(line).map_or_else(|_| caddy(), |_| Some(Format::Traefik));
    }
    let spans = clf::find(line, &mut Memo::default()).ok()?;
    if !client::is_client(spans.client.of(line)) {
        return None;
    }
    Some(match spans.has_agent() {
        _ if is_behind_host(line, &spans) => Format::VhostCombined,
        true => Format::Combined,
        false => Format::Common,
    })
}

/// Whether the client is the second word, and the first is the name of a host.
fn is_behind_host(line: &[u8], spans: &Spans) -> bool {
    let host = &line[..memchr(b' ', line).unwrap_or(line.len())];
    let name = client::entry(host);
    let is_host = client::is_client(name) && name != b"-" && name != b"unknown";
    spans.client.from as usize == host.len() + 1 && is_host && !host.ends_with(b",")
}

/// Parses what follows the name of the host; lines without one are read as they are.
fn vhost(line: &[u8], memo: &mut Memo) -> Result<Spans, Reason> {
    if line.trim_ascii().is_empty() {
        return Err(Reason::Empty);
    }
    let rest = memchr(b' ', line).ok_or(Reason::Client)? + 1;
    if line[rest..].starts_with(b"- ") {
        return clf::find(line, memo);
    }
    clf::find(&line[rest..], memo).map(|spans| spans.moved(rest))
}

/// Parses lines of one log one after the other.
#[derive(Debug, Clone)]
pub(crate) struct LineParser {
    format: Format,
    memo: Memo,
    /// Of W3C.
    header: Header,
}

impl LineParser {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, memo: Memo::default(), header: Header::default() }
    }

    /// Which entry of a chain of addresses is the client.
    pub(crate) fn with_client_from(mut self, from: ClientFrom) -> Self {
        self.memo.client_from = from;
        self
    }

    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Parses a line without its end; `None` for one that says something of the log itself.
    #[inline]
    pub(crate) fn find(&mut self, line: &[u8]) -> Result<Option<Spans>, Reason> {
        match self.format {
            Format::Common | Format::Combined => clf::find(line, &mut self.memo).map(Some),
            Format::VhostCombined => vhost(line, &mut self.memo).map(Some),
            Format::Caddy => json::caddy(line).map(Some),
            Format::Traefik => json::traefik(line).map(Some),
            Format::W3c if Header::is_directive(line) => {
                self.header.directive(line);
                Ok(None)
            }
            Format::W3c => self.header.find(line).map(Some),
        }
    }

    /// Takes in what a piece of the log says of the log, and nothing else.
    pub(crate) fn skip(&mut self, piece: &[u8]) {
        if self.format == Format::W3c {
            self.header.skip(piece);
        }
    }

    /// When the first line that can be read was logged.
    pub(crate) fn first_time(&mut self, text: &[u8]) -> Option<Wall> {
        let mut lines = text.split(|&byte| byte == b'\n');
        lines.find_map(|line| self.find(line).ok().flatten()).map(|of| of.at)
    }

    /// When the last lines of a piece were logged: the earliest time among a few of them, so that
    /// one wrong clock does not pass for the time of all.
    pub(crate) fn last_time(&mut self, text: &[u8]) -> Option<Wall> {
        const FEW: usize = 8;
        let lines = text.rsplit(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines
            .take(4 * FEW)
            .filter_map(|line| self.find(line).ok().flatten())
            .take(FEW)
            .map(|of| of.at)
            .min()
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
