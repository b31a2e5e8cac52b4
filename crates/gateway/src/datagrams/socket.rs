//! The socket for clients. It notes to which address of this machine each datagram came, since the answer must come
//! from that address: a client that asked one address takes no answer from another.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use socket2::{Domain, Protocol, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The longest datagram.
pub(crate) const LONGEST: usize = 65_535;

/// A socket for clients.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: UdpSocket,
    is_v6: bool,
}

/// Where a datagram came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) length: usize,
    pub(crate) source: SocketAddr,
    /// The address of this machine that it was sent to.
    pub(crate) here: Option<IpAddr>,
    /// It was sent to several machines (multicast or broadcast).
    pub(crate) is_for_several: bool,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Socket {
    /// Listens at an address. A second process of the same user may do so too: one replaces the other without a gap.
    pub(crate) fn bind(address: SocketAddr, only_v6: bool) -> std::io::Result<Self> {
        let socket =
            socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_port(true)?;
        let is_v6 = address.is_ipv6();
        if is_v6 {
            socket.set_only_v6(only_v6)?;
            setsockopt(&socket, Ipv6RecvPacketInfo, &true)?;
        } else {
            setsockopt(&socket, Ipv4PacketInfo, &true)?;
        }
        socket.bind(&address.into())?;
        Ok(Self { inner: UdpSocket::from_std(socket.into())?, is_v6 })
    }

    /// Continues with a socket of another process.
    pub(crate) fn adopt(socket: std::net::UdpSocket) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        let is_v6 = socket.local_addr()?.is_ipv6();
        Ok(Self { inner: UdpSocket::from_std(socket)?, is_v6 })
    }

    /// The actual address.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// The next datagram.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> std::io::Result<Received> {
        self.inner.async_io(Interest::READABLE, || self.read(buffer)).await
    }

    fn read(&self, buffer: &mut [u8]) -> std::io::Result<Received> {
        let mut parts = [IoSliceMut::new(buffer)];
        let mut space = nix::cmsg_space!(in6_pktinfo);
        let (fd, flags) = (self.inner.as_raw_fd(), MsgFlags::empty());
        let message = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut space), flags)?;
        let source = message.address.as_ref().and_then(address_of);
        let source = source.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
        let here = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|it| match it {
                ControlMessageOwned::Ipv4PacketInfo(it) => {
                    // The kernel names an address of its own beside that of the header. (ip(7): IP_PKTINFO)
                    let is_own = it.ipi_addr.s_addr == it.ipi_spec_dst.s_addr;
                    Some((IpAddr::from(it.ipi_addr.s_addr.to_ne_bytes()), is_own))
                }
                ControlMessageOwned::Ipv6PacketInfo(it) => {
                    Some((IpAddr::from(it.ipi6_addr.s6_addr), true))
                }
                _ => None,
            })
        });
        let is_for_several =
            here.is_some_and(|(here, is_own)| !is_own || is_for_several(here.to_canonical()));
        let here = here.map(|it| it.0).filter(|_| !is_for_several);
        Ok(Received { length: message.bytes, source, here, is_for_several })
    }

    /// Sends a datagram from an address of this machine, or drops it if the kernel does not take it now.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        to: SocketAddr,
        here: Option<IpAddr>,
    ) -> std::io::Result<()> {
        let parts = [IoSlice::new(bytes)];
        let (fd, flags, to) =
            (self.inner.as_raw_fd(), MsgFlags::empty(), SockaddrStorage::from(to));
        let send_with = |messages: &[ControlMessage<'_>]| {
            self.inner.try_io(Interest::WRITABLE, || {
                sendmsg(fd, &parts, messages, flags, Some(&to)).map_err(std::io::Error::from)
            })
        };
        let sent = match here {
            Some(IpAddr::V4(here)) if !self.is_v6 => {
                let source = in_addr { s_addr: u32::from_ne_bytes(here.octets()) };
                let info = in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: source,
                    ipi_addr: in_addr { s_addr: 0 },
                };
                send_with(&[ControlMessage::Ipv4PacketInfo(&info)])
            }
            Some(IpAddr::V6(here)) if self.is_v6 => {
                let info =
                    in6_pktinfo { ipi6_addr: in6_addr { s6_addr: here.octets() }, ipi6_ifindex: 0 };
                send_with(&[ControlMessage::Ipv6PacketInfo(&info)])
            }
            _ => send_with(&[]),
        };
        match sent {
            // The address is gone: the kernel chooses one.
            Err(error) if here.is_some() && is_without_address(&error) => send_with(&[]).map(drop),
            other => other.map(drop),
        }
    }
}

/// Whether an address is that of several machines, as far as it shows that itself.
fn is_for_several(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Whether the kernel refuses the address that a datagram is to come from.
fn is_without_address(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    let kinds = [
        ErrorKind::InvalidInput,
        ErrorKind::NetworkUnreachable,
        ErrorKind::AddrNotAvailable,
        ErrorKind::HostUnreachable,
    ];
    kinds.contains(&error.kind())
}

fn address_of(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|it| SocketAddr::V4(SocketAddrV4::from(*it)));
    v4.or_else(|| address.as_sockaddr_in6().map(|it| SocketAddr::V6(SocketAddrV6::from(*it))))
}
