//! Packets by hand.

use std::net::{IpAddr, SocketAddr};

use nightwatt_tcp::capture::{ACK, ConnectionRow, FIN, Packet, SYN, Table, TcpOptions, Totals};

/// A conversation of 192.0.2.1:40000 (the client) with 192.0.2.2:80.
#[derive(Default)]
pub(crate) struct Talk {
    pub(crate) packets: Vec<Packet>,
    pub(crate) now_ns: i64,
    /// First numbers of both.
    pub(crate) isn: [u32; 2],
    pub(crate) stamps: bool,
}

pub(crate) const MS: i64 = 1_000_000;

impl Talk {
    pub(crate) fn after(&mut self, ns: i64) -> &mut Self {
        self.now_ns += ns;
        self
    }

    /// `who` is 0 for the client; `seq` and `ack` count from the first byte of payload, which is 1.
    pub(crate) fn say(
        &mut self,
        who: usize,
        flags: u8,
        (seq, ack): (u32, u32),
        payload: u32,
    ) -> &mut Packet {
        let addresses: [SocketAddr; 2] =
            ["192.0.2.1:40000".parse().unwrap(), "192.0.2.2:80".parse().unwrap()];
        let ms = (self.now_ns / MS) as u32;
        self.packets.push(Packet {
            time_ns: 1_000_000_000 * MS + self.now_ns,
            from: addresses[who],
            to: addresses[1 - who],
            id: None,
            seq: self.isn[who].wrapping_add(seq),
            ack: if flags & ACK == 0 { 0 } else { self.isn[1 - who].wrapping_add(ack) },
            flags,
            window: 500,
            payload,
            options: TcpOptions {
                stamp: self.stamps.then_some((1000 + ms, 0)),
                ..TcpOptions::default()
            },
        });
        self.packets.last_mut().unwrap()
    }

    /// Captured at the server, the client 20 ms away, 1000 bytes to a segment.
    pub(crate) fn handshake(&mut self) -> &mut Self {
        // Timestamps take twelve bytes of each segment.
        let mss = if self.stamps { 1012 } else { 1000 };
        self.say(0, SYN, (0, 0), 0).options.mss = Some(mss);
        self.after(10_000).say(1, SYN | ACK, (0, 1), 0).options.mss = Some(mss);
        self.after(20 * MS).say(0, ACK, (1, 1), 0);
        self
    }

    pub(crate) fn data(&mut self, seq: u32) -> &mut Packet {
        self.after(MS).say(1, ACK, (seq, 1), 1000)
    }

    pub(crate) fn ack(&mut self, ack: u32) -> &mut Packet {
        self.after(MS).say(0, ACK, (1, ack), 0)
    }

    pub(crate) fn farewell(&mut self, seq: u32) -> &mut Self {
        self.after(MS).say(1, ACK | FIN, (seq, 1), 0);
        self.after(MS).say(0, ACK | FIN, (1, seq + 1), 0);
        self.after(MS).say(1, ACK, (seq + 1, 2), 0);
        self
    }

    pub(crate) fn counted(&self) -> (Totals, Vec<ConnectionRow>) {
        let mut table = Table::new(None, 100);
        self.packets.iter().for_each(|packet| table.take(packet));
        table.end()
    }

    pub(crate) fn only(&self) -> ConnectionRow {
        let (totals, rows) = self.counted();
        assert_eq!((totals.connections, rows.len()), (1, 1));
        rows[0]
    }
}

/// IP and TCP of a packet, its payload zeros.
pub(crate) fn ip(packet: &Packet) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some(mss) = packet.options.mss {
        options.extend([2, 4]);
        options.extend(mss.to_be_bytes());
    }
    if let Some((value, echo)) = packet.options.stamp {
        options.extend([1, 1, 8, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    }
    let blocks = &packet.options.sack[..packet.options.sacks];
    if !blocks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (from, to) in blocks {
            options.extend(from.to_be_bytes());
            options.extend(to.to_be_bytes());
        }
    }
    let length = 20 + options.len() + packet.payload as usize;
    let mut bytes = match (packet.from.ip(), packet.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut head = vec![0x45, 0];
            head.extend((20 + length as u16).to_be_bytes());
            head.extend(packet.id.unwrap_or(0).to_be_bytes());
            head.extend([0x40, 0, 64, 6, 0, 0]);
            head.extend(from.octets());
            head.extend(to.octets());
            head
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            // With an extension header: eight bytes of hop-by-hop padding.
            let mut head = vec![0x60, 0, 0, 0];
            head.extend((8 + length as u16).to_be_bytes());
            head.extend([0, 64]);
            head.extend(from.octets());
            head.extend(to.octets());
            head.extend([6, 0, 1, 4, 0, 0, 0, 0]);
            head
        }
        _ => unreachable!("one family"),
    };
    bytes.extend(packet.from.port().to_be_bytes());
    bytes.extend(packet.to.port().to_be_bytes());
    bytes.extend(packet.seq.to_be_bytes());
    bytes.extend(packet.ack.to_be_bytes());
    bytes.extend([((20 + options.len()) / 4 * 16) as u8, packet.flags]);
    bytes.extend(packet.window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    bytes.resize(bytes.len() + packet.payload as usize, 0);
    bytes
}

/// A pcap file of packets with these bytes before their IP header.
pub(crate) fn pcap(
    packets: &[Packet],
    link: u32,
    before: &[u8],
    snap: usize,
    how: (bool, bool),
) -> Vec<u8> {
    let (big, nano) = how;
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let magic = if nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut file = word(magic).to_vec();
    file.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    for n in [0, 0, snap as u32, link] {
        file.extend(word(n));
    }
    for packet in packets {
        let bytes = [before, &ip(packet)].concat();
        let kept = bytes.len().min(snap);
        let part = packet.time_ns % 1_000_000_000;
        let part = if nano { part } else { part / 1000 };
        let seconds = packet.time_ns / 1_000_000_000;
        for n in [seconds as u32, part as u32, kept as u32, bytes.len() as u32] {
            file.extend(word(n));
        }
        file.extend(&bytes[..kept]);
    }
    file
}

/// The same as pcapng, in nanoseconds, with a block of unknown type in it.
pub(crate) fn pcapng(packets: &[Packet], link: u16, before: &[u8], big: bool) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let block = |kind: u32, body: &[u8]| {
        let mut bytes = word(kind).to_vec();
        let padded = body.len().next_multiple_of(4);
        let length = word(12 + padded as u32);
        bytes.extend(length);
        bytes.extend(body);
        bytes.resize(8 + padded, 0);
        bytes.extend(length);
        bytes
    };
    let mut section = word(0x1a2b_3c4d).to_vec();
    section.extend([half(1), half(0)].concat());
    section.extend([0xff; 8]);
    let mut interface = [half(link), half(0)].concat();
    interface.extend(word(0));
    // if_tsresol: 10^-9; if_name, odd in length; the end.
    interface.extend([half(2), half(3)].concat());
    interface.extend(*b"eth\0");
    interface.extend([half(9), half(1)].concat());
    interface.extend([9, 0, 0, 0, 0, 0, 0, 0]);
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &interface));
    file.extend(block(0xbad, &[7; 13]));
    for packet in packets {
        let bytes = [before, &ip(packet)].concat();
        let (high, low) = ((packet.time_ns >> 32) as u32, packet.time_ns as u32);
        let length = bytes.len() as u32;
        let mut body: Vec<u8> = [0, high, low, length, length].into_iter().flat_map(word).collect();
        body.extend(bytes);
        file.extend(block(6, &body));
    }
    file
}
