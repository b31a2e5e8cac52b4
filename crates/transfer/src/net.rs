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

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

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

/// For this time, and so many reads of 16 KiB, the other end may still send after the last word.
const FAREWELL: Duration = Duration::from_secs(2);
const MOST_UNREAD: u32 = 4096;

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
pub fn close_gently(mut socket: &TcpStream) {
    // The other end may be gone.
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.set_read_timeout(Some(FAREWELL));
    let mut rest = [0; 16 << 10];
    for _ in 0..MOST_UNREAD {
        match socket.read(&mut rest) {
            Ok(1..) => {}
            _ => break,
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
}

fn plain(socket: TcpStream) -> io::Result<Ends> {
    is_through(&socket)?;
    let (reader, writer) = (Box::new(socket.try_clone()?), Box::new(socket.try_clone()?));
    Ok(Ends { reader, writer, socket })
}

#[cfg(test)]
mod tests;
