//! The formats of logs, and how to tell them apart.

use std::fmt;
use std::str::FromStr;

use nightwatt_model::time::Wall;

use crate::civil::TimeMemo;
use crate::clf;
use crate::error::Error;
use crate::record::Reason;
use crate::spans::Spans;

/// A format of access logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `client ident user [time] "request" status bytes`.
    Common,
    /// Common, and ` "referer" "agent"`: Apache's, nginx's default, Traefik's text.
    Combined,
}

/// Every format, and the names that [`Format::from_str`] takes; the first is the format's own.
const NAMES: [(Format, &[&str]); 2] =
    [(Format::Common, &["common"]), (Format::Combined, &["combined", "nginx", "apache"])];

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

/// Lines looked at to tell a format.
const LOOKED_AT: usize = 100;

/// The format that most of the first lines are in; of the later lines the first one decides.
/// `None` where no line is in any.
pub(crate) fn detect(text: &[u8]) -> Option<Format> {
    let mut lines = text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let mut scores = [0_usize; NAMES.len()];
    for line in lines.by_ref().take(LOOKED_AT) {
        if let Some(format) = detect_line(line)
            && let Some(place) = NAMES.iter().position(|(named, _)| *named == format)
        {
            scores[place] += 1;
        }
    }
    let (best, &score) = scores.iter().enumerate().max_by_key(|&(_, &score)| score)?;
    if score > 0 { Some(NAMES[best].0) } else { lines.find_map(detect_line) }
}

fn detect_line(line: &[u8]) -> Option<Format> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let spans = clf::find(line, &mut TimeMemo::default()).ok()?;
    Some(if spans.has_agent() { Format::Combined } else { Format::Common })
}

/// Parses lines of one log one after the other.
#[derive(Debug, Clone)]
pub(crate) struct LineParser {
    format: Format,
    times: TimeMemo,
}

impl LineParser {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, times: TimeMemo::default() }
    }

    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Parses a line without its end; `None` for one that says something of the log itself.
    pub(crate) fn find(&mut self, line: &[u8]) -> Result<Option<Spans>, Reason> {
        match self.format {
            Format::Common | Format::Combined => clf::find(line, &mut self.times).map(Some),
        }
    }

    /// Takes in what a piece of the log says of the log, and nothing else.
    pub(crate) const fn skip(&mut self, _piece: &[u8]) {}

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
