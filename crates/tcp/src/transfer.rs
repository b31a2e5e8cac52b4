//! Bytes between a socket and a course: one write or one read.

use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::{Errno, writev};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::pattern::{CHUNK, Pattern};
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
    fn of(moved: usize, asked: usize) -> Self {
        if moved < asked { Self::Last(moved as u64) } else { Self::Bytes(moved as u64) }
    }

    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) | Self::Last(bytes) => bytes,
        }
    }
}

/// Writes what the socket takes of a piece.
pub(crate) fn write(
    socket: impl AsFd,
    piece: &Piece<'_>,
    pattern: &Pattern,
) -> Result<Moved, Errno> {
    let body = pattern.from(piece.at, piece.length);
    let asked = piece.head.len() + body.len();
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
        Ok(written) => Ok(Moved::of(written, asked)),
        Err(Errno::AGAIN) => Ok(Moved::Last(0)),
        Err(Errno::INTR) => Ok(Moved::Bytes(0)),
        Err(errno) => Err(errno),
    }
}

/// What a socket is read into: one for all connections.
#[derive(Debug)]
pub(crate) struct Buffer(Box<[u8]>);

impl Default for Buffer {
    fn default() -> Self {
        Self(vec![0; CHUNK].into())
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
        match recv(socket, &mut self.0[..], flags) {
            Ok((_, 0)) => Ok(None),
            Ok((_, length)) => Ok(Some(Moved::of(length, CHUNK))),
            Err(Errno::AGAIN) => Ok(Some(Moved::Last(0))),
            Err(Errno::INTR) => Ok(Some(Moved::Bytes(0))),
            Err(errno) => Err(errno),
        }
    }

    /// The first bytes of it.
    pub(crate) fn bytes(&self, length: u64) -> &[u8] {
        &self.0[..(length as usize).min(CHUNK)]
    }
}
