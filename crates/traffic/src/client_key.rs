//! Who asks, as far as it is remembered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nightwatt_policy::awake_budget::UNLIMITED;

use crate::address;
use crate::client::is_public;
use crate::hash;

/// A client, as far as a few bytes can identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// An IPv4 address.
    V4(u32),
    /// The upper 64 bits of an IPv6 address: a client that has one address of such a network has all of them.
    V6(u64),
    /// A host name, by hash (two names share one with a chance of 5e-20).
    Name(u64),
}

impl ClientKey {
    /// The same in one number: different addresses of one kind have different numbers, and two
    /// kinds share one with a chance of 5e-20.
    pub const fn number(self) -> u64 {
        match self {
            Self::V4(address) => hash::spread(1 << 32 | address as u64),
            Self::V6(prefix) => hash::spread(prefix),
            Self::Name(hash) => hash,
        }
    }
}

impl ClientKey {
    /// The network that a client is in, in one number: of IPv6 the first 48 bits, which many a provider
    /// gives to one customer; else the client itself. [`UNLIMITED`] for addresses that are not public.
    pub fn network(self) -> u64 {
        let address = match self {
            Self::V4(bits) => Some(IpAddr::from(Ipv4Addr::from_bits(bits))),
            Self::V6(prefix) => Some(Ipv6Addr::from_bits(u128::from(prefix) << 64).into()),
            Self::Name(_) => None,
        };
        if address.is_some_and(|address| !is_public(address)) {
            return UNLIMITED;
        }
        match self {
            // Numbers of no client: e000::/4 is not in use.
            Self::V6(prefix) => hash::spread(0xE << 60 | prefix >> 16),
            Self::V4(_) | Self::Name(_) => self.number(),
        }
    }
}

impl From<IpAddr> for ClientKey {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            // A program on this machine has all of them.
            address if address.is_loopback() => Self::V4(Ipv4Addr::LOCALHOST.to_bits()),
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl From<&str> for ClientKey {
    /// An address, perhaps with a port, or the name of a host.
    fn from(client: &str) -> Self {
        address::read(client).map_or_else(|| Self::Name(hash::text(client)), Self::from)
    }
}
