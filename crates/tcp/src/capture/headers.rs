//! From a captured packet to what its TCP header says. Lengths are those of the headers, since packets
//! are often captured in part.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// FIN.
pub const FIN: u8 = 1;
/// SYN.
pub const SYN: u8 = 2;
/// RST.
pub const RST: u8 = 4;
/// ACK.
pub const ACK: u8 = 16;

/// What a TCP header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When it was captured, since 1970, ns.
    pub time_ns: i64,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// IPv4's identification; none of 0 and of IPv6.
    pub id: Option<u16>,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// [`FIN`], [`SYN`], [`RST`], [`ACK`] and the others.
    pub flags: u8,
    /// As in the header, before its scale.
    pub window: u16,
    /// Bytes of payload, captured or not.
    pub payload: u32,
    /// Its options.
    pub options: TcpOptions,
}

impl Packet {
    /// Does it have one of these flags?
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// Options of a TCP header, as far as they were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// The largest segment that its sender takes.
    pub mss: Option<u16>,
    /// Timestamps (RFC 7323): value and echo.
    pub stamp: Option<(u32, u32)>,
    /// Blocks of selective acknowledgements (RFC 2018).
    pub sack: [(u32, u32); 4],
    /// How many of these there are.
    pub sacks: usize,
    /// There are more that were not captured.
    pub cut: bool,
}

/// What a captured packet was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// TCP, with its whole fixed header.
    Tcp(Packet),
    /// Something else.
    Other,
    /// A link layer that is not known here.
    UnknownLink,
    /// A part of an IP packet.
    Fragment,
    /// Captured too short to say.
    Short,
    /// Its headers contradict each other.
    Malformed,
}

/// Reads the headers of a packet; `original` is its length on the wire.
pub fn packet(link: u32, bytes: &[u8], original: u32, time_ns: i64) -> FrameKind {
    let start = match ip_at(link, bytes) {
        Ok(start) => start,
        Err(NotIp::Other) => return FrameKind::Other,
        Err(NotIp::UnknownLink) => return FrameKind::UnknownLink,
        Err(NotIp::Short) => return FrameKind::Short,
    };
    let left = (original as usize).max(bytes.len()) - start;
    let ip = &bytes[start..];
    match ip.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(ip, left, time_ns),
        Some(6) => ipv6(ip, left, time_ns),
        Some(_) => FrameKind::Malformed,
        None => FrameKind::Short,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let b = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Why there is no IP header.
enum NotIp {
    Other,
    UnknownLink,
    Short,
}

/// Where the IP header begins, by link type (<https://www.tcpdump.org/linktypes.html>).
fn ip_at(link: u32, bytes: &[u8]) -> Result<usize, NotIp> {
    // Where the EtherType is, and where the header ends.
    let (mut at, mut end) = match link {
        // Null and loop: the number of an address family, which differs between systems. What follows says
        // its version itself.
        0 | 108 => return if bytes.len() > 4 { Ok(4) } else { Err(NotIp::Short) },
        12 | 14 | 101 | 228 | 229 => return Ok(0),
        1 => (12, 14),
        // Linux cooked, version 1 and 2.
        113 => (14, 16),
        276 => (0, 20),
        _ => return Err(NotIp::UnknownLink),
    };
    // More than two tags don't occur; the bound is for hostile packets.
    for _ in 0..5 {
        match be16(bytes, at).ok_or(NotIp::Short)? {
            0x0800 | 0x86dd if end < bytes.len() => return Ok(end),
            0x0800 | 0x86dd => return Err(NotIp::Short),
            0x8100 | 0x88a8 | 0x9100 => (at, end) = (end + 2, end + 4),
            _ => return Err(NotIp::Other),
        }
    }
    Err(NotIp::Other)
}

fn ipv4(ip: &[u8], left: usize, time_ns: i64) -> FrameKind {
    let Some(head) = ip.get(..20) else { return FrameKind::Short };
    let length = usize::from(head[0] & 15) * 4;
    let total = match usize::from(u16::from_be_bytes([head[2], head[3]])) {
        // The sending card would have written it (TSO of more than 64 KiB).
        0 => left,
        total => total,
    };
    if length < 20 || total < length || total > left {
        return FrameKind::Malformed;
    }
    if head[9] != 6 {
        return FrameKind::Other;
    }
    if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return FrameKind::Fragment;
    }
    let address =
        |at: usize| IpAddr::V4(Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]));
    let Some(segment) = ip.get(length..) else { return FrameKind::Short };
    let id = u16::from_be_bytes([head[4], head[5]]);
    let id = Some(id).filter(|id| *id != 0);
    tcp(segment, total - length, address(12), address(16), id, time_ns)
}

fn ipv6(ip: &[u8], left: usize, time_ns: i64) -> FrameKind {
    let Some(head) = ip.get(..40) else { return FrameKind::Short };
    let total = match usize::from(u16::from_be_bytes([head[4], head[5]])) {
        // A jumbogram (BIG TCP).
        0 => left,
        length => 40 + length,
    };
    if total > left {
        return FrameKind::Malformed;
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&head[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let (mut next, mut at) = (head[6], 40);
    // More extension headers than any sender uses.
    for _ in 0..16 {
        if next == 6 {
            let Some(length) = total.checked_sub(at) else { return FrameKind::Malformed };
            let Some(segment) = ip.get(at..) else { return FrameKind::Short };
            return tcp(segment, length, address(8), address(24), None, time_ns);
        }
        let Some(&[following, length]) = ip.get(at..at + 2) else {
            return if known_extension(next) { FrameKind::Short } else { FrameKind::Other };
        };
        match next {
            44 => {
                // An atomic fragment is a whole packet.
                let Some(offset) = be16(ip, at + 2) else { return FrameKind::Short };
                if offset & 0xfff9 != 0 {
                    return FrameKind::Fragment;
                }
                at += 8;
            }
            51 => at += (usize::from(length) + 2) * 4,
            _ if known_extension(next) => at += (usize::from(length) + 1) * 8,
            _ => return FrameKind::Other,
        }
        next = following;
    }
    FrameKind::Other
}

fn known_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)
}

fn tcp(
    segment: &[u8],
    length: usize,
    from: IpAddr,
    to: IpAddr,
    id: Option<u16>,
    time_ns: i64,
) -> FrameKind {
    let Some(head) = segment.get(..20) else {
        return if length < 20 { FrameKind::Malformed } else { FrameKind::Short };
    };
    let offset = usize::from(head[12] >> 4) * 4;
    let Some(payload) = length.checked_sub(offset).filter(|_| offset >= 20) else {
        return FrameKind::Malformed;
    };
    let number = |at| be32(head, at).unwrap_or(0);
    let short = |at| be16(head, at).unwrap_or(0);
    FrameKind::Tcp(Packet {
        time_ns,
        from: SocketAddr::new(from, short(0)),
        to: SocketAddr::new(to, short(2)),
        id,
        seq: number(4),
        ack: number(8),
        flags: head[13],
        window: short(14),
        payload: payload as u32,
        options: TcpOptions {
            cut: offset > segment.len(),
            ..options(&segment[20..offset.min(segment.len())])
        },
    })
}

/// Those that are there whole.
fn options(mut bytes: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    while let Some(&kind) = bytes.first() {
        if kind == 0 {
            break;
        }
        let length = match (kind, bytes.get(1)) {
            (1, _) => 1,
            (_, Some(&length)) if length >= 2 => usize::from(length),
            _ => break,
        };
        let Some(option) = bytes.get(..length) else { break };
        match (kind, length) {
            (2, 4) => options.mss = be16(option, 2),
            (8, 10) => options.stamp = be32(option, 2).zip(be32(option, 6)),
            (5, 10..) => {
                options.sacks = 0;
                for pair in option[2..].chunks_exact(8).take(4) {
                    if let Some(block) = be32(pair, 0).zip(be32(pair, 4)) {
                        options.sack[options.sacks] = block;
                        options.sacks += 1;
                    }
                }
            }
            _ => {}
        }
        bytes = &bytes[length..];
    }
    options
}
