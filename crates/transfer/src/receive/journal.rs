//! What was written under temporary names, in a file: a later attempt goes on from there and hashes nothing.
//!
//! Its records are frames, so one that was cut or changed is found, and it and what follows do not count. As long as the
//! machine runs and the file system stays mounted, all records count: what was written is in the kernel's memory even if
//! the process was killed. After a restart, or when the file system was mounted again, those before the last record
//! [`SYNCED`] count: the journal may be on the disk and what it lists not. See [`Life`](super::life::Life).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::life::Life;
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

/// What was written of a file.
#[derive(Debug, Default)]
struct Written {
    all: Ranges,
    /// Of it, what is on the disk for sure.
    synced: Ranges,
}

/// What a journal says.
#[derive(Debug, Default)]
pub(super) struct Parts {
    files: HashMap<Described, Written>,
    /// Whether the kernel still has what was not synced.
    is_same_life: bool,
}

impl Parts {
    /// What counts of a file, which is not asked for again. `is_elsewhere`: it is on another file system than the journal,
    /// of whose life the journal has no record.
    pub(super) fn take(
        &mut self,
        described: &Described,
        is_elsewhere: impl FnOnce() -> bool,
    ) -> Option<Ranges> {
        let Written { all, synced } = self.files.remove(described)?;
        Some(if self.is_same_life && !is_elsewhere() { all } else { synced })
    }

    /// The files that are left.
    pub(super) fn into_described(self) -> impl Iterator<Item = Described> {
        self.files.into_keys()
    }
}

/// The journal of one session.
#[derive(Debug)]
pub(super) struct Journal {
    writer: FrameWriter<Vec<u8>>,
    file: File,
    /// Bytes of whole records in the file.
    length: u64,
    /// The number of each file of the manifest in this journal.
    numbers: HashMap<usize, u32>,
}

impl Journal {
    /// Begins a journal in an empty file.
    pub(super) fn begin(file: File, life: &Life) -> io::Result<Self> {
        let writer = FrameWriter::new(Vec::new());
        let mut journal = Self { writer, file, length: 0, numbers: HashMap::new() };
        journal.writer.write(BEGIN, &[HEAD, life.text().as_bytes()].concat())?;
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

    /// Hands the records to the kernel. Where there is no room, they wait for the next time, and nothing of them is in the
    /// file: what follows half a record would not count.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let records = self.writer.buffer();
        if let Err(error) = self.file.write_all_at(records, self.length) {
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += records.len() as u64;
        records.clear();
        Ok(())
    }
}

/// Reads a journal. One that is not understood says nothing.
pub(super) fn read(file: File, life: &Life) -> io::Result<Parts> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let mut frames = FrameReader::default();
    frames.push(&bytes);
    let mut read = Reading::default();
    while let Ok(Some((kind, body))) = frames.next_frame() {
        if read.record(kind, body, life).is_none() {
            break;
        }
    }
    Ok(read.parts())
}

#[derive(Debug, Default)]
struct Reading {
    is_same_life: bool,
    has_begun: bool,
    files: Vec<Described>,
    parts: Vec<Ranges>,
    /// As they were at the last record that all is on the disk.
    synced: Vec<Ranges>,
}

impl Reading {
    fn record(&mut self, kind: u8, body: &[u8], life: &Life) -> Option<()> {
        match (kind, self.has_begun) {
            (BEGIN, false) => {
                self.is_same_life = life.is(body.strip_prefix(HEAD)?);
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
        let Self { is_same_life, files, parts, mut synced, .. } = self;
        // Of a file that was begun after the last sync nothing is synced, except that it was begun.
        synced.resize(files.len(), Ranges::default());
        let written = parts.into_iter().zip(synced).map(|(all, synced)| Written { all, synced });
        Parts { files: files.into_iter().zip(written).collect(), is_same_life }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

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

    fn life(boot: &str, mount: u64) -> Life {
        Life::new(boot, Some(mount))
    }

    fn read_again(file: &File, life: &Life) -> Parts {
        let mut file = file.try_clone().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        read(file, life).unwrap()
    }

    fn total(file: &File, life: &Life, path: &str) -> u64 {
        let described = Described::of(&entry(path));
        read_again(file, life).take(&described, || false).map_or(0, |parts| parts.total())
    }

    /// The fault of a review: a disk that went away and came back without a restart had the journal, and zeros for what
    /// the journal lists.
    #[test]
    fn after_a_restart_or_another_mount_what_is_on_the_disk_counts() {
        let file = tempfile::tempfile().unwrap();
        let same = life("boot", 7);
        let mut journal = Journal::begin(file.try_clone().unwrap(), &same).unwrap();
        journal.wrote(7, &entry("a"), [0, 10]).unwrap();
        journal.wrote(9, &entry("b"), [50, 60]).unwrap();
        journal.synced().unwrap();
        journal.wrote(7, &entry("a"), [10, 30]).unwrap();
        assert_eq!(total(&file, &same, "a"), 10, "it is not in the file yet");
        journal.flush().unwrap();
        assert_eq!(["a", "b", "c"].map(|path| total(&file, &same, path)), [30, 10, 0]);
        let elsewhere =
            read_again(&file, &same).take(&Described::of(&entry("a")), || true).unwrap();
        assert_eq!(elsewhere.total(), 10, "another file system may have been mounted again");
        for other in [life("another", 7), life("boot", 8)] {
            assert_eq!(["a", "b"].map(|path| total(&file, &other, path)), [10, 10], "{other:?}");
        }
    }

    /// Before Linux 6.8, the number of a mount may be that of an earlier one.
    #[test]
    fn without_a_number_for_the_mount_what_is_on_the_disk_counts() {
        let file = tempfile::tempfile().unwrap();
        for unknown in [Life::new("boot", None), Life::new("", Some(7))] {
            file.set_len(0).unwrap();
            let mut journal = Journal::begin(file.try_clone().unwrap(), &unknown).unwrap();
            journal.wrote(0, &entry("a"), [0, 10]).unwrap();
            journal.flush().unwrap();
            assert_eq!(total(&file, &unknown, "a"), 0, "{unknown:?}");
        }
    }

    #[test]
    fn a_torn_or_changed_end_does_not_count() {
        let mut file = tempfile::tempfile().unwrap();
        let life = life("boot", 7);
        let mut journal = Journal::begin(file.try_clone().unwrap(), &life).unwrap();
        for start in [0, 10, 20] {
            journal.wrote(0, &entry("a"), [start, start + 10]).unwrap();
        }
        journal.flush().unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - 1).unwrap();
        assert_eq!(total(&file, &life, "a"), 20);
        file.seek(SeekFrom::Start(length - 40)).unwrap();
        file.write_all(b"?").unwrap();
        assert_eq!(total(&file, &life, "a"), 10);
        file.seek(SeekFrom::Start(7)).unwrap();
        file.write_all(b"?").unwrap();
        assert_eq!(read_again(&file, &life).into_described().count(), 0);
    }
}
