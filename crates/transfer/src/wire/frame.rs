//! Frames: a kind, a length, a body, a sum.

use std::io::{self, Read, Write};
use std::ops::Range;

use twox_hash::XxHash3_64;

use crate::pure::shown;

/// Kind and length.
const HEAD: usize = 5;
/// The sum at the end.
const SUM: usize = 8;
/// Most bytes of a body: the longest block and its head.
pub(super) const MOST_BODY: usize = (4 << 20) + 64;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Why bytes are no frame. Nothing after it can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It claims to be longer than any.
    #[error(
        "a frame of {0} bytes was announced, more than any has: the other end is no nightwatt, or bytes were lost"
    )]
    TooLong(u64),
    /// The first bytes are text.
    #[error(
        "the other end is no nightwatt, or a start file of its shell prints something: it sent `{0}`"
    )]
    Text(String),
    /// The first bytes are a record of TLS: an alert or a greeting.
    #[error(
        "the other end speaks TLS, and this one does not: send to `tls://HOST:PORT`, with the receiver's ticket"
    )]
    Tls,
    /// The sum does not fit.
    #[error("frame {0} was changed on its way, or one before it was lost")]
    Sum(u64),
}

fn sum(head: &[u8], body: &[u8], number: u64) -> u64 {
    // Two sums instead of one over both: the body is not copied behind its head.
    let of_head = XxHash3_64::oneshot_with_seed(number, head);
    XxHash3_64::oneshot_with_seed(of_head, body)
}

/// Of a text that should be a frame, what is shown.
fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
    shown::line(text.trim_start().lines().next().unwrap_or_default())
}

/// Finds frames in what arrives.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Of them, these have arrived and were not read.
    unread: Range<usize>,
    number: u64,
    failed: Option<FrameError>,
}

impl FrameReader {
    /// What has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.unread.end += bytes.len();
    }

    /// Takes what arrives next, and gives how much that was.
    pub fn fill(&mut self, reader: &mut impl Read) -> io::Result<usize> {
        let count = reader.read(self.room(CHUNK))?;
        self.unread.end += count;
        Ok(count)
    }

    /// Room behind what has arrived.
    fn room(&mut self, count: usize) -> &mut [u8] {
        if self.unread.start > 0 && (self.unread.is_empty() || self.unread.start > MOST_BODY) {
            self.bytes.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let room = self.unread.end..self.unread.end + count;
        if self.bytes.len() < room.end {
            self.bytes.resize(room.end, 0);
        }
        &mut self.bytes[room]
    }

    /// Whether a frame has begun and not ended.
    #[cfg(test)]
    pub(crate) fn is_within_a_frame(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The next frame that is complete: its kind and its body.
    pub fn next_frame(&mut self) -> Result<Option<(u8, &[u8])>, FrameError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let result = self.frame();
        self.failed = result.as_ref().err().cloned();
        Ok(result?.map(|(kind, body)| (kind, &self.bytes[body])))
    }

    fn frame(&mut self) -> Result<Option<(u8, Range<usize>)>, FrameError> {
        let bytes = &self.bytes[self.unread.clone()];
        let Some((head, rest)) = bytes.split_at_checked(HEAD) else { return Ok(None) };
        if self.number == 0 && matches!(head, [0x15 | 0x16, 3, ..]) {
            return Err(FrameError::Tls);
        }
        // No kind of message is a printable character.
        if self.number == 0 && head[0] >= b' ' {
            return Err(FrameError::Text(first_line(bytes)));
        }
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MOST_BODY {
            return Err(match self.number {
                0 => FrameError::Text(first_line(bytes)),
                _ => FrameError::TooLong(length as u64),
            });
        }
        if rest.len() < length + SUM {
            return Ok(None);
        }
        let (body, rest) = rest.split_at(length);
        if rest[..SUM] != sum(head, body, self.number).to_le_bytes() {
            return Err(FrameError::Sum(self.number));
        }
        let (kind, start) = (head[0], self.unread.start + HEAD);
        self.unread.start += HEAD + length + SUM;
        self.number += 1;
        Ok(Some((kind, start..start + length)))
    }
}

/// Writes frames.
#[derive(Debug)]
pub struct FrameWriter<W> {
    inner: W,
    number: u64,
    written: u64,
}

impl<W: Write> FrameWriter<W> {
    /// To this.
    pub fn new(inner: W) -> Self {
        Self { inner, number: 0, written: 0 }
    }

    /// Writes a frame. It is not flushed.
    pub fn write(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MOST_BODY);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?.to_le_bytes();
        let head = [kind, length[0], length[1], length[2], length[3]];
        self.inner.write_all(&head)?;
        self.inner.write_all(body)?;
        self.inner.write_all(&sum(&head, body, self.number).to_le_bytes())?;
        self.number += 1;
        self.written += (HEAD + body.len() + SUM) as u64;
        Ok(())
    }

    /// Hands on what was written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Gives what it writes to.
    pub fn into_inner(self) -> W {
        self.inner
    }

    /// What it writes to.
    pub fn buffer(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Bytes that were written, frames and all.
    pub fn written(&self) -> u64 {
        self.written
    }
}
