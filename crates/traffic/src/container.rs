//! What other programs put around the lines of a log: syslog, journald, Docker, Kubernetes.
//!
//! `Unwrapped` gives the lines as the web server wrote them, one for each line that it reads, so
//! the parsers need not know. A line that is not in the container passes as it is.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

use memchr::{memchr, memrchr};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client;
use crate::detect::is_known;
use crate::template::Pattern;

/// Something that log lines are packed in, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// `Nov 10 12:11:55 host tag[pid]: ` (RFC 3164), `<13>1 2022-11-10T12:11:55Z host tag - - - `
    /// (RFC 5424), and what rsyslog and `journalctl` make of them.
    Syslog,
    /// `journalctl -o json`: the line is `MESSAGE`.
    Journald,
    /// Docker's json-file: the line is `log`.
    Docker,
    /// `docker compose logs`: `name  | `.
    Compose,
    /// The Kubernetes container runtime interface: `2022-11-10T12:11:55.123456789Z stdout F `.
    Cri,
    /// `docker logs -t`, `kubectl logs --timestamps`: a time in front.
    Stamped,
    /// JSON of a log collector, whose `message`, `msg`, `line` or `textPayload` is the line.
    Collector,
    /// An array of JSON objects, or objects over several lines. Taken apart by `objects::Objects`.
    Spread,
}

/// In the order in which they are tried.
const ALL: [Container; 7] = [
    Container::Syslog,
    Container::Journald,
    Container::Docker,
    Container::Compose,
    Container::Cri,
    Container::Stamped,
    Container::Collector,
];

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Syslog => "syslog",
            Self::Journald => "journald JSON",
            Self::Docker => "Docker json-file",
            Self::Compose => "docker compose",
            Self::Cri => "Kubernetes CRI",
            Self::Stamped => "lines with a time in front",
            Self::Collector => "JSON of a log collector",
            Self::Spread => "JSON array, or JSON over several lines",
        })
    }
}

/// A line out of its container.
struct Inner<'a> {
    text: Cow<'a, [u8]>,
    /// The rest of the line comes with the next one.
    is_partial: bool,
}

impl<'a> Inner<'a> {
    fn whole(text: &'a [u8]) -> Self {
        Self { text: Cow::Borrowed(text), is_partial: false }
    }
}

impl Container {
    /// Whether this says too little by itself: it counts only where a known format is in it.
    const fn is_vague(self) -> bool {
        matches!(self, Self::Stamped | Self::Collector)
    }

    fn strip(self, line: &[u8]) -> Option<Inner<'_>> {
        match self {
            Self::Syslog => syslog(line).map(Inner::whole),
            Self::Compose => compose(line).map(Inner::whole),
            Self::Cri => cri(line),
            Self::Stamped => stamp(line).map(Inner::whole),
            Self::Journald | Self::Docker | Self::Collector => self.message(line),
            Self::Spread => None,
        }
    }

    /// The line in a JSON object.
    fn message(self, line: &[u8]) -> Option<Inner<'_>> {
        /// What Docker splits longer lines into.
        const DOCKER_PART: usize = 16 * 1024;
        if line.first() != Some(&b'{') {
            return None;
        }
        let object: Keys<'_> = serde_json::from_slice(line).ok()?;
        let value = match self {
            Self::Journald => object.journal,
            Self::Docker => object.log,
            _ => object.message.or(object.msg).or(object.line).or(object.payload),
        };
        let mut text = bytes_of(value?)?;
        let ended = text.last() == Some(&b'\n');
        while text.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            text.pop();
        }
        let is_partial = self == Self::Docker && !ended && text.len() >= DOCKER_PART;
        // One line stays one line.
        text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        Some(Inner { text: Cow::Owned(text), is_partial })
    }
}

/// Keys under which containers keep the line.
#[derive(Deserialize)]
struct Keys<'a> {
    #[serde(borrow, rename = "MESSAGE")]
    journal: Option<&'a RawValue>,
    #[serde(borrow)]
    log: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    #[serde(borrow)]
    line: Option<&'a RawValue>,
    #[serde(borrow, rename = "textPayload")]
    payload: Option<&'a RawValue>,
}

/// A string, or the bytes that journald writes as numbers where they are no text.
fn bytes_of(value: &RawValue) -> Option<Vec<u8>> {
    if value.get().starts_with('[') {
        return serde_json::from_str(value.get()).ok();
    }
    serde_json::from_str::<String>(value.get()).ok().map(String::into_bytes)
}

/// Behind a word and the spaces that end it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(b' ', text).filter(|&end| end > 0)?;
    let rest = &text[end..];
    Some((&text[..end], &rest[rest.iter().take_while(|&&byte| byte == b' ').count()..]))
}

/// `2022-11-10T12:11:55`, with anything behind it.
fn is_iso_time(word: &[u8]) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    word.len() >= FORM.len()
        && FORM.iter().zip(word).all(|(form, byte)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

/// `12:11:55`, with a fraction or without.
fn is_clock(word: &[u8]) -> bool {
    matches!(word, [h1, h2, b':', m1, m2, b':', s1, s2, ..]
        if [h1, h2, m1, m2, s1, s2].iter().all(|digit| digit.is_ascii_digit()))
}

fn syslog(line: &[u8]) -> Option<&[u8]> {
    let rest = match line.strip_prefix(b"<") {
        None => line,
        Some(rest) => {
            let end = memchr(b'>', rest).filter(|&end| (1..=3).contains(&end))?;
            rest[..end].iter().all(u8::is_ascii_digit).then(|| &rest[end + 1..])?
        }
    };
    if rest.len() < line.len()
        && let Some(rest) = rest.strip_prefix(b"1 ")
    {
        return syslog_5424(rest);
    }
    let (first, behind) = word(rest)?;
    let behind = if is_iso_time(first) {
        behind
    } else {
        const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
        let is_month = first.len() == 3 && MONTHS.chunks(3).any(|month| month == first);
        let (day, behind) = word(behind).filter(|_| is_month)?;
        let (next, mut behind) = word(behind)?;
        let is_day = day.len() <= 2 && day.iter().all(u8::is_ascii_digit);
        let mut clock = next;
        if next.len() == 4 && next.iter().all(u8::is_ascii_digit) {
            (clock, behind) = word(behind)?;
        }
        (is_day && is_clock(clock)).then_some(behind)?
    };
    behind_tag(behind)
}

/// The message behind host, facility and tag: the tag ends with a colon and is the fourth word at
/// most.
fn behind_tag(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    for _ in 0..4 {
        let Some((next, behind)) = word(rest) else { break };
        let is_tag = next.strip_suffix(b":").is_some_and(|tag| {
            let name = tag.split(|&byte| byte == b'[').next().unwrap_or_default();
            !name.is_empty() && client::address(next).is_none() && client::address(tag).is_none()
        });
        if is_tag {
            return Some(behind);
        }
        if next.contains(&b'"') || next.starts_with(b"{") {
            break;
        }
        rest = behind;
    }
    None
}

/// Behind `<13>1 `: time, host, application, process, message, structured data.
fn syslog_5424(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    for place in 0..5 {
        let (next, behind) = word(rest)?;
        if place == 0 && !is_iso_time(next) && next != b"-" {
            return None;
        }
        rest = behind;
    }
    let message = match rest.strip_prefix(b"-") {
        Some(message) => message,
        None => behind_data(rest)?,
    };
    let message = message.trim_ascii_start();
    Some(message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message))
}

/// Behind `[id name="value"][...]`, in whose values `"`, `\` and `]` are escaped.
fn behind_data(mut text: &[u8]) -> Option<&[u8]> {
    while text.first() == Some(&b'[') {
        let mut at = 1;
        loop {
            match text.get(at)? {
                b'\\' => at += 2,
                b']' => break,
                _ => at += 1,
            }
        }
        text = &text[at + 1..];
    }
    (text.is_empty() || text.starts_with(b" ")).then_some(text)
}

fn compose(line: &[u8]) -> Option<&[u8]> {
    let line = without_colour(line);
    let bar = memchr(b'|', line).filter(|&bar| bar <= 128)?;
    let name = line[..bar].trim_ascii_end();
    let is_name = name.first().is_some_and(u8::is_ascii_alphanumeric)
        && name.iter().any(u8::is_ascii_alphabetic)
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@'))
        && client::address(name).is_none();
    let message = without_colour(&line[bar + 1..]);
    (is_name && (name.len() < bar || message.starts_with(b" ")))
        .then(|| message.strip_prefix(b" ").unwrap_or(message))
}

/// Without the escape sequences of a terminal in front.
fn without_colour(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b"\x1b[") {
        // The last byte of such a sequence: `m` of colours, `K` of an erased line.
        let Some(end) = rest.iter().position(|byte| matches!(byte, b'@'..=b'~')) else {
            return text;
        };
        text = &rest[end + 1..];
    }
    text
}

fn cri(line: &[u8]) -> Option<Inner<'_>> {
    let (time, rest) = word(line)?;
    let (stream, rest) = word(rest).filter(|_| is_iso_time(time))?;
    let is_stream = matches!(stream, b"stdout" | b"stderr");
    let (tag, text) = rest.split_at_checked(2).filter(|_| is_stream)?;
    let is_partial = tag == b"P ";
    (is_partial || tag == b"F ").then_some(Inner { text: Cow::Borrowed(text), is_partial })
}

fn stamp(line: &[u8]) -> Option<&[u8]> {
    word(line).filter(|(time, _)| is_iso_time(time)).map(|(_, rest)| rest)
}

/// Containers within one another that are looked for.
const DEPTH: usize = 3;

/// Lines that tell a container.
const VOTES: usize = 100;

/// What the lines of a log's beginning are packed in, from the outside in. `pattern`: the format
/// that they are in, where it is not a known one.
pub(crate) fn detect(head: &[u8], pattern: Option<&Pattern>) -> Vec<Container> {
    // The last line may be cut.
    let whole = memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let mut lines: Vec<Vec<u8>> = whole
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .take(VOTES)
        .map(<[u8]>::to_vec)
        .collect();
    let mut found = Vec::new();
    while found.len() < DEPTH {
        // More than half of them, so half of them that do not fit are enough to look at.
        let fits = |container: &Container| {
            let mut misses = 0;
            !lines.is_empty()
                && lines.iter().all(|line| {
                    misses += usize::from(!fits(*container, line, pattern));
                    2 * misses < lines.len()
                })
        };
        let Some(container) = ALL.into_iter().find(fits) else { break };
        found.push(container);
        let strip = |line: &Vec<u8>| container.strip(line).map(|inner| inner.text.into_owned());
        lines = lines.iter().filter_map(strip).filter(|line| !line.is_empty()).collect();
    }
    found
}

fn fits(container: Container, line: &[u8], pattern: Option<&Pattern>) -> bool {
    let Some(inner) = container.strip(line) else { return false };
    !container.is_vague() || (!is_known(line, pattern) && is_known(&inner.text, pattern))
}

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// A longer line passes as it is: it is no log's.
const LONGEST: usize = 1 << 20;

/// A log's lines, out of their containers.
pub(crate) struct Unwrapped {
    source: Box<dyn Read + Send>,
    containers: Vec<Container>,
    /// What was read behind the last line end.
    line: Vec<u8>,
    /// Within a line that is too long.
    is_passing: bool,
    ready: Vec<u8>,
    given: usize,
}

impl Unwrapped {
    pub(crate) fn new(source: Box<dyn Read + Send>, containers: Vec<Container>) -> Self {
        Self {
            source,
            containers,
            line: Vec::new(),
            is_passing: false,
            ready: Vec::new(),
            given: 0,
        }
    }

    /// Reads once more; whether that was the end.
    fn refill(&mut self) -> io::Result<bool> {
        self.ready.clear();
        self.given = 0;
        let before = self.line.len();
        self.line.resize(before + CHUNK, 0);
        let read = self.source.read(&mut self.line[before..]);
        self.line.truncate(before + *read.as_ref().unwrap_or(&0));
        let text = std::mem::take(&mut self.line);
        let mut start = 0;
        let ended = read? == 0;
        while let Some(end) = memchr(b'\n', &text[start..]) {
            self.emit(&text[start..start + end], b"\n");
            start += end + 1;
        }
        if ended && start < text.len() {
            self.emit(&text[start..], b"");
        } else if text.len() - start > LONGEST {
            self.ready.extend_from_slice(&text[start..]);
            self.is_passing = true;
        } else {
            self.line.extend_from_slice(&text[start..]);
        }
        Ok(ended)
    }

    fn emit(&mut self, line: &[u8], end: &[u8]) {
        let is_passing = std::mem::replace(&mut self.is_passing, false);
        let stripped = if is_passing { None } else { self.strip(line) };
        let (text, is_partial) = stripped.unwrap_or((Cow::Borrowed(line), false));
        self.ready.extend_from_slice(&text);
        self.ready.extend_from_slice(if is_partial { b"" } else { end });
    }

    fn strip<'a>(&self, line: &'a [u8]) -> Option<(Cow<'a, [u8]>, bool)> {
        let mut text = Cow::Borrowed(line.strip_suffix(b"\r").unwrap_or(line));
        let mut is_partial = false;
        for container in &self.containers {
            let inner = match &text {
                Cow::Borrowed(text) => container.strip(text)?,
                Cow::Owned(text) => {
                    let inner = container.strip(text)?;
                    Inner { text: Cow::Owned(inner.text.into_owned()), ..inner }
                }
            };
            is_partial |= inner.is_partial;
            text = inner.text;
        }
        Some((text, is_partial))
    }
}

impl Read for Unwrapped {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() {
            if self.refill()? && self.ready.is_empty() {
                return Ok(0);
            }
        }
        let some = into.len().min(self.ready.len() - self.given);
        into[..some].copy_from_slice(&self.ready[self.given..self.given + some]);
        self.given += some;
        Ok(some)
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
