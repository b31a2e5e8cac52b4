//! An answer of HTTP/1.1, read as it comes and thrown away: what counts is when, how much, and
//! whether it was whole.
//!
//! Pure: bytes come in, progress goes out. Nothing is kept of a body, and of a head only what has
//! not come as a whole.

/// A head longer than this is no answer that we wait for.
const LONGEST_HEAD: usize = 64 * 1024;

/// So many fields at most.
const FIELDS: usize = 100;

/// Bytes of trailers, or of extensions of a chunk.
const LONGEST_LINE: usize = 16 * 1024;

/// These bytes are no answer of HTTP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an answer of HTTP/1.1")]
pub struct BadAnswer;

/// How far the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to come.
    More,
    /// It is whole.
    Whole,
}

/// What the end of the connection means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// The answer is whole: it lasted as long as the connection.
    Whole,
    /// Not a byte of it had come.
    Nothing,
    /// It broke off.
    Short,
}

/// Reads one answer.
#[derive(Debug, Clone)]
pub struct AnswerReader {
    state: State,
    /// A head that has not come as a whole.
    head: Vec<u8>,
    begun: bool,
    status: u16,
    body: u64,
    keep_alive: bool,
    /// The request was HEAD.
    no_body: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes are left.
    Length(u64),
    Chunks(Chunk),
    UntilEnd,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// Its size so far, and in how many digits.
    Size(u64, u32),
    /// What follows the size in its line; so many bytes of it.
    Extension(u64, usize),
    /// The line of the size has ended but for its line feed.
    SizeFeed(u64),
    /// So many bytes are left.
    Data(u64),
    DataReturn,
    DataFeed,
    /// Bytes of the line so far, and of all trailers.
    Trailer(usize, usize),
    /// The last line feed.
    Last,
}

impl AnswerReader {
    /// For the answer to a request; `is_head` if that was HEAD.
    pub fn new(is_head: bool) -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            begun: false,
            status: 0,
            body: 0,
            keep_alive: false,
            no_body: is_head,
        }
    }

    /// Status of the answer; 0 before it has arrived.
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// Bytes of its body so far, without the marks of chunks.
    pub const fn body(&self) -> u64 {
        self.body
    }

    /// May the connection be used again?
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive && matches!(self.state, State::Whole)
    }

    /// Reads more bytes. Bytes after a whole answer belong to no request: the connection must not
    /// be used again then.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Progress, BadAnswer> {
        self.begun |= !bytes.is_empty();
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head => self.feed_head(bytes)?,
                State::Length(left) => self.feed_length(bytes, left),
                State::Chunks(chunk) => self.feed_chunks(bytes, chunk)?,
                State::UntilEnd => {
                    self.body += bytes.len() as u64;
                    &[]
                }
                State::Whole => {
                    self.keep_alive = false;
                    &[]
                }
            };
        }
        Ok(if self.state == State::Whole { Progress::Whole } else { Progress::More })
    }

    /// The connection has ended.
    pub const fn end(&self) -> AtEnd {
        match self.state {
            State::UntilEnd | State::Whole => AtEnd::Whole,
            _ if !self.begun => AtEnd::Nothing,
            _ => AtEnd::Short,
        }
    }

    fn feed_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], BadAnswer> {
        if self.head.is_empty() {
            // Nearly always it comes as a whole and is read where it lies.
            if let Some(length) = self.parse_head(bytes)? {
                return Ok(&bytes[length..]);
            }
            self.head.extend_from_slice(bytes);
        } else {
            let mut head = std::mem::take(&mut self.head);
            let before = head.len();
            head.extend_from_slice(bytes);
            if let Some(length) = self.parse_head(&head)? {
                // It was not whole before, so its end is in these bytes.
                return Ok(&bytes[length.saturating_sub(before)..]);
            }
            self.head = head;
        }
        if self.head.len() > LONGEST_HEAD { Err(BadAnswer) } else { Ok(&[]) }
    }

    /// Its length, if it is whole. An interim answer leaves the state as it was.
    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadAnswer> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut answer = httparse::Response::new(&mut fields);
        let length = match answer.parse(bytes).map_err(|_| BadAnswer)? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return Ok(None),
        };
        let status = answer.code.ok_or(BadAnswer)?;
        match status {
            // We never ask to switch protocols.
            101 => return Err(BadAnswer),
            100..200 => return Ok(Some(length)),
            200..600 => {}
            _ => return Err(BadAnswer),
        }
        let framing = Framing::of(answer.headers)?;
        self.status = status;
        self.keep_alive = match framing.connection {
            Some(keep) => keep,
            None => answer.version == Some(1),
        };
        self.state = if self.no_body || matches!(status, 204 | 304) {
            State::Whole
        } else if framing.chunked {
            State::Chunks(Chunk::Size(0, 0))
        } else {
            match framing.length {
                Some(0) => State::Whole,
                Some(length) => State::Length(length),
                None => State::UntilEnd,
            }
        };
        Ok(Some(length))
    }

    fn feed_length<'a>(&mut self, bytes: &'a [u8], left: u64) -> &'a [u8] {
        let taken = left.min(bytes.len() as u64);
        self.body += taken;
        self.state = if taken == left { State::Whole } else { State::Length(left - taken) };
        &bytes[taken as usize..]
    }

    fn feed_chunks<'a>(
        &mut self,
        bytes: &'a [u8],
        mut chunk: Chunk,
    ) -> Result<&'a [u8], BadAnswer> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if let Chunk::Data(left) = chunk {
                let taken = left.min(rest.len() as u64);
                self.body += taken;
                rest = &rest[taken as usize..];
                chunk = if taken == left { Chunk::DataReturn } else { Chunk::Data(left - taken) };
                continue;
            }
            rest = after;
            let Some(next) = next_in_chunk(chunk, byte)? else {
                self.state = State::Whole;
                return Ok(rest);
            };
            chunk = next;
        }
        self.state = State::Chunks(chunk);
        Ok(rest)
    }
}

/// Where a byte that is not data leads; nowhere at the end of the body.
fn next_in_chunk(chunk: Chunk, byte: u8) -> Result<Option<Chunk>, BadAnswer> {
    let wanted = |wanted: u8, next| if byte == wanted { Ok(Some(next)) } else { Err(BadAnswer) };
    match chunk {
        Chunk::Size(size, digits) => match (char::from(byte).to_digit(16), byte) {
            (Some(digit), _) if digits < 15 => {
                Ok(Some(Chunk::Size(size * 16 + u64::from(digit), digits + 1)))
            }
            (None, b'\r') if digits > 0 => Ok(Some(Chunk::SizeFeed(size))),
            (None, b';' | b' ' | b'\t') if digits > 0 => Ok(Some(Chunk::Extension(size, 0))),
            _ => Err(BadAnswer),
        },
        Chunk::Extension(_, length) if length >= LONGEST_LINE => Err(BadAnswer),
        Chunk::Extension(size, _) if byte == b'\r' => Ok(Some(Chunk::SizeFeed(size))),
        Chunk::Extension(_, _) if byte == b'\n' => Err(BadAnswer),
        Chunk::Extension(size, length) => Ok(Some(Chunk::Extension(size, length + 1))),
        Chunk::SizeFeed(0) => wanted(b'\n', Chunk::Trailer(0, 0)),
        Chunk::SizeFeed(size) => wanted(b'\n', Chunk::Data(size)),
        Chunk::DataReturn => wanted(b'\r', Chunk::DataFeed),
        Chunk::DataFeed => wanted(b'\n', Chunk::Size(0, 0)),
        Chunk::Trailer(_, all) if all >= LONGEST_LINE => Err(BadAnswer),
        Chunk::Trailer(0, _) if byte == b'\r' => Ok(Some(Chunk::Last)),
        Chunk::Trailer(_, all) if byte == b'\n' => Ok(Some(Chunk::Trailer(0, all + 1))),
        Chunk::Trailer(line, all) => Ok(Some(Chunk::Trailer(line + 1, all + 1))),
        Chunk::Last if byte == b'\n' => Ok(None),
        // (Data is taken many bytes at once, and not here.)
        Chunk::Last | Chunk::Data(_) => Err(BadAnswer),
    }
}

/// What the fields say of where the body ends (RFC 9112, section 6.3).
#[derive(Debug, Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    /// `keep-alive` or `close`.
    connection: Option<bool>,
}

impl Framing {
    fn of(fields: &[httparse::Header<'_>]) -> Result<Self, BadAnswer> {
        let mut framing = Self::default();
        for field in fields {
            if field.name.eq_ignore_ascii_case("content-length") {
                let text = std::str::from_utf8(field.value).map_err(|_| BadAnswer)?.trim();
                let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let length = text.parse().ok().filter(|_| is_number).ok_or(BadAnswer)?;
                if framing.length.is_some_and(|before: u64| before != length) {
                    return Err(BadAnswer);
                }
                framing.length = Some(length);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                // Nothing else was asked for (no TE).
                if !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(BadAnswer);
                }
                framing.chunked = true;
            } else if field.name.eq_ignore_ascii_case("connection") {
                for option in field.value.split(|byte| *byte == b',') {
                    match option.trim_ascii() {
                        close if close.eq_ignore_ascii_case(b"close") => {
                            framing.connection = Some(false);
                        }
                        keep if keep.eq_ignore_ascii_case(b"keep-alive") => {
                            framing.connection = framing.connection.or(Some(true));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(framing)
    }
}

#[cfg(test)]
#[path = "answer_reader_tests.rs"]
mod tests;
