//! The receiver on the network: TLS 1.3 with a pinned key and a token, or plain TCP.
//!
//! ```text
//!   ticket    what a sender must know: the key's fingerprint, and the token
//!   tls       a connection as a stream to read and one to write
//!   listen    the receiver's side
//!   connect   the sender's side
//! ```

mod connect;
mod listen;
mod ticket;
mod tls;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use nightwatt_energy::time::Mono;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
};

pub use connect::{Address, ConnectError, NoAddress, connect};
pub use listen::{ListenError, Listener, Refusal};
pub use ticket::{NoTicket, Ticket};

/// A machine that went away without a word is noticed after idle time and probes: a minute.
const IDLE: Duration = Duration::from_secs(30);
const BETWEEN_PROBES: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// A peer that needs longer for its part of the handshake is refused.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// For this time, the other end may still send after the last word.
const FAREWELL: Duration = Duration::from_secs(2);

/// What either end reads and writes.
pub struct Ends {
    /// From the other end.
    pub reader: Box<dyn io::Read + Send>,
    /// To it.
    pub writer: Box<dyn io::Write + Send>,
    /// The socket, to close it.
    pub socket: TcpStream,
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    set_tcp_nodelay(socket, true)?;
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, IDLE)?;
    set_tcp_keepintvl(socket, BETWEEN_PROBES)?;
    set_tcp_keepcnt(socket, PROBES)?;
    socket.set_read_timeout(Some(HANDSHAKE))?;
    socket.set_write_timeout(Some(HANDSHAKE))
}

/// From now on, a peer may be silent: keep-alive finds one that is gone.
fn is_through(socket: &TcpStream) -> io::Result<()> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)
}

/// Closes a connection so that what was written last is still read: a socket that is closed with bytes unread resets it.
pub fn close_gently(socket: &TcpStream, clock: fn() -> Mono) {
    // The other end may be gone.
    let _ = socket.shutdown(Shutdown::Write);
    let mut hurried = Hurried { socket, clock, until: clock() + FAREWELL };
    let mut rest = [0; 16 << 10];
    while matches!(hurried.read(&mut rest), Ok(1..)) {}
    let _ = socket.shutdown(Shutdown::Both);
}

/// A socket that is read and written until a moment, however little arrives at once.
struct Hurried<'a> {
    socket: &'a TcpStream,
    clock: fn() -> Mono,
    until: Mono,
}

impl Hurried<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.since((self.clock)());
        if left.is_zero() { Err(late()) } else { Ok(left) }
    }
}

impl Read for Hurried<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        let mut socket = self.socket;
        socket.read(bytes).map_err(in_words)
    }
}

impl Write for Hurried<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        let mut socket = self.socket;
        socket.write(bytes).map_err(in_words)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it was too slow")
}

/// A timeout of the socket is an error of another kind, which rustls takes for a pause.
fn in_words(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { late() } else { error }
}

fn plain(socket: TcpStream) -> io::Result<Ends> {
    is_through(&socket)?;
    let (reader, writer) = (Box::new(socket.try_clone()?), Box::new(socket.try_clone()?));
    Ok(Ends { reader, writer, socket })
}

#[cfg(test)]
mod tests;
