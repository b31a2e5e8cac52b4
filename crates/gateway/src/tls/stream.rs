//! A client's connection by TLS, for `http1`.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use nightwatt_http1::{Transport, Wire};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Maximum number of bytes encrypted at once: others wait meanwhile.
const AT_ONCE: usize = 256 << 10;

/// A connection whose handshake is over.
pub(crate) struct Secured(TlsStream<TcpStream>);

impl Secured {
    pub(super) fn new(stream: TlsStream<TcpStream>) -> Self {
        Self(stream)
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, read)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        part: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, part)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Wire for Secured {
    fn tcp(&self) -> &TcpStream {
        self.0.get_ref().0
    }
}

/// Writes what can be written at once, and nothing else.
struct Tried<'a>(&'a TcpStream);

impl Write for Tried<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0.try_write(part)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Secured {
    /// Sends encrypted data as far as possible at once. True: nothing is left.
    fn push(&mut self) -> io::Result<bool> {
        let (tcp, session) = self.0.get_mut();
        while session.wants_write() {
            match session.write_tls(&mut Tried(tcp)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Transport for Secured {
    // Reading may have to write (a change of keys), so that both sides share one state.
    type Read<'a> = ReadHalf<&'a mut Self>;
    type Write<'a> = WriteHalf<&'a mut Self>;

    fn split(&mut self) -> (Self::Read<'_>, Self::Write<'_>) {
        tokio::io::split(self)
    }

    fn send_now(&mut self, parts: &[IoSlice<'_>]) -> io::Result<(usize, bool)> {
        let all: usize = parts.iter().map(|part| part.len()).sum();
        let mut taken = self.0.get_mut().1.writer().write_vectored(parts)?;
        loop {
            let is_gone = self.push()?;
            if taken == all || !is_gone || taken >= AT_ONCE {
                return Ok((taken, is_gone));
            }
            // The session encrypts at most its buffer at a time.
            let mut rest = parts.to_vec();
            let mut rest = &mut rest[..];
            IoSlice::advance_slices(&mut rest, taken);
            taken += self.0.get_mut().1.writer().write_vectored(rest)?;
        }
    }

    fn close_notify(&mut self) {
        self.0.get_mut().1.send_close_notify();
        let _ = self.push();
    }
}
