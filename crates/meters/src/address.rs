//! Hosts and ports.

use std::net::{IpAddr, Ipv6Addr};

/// `host:port` of a host with or without a port; addresses of IPv6 with or without brackets.
pub(crate) fn with_port(address: &str, usual: u16) -> String {
    if let Ok(address) = address.parse::<Ipv6Addr>() {
        return format!("[{address}]:{usual}");
    }
    let has_port = match address.rsplit_once(':') {
        Some((host, port)) => !host.is_empty() && port.parse::<u16>().is_ok(),
        None => false,
    };
    let bare = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    if has_port && !bare { address.to_owned() } else { format!("{address}:{usual}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_added_where_there_is_none() {
        for (address, whole) in [
            ("pdu", "pdu:161"),
            ("pdu:1161", "pdu:1161"),
            ("10.0.0.3", "10.0.0.3:161"),
            ("10.0.0.3:162", "10.0.0.3:162"),
            ("::1", "[::1]:161"),
            ("fe80::a:161", "[fe80::a:161]:161"),
            ("[::1]", "[::1]:161"),
            ("[::1]:162", "[::1]:162"),
        ] {
            assert_eq!(with_port(address, 161), whole);
        }
    }
}
