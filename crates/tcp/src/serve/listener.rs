//! The listening socket: accepts clients, and pauses while no descriptor is left.

use std::net::TcpListener;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use socket2::Socket;

use crate::error::Error;
use crate::reactor::Reactor;

/// Places for clients that are told that there is no room.
pub(super) const SPARE: u32 = 16;

/// Without descriptors, the server tries again after this time.
const PAUSE: Duration = Duration::from_secs(1);

/// The outcome of an accept.
pub(super) enum Accepted {
    Client(Socket),
    None,
    /// It closed the connection before it was accepted.
    Gone,
}

#[derive(Debug)]
pub(super) struct ClientListener {
    listener: TcpListener,
    /// Paused until then, or until a connection has ended.
    paused_until: Option<Mono>,
}

impl ClientListener {
    pub(super) fn new(listener: TcpListener, reactor: &Reactor) -> Result<Self, Error> {
        reactor.listen(&listener, true, true).map_err(Error::Epoll)?;
        Ok(Self { listener, paused_until: None })
    }

    /// The next client.
    pub(super) fn accept(&mut self, reactor: &Reactor, now: Mono) -> Result<Accepted, Error> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(&self.listener, flags) {
            Ok(socket) => Ok(Accepted::Client(Socket::from(socket))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Accepted::None),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                // It would stay readable, and the loop would spin.
                reactor.listen(&self.listener, false, false).map_err(Error::Epoll)?;
                self.paused_until = Some(now + PAUSE);
                Ok(Accepted::None)
            }
            // accept(2): errors of the network that are already pending are the client's.
            Err(_) => Ok(Accepted::Gone),
        }
    }

    /// When it accepts again.
    pub(super) fn resumes_at(&self) -> Mono {
        self.paused_until.unwrap_or(Mono::NEVER)
    }

    /// A descriptor is free, or time has passed.
    pub(super) fn resume(&mut self, reactor: &Reactor) -> Result<(), Error> {
        if self.paused_until.take().is_some() {
            reactor.listen(&self.listener, false, true).map_err(Error::Epoll)?;
        }
        Ok(())
    }
}
