//! The connection to a broker, with TLS or without.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::connect::connect_blocking;
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// A broker.
pub(super) struct Wire {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

/// Timeout for the peer to accept a packet.
const SENDING: Duration = Duration::from_secs(5);

impl Wire {
    /// Connects to `host:port`; with TLS if there are settings for it.
    pub(super) fn connect(
        place: &str,
        trust: Option<Arc<ClientConfig>>,
        until: Mono,
    ) -> io::Result<Self> {
        let left = until.since(monotonic());
        let socket = connect_blocking(place.to_socket_addrs()?, left)?;
        Self::over(socket, place, trust, until)
    }

    fn over(
        mut socket: TcpStream,
        place: &str,
        trust: Option<Arc<ClientConfig>>,
        until: Mono,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(SENDING))?;
        let Some(trust) = trust else { return Ok(Self { socket, tls: None }) };
        let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(trust, name).map_err(io::Error::other)?;
        let left = until.since(monotonic()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        while tls.is_handshaking() {
            if tls.wants_write() {
                tls.write_tls(&mut socket)?;
            } else if monotonic() >= until {
                return Err(ErrorKind::TimedOut.into());
            } else if tls.read_tls(&mut socket)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            } else {
                tls.process_new_packets().map_err(io::Error::other)?;
            }
        }
        socket.set_read_timeout(None)?;
        Ok(Self { socket, tls: Some(Box::new(tls)) })
    }

    /// What becomes readable when there is something to [`Wire::receive`].
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.socket.write_all(bytes) };
        tls.writer().write_all(bytes)?;
        // The end of a handshake goes first.
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Adds what has come to `inbox`; to be called when the socket is readable. An error when the
    /// other end is gone.
    pub(super) fn receive(&mut self, inbox: &mut Vec<u8>) -> io::Result<()> {
        let mut piece = [0; 4096];
        let Some(tls) = &mut self.tls else {
            let read = self.socket.read(&mut piece)?;
            inbox.extend_from_slice(&piece[..read]);
            return if read == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) };
        };
        if tls.read_tls(&mut self.socket)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        tls.process_new_packets().map_err(io::Error::other)?;
        loop {
            match tls.reader().read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => inbox.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// What came with the end of the handshake, and would wait until more comes.
    pub(super) fn pending(&mut self, inbox: &mut Vec<u8>) {
        let Some(tls) = &mut self.tls else { return };
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = tls.reader().read(&mut piece) {
            inbox.extend_from_slice(&piece[..read]);
        }
    }
}
