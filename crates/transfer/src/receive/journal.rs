//! What was written under temporary names, in a file: a later attempt goes on from there and hashes nothing.
//!
//! Its records are frames, so one that was cut or changed is found, and it and what follows do not count. As long as the
//! machine has not been restarted, all records count: what was written is in the kernel's memory even if the process was
//! killed. After a restart, those before the last record [`Record::Synced`] count.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};

use crate::pure::ranges::Ranges;
use crate::wire::{Entry, EntryKind, FrameReader, FrameWriter, Message, Stamp};

/// The first record: format and version.
const HEAD: &[u8] = b"nightwatt-journal-1 ";
/// A journal that is longer is not read.
const MOST_BYTES: u64 = 4 << 30;

/// Kinds of records.
const BEGIN: u8 = 1;
const FILE: u8 = 2;
const PART: u8 = 3;
const SYNCED: u8 = 4;

/// A file as the sender described it: its parts are of use only for the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Described {
    path: Vec<u8>,
    bytes: u64,
    modified: [i64; 2],
}

impl Described {
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn of(entry: &Entry) -> Self {
        let Stamp { seconds, nanos } = entry.modified;
        Self {
            path: entry.path.clone(),
            bytes: entry.bytes(),
            modified: [seconds, i64::from(nanos)],
        }
    }
}

/// What a journal says.
pub(super) type Parts = HashMap<Described, Ranges>;

/// The journal of one session.
#[derive(Debug)]
pub(super) struct Journal {
    writer: FrameWriter<Vec<u8>>,
    file: File,
    /// The number of each file of the manifest in this journal.
    numbers: HashMap<usize, u32>,
}

impl Journal {
    /// Begins a journal in an empty file.
    pub(super) fn begin(file: File, boot: &str) -> io::Result<Self> {
        let mut journal =
            Self { writer: FrameWriter::new(Vec::new()), file, numbers: HashMap::new() };
        journal.writer.write(BEGIN, &[HEAD, boot.as_bytes()].concat())?;
        Ok(journal)
    }

    /// These bytes of the file at this place were written. The record is in the file after [`Journal::flush`].
    pub(super) fn wrote(&mut self, place: usize, entry: &Entry, range: [u64; 2]) -> io::Result<()> {
        let count = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = if let Some(number) = self.numbers.get(&place) {
            *number
        } else {
            let (_, body) = Message::Manifest(vec![entry.clone()]).encode();
            self.writer.write(FILE, &body)?;
            self.numbers.insert(place, count);
            count
        };
        let mut body = number.to_le_bytes().to_vec();
        body.extend(range[0].to_le_bytes());
        body.extend(range[1].to_le_bytes());
        self.writer.write(PART, &body)
    }

    /// All that was written is on the disk.
    pub(super) fn synced(&mut self) -> io::Result<()> {
        self.writer.write(SYNCED, &[])?;
        self.flush()
    }

    /// Hands the records to the kernel.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let records = self.writer.buffer();
        let result = self.file.write_all(records);
        records.clear();
        result
    }
}

/// Reads a journal. One that is not understood says nothing.
pub(super) fn read(file: File, boot: &str) -> io::Result<Parts> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let mut frames = FrameReader::default();
    frames.push(&bytes);
    let mut read = Reading::default();
    while let Ok(Some((kind, body))) = frames.next_frame() {
        if read.record(kind, body, boot).is_none() {
            break;
        }
    }
    Ok(read.parts())
}

#[derive(Debug, Default)]
struct Reading {
    is_same_boot: bool,
    has_begun: bool,
    files: Vec<Described>,
    parts: Vec<Ranges>,
    /// As they were at the last record that all is on the disk.
    synced: Vec<Ranges>,
}

impl Reading {
    fn record(&mut self, kind: u8, body: &[u8], boot: &str) -> Option<()> {
        match (kind, self.has_begun) {
            (BEGIN, false) => {
                self.is_same_boot = body.strip_prefix(HEAD)? == boot.as_bytes() && !boot.is_empty();
                self.has_begun = true;
            }
            (FILE, true) => {
                let Ok(Message::Manifest(entries)) = Message::decode(2, body) else { return None };
                let is_file =
                    |it: &&Entry| matches!(it.kind, EntryKind::File(_) | EntryKind::Stream);
                let entry = entries.first().filter(is_file)?;
                self.files.push(Described::of(entry));
                self.parts.push(Ranges::default());
            }
            (PART, true) => {
                let (number, range) = body.split_first_chunk::<4>()?;
                let (start, end) = range.split_first_chunk::<8>()?;
                let number = usize::try_from(u32::from_le_bytes(*number)).ok()?;
                let end = u64::from_le_bytes(end.try_into().ok()?);
                let bytes = self.files.get(number)?.bytes;
                let start = u64::from_le_bytes(*start);
                if end > bytes || start > end {
                    return None;
                }
                self.parts.get_mut(number)?.add(start, end);
            }
            (SYNCED, true) => self.synced.clone_from(&self.parts),
            _ => return None,
        }
        Some(())
    }

    fn parts(self) -> Parts {
        let mut parts = if self.is_same_boot { self.parts } else { self.synced };
        // Of a file that was begun after the last sync nothing counts, except that it was begun.
        parts.resize(self.files.len(), Ranges::default());
        self.files.into_iter().zip(parts).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use super::*;

    fn entry(path: &str) -> Entry {
        let modified = Stamp { seconds: 5, nanos: 6 };
        Entry {
            path: path.into(),
            kind: EntryKind::File(100),
            mode: 0o644,
            modified,
            attributes: Vec::new(),
        }
    }

    fn read_again(file: &File, boot: &str) -> Parts {
        let mut file = file.try_clone().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        read(file, boot).unwrap()
    }

    fn total(parts: &Parts, path: &str) -> u64 {
        parts.get(&Described::of(&entry(path))).map_or(0, Ranges::total)
    }

    #[test]
    fn parts_count_and_after_a_restart_those_that_are_on_the_disk() {
        let file = tempfile::tempfile().unwrap();
        let mut journal = Journal::begin(file.try_clone().unwrap(), "boot").unwrap();
        journal.wrote(7, &entry("a"), [0, 10]).unwrap();
        journal.wrote(9, &entry("b"), [50, 60]).unwrap();
        journal.synced().unwrap();
        journal.wrote(7, &entry("a"), [10, 30]).unwrap();
        assert_eq!(total(&read_again(&file, "boot"), "a"), 10, "it is not in the file yet");
        journal.flush().unwrap();
        let same = read_again(&file, "boot");
        assert_eq!((total(&same, "a"), total(&same, "b"), total(&same, "c")), (30, 10, 0));
        let other = read_again(&file, "another");
        assert_eq!((total(&other, "a"), total(&other, "b")), (10, 10));
    }

    #[test]
    fn a_torn_or_changed_end_does_not_count() {
        let mut file = tempfile::tempfile().unwrap();
        let mut journal = Journal::begin(file.try_clone().unwrap(), "boot").unwrap();
        for start in [0, 10, 20] {
            journal.wrote(0, &entry("a"), [start, start + 10]).unwrap();
        }
        journal.flush().unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - 1).unwrap();
        assert_eq!(total(&read_again(&file, "boot"), "a"), 20);
        file.seek(SeekFrom::Start(length - 40)).unwrap();
        file.write_all(b"?").unwrap();
        assert_eq!(total(&read_again(&file, "boot"), "a"), 10);
        file.seek(SeekFrom::Start(7)).unwrap();
        file.write_all(b"?").unwrap();
        assert!(read_again(&file, "boot").is_empty());
    }
}
