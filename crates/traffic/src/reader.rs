//! Streams a log, plain or gzip, in constant memory.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use memchr::memchr;
use nightwatt_model::time::Wall;

use crate::arrival::Arrival;
use crate::civil::TimeMemo;
use crate::clf;
pub use crate::counts::{Counts, Sample};
use crate::error::Error;
use crate::record::{Line, Reason, Record};
use crate::spans::Spans;

/// Longest line that is parsed, in bytes without its end. Servers limit a request line to some
/// 8 KiB; what is far longer is no log, and a log without line ends must not fill the memory.
pub const MAX_LINE: usize = 64 * 1024;

/// Bytes held at a time: a longest line and a good read beside it.
const BUFFER: usize = 4 * MAX_LINE;

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
    source: Box<dyn Read + Send>,
    compressed: bool,
    /// What was read and not yet looked at lies in `start .. end`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Nothing more comes: the end, or an error that was reported.
    ended: bool,
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
            Ok(file) => Self::new(name, file),
            Err(source) => Err(Error::Open { name, source }),
        }
    }

    /// Reads from anything, under a name for samples and errors. Gzip is recognised by its first
    /// bytes, and may have many members, as concatenated files have.
    pub fn new(
        name: impl Into<String>,
        mut source: impl Read + Send + 'static,
    ) -> Result<Self, Error> {
        let name = name.into();
        let mut head = Vec::new();
        if let Err(source) = source.by_ref().take(6).read_to_end(&mut head) {
            return Err(Error::Read { name, lines: 0, source });
        }
        if let Some(tool) = unreadable_format(&head) {
            return Err(Error::Compression { name, tool });
        }
        let compressed = head.starts_with(&[0x1f, 0x8b]);
        let whole = io::Cursor::new(head).chain(source);
        Ok(Self {
            name,
            source: if compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) },
            compressed,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            ended: false,
            counts: Counts::default(),
        })
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
        while let Some(range) = self.next_range()? {
            match clf::find(&self.buffer[range.clone()], &mut TimeMemo::default()) {
                Ok(spans) => {
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

    fn count_lost(&mut self, reason: Reason, range: Range<usize>) {
        self.counts.lose(&self.name, reason, &self.buffer[range]);
    }

    /// The next line that is not too long, without its end.
    fn next_range(&mut self) -> Result<Option<Range<usize>>, Error> {
        // Bytes after `start` that are known to hold no line end.
        let mut seen = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            let found = memchr(b'\n', &unread[seen..]).map(|offset| seen + offset);
            seen = unread.len();
            let (len, used) = match found {
                Some(len) => (len, len + 1),
                None if self.ended && seen == 0 => return Ok(None),
                None if self.ended => (seen, seen),
                // One more than the longest, since a carriage return may end it.
                None if seen > MAX_LINE + 1 => {
                    self.counts.lines += 1;
                    self.count_lost(Reason::TooLong, self.start..self.end);
                    self.skip_line()?;
                    seen = 0;
                    continue;
                }
                None => {
                    self.refill()?;
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
    fn skip_line(&mut self) -> Result<(), Error> {
        while !self.ended {
            if let Some(offset) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += offset + 1;
                return Ok(());
            }
            self.start = self.end;
            self.refill()?;
        }
        // An end without a line end: `refill` ended with nothing left behind.
        self.start = self.end;
        Ok(())
    }

    /// Moves what is left to the front and reads once more behind it.
    fn refill(&mut self) -> Result<(), Error> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    // Half a line is none: what is left of it goes with the error.
                    self.ended = true;
                    self.end = 0;
                    return Err(self.failure(source));
                }
            }
            return Ok(());
        }
    }

    fn failure(&self, source: io::Error) -> Error {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let (name, lines) = (self.name.clone(), self.counts.lines);
        if self.compressed && matches!(source.kind(), InvalidData | InvalidInput | UnexpectedEof) {
            Error::Damaged { name, lines, source }
        } else {
            Error::Read { name, lines, source }
        }
    }
}

/// The tool that unpacks a format which is not read here, by the file's first bytes.
fn unreadable_format(head: &[u8]) -> Option<&'static str> {
    let formats: [(&[u8], &str); 3] = [
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstdcat"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xzcat"),
        (b"BZh91A", "bzcat"),
    ];
    formats.iter().find(|(magic, _)| head.starts_with(magic)).map(|&(_, tool)| tool)
}

/// How far behind its neighbours a line may stand in a log: a server logs an answer when it has
/// been sent, so a long download comes late.
const DISORDER_MS: i64 = 3_600_000;

/// Every request of the log, in the order of time (of equal times, in the log's order).
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
    all.sort_by_key(|arrival| arrival.at);
    Ok(all)
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
