//! Streams a log, of any format and packed or not, in constant memory.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use memchr::{memchr, memrchr};
use nightwatt_energy::time::Wall;

use crate::arrival::Arrival;
use crate::client::ClientFrom;
use crate::container::Container;
pub use crate::counts::{Counts, Sample};
use crate::decompress::Unpacked;
use crate::detect::{DetectedFormat, Misfit, Unknown, detect, detect_line};
use crate::error::Error;
use crate::line_parser::{Format, LineParser, Reading};
pub use crate::record::MAX_LINE;
use crate::record::{Line, Reason, Record};
use crate::spans::Spans;

/// Bytes held at a time: a longest line and a good read beside it.
const BUFFER: usize = 4 * MAX_LINE;

/// The number of bytes from which the format is detected.
const LOOK: usize = MAX_LINE;

/// Reads one log line by line and lends what each says.
///
/// ```
/// # use nightwatt_traffic::LogReader;
/// let log = b"::1 - - [03/Mar/2012:06:26:37 -0800] \"GET / HTTP/1.1\" 200 12\nrubbish\n";
/// let mut reader = LogReader::new("example", &log[..])?;
/// while let Some(record) = reader.next_record()? {
///     assert_eq!(record.status, 200);
/// }
/// assert_eq!((reader.counts().requests, reader.counts().malformed), (1, 1));
/// # Ok::<(), nightwatt_traffic::Error>(())
/// ```
pub struct LogReader {
    name: String,
    source: Unpacked,
    parser: Option<LineParser>,
    client_from: ClientFrom,
    /// The format is a guess: no line so far was in any.
    guessed: bool,
    /// The first line that was in none.
    unknown: Option<Unknown>,
    /// How to describe lines that are nearly in a format.
    misfit: Option<Misfit>,
    /// Whether a request had a chain of forwarded addresses.
    has_chain: bool,
    /// What was read and not yet looked at lies in `start .. end`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Nothing more comes: the end, or an error that was reported.
    ended: bool,
    /// An error that has not been returned yet.
    failure: Option<io::Error>,
    counts: Counts,
}

impl LogReader {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path == Path::new("-") {
            return Self::new("-", io::stdin());
        }
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_dir()) => {
                Err(Error::Folder { name: crate::error::folder_name(&name) })
            }
            Ok(file) => Self::new(name, file),
            Err(source) => Err(Error::Open { name, source }),
        }
    }

    /// Reads from anything, under a name for samples and errors. How the log is packed is detected from
    /// its first bytes, its format by its first lines.
    pub fn new(name: impl Into<String>, source: impl Read + Send + 'static) -> Result<Self, Error> {
        let name = name.into();
        match Unpacked::new(source) {
            Err(source) => Err(Error::reading(name, 0, source, false)),
            Ok(source) => Ok(Self {
                name,
                source,
                parser: None,
                client_from: ClientFrom::default(),
                guessed: false,
                unknown: None,
                misfit: None,
                has_chain: false,
                buffer: vec![0; BUFFER].into_boxed_slice(),
                start: 0,
                end: 0,
                ended: false,
                failure: None,
                counts: Counts::default(),
            }),
        }
    }

    /// For a format that needn't be detected from the first lines.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        self.with_reading(&format.into())
    }

    /// As the operator says.
    #[must_use]
    pub fn with_reading(mut self, reading: &Reading) -> Self {
        self.parser = reading.parser();
        self.client_from = reading.client_from;
        self.source.expect(reading.pattern.clone());
        self
    }

    /// Why the whole log could not be used, once it was read to its end: no line was in any format, or none has
    /// the chain of addresses that an entry was to be taken from.
    pub fn refusal(&self) -> Option<Error> {
        if self.counts.requests > 0 && !self.has_chain && self.client_from != ClientFrom::Public {
            return Some(Error::no_chain(self.name.clone(), self.client_from));
        }
        let is_unknown = self.guessed && self.counts.lines > 0 && self.counts.requests == 0;
        is_unknown.then(|| {
            let unknown = self.unknown.clone().unwrap_or_else(Unknown::blank);
            unknown.into_error(self.name.clone())
        })
    }

    /// What the log is read as; `None` before the first line was asked for.
    pub fn format(&self) -> Option<Format> {
        self.parser.as_ref().map(LineParser::format)
    }

    /// As it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its lines are packed in one by one, from the outside in; known after the first line.
    pub fn containers(&self) -> &[Container] {
        self.source.containers()
    }

    /// What was met so far.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The next line with an HTTP request; bad requests and malformed lines are counted.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        while let Some((range, spans)) = self.next_spans()? {
            if spans.is_request() {
                return Ok(Some(spans.cut_record(&self.buffer[range])));
            }
        }
        Ok(None)
    }

    /// The next whole line, bad requests included; malformed lines are counted.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, Error> {
        Ok(self.next_spans()?.map(|(range, spans)| spans.cut(&self.buffer[range])))
    }

    fn next_spans(&mut self) -> Result<Option<(Range<usize>, Spans)>, Error> {
        self.detect();
        if let Some(misfit) = self.misfit.take() {
            (self.start, self.end, self.ended) = (0, 0, true);
            return Err(misfit.into_error(self.name.clone()));
        }
        while let Some(range) = self.next_range()? {
            let Some(parser) = &mut self.parser else { break };
            let line = &self.buffer[range.clone()];
            if self.guessed
                && let Some(format) = detect_line(line)
            {
                *parser = LineParser::new(format).with_client_from(self.client_from);
                self.guessed = false;
            }
            match parser.find(line) {
                Ok(None) => self.counts.directives += 1,
                Ok(Some(spans)) => {
                    self.has_chain |= spans.has_chain;
                    if spans.is_request() {
                        self.counts.requests += 1;
                    } else {
                        self.count_lost(Reason::NoHttp, range.clone());
                    }
                    return Ok(Some((range, spans)));
                }
                Err(reason) => self.count_lost(reason, range),
            }
        }
        Ok(None)
    }

    /// Tells the format by the first lines. A log that begins with what is in none is read as
    /// Combined, so its lines are malformed, each for its reason, until a line is in some format.
    fn detect(&mut self) {
        if self.parser.is_none() {
            while !self.ended && self.end < LOOK {
                self.refill();
            }
            let format = match detect(&self.buffer[..self.end]) {
                Some(DetectedFormat::Format(format)) => format,
                Some(DetectedFormat::Misfit(misfit)) => {
                    self.misfit = Some(misfit);
                    Format::Combined
                }
                None => {
                    self.guessed = true;
                    Format::Combined
                }
            };
            self.parser = Some(LineParser::new(format).with_client_from(self.client_from));
        }
    }

    fn count_lost(&mut self, reason: Reason, range: Range<usize>) {
        let line = &self.buffer[range];
        if self.guessed && self.unknown.is_none() {
            self.unknown = Unknown::first_of(line, self.counts.lines - 1);
        }
        self.counts.lose(&self.name, reason, line);
    }

    /// The next line that is not too long, without its end.
    fn next_range(&mut self) -> Result<Option<Range<usize>>, Error> {
        // Bytes after `start` that are known to hold no line end.
        let mut seen = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            // Less than was seen where an error took half a line away.
            seen = seen.min(unread.len());
            let found = memchr(b'\n', &unread[seen..]).map(|offset| seen + offset);
            seen = unread.len();
            let (len, used) = match found {
                Some(len) => (len, len + 1),
                None if self.ended && seen == 0 => {
                    return self.failure.take().map_or(Ok(None), |source| Err(self.error(source)));
                }
                None if self.ended => (seen, seen),
                // One more than the longest, since a carriage return may end it.
                None if seen > MAX_LINE + 1 => {
                    self.counts.lines += 1;
                    self.count_lost(Reason::TooLong, self.start..self.end);
                    self.skip_line();
                    seen = 0;
                    continue;
                }
                None => {
                    self.refill();
                    continue;
                }
            };
            let line = &unread[..len];
            let len = line.strip_suffix(b"\r").unwrap_or(line).len();
            let range = self.start..self.start + len;
            self.start += used;
            self.counts.lines += 1;
            if len <= MAX_LINE {
                return Ok(Some(range));
            }
            self.count_lost(Reason::TooLong, range);
            seen = 0;
        }
    }

    /// Drops everything up to the next line end.
    fn skip_line(&mut self) {
        while !self.ended {
            if let Some(offset) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += offset + 1;
                return;
            }
            self.start = self.end;
            self.refill();
        }
        // An end without a line end: `refill` ended with nothing left behind.
        self.start = self.end;
    }

    /// Moves what is left to the front and reads once more behind it.
    fn refill(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    // Half a line doesn't count: it is dropped with the error, which is returned once the
                    // complete lines have been delivered.
                    self.ended = true;
                    let whole = memrchr(b'\n', &self.buffer[..self.end]);
                    self.end = whole.map_or(0, |end| end + 1);
                    self.failure = Some(source);
                }
            }
            return;
        }
    }

    fn error(&self, source: io::Error) -> Error {
        let is_damaged = self.source.is_damaged();
        Error::reading(self.name.clone(), self.counts.lines, source, is_damaged)
    }
}

/// How far behind its neighbours a line may stand in a log: a server logs an answer when it has
/// been sent, so a long download comes late.
const DISORDER_MS: i64 = 3_600_000;

/// Every request of the log, in the order of time (of equal times, in the log's order).
///
/// A log of which no line is in any format is an error.
///
/// With `days`, only those before `days` x 86,400 s after the first line's time; reading then
/// stops an hour of log time after that, so the counts cover what was read.
pub fn arrivals(reader: &mut LogReader, days: Option<u32>) -> Result<Vec<Arrival>, Error> {
    let mut all = Vec::new();
    let mut end: Option<Wall> = None;
    while let Some(record) = reader.next_record()? {
        if let Some(days) = days {
            let end = *end.get_or_insert(Wall(record.at.0 + i64::from(days) * 86_400_000));
            if record.at.0 > end.0 + DISORDER_MS {
                break;
            }
            if record.at >= end {
                continue;
            }
        }
        all.push(record.to_arrival());
    }
    if let Some(refusal) = reader.refusal() {
        return Err(refusal);
    }
    all.sort_by_key(|arrival| arrival.at);
    Ok(all)
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
