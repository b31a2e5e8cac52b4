//! The receiver's side.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_host::tls::Fingerprint;
use rustix::event::{PollFd, PollFlags, poll};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use rustls::{Connection, ServerConfig, ServerConnection, Stream};

use super::connect::NAME;
use super::tls::ends;
use super::{Ends, FAREWELL, HANDSHAKE, Hurried, Ticket, close_gently, plain, prepare};
use crate::receive::refuse;

/// Why nothing can be received.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The key could not be made.
    #[error("cannot make a key: {0}")]
    Key(String),
    /// No sender came in time.
    #[error("no sender has come in time, and the ticket is void: start it again for a new one")]
    Late,
    /// The socket failed.
    #[error("cannot accept connections: {0}")]
    Accept(io::Error),
}

/// A peer that was not let in.
#[derive(Debug)]
pub struct Refusal {
    /// Its address.
    pub from: SocketAddr,
    /// Why.
    pub why: String,
}

/// A socket for one sender.
pub struct Listener {
    socket: TcpListener,
    /// Without it, all may send, and nothing is encrypted.
    guard: Option<Guard>,
}

struct Guard {
    config: Arc<ServerConfig>,
    ticket: Ticket,
}

impl Listener {
    /// Listens with a key of its own and a token, both of which end with it.
    pub fn encrypted(address: SocketAddr, token: [u8; 32]) -> Result<Self, ListenError> {
        let key = |error: &dyn std::fmt::Display| ListenError::Key(error.to_string());
        let pair = rcgen::KeyPair::generate().map_err(|error| key(&error))?;
        let params = rcgen::CertificateParams::new(vec![NAME.to_owned()]);
        let certificate =
            params.and_then(|it| it.self_signed(&pair)).map_err(|error| key(&error))?;
        let der = certificate.der().clone();
        let ticket = Ticket::new(&Fingerprint::of(&der), token);
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map(rustls::ConfigBuilder::<ServerConfig, _>::with_no_client_auth)
            .and_then(|builder| builder.with_single_cert(vec![der], private))
            .map_err(|error| key(&error))?;
        let guard = Some(Guard { config: Arc::new(config), ticket });
        Ok(Self { socket: bound(address)?, guard })
    }

    /// Listens for anybody, in the clear.
    pub fn plain(address: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self { socket: bound(address)?, guard: None })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What the sender must know, with TLS.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.guard.as_ref().map(|guard| &guard.ticket)
    }

    /// Waits `until` then for a sender with the ticket. Others are refused, and `refused` gets to know.
    pub fn accept(
        &self,
        clock: fn() -> Mono,
        until: Mono,
        refused: &mut dyn FnMut(Refusal),
    ) -> Result<Ends, ListenError> {
        loop {
            self.wait(until.since(clock()))?;
            let (socket, from) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(ListenError::Accept(error)),
            };
            match self.greeted(socket, clock) {
                Ok(ends) => return Ok(ends),
                Err(error) => refused(Refusal { from, why: error.to_string() }),
            }
        }
    }

    fn wait(&self, time: Duration) -> Result<(), ListenError> {
        if time.is_zero() {
            return Err(ListenError::Late);
        }
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let time = rustix::time::Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(ListenError::Accept(errno.into())),
        }
    }

    /// One that is slow keeps others waiting for no longer than the time of the handshake.
    fn greeted(&self, socket: TcpStream, clock: fn() -> Mono) -> io::Result<Ends> {
        socket.set_nonblocking(false)?;
        prepare(&socket)?;
        let Some(Guard { config, ticket }) = &self.guard else { return plain(socket) };
        let mut server = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let mut hurried = Hurried { socket: &socket, clock, until: clock() + HANDSHAKE };
        server.complete_io(&mut hurried)?;
        let mut token = [0; 32];
        Stream::new(&mut server, &mut hurried).read_exact(&mut token)?;
        let mut ends = ends(Connection::Server(server), socket)?;
        if !ticket.is_token(&token) {
            let text = "the token of the ticket is wrong: use the ticket that the receiver printed \
                        when it was started";
            let socket = ends.socket.try_clone()?;
            socket.set_write_timeout(Some(FAREWELL))?;
            refuse(&mut ends.writer, text.to_owned())?;
            drop(ends);
            close_gently(&socket, clock);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a wrong token"));
        }
        Ok(ends)
    }
}

fn bound(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let failed = |error| ListenError::Listen { address, error };
    let socket = TcpListener::bind(address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket)
}
