//! Addresses of our own: a service that is said to be at one of them would get its connections back from
//! us, each as a new one, for ever.

use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Does a connection to `at` reach one of those who listen at `own`?
pub(crate) fn listens(own: &[SocketAddr], at: SocketAddr) -> bool {
    own.iter().any(|own| reaches(*own, at, is_here))
}

/// Does a connection to `at` reach who listens at `own`? `is_here` says whether an address is one of this
/// machine's.
pub(super) fn reaches(own: SocketAddr, at: SocketAddr, is_here: impl Fn(IpAddr) -> bool) -> bool {
    let (listener, wanted) = (own.ip().to_canonical(), at.ip().to_canonical());
    own.port() == at.port()
        && (listener == wanted
            // A connection to no address goes to this machine.
            || wanted.is_unspecified() && (listener.is_unspecified() || listener.is_loopback())
            || listener.is_unspecified()
                && (listener.is_ipv6() || wanted.is_ipv4())
                && is_here(wanted))
}

/// Whether an address is one of this machine: only those can be bound to.
pub(crate) fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}
