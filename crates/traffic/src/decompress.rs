//! Unpacks logs: gzip, zstd, bzip2 and xz, told by the first bytes, all with several members or
//! streams one behind the other, as concatenated files have.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// First bytes that tell how a log is packed.
const MAGIC: usize = 6;

/// Most memory that an xz file may ask for, in KiB: four times what `xz -9` needs.
const XZ_KIB: u32 = 256 * 1024;

/// What some editors and Windows programs put in front of text in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes read of a packed log at a time.
const BUFFER: usize = 64 * 1024;

/// A log as it was before it was packed, if it was.
pub(crate) struct Unpacked {
    text: Box<dyn Read + Send>,
    /// What was read of the first bytes, which may be a mark; nothing once that is known.
    begin: Option<Vec<u8>>,
    packed: bool,
    /// Whether the source itself failed.
    failed: Arc<AtomicBool>,
}

impl Unpacked {
    pub(crate) fn new(mut source: impl Read + Send + 'static) -> io::Result<Self> {
        let mut head = Vec::new();
        source.by_ref().take(MAGIC as u64).read_to_end(&mut head)?;
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
        Ok(Self { text, begin: Some(Vec::new()), packed: gzip || zstd || bzip2 || xz, failed })
    }

    /// Whether an error of it says that what was packed is damaged or cut off, and not that it
    /// could not be read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.packed && !self.failed.load(Ordering::Relaxed)
    }
}

impl Unpacked {
    /// Passes over a byte order mark, which says nothing that is not so of every log.
    fn begin(&mut self, mut begin: Vec<u8>) -> io::Result<()> {
        let missing = (MARK.len() - begin.len()) as u64;
        let read = self.text.by_ref().take(missing).read_to_end(&mut begin);
        if read.is_ok() && begin != MARK {
            let text = std::mem::replace(&mut self.text, Box::new(io::empty()));
            self.text = Box::new(io::Cursor::new(begin).chain(text));
        } else if read.is_err() {
            self.begin = Some(begin);
        }
        read.map(drop)
    }
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(begin) = self.begin.take() {
            self.begin(begin)?;
        }
        self.text.read(into)
    }
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
