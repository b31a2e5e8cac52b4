//! Reads from the kernel (`sock_diag(7)`) how long ago data moved on each of this machine's connections to a server. It
//! needs no privileges, and sees the connections of this network namespace.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::traffic::Connection;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_NETLINK: i32 = 16;
const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// Attribute with a `struct tcp_info`.
const INET_DIAG_INFO: u16 = 2;
/// `TCP_ESTABLISHED`, `TCP_FIN_WAIT1`, `TCP_FIN_WAIT2`, `TCP_CLOSE_WAIT`: data may still move.
const OPEN: u32 = 1 << 1 | 1 << 4 | 1 << FIN_WAIT2 | 1 << 8;
const FIN_WAIT2: u8 = 5;
/// Offsets in `struct inet_diag_msg`.
const COOKIE: usize = 44;
const INODE: usize = 68;
/// Offsets in `struct tcp_info`: milliseconds since the last data, in each direction.
const LAST_DATA_SENT: usize = 44;
const LAST_DATA_RECV: usize = 52;
/// Milliseconds since the last acknowledgement by the peer.
const LAST_ACK_RECV: usize = 56;
/// Bytes that the peer has acknowledged (plus one for the handshake), and bytes received.
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
/// `struct nlmsghdr`, `struct inet_diag_msg`.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
/// The kernel's answer comes in parts of at most 32 KiB.
const PART: usize = 64 << 10;

/// The connections to one of these servers.
pub(super) fn connections(servers: &[SocketAddr]) -> io::Result<Vec<Connection>> {
    let mut found = Vec::new();
    let mut ports: Vec<u16> = servers.iter().map(SocketAddr::port).collect();
    ports.dedup();
    for port in ports {
        // An IPv6 socket may be connected to an IPv4 address.
        for family in [AF_INET, AF_INET6] {
            let there = |address: IpAddr| {
                servers.iter().any(|it| it.port() == port && it.ip().to_canonical() == address)
            };
            dump(family, port, |address, connection| {
                if there(address.to_canonical()) {
                    found.push(connection);
                }
            })?;
        }
    }
    Ok(found)
}

/// Calls `show` for each connection of a family to a port.
fn dump(family: u8, port: u16, mut show: impl FnMut(IpAddr, Connection)) -> io::Result<()> {
    let protocol = Some(Protocol::from(NETLINK_SOCK_DIAG));
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, protocol)?;
    // Without an address it goes to the kernel, which answers at once.
    socket.send(&question(family, port))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut piece = vec![0; PART];
    loop {
        let length = socket.read(&mut piece)?;
        if length == 0 || !read(&piece[..length], &mut show)? {
            return Ok(());
        }
    }
}

/// `struct nlmsghdr`, `struct inet_diag_req_v2`.
fn question(family: u8, port: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 56);
    bytes.extend(72_u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    // TCP, with `tcp_info`.
    bytes.extend([family, 6, 1 << (INET_DIAG_INFO - 1), 0]);
    bytes.extend(OPEN.to_ne_bytes());
    // From any port to this one; a dump filters by nothing else.
    bytes.extend([0, 0]);
    bytes.extend(port.to_be_bytes());
    bytes.resize(HEADER + 56, 0);
    bytes
}

/// Parses a part of the answer; false if it was the last part.
fn read(mut part: &[u8], show: &mut impl FnMut(IpAddr, Connection)) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (number(part, 0), short(part, 4)) {
        let length = length as usize;
        let Some(message) = part.get(HEADER..length) else { break };
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let code = number(message, 0).unwrap_or_default().cast_signed();
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            SOCK_DIAG_BY_FAMILY => {
                if let Some((address, connection)) = connection(message) {
                    show(address, connection);
                }
            }
            _ => {}
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

fn connection(message: &[u8]) -> Option<(IpAddr, Connection)> {
    // The peer's address comes after family and timers (4), ports (4) and our own address (16).
    let peer: [u8; 16] = message.get(24..40)?.try_into().ok()?;
    let address = match *message.first()? {
        AF_INET => Ipv4Addr::new(peer[0], peer[1], peer[2], peer[3]).into(),
        AF_INET6 => Ipv6Addr::from(peer).into(),
        _ => return None,
    };
    if message.get(1) == Some(&FIN_WAIT2) && number(message, INODE)? == 0 {
        // The connection belongs to no process any more.
        return None;
    }
    let cookie = long(message, COOKIE)?;
    let mut attributes = message.get(MESSAGE..)?;
    loop {
        let (length, kind) = (short(attributes, 0)? as usize, short(attributes, 2)?);
        let value = attributes.get(4..length)?;
        if kind == INET_DIAG_INFO {
            let ago = |place| Some(Duration::from_millis(number(value, place)?.into()));
            let (sent, received) = (ago(LAST_DATA_SENT)?, ago(LAST_DATA_RECV)?);
            // Since Linux 4.1; before that, the times have to suffice.
            let bytes = long(value, BYTES_ACKED).zip(long(value, BYTES_RECEIVED));
            let unanswered = bytes.is_some_and(|(acked, received)| acked > 1 && received == 0);
            let confirmed = ago(LAST_ACK_RECV)?;
            let connection = Connection { cookie, sent, received, confirmed, unanswered };
            return Some((address, connection));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Connections from this machine to `address`; none if the kernel does not report them.
    fn seen(address: SocketAddr) -> Option<Vec<Connection>> {
        let seen = connections(&[address]);
        seen.inspect_err(|error| eprintln!("skipped: no sock_diag: {error}")).ok()
    }

    #[test]
    fn connections_are_seen_from_their_first_moment_to_their_last() {
        for home in ["127.0.0.2:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(home) else {
                eprintln!("skipped: no {home} here");
                continue;
            };
            let address = listener.local_addr().unwrap();
            let Some(none) = seen(address) else { return };
            assert!(none.is_empty());
            let mut client = TcpStream::connect(address).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
            let asked = seen(address).unwrap();
            assert!(asked.len() == 1 && asked[0].unanswered, "{asked:?}");
            server.write_all(b"y").unwrap();
            client.read_exact(&mut [0]).unwrap();
            let answered = seen(address).unwrap();
            assert!(answered.len() == 1 && !answered[0].unanswered, "{answered:?}");
            assert_eq!(asked[0].cookie, answered[0].cookie);
            let another = TcpStream::connect(address).unwrap();
            let two = seen(address).unwrap();
            assert!(two.len() == 2 && two[0].cookie != two[1].cookie, "{two:?}");
            drop((another, listener.accept().unwrap()));
            // A client that has sent everything may still get an answer.
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
            assert_eq!(seen(address).unwrap().len(), 1);
            // Another server on the same port does not count.
            let other = SocketAddr::new([127, 0, 0, 3].into(), address.port());
            assert!(seen(other).unwrap().is_empty());
            drop((client, server));
            assert!(seen(address).unwrap().is_empty(), "what was closed is no connection any more");
        }
    }

    #[test]
    fn an_answer_that_is_cut_short_ends() {
        for length in 0..200 {
            for first in [0_u8, 15, 20, 72, 255] {
                let mut bytes = vec![first; length];
                if length > 5 {
                    bytes[1..4].fill(0);
                    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
                }
                let _ = read(&bytes, &mut |_, _| {});
            }
        }
    }
}
