//! Echo requests (ICMP), through the kernel's own ping sockets: no privilege where
//! `net.ipv4.ping_group_range` allows it, as it does with systemd.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use nightwatt_clock::Clock;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// Type and code of an echo request; the kernel fills in checksum and identifier.
const ECHO: [u8; 2] = [8, 0];
const ECHO_V6: [u8; 2] = [128, 0];

/// Asks one machine.
pub(super) struct Ping {
    socket: UdpSocket,
    request: [u8; 2],
    sequence: u16,
}

impl Ping {
    pub(super) fn new(address: IpAddr) -> io::Result<Self> {
        let (domain, protocol, request) = match address {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, ECHO),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, ECHO_V6),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
        socket.set_nonblocking(true)?;
        socket.connect(&std::net::SocketAddr::new(address, 0).into())?;
        // To the runtime it is a socket for datagrams as any other.
        let socket = UdpSocket::from_std(socket.into())?;
        Ok(Self { socket, request, sequence: 0 })
    }

    /// Does it answer within this time? An answer to an earlier request counts as well: it is up.
    pub(super) async fn answers(&mut self, clock: &Clock, within: Duration) -> bool {
        self.sequence = self.sequence.wrapping_add(1);
        let [high, low] = self.sequence.to_be_bytes();
        let [kind, code] = self.request;
        if self.socket.send(&[kind, code, 0, 0, 0, 0, high, low]).await.is_err() {
            clock.sleep(within).await;
            return false;
        }
        let mut answer = [0; 64];
        matches!(clock.timeout(within, self.socket.recv(&mut answer)).await, Ok(Ok(_)))
    }
}
