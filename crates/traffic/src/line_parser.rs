//! The formats of logs, and how lines of each are read.

use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use memchr::memchr;
use nightwatt_energy::time::Wall;

use crate::clf::{self, Memo};
use crate::client::ClientFrom;
use crate::error::Error;
pub use crate::formats::Format;
use crate::formats::{PRESETS, Preset};
use crate::json;
use crate::record::Reason;
use crate::spans::Spans;
use crate::template::{Pattern, Template};
use crate::w3c::Header;

/// Formats of text with their layouts compiled, in the order of the table.
pub(crate) static LAYOUTS: LazyLock<Vec<(Format, Arc<[Template]>)>> = LazyLock::new(|| {
    let compiled = |preset: &Preset| {
        let layouts: Vec<_> =
            preset.layouts.iter().filter_map(|it| Template::built_in(it)).collect();
        (!layouts.is_empty()).then(|| (preset.format, layouts.into()))
    };
    PRESETS.iter().filter_map(compiled).collect()
});

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = PRESETS.iter().find(|preset| preset.names.contains(&name));
        found.map(|preset| preset.format).ok_or_else(|| Error::NoSuchFormat(name.to_owned()))
    }
}

/// How logs are to be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// The format of all logs; `None`: each log's is detected from its first lines.
    pub format: Option<Format>,
    /// A format of the operator's own, before `format`.
    pub pattern: Option<Pattern>,
    /// Which entry of a chain of addresses is the client.
    pub client_from: ClientFrom,
}

impl From<Format> for Reading {
    fn from(format: Format) -> Self {
        Self { format: Some(format), ..Self::default() }
    }
}

impl Reading {
    /// What lines are to be read with; `None` where the log's first lines have to tell.
    pub(crate) fn parser(&self) -> Option<LineParser> {
        let parser = match (&self.pattern, self.format) {
            (Some(pattern), _) => LineParser::of_pattern(pattern),
            (None, Some(format)) => LineParser::new(format),
            (None, None) => return None,
        };
        Some(parser.with_client_from(self.client_from))
    }

    /// Where a line leaves the format that was given, for messages.
    pub fn explain(&self, line: &str) -> Option<String> {
        let miss = self.parser()?.miss(line.as_bytes())?;
        Some(format!("{} is expected at column {}", miss.1, miss.0 + 1))
    }

    /// The option that set the format, and the format, for messages; `None` where the lines tell it.
    pub fn named(&self) -> Option<(&'static str, String)> {
        let pattern = self.pattern.as_ref().map(|pattern| ("--log-format", pattern.to_string()));
        pattern.or_else(|| self.format.map(|format| ("--format", format.to_string())))
    }
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
    /// Of formats with layouts; the first is tried first.
    layouts: Arc<[Template]>,
}

impl LineParser {
    pub(crate) fn new(format: Format) -> Self {
        let layouts = LAYOUTS.iter().find(|(of, _)| *of == format && !format.is_common());
        Self {
            format,
            memo: Memo::default(),
            header: Header::default(),
            layouts: layouts.map_or_else(|| [].into(), |(_, layouts)| layouts.clone()),
        }
    }

    fn of_pattern(pattern: &Pattern) -> Self {
        let layouts = [Template::clone(&pattern.0)].into();
        Self { layouts, ..Self::new(Format::Custom) }
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
            _ => self.find_other(line),
        }
    }

    fn find_other(&mut self, line: &[u8]) -> Result<Option<Spans>, Reason> {
        let from = self.memo.client_from;
        match self.format {
            Format::W3c if Header::is_directive(line) => {
                self.header.directive(line);
                Ok(None)
            }
            Format::W3c => self.header.find(line, from).map(Some),
            format => {
                if let Some(json) = json::FORMATS.iter().find(|it| it.format == format) {
                    return (json.read)(line, from).map(Some);
                }
                let mut reason = Reason::Pattern;
                for layout in &*self.layouts {
                    match layout.find(line, &mut self.memo) {
                        Ok(spans) => return Ok(Some(spans)),
                        Err(miss) => reason = miss.reason,
                    }
                }
                Err(reason)
            }
        }
    }

    /// Byte and what is expected there, where a line leaves the first of the layouts.
    fn miss(&self, line: &[u8]) -> Option<(usize, String)> {
        let layout = self.layouts.first()?;
        let miss = layout.find(line, &mut self.memo.clone()).err()?;
        Some((miss.at, layout.wanted(miss)))
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
