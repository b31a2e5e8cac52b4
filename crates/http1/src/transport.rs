//! What a client's connection runs over: TCP itself, or something that lies over it.

use std::io::{self, IoSlice};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// A connection to a client, both ways.
///
/// What was written may wait in the connection until it is flushed.
pub trait Transport: Wire {
    /// What is read from during an exchange.
    type Read<'a>: AsyncRead + Unpin + Send;
    /// What is written to meanwhile.
    type Write<'a>: AsyncWrite + Unpin + Send;

    /// Both ways, for one exchange.
    fn split(&mut self) -> (Self::Read<'_>, Self::Write<'_>);

    /// Sends as much as goes at once. Returns how many bytes were taken, and whether the kernel has all of them.
    fn send_now(&mut self, parts: &[IoSlice<'_>]) -> io::Result<(usize, bool)>;

    /// Says that nothing follows, if there is a word for that and it goes at once.
    fn close_notify(&mut self) {}
}

/// A transport as seen by code that doesn't need to know its type.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The socket below.
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Transport for TcpStream {
    type Read<'a> = ReadHalf<'a>;
    type Write<'a> = WriteHalf<'a>;

    fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        TcpStream::split(self)
    }

    fn send_now(&mut self, parts: &[IoSlice<'_>]) -> io::Result<(usize, bool)> {
        match self.try_write_vectored(parts) {
            Ok(written) => Ok((written, true)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, true)),
            Err(error) => Err(error),
        }
    }
}
