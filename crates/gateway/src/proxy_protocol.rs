//! The PROXY protocol (versions 1 and 2): a load balancer in front says, before the first request,
//! whose connection it passes on; and we say so to services whose connections are passed through.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use bytes::{Buf, BytesMut};
use ppp::{HeaderResult, PartialResult, v1, v2};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::config::HeaderVersion;

/// No header is longer, version 2 with its extensions among them.
const LONGEST: usize = 2048;

/// How the versions begin.
const V1: &[u8] = b"PROXY ";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Why a connection was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("it does not begin with a PROXY protocol header")]
    NoHeader,
    #[error("it ended within the PROXY protocol header")]
    Ended,
    #[error(transparent)]
    Broken(#[from] std::io::Error),
}

/// Reads the header; returns whose connection it is (`balancer`, if the header names nobody: a health
/// check of the balancer's own), and what came behind the header.
pub(crate) async fn read(
    stream: &mut TcpStream,
    balancer: SocketAddr,
) -> Result<(IpAddr, BytesMut), Wrong> {
    let mut bytes = BytesMut::with_capacity(256);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(Wrong::Ended);
        }
        if ![V1, V2].iter().any(|start| start.starts_with(&bytes[..bytes.len().min(start.len())])) {
            return Err(Wrong::NoHeader);
        }
        let header = HeaderResult::parse(&bytes);
        // A line of version 1 has come whole with its end, whatever is missing in it.
        let whole = bytes.starts_with(V1) && memchr::memchr(b'\n', &bytes).is_some();
        if header.is_incomplete() && !whole && bytes.len() < LONGEST {
            continue;
        }
        let (client, length) = match header {
            HeaderResult::V1(Ok(header)) => (of_v1(&header), header.header.len()),
            HeaderResult::V2(Ok(header)) => (of_v2(&header), header.len()),
            HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => return Err(Wrong::NoHeader),
        };
        bytes.advance(length);
        return Ok((client.unwrap_or(balancer.ip()), bytes));
    }
}

/// The header that says whose connection it is, and whom it came to.
pub(crate) fn write(version: HeaderVersion, client: SocketAddr, here: SocketAddr) -> Vec<u8> {
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
            // Version 2, `PROXY`; then TCP over the family.
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

fn of_v1(header: &v1::Header<'_>) -> Option<IpAddr> {
    match &header.addresses {
        v1::Addresses::Tcp4(it) => Some(it.source_address.into()),
        v1::Addresses::Tcp6(it) => Some(it.source_address.into()),
        v1::Addresses::Unknown => None,
    }
}

fn of_v2(header: &v2::Header<'_>) -> Option<IpAddr> {
    if header.command == v2::Command::Local {
        return None;
    }
    match &header.addresses {
        v2::Addresses::IPv4(it) => Some(it.source_address.into()),
        v2::Addresses::IPv6(it) => Some(it.source_address.into()),
        v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
    }
}
