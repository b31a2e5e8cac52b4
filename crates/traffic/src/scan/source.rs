//! Cuts logs into pieces at line ends, and takes the logs' pieces roughly in the order of time.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::{memchr, memrchr};
use nightwatt_energy::time::Wall;

use crate::client::ClientFrom;
use crate::container::Container;
use crate::decompress::Unpacked;
use crate::detect::{DetectedFormat, Misfit, Unknown, detect};
use crate::error::{self, Error};
use crate::line_parser::{Format, LineParser, Reading};
use crate::record::MAX_LINE;
use crate::template::Pattern;

/// A piece of a log: whole lines.
#[derive(Debug)]
pub(super) struct Piece {
    /// Place in the order of all pieces.
    pub(super) number: u32,
    /// Place of its log among the inputs.
    pub(super) input: usize,
    pub(super) text: Vec<u8>,
    /// Knows what the log has said of itself so far.
    pub(super) parser: LineParser,
}

/// Why a log ended before its end.
#[derive(Debug)]
pub(super) enum Failure {
    Open(io::Error),
    Folder,
    Read(io::Error),
    Damaged(io::Error),
    NoFormat(Unknown),
    Misfit(Misfit),
}

impl Failure {
    pub(super) fn into_error(self, name: &str, lines: u64) -> Error {
        let name = name.to_owned();
        match self {
            Self::Open(source) => Error::Open { name, source },
            Self::Folder => Error::Folder { name: error::folder_name(&name) },
            Self::Read(source) => Error::reading(name, lines, source, false),
            Self::Damaged(source) => Error::reading(name, lines, source, true),
            Self::NoFormat(unknown) => unknown.into_error(name),
            Self::Misfit(misfit) => misfit.into_error(name),
        }
    }
}

/// Counts what is read of the files, packed or not.
struct Counted<R> {
    source: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Cuts one source into pieces.
struct Cutter {
    source: Unpacked,
    /// What went wrong behind what is still to be delivered.
    failure: Option<io::Error>,
    /// What was read behind the last line end.
    rest: Vec<u8>,
    ended: bool,
}

impl Cutter {
    fn new(
        source: impl Read + Send + 'static,
        read: Arc<AtomicU64>,
        pattern: Option<Pattern>,
    ) -> io::Result<Self> {
        let mut source = Unpacked::new(Counted { source, read })?;
        source.expect(pattern);
        Ok(Self { source, failure: None, rest: Vec::new(), ended: false })
    }

    /// The next lines, `size` bytes of them where there are that many; they take the place of what is in `text`.
    /// Nothing at the end. A line that is too long is cut behind the first byte that is too much.
    fn next(&mut self, size: usize, text: &mut Vec<u8>) -> Result<bool, Failure> {
        // What is in the buffer is of no use, but it is there: new memory would have to be filled.
        let mut filled = self.rest.len();
        grow(text, filled);
        text[..filled].copy_from_slice(&self.rest);
        self.rest.clear();
        while !self.ended {
            grow(text, size.max(filled + 1024));
            match self.source.read(&mut text[filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.fail(error);
                    // Half a line doesn't count.
                    filled = last_line(&text[..filled]);
                }
            }
            if self.ended || filled < size {
                continue;
            }
            let open = last_line(&text[..filled]);
            if filled - open > MAX_LINE + 2 {
                text.truncate(filled);
                self.skip_line(text);
                return Ok(true);
            }
            if open > 0 {
                self.rest.extend_from_slice(&text[open..filled]);
                text.truncate(open);
                return Ok(true);
            }
        }
        text.truncate(filled);
        // What came before is delivered first.
        match self.failure.take_if(|_| text.is_empty()) {
            Some(error) if self.source.is_damaged() => Err(Failure::Damaged(error)),
            Some(error) => Err(Failure::Read(error)),
            None => Ok(!text.is_empty()),
        }
    }

    /// Drops what follows of a line that is too long already.
    fn skip_line(&mut self, text: &mut Vec<u8>) {
        text.truncate(last_line(text) + MAX_LINE + 2);
        text.push(b'\n');
        let mut more = Vec::new();
        while !self.ended {
            more.clear();
            match self.source.by_ref().take(MAX_LINE as u64).read_to_end(&mut more) {
                Ok(read) => self.ended = read < MAX_LINE,
                Err(error) => self.fail(error),
            }
            if let Some(end) = memchr(b'\n', &more) {
                self.rest.extend_from_slice(&more[end + 1..]);
                return;
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.ended = true;
        self.failure = Some(error);
    }
}

/// Grows a buffer to at least this length.
fn grow(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
}

/// Where the line that has not ended begins.
fn last_line(text: &[u8]) -> usize {
    memrchr(b'\n', text).map_or(0, |end| end + 1)
}

/// One log.
struct Log {
    path: PathBuf,
    state: State,
    /// Nothing of it that has not been read is earlier, if it is sorted.
    frontier: Wall,
    /// What it is read with, once that is known.
    parser: Option<LineParser>,
    client_from: ClientFrom,
    /// The operator's own format.
    pattern: Option<Pattern>,
    /// What its lines are packed in.
    containers: Vec<Container>,
}

enum State {
    /// Looked at, and closed again.
    Closed,
    Open {
        cutter: Box<Cutter>,
        /// The first piece, where it was read to look at it.
        first: Option<Vec<u8>>,
    },
    Done,
}

/// All logs.
pub(super) struct Sources {
    logs: Vec<Log>,
    piece_size: usize,
    next_piece: u32,
    read: Arc<AtomicU64>,
    /// By input.
    pub(super) failures: Vec<(usize, Failure)>,
}

/// Bytes read of a log to look at it.
const LOOK: usize = 64 * 1024;

/// Bytes read of a log that begins with what is in no format, lines that are too long cut short,
/// before it is given up: 8 MiB.
const MOST_LOOKED_AT: usize = 8 << 20;

/// Bytes of pieces that may be on their way for every open log together.
const OPEN: usize = 64 << 20;

impl Sources {
    /// Looks at every log: what format it is in, and when it begins.
    pub(super) fn look(
        paths: &[PathBuf],
        reading: &Reading,
        piece_size: usize,
        read: &Arc<AtomicU64>,
    ) -> Self {
        let mut sources = Self {
            logs: Vec::new(),
            piece_size,
            next_piece: 0,
            read: read.clone(),
            failures: Vec::new(),
        };
        let keep_open = paths.len() == 1;
        for (input, path) in paths.iter().enumerate() {
            let mut log = Log {
                path: path.clone(),
                state: State::Done,
                frontier: Wall(i64::MIN),
                parser: reading.parser(),
                client_from: reading.client_from,
                pattern: reading.pattern.clone(),
                containers: Vec::new(),
            };
            if let Err(failure) = log.look(keep_open, piece_size, read) {
                sources.failures.push((input, failure));
            }
            sources.logs.push(log);
        }
        sources
    }

    /// What an input is read as, if it is.
    pub(super) fn format(&self, input: usize) -> Option<Format> {
        self.logs[input].parser.as_ref().map(LineParser::format)
    }

    /// What an input's lines are packed in.
    pub(super) fn containers(&self, input: usize) -> &[Container] {
        &self.logs[input].containers
    }

    /// The next piece, in a buffer of the caller's: of the log that is behind all others.
    pub(super) fn next(&mut self, mut text: Vec<u8>) -> Option<Piece> {
        loop {
            let open = |log: &Log| !matches!(log.state, State::Done);
            let behind = |log: &Log| log.frontier;
            let logs = self.logs.iter().enumerate().filter(|(_, log)| open(log));
            let (input, _) = logs.min_by_key(|(input, log)| (behind(log), *input))?;
            let all =
                self.logs.iter().filter(|log| matches!(log.state, State::Open { .. })).count();
            let size = self.piece_size.min(OPEN / all.max(1)).max(1);
            let log = &mut self.logs[input];
            match log.next(size, &mut text, &self.read) {
                Ok(None) => log.state = State::Done,
                Ok(Some(parser)) => {
                    let number = self.next_piece;
                    self.next_piece += 1;
                    if self.logs.len() > 1 {
                        let log = &mut self.logs[input];
                        let last = parser.clone().last_time(&text);
                        log.frontier = log.frontier.max(last.unwrap_or(log.frontier));
                    }
                    return Some(Piece { number, input, text, parser });
                }
                Err(failure) => {
                    log.state = State::Done;
                    self.failures.push((input, failure));
                }
            }
        }
    }
}

impl Log {
    fn open(&self, read: &Arc<AtomicU64>) -> Result<(Cutter, bool), Failure> {
        if self.path == Path::new("-") {
            return Cutter::new(io::stdin(), read.clone(), self.pattern.clone())
                .map(|cutter| (cutter, false))
                .map_err(Failure::Read);
        }
        let file = File::open(&self.path).map_err(Failure::Open)?;
        let metadata = file.metadata().map_err(Failure::Open)?;
        if metadata.is_dir() {
            return Err(Failure::Folder);
        }
        let again = metadata.is_file();
        let cutter = Cutter::new(file, read.clone(), self.pattern.clone());
        cutter.map(|cutter| (cutter, again)).map_err(Failure::Read)
    }

    fn look(
        &mut self,
        keep_open: bool,
        piece_size: usize,
        read: &Arc<AtomicU64>,
    ) -> Result<(), Failure> {
        // What is read twice is counted once.
        let apart = Arc::new(AtomicU64::new(0));
        let (mut cutter, again) = self.open(if keep_open { read } else { &apart })?;
        let (mut first, size) = (Vec::new(), LOOK.max(piece_size.min(1 << 20)));
        if !cutter.next(size, &mut first)? {
            return Ok(());
        }
        self.containers = cutter.source.containers().to_vec();
        if self.parser.is_none() {
            let format = format_of(&mut cutter, size, &mut first)?;
            self.parser = Some(LineParser::new(format).with_client_from(self.client_from));
        }
        if let Some(parser) = &self.parser {
            self.frontier = parser.clone().first_time(&first).unwrap_or(self.frontier);
        }
        self.state = if again && !keep_open {
            State::Closed
        } else {
            read.fetch_add(apart.load(Ordering::Relaxed), Ordering::Relaxed);
            State::Open { cutter: Box::new(cutter), first: Some(first) }
        };
        Ok(())
    }

    /// The next piece of it, and the parser for that piece.
    fn next(
        &mut self,
        size: usize,
        text: &mut Vec<u8>,
        read: &Arc<AtomicU64>,
    ) -> Result<Option<LineParser>, Failure> {
        if matches!(self.state, State::Closed) {
            let (cutter, _) = self.open(read)?;
            self.state = State::Open { cutter: Box::new(cutter), first: None };
        }
        let State::Open { cutter, first } = &mut self.state else { return Ok(None) };
        match first.take() {
            Some(first) => *text = first,
            None if cutter.next(size, text)? => {}
            None => return Ok(None),
        }
        let Some(parser) = &mut self.parser else { return Ok(None) };
        let before = parser.clone();
        parser.skip(text);
        Ok(Some(before))
    }
}

/// The format of a log, by its first piece; where nothing in that is in any format, by what follows,
/// which is added to it.
fn format_of(cutter: &mut Cutter, size: usize, first: &mut Vec<u8>) -> Result<Format, Failure> {
    let mut found = detect(first);
    let mut more = Vec::new();
    while found.is_none() && first.len() < MOST_LOOKED_AT && cutter.next(size, &mut more)? {
        found = detect(&more);
        first.extend_from_slice(&more);
    }
    match found {
        Some(DetectedFormat::Format(format)) => Ok(format),
        Some(DetectedFormat::Misfit(misfit)) => Err(Failure::Misfit(misfit)),
        None => Err(Failure::NoFormat(Unknown::first_of(first, 0).unwrap_or_else(Unknown::blank))),
    }
}
