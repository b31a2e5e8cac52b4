//! The W3C extended log format, as IIS and `CloudFront` write it.
//!
//! What a line holds is said by the `#Fields` line before it, of which a log may have several.
//! Times are UTC. Where there is no date in the lines, that of the last `#Date` holds.

use std::sync::Arc;

use memchr::{memchr, memmem};
use nightwatt_energy::time::Wall;

use crate::clf::{is_method, is_protocol};
use crate::clf_time;
use crate::client::{self, ClientFrom};
use crate::record::{Escapes, Reason};
use crate::spans::{self, Span, Spans};

/// A field that we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Date,
    Time,
    /// In local time, from IIS Advanced Logging, for logs without a date in UTC. It does not name its zone.
    DateLocal,
    TimeLocal,
    Client,
    /// A chain of addresses that proxies wrote.
    Forwarded,
    User,
    Method,
    /// Path and query in one.
    Uri,
    Stem,
    Query,
    Protocol,
    Status,
    Bytes,
    Referer,
    Agent,
    Other,
}

/// Kinds except for `Other`.
const KINDS: usize = Kind::Other as usize;

/// What a field is called, in whatever case.
fn kind(name: &str) -> Kind {
    match name.to_ascii_lowercase().as_str() {
        "date" => Kind::Date,
        "time" => Kind::Time,
        "date-local" => Kind::DateLocal,
        "time-local" => Kind::TimeLocal,
        "x-forwarded-for" | "cs(x-forwarded-for)" | "x-real-ip" => Kind::Forwarded,
        "c-ip" | "c-dns" => Kind::Client,
        "cs-username" => Kind::User,
        "cs-method" => Kind::Method,
        "cs-uri" => Kind::Uri,
        "cs-uri-stem" => Kind::Stem,
        "cs-uri-query" => Kind::Query,
        "cs-version" | "cs-protocol-version" => Kind::Protocol,
        "sc-status" | "c-status" => Kind::Status,
        "sc-bytes" | "bytes" => Kind::Bytes,
        "cs(referer)" | "cs(referrer)" | "c-referrer" => Kind::Referer,
        "cs(user-agent)" | "c-user-agent" => Kind::Agent,
        _ => Kind::Other,
    }
}

/// What a log has said of itself so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    fields: Arc<[Kind]>,
    /// Seconds since 1970 of the day that `#Date` names.
    date: Option<i64>,
    /// Agents are percent-encoded.
    percent: bool,
}

impl Header {
    /// Whether a line says something of the log.
    pub(crate) fn is_directive(line: &[u8]) -> bool {
        line.first() == Some(&b'#')
    }

    /// Takes in such a line.
    pub(crate) fn directive(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        if let Some(names) = line.strip_prefix("#Fields:") {
            self.fields = names.split_ascii_whitespace().map(kind).collect();
            self.percent = names.contains("x-edge-location");
        } else if let Some(date) = line.strip_prefix("#Date:") {
            self.date =
                date.trim_ascii().get(..10).and_then(|date| clf_time::parse_date(date.as_bytes()));
        }
    }

    /// Takes in what a piece of the log says of the log.
    pub(crate) fn skip(&mut self, piece: &[u8]) {
        let mut at = 0;
        while Self::is_directive(&piece[at..]) {
            let end = memchr(b'\n', &piece[at..]).map_or(piece.len(), |end| at + end);
            self.directive(&piece[at..end]);
            match memmem::find(&piece[end..], b"\n#") {
                Some(next) => at = end + next + 1,
                None => return,
            }
        }
        if at == 0
            && let Some(next) = memmem::find(piece, b"\n#")
        {
            self.skip(&piece[next + 1..]);
        }
    }

    /// Parses a line that is no directive.
    pub(crate) fn find(&self, line: &[u8], from: ClientFrom) -> Result<Spans, Reason> {
        if line.trim_ascii().is_empty() {
            return Err(Reason::Empty);
        }
        if self.fields.is_empty() {
            return Err(Reason::NoFields);
        }
        let found = self.places(line);
        let get = |kind: Kind| found[kind as usize];
        let given =
            |kind| get(kind).filter(|span| span.of(line) != b"-" && !span.of(line).is_empty());
        let date = get(Kind::Date).or(get(Kind::DateLocal));
        let at = self.time(line, date, get(Kind::Time).or(get(Kind::TimeLocal)))?;
        let text = |kind| given(kind).map_or(&b""[..], |span| span.of(line));
        // `CloudFront` logs the client itself, and the chain that it was told beside it.
        let told = text(Kind::Forwarded);
        let chain = if self.percent && from == ClientFrom::Public { b"" } else { told };
        let client = client::of(text(Kind::Client), chain, from).ok_or(Reason::Client)?;
        let client = Span::within(line, client);
        let status = given(Kind::Status).filter(|span| span.of(line).len() == 3);
        let status =
            status.and_then(|span| clf_time::number(span.of(line))).ok_or(Reason::Status)?;
        let bytes =
            given(Kind::Bytes).map(|span| clf_time::number(span.of(line)).ok_or(Reason::Size));
        let method = given(Kind::Method).filter(|span| is_method(span.of(line)));
        let has_none = || !self.fields.contains(&Kind::Method);
        let method = method.or_else(|| has_none().then(Span::default));
        let target = given(Kind::Uri).or_else(|| given(Kind::Stem));
        let protocol = given(Kind::Protocol).filter(|span| is_protocol(span.of(line)));
        let query = given(Kind::Query).filter(|_| given(Kind::Uri).is_none()).unwrap_or_default();
        let agent = given(Kind::Agent).unwrap_or_default();
        let sign = if self.percent { b'%' } else { b'+' };
        let escaped = |holds, bit| if holds { bit } else { 0 };
        Ok(Spans {
            at,
            utc_offset: 0,
            client,
            user: given(Kind::User).unwrap_or_default(),
            request: get(Kind::Method).unwrap_or_default(),
            http: method
                .zip(target)
                .map(|(method, target)| [method, target, protocol.unwrap_or_default()]),
            query,
            status: status as u16,
            bytes: bytes.transpose()?.unwrap_or_default(),
            referer: given(Kind::Referer).unwrap_or_default(),
            agent,
            escaped: escaped(query != Span::default(), spans::TARGET)
                | escaped(memchr(sign, agent.of(line)).is_some(), spans::AGENT),
            escapes: Escapes::Never,
            agent_escapes: if self.percent { Escapes::Percent } else { Escapes::Plus },
            has_chain: !told.is_empty(),
        })
    }

    /// Where the fields are, in quotes or not.
    fn places(&self, line: &[u8]) -> [Option<Span>; KINDS] {
        let line = line.trim_ascii_end();
        let separator = if memchr(b'\t', line).is_some() { b'\t' } else { b' ' };
        let mut found = [None; KINDS];
        let mut at = 0;
        for &kind in &*self.fields {
            while separator == b' ' && line.get(at) == Some(&b' ') {
                at += 1;
            }
            let Some(rest) = line.get(at..) else { break };
            let quoted = rest.strip_prefix(b"\"").and_then(quote_end);
            let from = at + usize::from(quoted.is_some());
            // What stands between a quote and the next separator is left out.
            let behind = quoted.map_or(at, |len| from + len);
            let end = memchr(separator, &line[behind..]).map_or(line.len(), |skip| behind + skip);
            let to = quoted.map_or(end, |len| from + len);
            if let Some(place) = found.get_mut(kind as usize) {
                *place = Some(Span::new(from, to));
            }
            at = end + 1;
        }
        found
    }

    fn time(&self, line: &[u8], date: Option<Span>, time: Option<Span>) -> Result<Wall, Reason> {
        let time = time.ok_or(Reason::NoTime)?;
        let day = match date {
            Some(date) => clf_time::parse_date(date.of(line)).ok_or(Reason::BadTime)?,
            None => self.date.ok_or(Reason::NoTime)?,
        };
        let time = clf_time::parse_time_of_day(time.of(line)).ok_or(Reason::BadTime)?;
        Ok(Wall(day * 1000 + time))
    }
}

/// Where a field ends that a quote began; quotes within are doubled.
fn quote_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr(b'"', &text[at..])?;
        if text.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
#[path = "w3c_tests.rs"]
mod tests;
