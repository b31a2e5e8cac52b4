//! Bytes between a socket and a connection: one write or one read.

use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::{Errno, writev};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::pattern::{CHUNK, PAGE, Pattern};
use crate::stream::Piece;

/// How a read or write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes, and the socket may have or take more.
    Bytes(u64),
    /// So many bytes, perhaps none, and no more at the moment.
    Last(u64),
}

impl Moved {
    fn of(moved: usize, requested: usize) -> Self {
        if moved < requested { Self::Last(moved as u64) } else { Self::Bytes(moved as u64) }
    }

    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) | Self::Last(bytes) => bytes,
        }
    }
}

/// A turn ends when more than this was moved: a chunk, except for what a write leaves to its page's end.
pub(crate) const ENOUGH: u64 = (CHUNK - PAGE) as u64;

/// How much of the pattern to write from a position on: a chunk, but no further than to where a page of
/// the stream ends. The kernel fills its pages with the stream, so that the next write begins with one.
fn length(at: u64, left: u64) -> u64 {
    left.min(CHUNK as u64 - at % PAGE as u64)
}

/// Writes what the socket takes of a piece.
pub(crate) fn write(
    socket: impl AsFd,
    piece: &Piece<'_>,
    pattern: &Pattern,
) -> Result<Moved, Errno> {
    let body = pattern.from(piece.at, length(piece.at, piece.length));
    let requested = piece.head.len() + body.len();
    let written = if piece.head.is_empty() {
        send(socket, body, SendFlags::NOSIGNAL)
    } else if body.is_empty() {
        send(socket, piece.head, SendFlags::NOSIGNAL)
    } else {
        // In one go, or the head would leave as a segment of its own. (The signal of a broken pipe is
        // ignored in Rust's programs.)
        writev(socket, &[IoSlice::new(piece.head), IoSlice::new(body)])
    };
    match written {
        Ok(written) => Ok(Moved::of(written, requested)),
        Err(Errno::AGAIN) => Ok(Moved::Last(0)),
        Err(Errno::INTR) => Ok(Moved::Bytes(0)),
        Err(errno) => Err(errno),
    }
}

/// What a socket is read into: one for all connections. It begins with a page.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: Box<[u8]>,
    from: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        let memory: Box<[u8]> = vec![0; CHUNK + PAGE].into();
        // Of memory whose place is not known there would be no offset; it is then as good as any.
        let from = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Self { memory, from }
    }
}

impl Buffer {
    /// Reads what there is, at most a chunk; `None` at the end of the stream.
    pub(crate) fn read(&mut self, socket: impl AsFd) -> Result<Option<Moved>, Errno> {
        self.receive(socket, RecvFlags::empty())
    }

    /// The same, but the kernel drops the bytes instead of copying them.
    pub(crate) fn discard(&mut self, socket: impl AsFd) -> Result<Option<Moved>, Errno> {
        self.receive(socket, RecvFlags::TRUNC)
    }

    fn receive(&mut self, socket: impl AsFd, flags: RecvFlags) -> Result<Option<Moved>, Errno> {
        match recv(socket, &mut self.memory[self.from..self.from + CHUNK], flags) {
            Ok((_, 0)) => Ok(None),
            Ok((_, length)) => Ok(Some(Moved::of(length, CHUNK))),
            Err(Errno::AGAIN) => Ok(Some(Moved::Last(0))),
            Err(Errno::INTR) => Ok(Some(Moved::Bytes(0))),
            Err(errno) => Err(errno),
        }
    }

    /// The first bytes of it.
    pub(crate) fn bytes(&self, length: u64) -> &[u8] {
        &self.memory[self.from..self.from + (length as usize).min(CHUNK)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_lies_from_the_beginning_of_a_page_on() {
        for _ in 0..3 {
            let buffer = Buffer::default();
            assert_eq!(buffer.bytes(u64::MAX).as_ptr().addr() % PAGE, 0);
            assert_eq!(buffer.bytes(u64::MAX).len(), CHUNK);
        }
    }

    #[test]
    fn writes_that_are_taken_whole_end_with_a_page_of_the_stream_and_end_a_turn() {
        for at in [0, 16, 64, 4095, 4096, 4097, 1 << 40, (1 << 40) + 100] {
            let length = length(at, u64::MAX);
            assert_eq!((at + length) % PAGE as u64, 0, "{at}");
            assert!(length > ENOUGH && length <= CHUNK as u64, "{at}: {length}");
        }
        assert_eq!(length(16, 1000), 1000, "no more than is to be written");
        let last = length(4095, CHUNK as u64);
        assert_eq!(4095 + last, CHUNK as u64);
        assert_eq!(length(4095 + last, CHUNK as u64 - last), 4095, "nor is any left out");
    }
}
