//! Connections to the gateway, as rough as clients can be.

use std::net::{SocketAddr, SocketAddrV4, TcpStream};

use rustix::net::{AddressFamily, SocketType, bind, connect, ipproto, socket, sockopt};

use crate::gateway::DEADLINE;

/// Connects from that address of this machine: from one address alone, a million connections would
/// run out of ports.
pub(crate) fn connect_from(source: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(source.into(), 0))?;
    connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// Goes away without a word: the other side gets a reset.
pub(crate) fn reset(stream: TcpStream) {
    let _ = sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO));
    drop(stream);
}
