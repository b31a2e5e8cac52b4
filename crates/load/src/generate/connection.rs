//! One connection: what is under way on it, and how far.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::answer_reader::AnswerReader;
use super::mix::Request;
use super::sample::{Carrier, Fault};
use super::schedule::Due;

/// A request on a connection.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) due: Due,
    /// When the client began to write it, or to open a connection for it.
    pub(super) sent: Duration,
    pub(super) first_byte: Option<Duration>,
    /// So many bytes of it are written.
    pub(super) written: usize,
    pub(super) carrier: Carrier,
    pub(super) waited: bool,
    pub(super) reader: AnswerReader,
}

/// A socket, perhaps still on its way.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    pub(super) place: usize,
    pub(super) is_open: bool,
    pub(super) flight: Option<Flight>,
}

/// How writing went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// All of it.
    All,
    /// The rest when the socket takes more.
    Part,
}

impl Connection {
    /// Begins to open one.
    pub(super) fn begin(place: usize, address: SocketAddr, flight: Flight) -> Result<Self, Fault> {
        let make = || -> io::Result<(Socket, bool)> {
            let socket = Socket::new(
                Domain::for_address(address),
                Type::STREAM.nonblocking().cloexec(),
                Some(Protocol::TCP),
            )?;
            // Only a matter of speed: without it small requests wait for an acknowledgement.
            let _ = socket.set_tcp_nodelay(true);
            match socket.connect(&address.into()) {
                Ok(()) => Ok((socket, true)),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {
                    Ok((socket, false))
                }
                Err(error) => Err(error),
            }
        };
        let (socket, is_open) = make().map_err(|error| cannot_connect(&error))?;
        Ok(Self { socket, place, is_open, flight: Some(flight) })
    }

    /// What became of the attempt to open it, once the socket says that it is over.
    pub(super) fn opened(&mut self) -> Result<(), Fault> {
        match self.socket.take_error() {
            Ok(None) => {
                self.is_open = true;
                Ok(())
            }
            Ok(Some(error)) | Err(error) => Err(cannot_connect(&error)),
        }
    }

    /// Writes as much of the request as the socket takes.
    pub(super) fn write(&mut self, request: &Request) -> Result<Written, Fault> {
        let Some(flight) = &mut self.flight else { return Ok(Written::All) };
        while flight.written < request.bytes.len() {
            match (&self.socket).write(&request.bytes[flight.written..]) {
                Ok(written) => flight.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Written::Part);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Fault::Reset),
            }
        }
        Ok(Written::All)
    }

    /// Reads what has come; `None` when there is nothing at the moment, 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Fault> {
        loop {
            match (&self.socket).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Fault::Reset),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Why a connection was not made.
pub(super) fn cannot_connect(error: &io::Error) -> Fault {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => Fault::Refused,
        Some(Errno::CONNRESET) => Fault::Reset,
        Some(Errno::TIMEDOUT) => Fault::ConnectTimeout,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Fault::Descriptors,
        Some(Errno::ADDRNOTAVAIL | Errno::AGAIN) => Fault::Ports,
        _ => Fault::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_of_a_connection_is_told_by_its_kind() {
        let told = |errno: Errno| cannot_connect(&io::Error::from(errno));
        assert_eq!(told(Errno::CONNREFUSED), Fault::Refused);
        assert_eq!(told(Errno::MFILE), Fault::Descriptors);
        // connect(2): "All port numbers in the ephemeral port range are currently in use."
        assert_eq!(told(Errno::ADDRNOTAVAIL), Fault::Ports);
        assert_eq!(told(Errno::NETUNREACH), Fault::Unreachable);
        assert_eq!(told(Errno::TIMEDOUT), Fault::ConnectTimeout);
    }
}
