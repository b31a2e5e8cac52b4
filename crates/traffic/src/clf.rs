//! The Common and the Combined log format; nginx's default is Combined.
//!
//! `client ident user [day/Mon/year:hour:minute:second zone] "request" status bytes`, and in
//! Combined ` "referer" "agent"`. What follows is left alone, so formats that only append fields
//! read as well.

use std::fmt::Write as _;

use memchr::{memchr, memchr2, memrchr};
use nightwatt_model::time::Wall;

use crate::arrival::Arrival;
use crate::civil::{self, TimeMemo};
use crate::record::{Escapes, Line, Reason};
use crate::spans::{Span, Spans};

/// Parses one line, without its line end.
pub fn parse(line: &[u8]) -> Result<Line<'_>, Reason> {
    find(line, &mut TimeMemo::default()).map(|spans| spans.cut(line))
}

/// Parses lines one after the other: quicker than [`parse`], since most have the time of the line
/// before or one close to it.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    times: TimeMemo,
}

impl Lines {
    /// As [`parse`].
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Reason> {
        find(line, &mut self.times).map(|spans| spans.cut(line))
    }
}

/// Writes one line of Combined, without a line end: what [`parse`] reads back.
///
/// Time is cut to whole seconds and the offset to whole minutes, as the format has it; an empty
/// field reads back as none.
pub fn format(arrival: &Arrival) -> String {
    let mut out = String::with_capacity(200);
    write(&mut out, &Entry::from(arrival));
    out
}

/// What a line says, lent: for whoever writes many lines.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// When, UTC.
    pub at: Wall,
    /// Local time minus UTC, in seconds.
    pub utc_offset: i32,
    /// Address or name of the client.
    pub client: &'a str,
    /// `GET`.
    pub method: &'a str,
    /// `/index.html?a=b`.
    pub target: &'a str,
    /// Of the answer.
    pub status: u16,
    /// Of the answer's body.
    pub bytes: u64,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// `User-Agent`.
    pub agent: Option<&'a str>,
}

impl<'a> From<&'a Arrival> for Entry<'a> {
    fn from(arrival: &'a Arrival) -> Self {
        Self {
            at: arrival.at,
            utc_offset: arrival.utc_offset,
            client: &arrival.client,
            method: &arrival.method,
            target: &arrival.target,
            status: arrival.status,
            bytes: arrival.bytes,
            referer: arrival.referer.as_deref(),
            agent: arrival.agent.as_deref(),
        }
    }
}

impl Entry<'_> {
    /// The same, to be kept.
    pub fn to_arrival(&self) -> Arrival {
        Arrival {
            at: self.at,
            utc_offset: self.utc_offset,
            client: self.client.to_owned(),
            method: self.method.to_owned(),
            target: self.target.to_owned(),
            status: self.status,
            bytes: self.bytes,
            referer: self.referer.map(str::to_owned),
            agent: self.agent.map(str::to_owned),
        }
    }
}

/// As [`format()`], appended to `out`.
pub fn write(out: &mut String, entry: &Entry<'_>) {
    out.push_str(entry.client);
    out.push_str(" - - [");
    civil::write(out, entry.at, entry.utc_offset);
    out.push_str("] \"");
    escape(out, entry.method);
    out.push(' ');
    escape(out, entry.target);
    // Writing to a String cannot fail.
    let _ = write!(out, " HTTP/1.1\" {:03} {} \"", entry.status, entry.bytes);
    escape(out, entry.referer.unwrap_or("-"));
    out.push_str("\" \"");
    escape(out, entry.agent.unwrap_or("-"));
    out.push('"');
}

/// Escapes as nginx does: quote, backslash and control characters as `\xHH`.
fn escape(out: &mut String, text: &str) {
    if !text.bytes().any(|byte| byte.is_ascii_control() || matches!(byte, b'"' | b'\\')) {
        out.push_str(text);
        return;
    }
    for character in text.chars() {
        if character.is_ascii_control() || matches!(character, '"' | '\\') {
            let _ = write!(out, "\\x{:02X}", character as u32);
        } else {
            out.push(character);
        }
    }
}

/// Parses.
pub(crate) fn find(line: &[u8], times: &mut TimeMemo) -> Result<Spans, Reason> {
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return Err(Reason::Empty);
    }
    let client = match memchr(b' ', line) {
        Some(end) if end > 0 && line[..end].is_ascii() => (0, end),
        _ => return Err(Reason::Client),
    };
    let (open, at, utc_offset) = find_time(line, client.1, times)?;
    let request = quoted(line, open + civil::LEN + 2, Reason::NoRequest)?;
    let (status, after) = status(line, request.1 + 1)?;
    let (bytes, after) = size(line, after)?;
    let (referer, agent) = referer_and_agent(line, after)?;
    Ok(Spans {
        at,
        utc_offset,
        client,
        user: user(line, client.1, open),
        request,
        http: http_request(line, request, status),
        query: (0, 0),
        status,
        bytes,
        referer,
        agent,
        escapes: Escapes::Clf,
        agent_escapes: Escapes::Clf,
    })
}

/// The first bracket that holds a time: names of users may hold brackets too.
fn find_time(line: &[u8], from: usize, times: &mut TimeMemo) -> Result<(usize, Wall, i32), Reason> {
    let mut start = from;
    let mut reason = Reason::NoTime;
    while let Some(offset) = memchr(b'[', &line[start..]) {
        let open = start + offset;
        if let Some((at, utc_offset)) = line.get(open + 1..).and_then(|text| times.parse(text)) {
            return Ok((open, at, utc_offset));
        }
        reason = Reason::BadTime;
        start = open + 1;
    }
    Err(reason)
}

/// What stands between `ident`, which nobody uses any more, and the time; may hold spaces.
fn user(line: &[u8], from: usize, to: usize) -> Span {
    let start = line[from..to].iter().position(|&byte| byte != b' ').map_or(to, |skip| from + skip);
    match memchr(b' ', &line[start..to]) {
        Some(ident) => {
            let text = line[start + ident..to].trim_ascii_start();
            (to - text.len(), to - text.len() + text.trim_ascii_end().len())
        }
        None => (to, to),
    }
}

/// The field in quotes at `from`, or `missing` where there is none.
fn quoted(line: &[u8], from: usize, missing: Reason) -> Result<Span, Reason> {
    let open = skip_spaces(line, from);
    if line.get(open) != Some(&b'"') {
        return Err(missing);
    }
    let start = open + 1;
    let mut at = start;
    while let Some(offset) = memchr2(b'"', b'\\', line.get(at..).unwrap_or_default()) {
        let stop = at + offset;
        if line[stop] == b'\\' {
            at = stop + 2;
        } else if matches!(line.get(stop + 1), None | Some(b' ')) {
            return Ok((start, stop));
        } else {
            // Some servers escape nothing: a quote that ends no field belongs to it.
            at = stop + 1;
        }
    }
    Err(Reason::OpenQuote)
}

fn skip_spaces(line: &[u8], from: usize) -> usize {
    let rest = line.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|&&byte| byte == b' ').count()
}

fn status(line: &[u8], from: usize) -> Result<(u16, usize), Reason> {
    let start = skip_spaces(line, from);
    let end = start + 3;
    let digits = line.get(start..end).and_then(civil::number).ok_or(Reason::Status)?;
    if !matches!(line.get(end), None | Some(b' ')) {
        return Err(Reason::Status);
    }
    Ok((digits as u16, end))
}

fn size(line: &[u8], from: usize) -> Result<(u64, usize), Reason> {
    let start = skip_spaces(line, from);
    let rest = line.get(start..).unwrap_or_default();
    let end = memchr(b' ', rest).unwrap_or(rest.len());
    let text = &rest[..end];
    let bytes = if text == b"-" { Some(0) } else { civil::number(text) };
    Ok((bytes.ok_or(Reason::Size)?, start + end))
}

/// Empty where the line is Common.
fn referer_and_agent(line: &[u8], from: usize) -> Result<(Span, Span), Reason> {
    let none = (line.len(), line.len());
    let next_is_quote = |from| line.get(skip_spaces(line, from)) == Some(&b'"');
    if !next_is_quote(from) {
        return Ok((none, none));
    }
    let referer = quoted(line, from, Reason::OpenQuote)?;
    if !next_is_quote(referer.1 + 1) {
        return Ok((referer, none));
    }
    let agent = quoted(line, referer.1 + 1, Reason::OpenQuote)?;
    Ok((referer, agent))
}

/// Method, target and protocol. The target may hold spaces: clients do send such.
fn http_request(line: &[u8], (from, to): Span, status: u16) -> Option<[Span; 3]> {
    let request = &line[from..to];
    let method = memchr(b' ', request)?;
    if !is_method(&request[..method]) {
        return None;
    }
    let last = memrchr(b' ', request)?;
    if is_protocol(&request[last + 1..]) {
        let target =
            request.get(method + 1..last).filter(|target| !target.trim_ascii().is_empty())?;
        let target = (from + method + 1, from + method + 1 + target.len());
        return Some([(from, from + method), target, (from + last + 1, to)]);
    }
    // HTTP/0.9 knew only this; logs of the nineties are full of it. A later server logs the same
    // for a request that it gave up on before its end: bad, timed out, too long.
    let simple = &request[..method] == b"GET"
        && last == method
        && request[last + 1..].first() == Some(&b'/')
        && !matches!(status, 400 | 408 | 414);
    simple.then_some([(from, from + method), (from + method + 1, to), (to, to)])
}

/// Letters in upper case, `-` and `_`, 32 at most.
pub(crate) fn is_method(text: &[u8]) -> bool {
    (1..=32).contains(&text.len())
        && text.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'))
}

/// `HTTP/` and a version of one or two numbers.
pub(crate) fn is_protocol(text: &[u8]) -> bool {
    match text.strip_prefix(b"HTTP/") {
        Some([major]) => major.is_ascii_digit(),
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "clf_tests.rs"]
mod tests;
