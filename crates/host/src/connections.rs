//! TCP connections of this machine (`/proc/net/tcp`, proc(5)).

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::Host;

/// `TCP_ESTABLISHED` of the kernel's `include/net/tcp_states.h`.
const ESTABLISHED: &str = "01";

/// `TCP_LISTEN`.
const LISTENS: &str = "0A";

/// A connection, seen from one of its ends. Addresses that map IPv4 are IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The end on this machine.
    pub local: SocketAddr,
    /// The other end, which may be on this machine too.
    pub peer: SocketAddr,
    /// The number of its socket; 0 if no process has it any more.
    pub inode: u64,
    /// Whether it is established; otherwise this end of it opens, closes or is closed.
    pub is_open: bool,
}

/// All established connections in our network namespace.
///
/// # Errors
///
/// If a table is there that cannot be read.
pub fn established(host: &Host) -> Result<Vec<Connection>, String> {
    Ok(connections(host)?.into_iter().filter(|it| it.is_open).collect())
}

/// All connections in our network namespace, whatever they are in.
///
/// # Errors
///
/// If a table is there that cannot be read.
pub fn connections(host: &Host) -> Result<Vec<Connection>, String> {
    let mut all = Vec::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text =
            host.read_if_any(file).map_err(|error| format!("cannot read {file}: {error}"))?;
        all.extend(text.as_deref().unwrap_or_default().lines().filter_map(connection));
    }
    Ok(all)
}

/// The numbers of the sockets of this process.
///
/// # Errors
///
/// If the list of its open files cannot be read.
pub fn own_sockets(host: &Host) -> io::Result<HashSet<u64>> {
    let files = host.list("/proc/self/fd")?;
    let sockets = files.iter().filter_map(|file| {
        let target = std::fs::read_link(file).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    });
    Ok(sockets.collect())
}

/// A line of the table, if it is of a connection.
fn connection(line: &str) -> Option<Connection> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, peer, state) = (fields.next()?, fields.next()?, fields.next()?);
    // tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
    let inode = fields.nth(5).and_then(|it| it.parse().ok()).unwrap_or(0);
    let is_open = state == ESTABLISHED;
    (state != LISTENS).then_some(())?;
    Some(Connection { local: address(local)?, peer: address(peer)?, inode, is_open })
}

/// `0100007F:1F90`: words of 32 bits in the machine's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(8 * at..8 * (at + 1))?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let address: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_addresses_and_ports() {
        let v4 = "   1: 0200000A:0016 0100000A:9A5C 01 00000000:00000000 02:000AB0AD 00000000     0        0 20482 4";
        assert_eq!(
            connection(v4),
            Some(Connection {
                local: "10.0.0.2:22".parse().unwrap(),
                peer: "10.0.0.1:39516".parse().unwrap(),
                inode: 20_482,
                is_open: true,
            })
        );
        let closed = v4.replace(" 01 ", " 06 ");
        assert_eq!(connection(&closed).map(|it| it.is_open), Some(false), "TIME_WAIT");
        let mapped =
            "   0: 0000000000000000FFFF00000200000A:0016 0000000000000000FFFF00000100000A:CA9A 01";
        assert_eq!(connection(mapped).map(|it| it.local), Some("10.0.0.2:22".parse().unwrap()));
        let v6 =
            "   0: 00000000000000000000000001000000:0016 00000000000000000000000001000000:CA9A 01";
        assert_eq!(connection(v6).map(|it| it.local), Some("[::1]:22".parse().unwrap()));
        for other in [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt",
            "   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 647 1",
            "   0: 0000é000:0016 00000000:0000 01",
            "   0: 00:0016 00:0000 01",
            "",
        ] {
            assert_eq!(connection(other), None, "{other}");
        }
    }

    #[test]
    fn both_ends_of_a_real_connection_are_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let host = Host::default();
        let (all, own) = (established(&host).unwrap(), own_sockets(&host).unwrap());
        for (end, other) in [(&client, &server), (&server, &client)] {
            let local = end.local_addr().unwrap();
            let seen =
                all.iter().find(|it| it.local == local && it.peer == other.local_addr().unwrap());
            assert!(own.contains(&seen.unwrap().inode));
        }
    }
}
