//! What a process shares with the reader of its markers: a file in memory, version 1.
//!
//! ```text
//!       0  header: the process, and whether a reader is attached
//!    4096  names of sections, 64 bytes each
//!   20480  heads of rings, 128 bytes each
//!   36864  rings: a page of the writer's own, then records of 16 bytes
//! ```
//!
//! The same is in `crates/markers/include/nightwatt.h`, in C, where [`docs/markers.md`] explains it.
//! Whatever stands in such a file was written by a program that may be broken or hostile: nothing here
//! believes any of it.
//!
//! [`docs/markers.md`]: https://github.com/nightwatt/nightwatt/blob/main/docs/markers.md

use super::{Edge, Mark};
use crate::display::shown;

/// The first bytes.
pub const MAGIC: [u8; 8] = *b"NWMARKS\0";
/// The layout that this is.
pub const VERSION: u32 = 1;
/// Where `enabled` stands: 0 while no reader is attached, else the number of the reading.
pub const ENABLED_AT: u64 = 16;
/// Where the reader's process number stands.
pub const READER_AT: u64 = 20;
/// Where the number of readings so far stands.
pub const READINGS_AT: u64 = 40;
/// Where the reader's process number stands too, if the program can see it; else 0.
pub const VISIBLE_AT: u64 = 44;
/// Where the name of the reader's socket stands, for children.
pub const SOCKET_AT: u64 = 64;
/// And how long it may be, its zero included.
pub const SOCKET_SIZE: usize = 108;

/// Sections that a process may have.
pub const SECTIONS: usize = 256;
const NAMES_AT: usize = 4096;
const NAME_SIZE: usize = 64;

/// Threads at a time.
pub const RINGS: usize = 128;
const HEADS_AT: usize = 20_480;
const HEAD_SIZE: usize = 128;

/// Header, names and heads of rings.
const FRONT: usize = 36_864;
/// Records that a ring holds.
pub const RECORDS: u64 = 65_536;
const OWN_PAGE: u64 = 4096;
const RECORD: u64 = 16;
const RING: u64 = OWN_PAGE + RECORDS * RECORD;

/// The size of the file.
pub const SIZE: u64 = FRONT as u64 + RINGS as u64 * RING;

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first of them.
    pub from: u64,
    /// How many.
    pub length: usize,
}

/// Why a file can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is too short, or does not begin as it should.
    NotMarkers,
    /// It has another layout.
    Version(u32),
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

fn half_word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The process by its own word.
    pub process: u32,
    /// 0 while no reader is attached.
    pub enabled: u32,
    /// The reader's process number.
    pub reader: u32,
    /// How many times a reader has attached.
    pub readings: u32,
    /// Names that are there.
    pub sections: usize,
    /// Sections that there was no room for.
    pub refused: u32,
    /// Calls in threads that there was no ring for.
    pub without_ring: u64,
}

impl Header {
    /// How long it is.
    pub const LENGTH: usize = 64;

    /// Reads it.
    pub fn read(bytes: &[u8]) -> Result<Self, Fault> {
        if bytes.len() < Self::LENGTH || bytes[..8] != MAGIC {
            return Err(Fault::NotMarkers);
        }
        match half_word(bytes, 8) {
            VERSION => {}
            other => return Err(Fault::Version(other)),
        }
        Ok(Self {
            process: half_word(bytes, 12),
            enabled: half_word(bytes, 16),
            reader: half_word(bytes, 20),
            readings: half_word(bytes, 40),
            sections: (half_word(bytes, 24) as usize).min(SECTIONS),
            refused: half_word(bytes, 28),
            without_ring: word(bytes, 48),
        })
    }
}

/// Where the names of some sections stand.
pub const fn names(from: usize, to: usize) -> Range {
    let length = to.saturating_sub(from) * NAME_SIZE;
    Range { from: (NAMES_AT + from * NAME_SIZE) as u64, length }
}

/// Those names.
pub fn names_of(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.as_chunks::<NAME_SIZE>().0.iter().map(|name| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_SIZE);
        let text = String::from_utf8_lossy(&name[..end]);
        // It will be shown on a terminal and stand on a line.
        text.chars().map(shown).collect()
    })
}

/// What a ring's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The thread that writes; 0: none.
    pub owner: u32,
    /// Records written so far.
    pub written: u64,
    /// Calls that there was no room for.
    pub lost: u64,
}

/// Where the heads of all rings stand.
pub const HEADS: Range = Range { from: HEADS_AT as u64, length: RINGS * HEAD_SIZE };

/// Those heads.
pub fn heads_of(bytes: &[u8]) -> impl Iterator<Item = Head> {
    bytes.as_chunks::<HEAD_SIZE>().0.iter().map(|head| Head {
        owner: half_word(head, 0),
        written: word(head, 8),
        lost: word(head, 16),
    })
}

/// Where the reader says up to where it has read a ring.
pub const fn tail_at(ring: usize) -> u64 {
    (HEADS_AT + ring * HEAD_SIZE + 64) as u64
}

const fn ring_at(ring: usize) -> u64 {
    FRONT as u64 + ring as u64 * RING
}

/// Where the calls that found no room stand, by section.
pub const fn lost(ring: usize) -> Range {
    Range { from: ring_at(ring), length: SECTIONS * 8 }
}

/// Those counts.
pub fn lost_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().take(SECTIONS).map(|it| u64::from_ne_bytes(*it)).collect()
}

/// One ring, as far as it has been read.
#[derive(Debug, Clone, Default)]
pub struct RingReader {
    /// Records read.
    read: u64,
    /// Whose records these are.
    owner: u32,
    /// Records that were overwritten, or claimed and never there.
    pub torn: u64,
}

impl RingReader {
    /// Reads from here on: what stands there was for another reader.
    pub const fn from(head: Head) -> Self {
        Self { read: head.written, owner: head.owner, torn: 0 }
    }

    /// What the tail is to say.
    pub const fn tail(&self) -> u64 {
        self.read
    }

    /// Where the records are that have been written since, in the order of their writing.
    pub fn unread(&mut self, ring: usize, written: u64) -> Vec<Range> {
        let count = written.wrapping_sub(self.read);
        if count > RECORDS {
            // A head that goes back, or a writer that does not wait for its tail.
            self.torn += 1;
            self.read = written;
            return Vec::new();
        }
        let records = ring_at(ring) + OWN_PAGE;
        let first = self.read % RECORDS;
        let whole = count.min(RECORDS - first);
        let range = |from: u64, count: u64| Range {
            from: records + from * RECORD,
            length: (count * RECORD) as usize,
        };
        let ranges = [range(first, whole), range(0, count - whole)];
        ranges.into_iter().filter(|range| range.length > 0).collect()
    }

    /// Reads records: whose, and what. `known` is how many sections there are.
    pub fn take(&mut self, bytes: &[u8], known: usize, mut on_mark: impl FnMut(u32, Mark)) {
        for record in bytes.as_chunks::<16>().0 {
            self.read = self.read.wrapping_add(1);
            let (at, what, kind) = (word(record, 0), half_word(record, 8), half_word(record, 12));
            let edge = match kind {
                1 => Edge::Begin,
                2 => Edge::End,
                3 => {
                    self.owner = what;
                    continue;
                }
                _ => {
                    self.torn += 1;
                    continue;
                }
            };
            if (what as usize) < known {
                on_mark(self.owner, Mark { at, section: what, edge });
            } else {
                self.torn += 1;
            }
        }
    }
}
