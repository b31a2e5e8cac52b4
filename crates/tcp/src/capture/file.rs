//! Files of captured packets: pcap (both byte orders, micro- and nanoseconds) and pcapng.
//!
//! The formats: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html> and
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html>. One packet is in memory at a time.

use std::io::{self, Read};

use serde::Serialize;

use super::CaptureError;

/// No packet is longer: Linux's longest segments (BIG TCP) are 512 KiB.
const LONGEST: usize = 16 << 20;
/// More interfaces than any machine has.
const INTERFACES: usize = 4096;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileEnd {
    /// After its last packet.
    Whole,
    /// In the middle of a packet: what was there before counts.
    CutShort,
    /// A length in it cannot be: what was there before counts.
    Damaged,
}

/// A packet as it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Since 1970, ns.
    pub time_ns: i64,
    /// What its first header is: a number of <https://www.tcpdump.org/linktypes.html>.
    pub link: u32,
    /// How long it was on the wire.
    pub original: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u32,
    snap: u32,
    per_s: u64,
    offset_s: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Link type, and ns of a unit of time.
    Pcap(u32, i64),
    Pcapng,
}

/// Reads one packet after the other.
#[derive(Debug)]
pub struct CaptureFile<R> {
    reader: R,
    format: Format,
    big_endian: bool,
    interfaces: Vec<Interface>,
    buffer: Vec<u8>,
    time_ns: i64,
    end: Option<FileEnd>,
}

/// Where in the buffer a packet is.
struct PacketSpan {
    link: u32,
    original: u32,
    from: usize,
    length: usize,
}

impl<R: Read> CaptureFile<R> {
    /// Reads the header of a file.
    pub fn open(reader: R) -> Result<Self, CaptureError> {
        let mut file = Self {
            reader,
            format: Format::Pcapng,
            big_endian: false,
            interfaces: Vec::new(),
            buffer: Vec::new(),
            time_ns: 0,
            end: None,
        };
        if file.fill(4)? < 4 {
            return Err(CaptureError::NoCapture);
        }
        let magic = file.u32(0);
        if magic == SECTION {
            if file.section()? { Ok(file) } else { Err(CaptureError::NoCapture) }
        } else {
            file.big_endian = magic.to_le_bytes()[0] == 0xa1;
            file.format = match file.u32(0) {
                0xa1b2_c3d4 => Format::Pcap(0, 1000),
                0xa1b2_3c4d => Format::Pcap(0, 1),
                _ => return Err(CaptureError::NoCapture),
            };
            let Format::Pcap(link, unit) = &mut file.format else { unreachable!("just made") };
            let (mut header, unit) = ([0; 20], *unit);
            *link = 0;
            if read(&mut file.reader, &mut header)? < header.len() {
                return Err(CaptureError::NoCapture);
            }
            file.buffer = header.to_vec();
            // Above the 16 bits of the type are the length of a checksum and flags.
            file.format = Format::Pcap(file.u32(16) & 0xffff, unit);
            Ok(file)
        }
    }

    /// `pcap` or `pcapng`.
    pub fn format(&self) -> &'static str {
        if self.format == Format::Pcapng { "pcapng" } else { "pcap" }
    }

    /// How it ended, as soon as it has.
    pub fn end(&self) -> Option<FileEnd> {
        self.end
    }

    /// The next packet; none after the last.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let found = match self.format {
            Format::Pcap(link, unit) => self.record(link, unit)?,
            Format::Pcapng => self.block()?,
        };
        Ok(found.map(|found| Frame {
            time_ns: self.time_ns,
            link: found.link,
            original: found.original,
            bytes: &self.buffer[found.from..found.from + found.length],
        }))
    }

    fn record(&mut self, link: u32, unit: i64) -> Result<Option<PacketSpan>, CaptureError> {
        match self.fill(16)? {
            16 => {}
            0 => return Ok(self.ended(FileEnd::Whole)),
            _ => return Ok(self.ended(FileEnd::CutShort)),
        }
        let (seconds, part) = (self.u32(0), self.u32(4));
        let (length, original) = (self.u32(8) as usize, self.u32(12));
        if length > LONGEST {
            return Ok(self.ended(FileEnd::Damaged));
        }
        self.time_ns = i64::from(seconds) * 1_000_000_000 + i64::from(part) * unit;
        if self.fill(length)? < length {
            return Ok(self.ended(FileEnd::CutShort));
        }
        Ok(Some(PacketSpan { link, original, from: 0, length }))
    }

    /// The next block with a packet in it.
    fn block(&mut self) -> Result<Option<PacketSpan>, CaptureError> {
        loop {
            match self.fill(4)? {
                4 => {}
                0 => return Ok(self.ended(FileEnd::Whole)),
                _ => return Ok(self.ended(FileEnd::CutShort)),
            }
            let kind = self.u32(0);
            if kind == SECTION {
                if !self.section()? {
                    return Ok(self.ended(FileEnd::CutShort));
                }
                continue;
            }
            if self.fill(4)? < 4 {
                return Ok(self.ended(FileEnd::CutShort));
            }
            // The length covers the type, itself, and its repetition at the end.
            let Some(length) = (self.u32(0) as usize).checked_sub(8).filter(|n| *n >= 4) else {
                return Ok(self.ended(FileEnd::Damaged));
            };
            if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | PACKET) {
                let skipped =
                    io::copy(&mut (&mut self.reader).take(length as u64), &mut io::sink());
                if skipped.map_err(CaptureError::Read)? < length as u64 {
                    return Ok(self.ended(FileEnd::CutShort));
                }
                continue;
            }
            if length > LONGEST {
                return Ok(self.ended(FileEnd::Damaged));
            }
            if self.fill(length)? < length {
                return Ok(self.ended(FileEnd::CutShort));
            }
            let body = length - 4;
            let fits = match kind {
                INTERFACE => self.interface(body),
                _ => match self.packet(kind, body) {
                    Some(found) => return Ok(Some(found)),
                    None => false,
                },
            };
            if !fits {
                return Ok(self.ended(FileEnd::Damaged));
            }
        }
    }

    /// A packet of a block whose body is in the buffer.
    fn packet(&mut self, kind: u32, body: usize) -> Option<PacketSpan> {
        let from = match kind {
            SIMPLE_PACKET => 4,
            _ => 20,
        };
        if body < from {
            return None;
        }
        let number = match kind {
            SIMPLE_PACKET => 0,
            OLD_PACKET => usize::from(self.u16(0)),
            _ => self.u32(0) as usize,
        };
        let interface = *self.interfaces.get(number)?;
        let (length, original) = if kind == SIMPLE_PACKET {
            let (original, snap) = (self.u32(0), interface.snap);
            let kept = if snap == 0 { original } else { original.min(snap) };
            // It has no time: it came after the one before.
            (kept as usize, original)
        } else {
            let units = u128::from(self.u32(4)) << 32 | u128::from(self.u32(8));
            let ns = units * 1_000_000_000 / u128::from(interface.per_s.max(1));
            let offset = interface.offset_s.saturating_mul(1_000_000_000);
            self.time_ns = i64::try_from(ns).unwrap_or(i64::MAX).saturating_add(offset);
            (self.u32(12) as usize, self.u32(16))
        };
        (length <= body - from).then_some(PacketSpan {
            link: interface.link,
            original,
            from,
            length,
        })
    }

    fn interface(&mut self, body: usize) -> bool {
        if body < 8 || self.interfaces.len() >= INTERFACES {
            return false;
        }
        let mut interface = Interface {
            link: u32::from(self.u16(0)),
            snap: self.u32(4),
            per_s: 1_000_000,
            offset_s: 0,
        };
        let mut at = 8;
        while at + 4 <= body {
            let (code, length) = (self.u16(at), usize::from(self.u16(at + 2)));
            at += 4;
            if code == 0 || at + length > body {
                break;
            }
            match (code, length) {
                (9, 1) => {
                    let digits = u32::from(self.buffer[at] & 0x7f);
                    let base: u64 = if self.buffer[at] & 0x80 == 0 { 10 } else { 2 };
                    interface.per_s = base.checked_pow(digits).unwrap_or(u64::MAX);
                }
                (14, 8) => {
                    let (a, b) = (self.u32(at), self.u32(at + 4));
                    let (high, low) = if self.big_endian { (a, b) } else { (b, a) };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                _ => {}
            }
            at += length.next_multiple_of(4);
        }
        self.interfaces.push(interface);
        true
    }

    /// What follows a section's type: its length in an order of bytes that comes after it.
    fn section(&mut self) -> Result<bool, CaptureError> {
        if self.fill(8)? < 8 {
            return Ok(false);
        }
        self.big_endian = match self.buffer[4..8] {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return Ok(false),
        };
        let Some(rest) = self.u32(0).checked_sub(12) else { return Ok(false) };
        self.interfaces.clear();
        let skipped = io::copy(&mut (&mut self.reader).take(rest.into()), &mut io::sink());
        Ok(skipped.map_err(CaptureError::Read)? == u64::from(rest))
    }

    fn ended(&mut self, end: FileEnd) -> Option<PacketSpan> {
        self.end = Some(end);
        None
    }

    /// The next bytes into the buffer, as many as there are.
    fn fill(&mut self, length: usize) -> Result<usize, CaptureError> {
        self.buffer.resize(length, 0);
        read(&mut self.reader, &mut self.buffer)
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = [self.buffer[at], self.buffer[at + 1]];
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32(&self, at: usize) -> u32 {
        let b = &self.buffer[at..at + 4];
        let bytes = [b[0], b[1], b[2], b[3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// As `read_exact`, but says how much there was.
fn read(reader: &mut impl Read, into: &mut [u8]) -> Result<usize, CaptureError> {
    let mut have = 0;
    while have < into.len() {
        match reader.read(&mut into[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CaptureError::Read(error)),
        }
    }
    Ok(have)
}
