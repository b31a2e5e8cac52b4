//! A range of addresses: `10.0.0.0/8`, `fd00::/8`, `127.0.0.1`.

use std::net::IpAddr;

use serde::Deserialize;

use super::{Wrong, wrong};

/// The field in which trusted proxies name the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientField {
    /// `X-Forwarded-For`, never `Forwarded`.
    XForwardedFor,
    /// `Forwarded`, never `X-Forwarded-For`.
    Forwarded,
}

/// Addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Whether it has all addresses of its family.
    pub(super) const fn is_all(&self) -> bool {
        self.bits == 0
    }

    /// Whether its addresses are those of IPv4.
    pub(super) const fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether another network has all of its addresses.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        other.bits <= self.bits && other.contains(self.address)
    }

    /// Is `address` in it? IPv4 addresses in IPv6 clothes count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differ = u32::from(ours) ^ u32::from(theirs);
                differ.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differ = u128::from(ours) ^ u128::from(theirs);
                differ.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl std::str::FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a network: write an address and a prefix length, as in `10.0.0.0/8`"
            )
        };
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        // Clients are compared by their IPv4 addresses.
        let mapped = match address {
            IpAddr::V6(address) => address.to_ipv4_mapped(),
            IpAddr::V4(_) => None,
        };
        let Some(address_v4) = mapped else { return Ok(Self { address, bits }) };
        let bits = bits.checked_sub(96).ok_or_else(|| {
            format!(
                "`{text}` is more than the IPv4 addresses in IPv6 form, which count as IPv4: write `0.0.0.0/0` for all \
                 of these, and networks of IPv6 beside it"
            )
        })?;
        Ok(Self { address: address_v4.into(), bits })
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether a client may use a service with these networks: it is in one of `allow`, if there are any, and in none of
/// `deny`.
pub(super) fn lets_in(allow: Option<&[Network]>, deny: &[Network], client: IpAddr) -> bool {
    let within = |networks: &[Network]| networks.iter().any(|it| it.contains(client));
    allow.is_none_or(within) && !within(deny)
}

/// Checks that `allow` lets clients in.
pub(super) fn check_allow(allow: Option<&[Network]>) -> Result<(), Wrong> {
    if allow.is_some_and(<[Network]>::is_empty) {
        let text = "`allow` is empty, which no client satisfies: leave it out, or name networks";
        return wrong("allow", text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_their_networks_and_in_no_other() {
        let within = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(within("10.0.0.0/8", "10.255.1.2"));
        assert!(!within("10.0.0.0/8", "11.0.0.0"));
        assert!(within("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(!within("127.0.0.1", "127.0.0.2"));
        assert!(within("0.0.0.0/0", "8.8.8.8"));
        assert!(!within("0.0.0.0/0", "::1"));
        for (network, inside, outside) in [
            ("::ffff:127.0.0.0/104", "127.0.0.1", "128.0.0.1"),
            ("::ffff:10.1.0.0/112", "::ffff:10.1.2.3", "10.2.0.0"),
            ("::ffff:10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("::ffff:0:0/96", "8.8.8.8", "::1"),
        ] {
            assert!(within(network, inside) && !within(network, outside), "{network}");
        }
        let said = "::ffff:0:0/95".parse::<Network>().unwrap_err();
        assert!(said.contains("write `0.0.0.0/0`"), "{said}");
        assert!(within("fd00::/8", "fdff::1"));
        assert!(!within("fd00::/8", "fe80::1"));
        for wrong in ["10.0.0.0/33", "10.0.0/8", "example.org", "10.0.0.0/", ""] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
