//! Unpacks logs: gzip, zstd, bzip2 and xz, recognised by the first bytes, all with several members or
//! streams one behind the other, as concatenated files have.
//!
//! What comes out is UTF-8 or nearly so: UTF-16 is converted, the NULs that a log copied and
//! truncated in place begins with are left out, and lines are taken out of their [`Container`].

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use memchr::memchr;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::container::{self, Container, Unwrapped};
use crate::detect::has_lines;
use crate::encoding::{self, CarriageReturns, Text};
use crate::error::Error;
use crate::objects::{self, Objects};
use crate::template::Pattern;

/// First bytes that tell how a log is packed.
const MAGIC: usize = 6;

/// Most memory that an xz file may ask for, in KiB: four times what `xz -9` needs.
const XZ_KIB: u32 = 256 * 1024;

/// Bytes read of a packed log at a time.
const BUFFER: usize = 64 * 1024;

/// A log as it was before it was packed, if it was.
pub(crate) struct Unpacked {
    text: Box<dyn Read + Send>,
    /// The first bytes were looked at.
    begun: bool,
    containers: Vec<Container>,
    pattern: Option<Pattern>,
    packed: bool,
    /// Whether the source itself failed.
    failed: Arc<AtomicBool>,
}

impl Unpacked {
    pub(crate) fn new(mut source: impl Read + Send + 'static) -> io::Result<Self> {
        let mut head = Vec::new();
        source.by_ref().take(MAGIC as u64).read_to_end(&mut head)?;
        refuse(&head)?;
        let magic = |bytes: &[u8]| head.starts_with(bytes);
        let (gzip, zstd) = (magic(&[0x1f, 0x8b]), is_zstd(&head));
        let (bzip2, xz) = (is_bzip2(&head), magic(b"\xfd7zXZ\0"));
        let failed = Arc::new(AtomicBool::new(false));
        let source = Watched { source, failed: failed.clone() };
        let source = BufReader::with_capacity(BUFFER, io::Cursor::new(head).chain(source));
        let text: Box<dyn Read + Send> = if gzip {
            Box::new(MultiGzDecoder::new(source))
        } else if zstd {
            Box::new(Zstd { source, decoder: FrameDecoder::new(), begun: false })
        } else if bzip2 {
            Box::new(MultiBzDecoder::new(source))
        } else if xz {
            Box::new(XzReader::new_mem_limit(source, true, XZ_KIB))
        } else {
            Box::new(source)
        };
        let packed = gzip || zstd || bzip2 || xz;
        Ok(Self { text, begun: false, containers: Vec::new(), pattern: None, packed, failed })
    }

    /// That lines are in this format, before anything is read: tells what they are packed in.
    pub(crate) fn expect(&mut self, pattern: Option<Pattern>) {
        self.pattern = pattern;
    }

    /// What its lines are packed in one by one, from the outside in; known once it was read from.
    pub(crate) fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// Whether an error of it says that what was packed is damaged or cut off, and not that it
    /// could not be read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.packed && !self.failed.load(Ordering::Relaxed)
    }
}

impl Unpacked {
    /// Looks at the first bytes: how text is written, and what lines are packed in.
    fn begin(&mut self) -> io::Result<()> {
        let source = std::mem::replace(&mut self.text, Box::new(io::empty()));
        let mut text = Peeked::of(source);
        refuse(&text.head)?;
        if let Some(utf16) = encoding::utf16(&text.head) {
            text = Peeked::of(Box::new(Text::new(Box::new(text), Some(utf16))));
        } else {
            text = Peeked::of(Box::new(Text::new(Box::new(text), None)));
        }
        if ends_in_returns(&text.head, self.pattern.as_ref()) {
            text = Peeked::of(Box::new(CarriageReturns(text)));
        }
        let is_spread = objects::are_spread(&text.head);
        if is_spread {
            text = Peeked::of(Box::new(Objects::new(text)));
        }
        self.containers = container::detect(&text.head, self.pattern.as_ref());
        self.text = if self.containers.is_empty() {
            Box::new(text)
        } else {
            Box::new(Unwrapped::new(Box::new(text), self.containers.clone()))
        };
        if is_spread {
            self.containers.insert(0, Container::Spread);
        }
        Ok(())
    }
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin()?;
        }
        self.text.read(into)
    }
}

/// Whether lines end in carriage returns alone, as on old Macs and in some exports: what stands between them is known.
fn ends_in_returns(head: &[u8], pattern: Option<&Pattern>) -> bool {
    if memchr(b'\n', head).is_some() || memchr(b'\r', head).is_none() {
        return false;
    }
    let mut lines = head.to_vec();
    encoding::returns_to_ends(&mut lines);
    has_lines(&lines, pattern) || !container::detect(&lines, pattern).is_empty()
}

/// A source whose first bytes were looked at.
struct Peeked {
    head: Vec<u8>,
    given: usize,
    /// What went wrong behind them.
    failure: Option<io::Error>,
    source: Box<dyn Read + Send>,
}

impl Peeked {
    fn of(mut source: Box<dyn Read + Send>) -> Self {
        let mut head = Vec::new();
        // What was read before an error is in `head`.
        let failure = source.by_ref().take(BUFFER as u64).read_to_end(&mut head).err();
        Self { head, given: 0, failure, source }
    }
}

impl Read for Peeked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = &self.head[self.given..];
        if !left.is_empty() {
            let some = into.len().min(left.len());
            into[..some].copy_from_slice(&left[..some]);
            self.given += some;
            return Ok(some);
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.source.read(into),
        }
    }
}

/// What a log is packed in that is not unpacked here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what}, which is not read here; {cure}")]
pub(crate) struct Foreign {
    what: &'static str,
    cure: &'static str,
}

/// First bytes, where they are, what they are of, and how to get at the log.
const FOREIGN: [(usize, &[u8], Foreign); 10] = [
    (0, b"PK\x03\x04", foreign("a zip archive", "try `unzip -p FILE | nightwatt ... -`")),
    (0, b"\x04\x22\x4d\x18", foreign("packed by lz4", "try `lz4 -dc FILE | nightwatt ... -`")),
    (0, b"\x02\x21\x4c\x18", foreign("packed by lz4", "try `lz4 -dc FILE | nightwatt ... -`")),
    (0, b"7z\xbc\xaf\x27\x1c", foreign("a 7-Zip archive", "try `7z x -so FILE | nightwatt ... -`")),
    (0, b"\x1f\x9d", foreign("packed by compress", "try `zcat FILE | nightwatt ... -`")),
    (0, b"LZIP", foreign("packed by lzip", "try `lzip -dc FILE | nightwatt ... -`")),
    (0, b"Rar!\x1a\x07", foreign("a RAR archive", "try `unrar p -inul FILE | nightwatt ... -`")),
    (257, b"ustar", foreign("a tar archive", "try `tar -xOf FILE | nightwatt ... -`")),
    (
        0,
        b"LPKSHHRH",
        foreign("a journal of systemd", "try `journalctl --file FILE -o cat | nightwatt ... -`"),
    ),
    (0, b"SQLite format 3\0", foreign("an SQLite database", "export its requests as JSON lines")),
];

impl Error {
    /// What an error of reading a log says, after this many lines.
    pub(crate) fn reading(name: String, lines: u64, source: io::Error, is_damaged: bool) -> Self {
        match source.get_ref().and_then(|inner| inner.downcast_ref::<Foreign>()) {
            Some(foreign) => Self::Foreign { name, foreign: foreign.to_string() },
            None if is_damaged => Self::Damaged { name, lines, source },
            None => Self::Read { name, lines, source },
        }
    }
}

const fn foreign(what: &'static str, cure: &'static str) -> Foreign {
    Foreign { what, cure }
}

fn refuse(head: &[u8]) -> io::Result<()> {
    let is_it = |(at, magic, _): &&(usize, &[u8], Foreign)| {
        head.get(*at..).is_some_and(|rest| rest.starts_with(magic))
    };
    FOREIGN.iter().find(is_it).map_or(Ok(()), |(_, _, foreign)| Err(io::Error::other(*foreign)))
}

/// A frame, or one that is to be skipped: some packers write their sizes there.
fn is_zstd(head: &[u8]) -> bool {
    matches!(head, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// `BZh`, the size of blocks, and how the first block begins; or how an empty file ends.
fn is_bzip2(head: &[u8]) -> bool {
    matches!(
        head,
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A'] | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72]
    )
}

/// Remembers whether the source failed.
struct Watched<R> {
    source: R,
    failed: Arc<AtomicBool>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into);
        if read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            self.failed.store(true, Ordering::Relaxed);
        }
        read
    }
}

/// Frames of zstd. One whose window is larger than 128 MiB is refused.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// Within a frame.
    begun: bool,
}

impl<R: BufRead> Zstd<R> {
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.begun = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let skipped =
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                if skipped < length.into() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.begun = false;
        let (told, found) =
            (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
        if told.is_some() && told != found {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.begun {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin()?;
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            } else if self.decoder.is_finished() {
                self.end()?;
            } else {
                let some = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, some).map_err(io::Error::other)?;
            }
        }
    }
}

#[cfg(test)]
#[path = "decompress_tests.rs"]
mod tests;
