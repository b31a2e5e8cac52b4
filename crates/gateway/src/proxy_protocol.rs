//! The PROXY protocol (versions 1 and 2): before the first request, a load balancer in front names the client of a
//! connection; and we name it to services whose connections are passed through.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use bytes::{Buf, BytesMut};
use ppp::{PartialResult, v2};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::config::HeaderVersion;

/// Maximum length of a line of version 1.
const LONGEST_V1: usize = 107;

/// Maximum length of an accepted header of version 2, including extensions.
pub const LONGEST_V2: usize = 2048;

/// How the versions begin.
const V1: &[u8] = b"PROXY ";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Why a connection was rejected.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// It does not begin with a header.
    #[error("it does not begin with a PROXY protocol header")]
    NoHeader,
    /// It was cut off.
    #[error("it ended within the PROXY protocol header")]
    Ended,
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] std::io::Error),
}

/// Reads the header; returns the client (`balancer`, if the header names no client: a health check of the balancer's
/// own), and the bytes after the header.
pub(crate) async fn read(
    stream: &mut TcpStream,
    balancer: SocketAddr,
) -> Result<(SocketAddr, BytesMut), HeaderError> {
    let mut bytes = BytesMut::with_capacity(256);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(HeaderError::Ended);
        }
        if let Some((client, length)) = header(&bytes)? {
            bytes.advance(length);
            return Ok((client.unwrap_or(balancer), bytes));
        }
    }
}

/// The client that a header names (none, if the connection is the balancer's own), and the header's length; nothing
/// while the header is incomplete.
pub fn header(bytes: &[u8]) -> Result<Option<(Option<SocketAddr>, usize)>, HeaderError> {
    let begins = |with: &[u8]| with.starts_with(&bytes[..bytes.len().min(with.len())]);
    if begins(V1) {
        // Parsed only when the line is complete: a number may continue in the next packet.
        let Some(end) = memchr::memchr(b'\n', &bytes[..bytes.len().min(LONGEST_V1)]) else {
            return if bytes.len() < LONGEST_V1 { Ok(None) } else { Err(HeaderError::NoHeader) };
        };
        let line = bytes[..end].strip_suffix(b"\r").ok_or(HeaderError::NoHeader)?;
        return Ok(Some((of_v1(line)?, end + 1)));
    }
    if !begins(V2) {
        return Err(HeaderError::NoHeader);
    }
    match v2::Header::try_from(&bytes[..bytes.len().min(LONGEST_V2)]) {
        Ok(header) => Ok(Some((of_v2(&header), header.len()))),
        Err(error) if error.is_incomplete() && bytes.len() < LONGEST_V2 => Ok(None),
        Err(_) => Err(HeaderError::NoHeader),
    }
}

/// The header that names the client, and the address that it connected to.
pub fn write(version: HeaderVersion, client: SocketAddr, here: SocketAddr) -> Vec<u8> {
    let (from, to) = match (client.ip().to_canonical(), here.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (IpAddr::V4(from), IpAddr::V4(to)),
        // Both must be of one family.
        (from, to) => (IpAddr::V6(as_v6(from)), IpAddr::V6(as_v6(to))),
    };
    let family = if from.is_ipv4() { 4 } else { 6 };
    match version {
        HeaderVersion::V1 => {
            format!("PROXY TCP{family} {from} {to} {} {}\r\n", client.port(), here.port())
                .into_bytes()
        }
        HeaderVersion::V2 => {
            let mut addresses = Vec::with_capacity(36);
            for address in [from, to] {
                match address {
                    IpAddr::V4(address) => addresses.extend(address.octets()),
                    IpAddr::V6(address) => addresses.extend(address.octets()),
                }
            }
            addresses.extend(client.port().to_be_bytes());
            addresses.extend(here.port().to_be_bytes());
            let length = if from.is_ipv4() { 12 } else { 36 };
            // Version 2, command `PROXY`; then TCP over the address family.
            let mut header =
                [V2, &[0x21, if from.is_ipv4() { 0x11 } else { 0x21 }, 0, length]].concat();
            header.extend(addresses);
            header
        }
    }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Parses the line of version 1 as strictly as section 2.1 of its specification.
fn of_v1(line: &[u8]) -> Result<Option<SocketAddr>, HeaderError> {
    let text = std::str::from_utf8(line).map_err(|_| HeaderError::NoHeader)?;
    let words: Vec<&str> = text.split(' ').collect();
    let [_, family, from, to, from_port, to_port] = words[..] else {
        // Whatever follows is ignored.
        return if words.get(1) == Some(&"UNKNOWN") {
            Ok(None)
        } else {
            Err(HeaderError::NoHeader)
        };
    };
    let address = |text: &str| match family {
        "TCP4" => text.parse().map(IpAddr::V4).ok(),
        "TCP6" => text.parse().map(IpAddr::V6).ok(),
        _ => None,
    };
    let port = |text: &str| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let plain = plain && (text == "0" || !text.starts_with('0'));
        text.parse::<u16>().ok().filter(|_| plain)
    };
    if family == "UNKNOWN" {
        return Ok(None);
    }
    match (address(from), address(to), port(from_port), port(to_port)) {
        (Some(from), Some(_), Some(port), Some(_)) => Ok(Some((from, port).into())),
        _ => Err(HeaderError::NoHeader),
    }
}

fn of_v2(header: &v2::Header<'_>) -> Option<SocketAddr> {
    if header.command == v2::Command::Local {
        return None;
    }
    match &header.addresses {
        v2::Addresses::IPv4(it) => Some((it.source_address, it.source_port).into()),
        v2::Addresses::IPv6(it) => Some((it.source_address, it.source_port).into()),
        v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<(Option<SocketAddr>, usize)>, String> {
        header(bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn a_header_is_read_once_it_is_whole_wherever_it_was_cut() {
        let v1 = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n".to_vec();
        let client: SocketAddr = "192.0.2.7:4711".parse().unwrap();
        let here: SocketAddr = "192.0.2.1:443".parse().unwrap();
        for whole in [v1, write(HeaderVersion::V2, client, here)] {
            for cut in 1..whole.len() {
                assert_eq!(read(&whole[..cut]), Ok(None), "{cut} of {whole:?}");
            }
            let all = [&whole[..], b"PROXY"].concat();
            assert_eq!(read(&all), Ok(Some((Some(client), whole.len()))));
        }
    }

    #[test]
    fn what_is_written_is_read_back_with_its_port() {
        for client in ["192.0.2.7:1", "[2001:db8::7]:65535"] {
            let client: SocketAddr = client.parse().unwrap();
            let here: SocketAddr =
                (if client.is_ipv4() { "192.0.2.1:22" } else { "[2001:db8::1]:22" })
                    .parse()
                    .unwrap();
            for version in [HeaderVersion::V1, HeaderVersion::V2] {
                let bytes = write(version, client, here);
                assert_eq!(read(&bytes), Ok(Some((Some(client), bytes.len()))));
            }
        }
    }

    #[test]
    fn a_line_that_names_nobody_names_nobody_and_any_other_must_be_right() {
        for line in [
            "PROXY UNKNOWN\r\n",
            "PROXY UNKNOWN a b c d e f g h\r\n",
            "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
        ] {
            assert_eq!(read(line.as_bytes()), Ok(Some((None, line.len()))), "{line}");
        }
        for line in [
            "PROXY\r\n",
            "PROXY \r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 443 1\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 65536\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 +4711 443\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 04711 443\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 \r\n",
            "PROXY TCP4 2001:db8::7 192.0.2.1 4711 443\r\n",
            "PROXY TCP6 192.0.2.7 192.0.2.1 4711 443\r\n",
            "PROXY UDP4 192.0.2.7 192.0.2.1 4711 443\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\n",
            "PROXY TCP4  192.0.2.7 192.0.2.1 4711 443\r\n",
            "GET / HTTP/1.1\r\n",
        ] {
            assert!(read(line.as_bytes()).is_err(), "{line}");
        }
        let long = [&b"PROXY UNKNOWN "[..], &[b'a'; 100]].concat();
        assert!(read(&long).is_err());
    }

    #[test]
    fn a_balancers_own_connection_is_its_own() {
        // LOCAL of version 2, with addresses to ignore; and PROXY with an unspecified family.
        let start = b"\r\n\r\n\0\r\nQUIT\n";
        let local = [&start[..], &[0x20, 0x11, 0, 12], &[1; 12]].concat();
        let unspecified = [&start[..], &[0x21, 0, 0, 0]].concat();
        for header in [local, unspecified] {
            assert_eq!(read(&header), Ok(Some((None, header.len()))));
        }
        // A third command, and a third version.
        for (at, byte) in [(12, 0x22), (12, 0x31)] {
            let mut header = [&start[..], &[0x21, 0x11, 0, 12], &[1; 12]].concat();
            header[at] = byte;
            assert!(read(&header).is_err(), "{byte:x}");
        }
    }
}
