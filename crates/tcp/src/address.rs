//! Where a server is, as people write it.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::error::Error;

/// Where a server listens unless told otherwise.
pub const PORT: u16 = 5210;

/// `host`, `host:port`, an address of either kind, `[::1]:port`; of a name the first address.
pub fn resolve(text: &str) -> Result<SocketAddr, Error> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let found = if has_port { text.to_socket_addrs() } else { (text, PORT).to_socket_addrs() };
    let nothing = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
    let failed = |source| Error::Resolve { name: text.to_owned(), source };
    found.map_err(failed)?.next().ok_or_else(|| failed(nothing()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let told = |text: &str| resolve(text).unwrap().to_string();
        assert_eq!(told("127.0.0.1"), "127.0.0.1:5210");
        assert_eq!(told("127.0.0.1:80"), "127.0.0.1:80");
        assert_eq!(told("::1"), "[::1]:5210");
        assert_eq!(told("[::1]"), "[::1]:5210");
        assert_eq!(told("[fe80::1]:99"), "[fe80::1]:99");
        let error = resolve("no such host.invalid").unwrap_err().to_string();
        assert!(error.contains("HOST:PORT"), "{error}");
    }
}
