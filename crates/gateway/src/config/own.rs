//! Addresses of our own: a service that is said to be at one of them would get its connections back from
//! us, each as a new one, for ever.

use std::net::{IpAddr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

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

/// Whether an address is one of this machine: of an interface, or a loopback address. (That it can be bound to proves
/// nothing: with `net.ipv4.ip_nonlocal_bind` every address can be.)
pub(crate) fn is_here(address: IpAddr) -> bool {
    let has_it = |of: SockaddrStorage| match address {
        IpAddr::V4(address) => of.as_sockaddr_in().is_some_and(|it| it.ip() == address),
        IpAddr::V6(address) => of.as_sockaddr_in6().is_some_and(|it| it.ip() == address),
    };
    address.is_loopback()
        || getifaddrs().is_ok_and(|mut all| all.any(|it| it.address.is_some_and(has_it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_interfaces_are_here_and_those_of_documentation_are_not() {
        let is = |address: &str| is_here(address.parse().unwrap());
        assert!(is("127.0.0.1") && is("127.9.9.9") && is("::1"));
        for other in ["192.0.2.1", "203.0.113.7", "2001:db8::1"] {
            assert!(!is(other), "{other}");
        }
    }
}
