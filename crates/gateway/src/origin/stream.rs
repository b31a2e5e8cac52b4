//! A connection to a server, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What is spoken within TLS, by its names in ALPN.
pub(crate) const HTTP2: &[u8] = b"h2";
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// A byte stream to a server.
pub(crate) enum Stream {
    Plain(TcpStream),
    /// HTTP/2 without TLS.
    Http2(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Whether it is for HTTP/2: negotiated, or known before.
    pub(super) fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Http2(_) => true,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP2),
        }
    }

    /// The TCP connection below.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) | Self::Http2(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Calls a method on either variant.
macro_rules! either {
    ($stream:ident, $it:ident => $call:expr) => {
        match &mut *$stream {
            Self::Plain(stream) | Self::Http2(stream) => {
                let $it = Pin::new(stream);
                $call
            }
            Self::Tls(stream) => {
                let $it = Pin::new(stream);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, it => it.poll_read(cx, read))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        part: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, it => it.poll_write(cx, part))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, it => it.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) | Self::Http2(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, it => it.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, it => it.poll_shutdown(cx))
    }
}
