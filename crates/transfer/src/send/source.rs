//! Contents of files, as parts of the address space.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};

use crate::pure::layout::{Layout, Slice};
use crate::pure::ranges::Ranges;
use crate::wire::{Entry, content_sum};

/// Holes that are shorter are sent as data.
const LEAST_HOLE: u64 = 64 << 10;

/// What begins at a place of the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// A hole of this length.
    Hole(u64),
    /// Data, until here at most.
    Data(u64),
}

/// Files that are read.
#[derive(Debug)]
pub(super) struct Source {
    entries: Vec<Entry>,
    paths: Vec<PathBuf>,
    open: Option<Open>,
    last: LastRead,
    /// Entries that only grew.
    grown: Vec<usize>,
}

/// What has become of a file since it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Same,
    /// It is longer, as a log is, and begins with what was read.
    Grown,
    Changed,
}

#[derive(Debug)]
struct Open {
    entry: usize,
    file: File,
    has_holes: bool,
}

/// What was read last, of one file, in order: it may be opened more than once meanwhile.
#[derive(Debug, Default)]
struct LastRead {
    entry: usize,
    parts: Vec<Part>,
}

/// A part of a file, and its [`content_sum`].
#[derive(Debug)]
struct Part {
    offset: u64,
    bytes: usize,
    sum: u64,
}

impl LastRead {
    fn add(&mut self, entry: usize, offset: u64, content: &[u8]) {
        if self.entry != entry {
            (self.entry, self.parts) = (entry, Vec::new());
        }
        let (bytes, sum) = (content.len(), content_sum(offset, content));
        self.parts.push(Part { offset, bytes, sum });
    }

    /// Whether the first bytes of a file are all that was read of it, from the begin and without holes, and are still what
    /// they were then.
    fn is_begin_of(&self, entry: usize, file: &File, bytes: u64) -> io::Result<bool> {
        if self.entry != entry {
            return Ok(false);
        }
        let (mut at, mut again) = (0, Vec::new());
        for part in &self.parts {
            again.resize(part.bytes, 0);
            file.read_exact_at(&mut again, part.offset)?;
            if part.offset != at || content_sum(part.offset, &again) != part.sum {
                return Ok(false);
            }
            at += part.bytes as u64;
        }
        Ok(at == bytes)
    }
}

/// Opens a file that was listed. It may have become something else: a pipe or a device is an error and is not waited
/// for, and so is a link, unless it was named itself.
pub fn open_listed(path: &Path, entry: &Entry) -> io::Result<File> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    if entry.path.contains(&b'/') {
        flags |= OFlags::NOFOLLOW;
    }
    let file = File::from(open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is a file no longer"))
}

impl Source {
    pub(super) fn new(entries: Vec<Entry>, paths: Vec<PathBuf>) -> Self {
        Self { entries, paths, open: None, last: LastRead::default(), grown: Vec::new() }
    }

    fn open(&mut self, entry: usize) -> io::Result<&Open> {
        if self.open.as_ref().is_none_or(|open| open.entry != entry) {
            let file = open_listed(&self.paths[entry], &self.entries[entry])?;
            let metadata = file.metadata()?;
            let has_holes = metadata.blocks().saturating_mul(512) < metadata.len();
            self.open = Some(Open { entry, file, has_holes });
        }
        self.open.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// What begins at `start`; nothing that ends behind `end`.
    pub(super) fn piece(&mut self, layout: &Layout, start: u64, end: u64) -> Piece {
        for slice in layout.slices(start, end) {
            let from = layout.range(slice.entry)[0] + slice.offset;
            if slice.bytes < LEAST_HOLE {
                // A small file, or the rest of one, shares a block with the next.
                if from - start >= LEAST_HOLE * 64 {
                    return Piece::Data(from);
                }
                continue;
            }
            let Some([hole, until]) = self.hole(&slice) else {
                // This file has data as far as it is asked for.
                return Piece::Data(end.min(from + slice.bytes).max(from));
            };
            let hole = from + (hole - slice.offset);
            if hole > start {
                return Piece::Data(hole);
            }
            return Piece::Hole(until - slice.offset);
        }
        Piece::Data(end)
    }

    /// The first hole of a slice that is long enough: its start and end in the file.
    fn hole(&mut self, slice: &Slice) -> Option<[u64; 2]> {
        let open = self.open(slice.entry).ok()?;
        if !open.has_holes {
            return None;
        }
        let end = slice.offset + slice.bytes;
        let mut at = slice.offset;
        while at < end {
            let hole = seek(&open.file, SeekFrom::Hole(at)).ok()?;
            if hole >= end {
                return None;
            }
            // Where there is no data any more, the hole goes on to the end.
            let until = seek(&open.file, SeekFrom::Data(hole)).unwrap_or(end).min(end);
            if until - hole >= LEAST_HOLE {
                return Some([hole, until]);
            }
            at = until.max(at + 1);
        }
        None
    }

    /// Reads `range`, which `handed` has already. Gives the entries that are not what the manifest says: what could not
    /// be read of them is zeros.
    pub(super) fn read(
        &mut self,
        layout: &Layout,
        handed: &Ranges,
        [start, end]: [u64; 2],
        block: &mut Vec<u8>,
    ) -> Vec<usize> {
        block.clear();
        block.resize(usize::try_from(end - start).unwrap_or(0), 0);
        let mut stale = Vec::new();
        let mut at = 0;
        for slice in layout.slices(start, end) {
            let bytes = usize::try_from(slice.bytes).unwrap_or(0);
            let part = &mut block[at..at + bytes];
            at += bytes;
            let is_read = self
                .open(slice.entry)
                .is_ok_and(|open| open.file.read_exact_at(part, slice.offset).is_ok());
            if is_read {
                self.last.add(slice.entry, slice.offset, part);
            } else {
                part.fill(0);
            }
            if !is_read || self.has_changed(layout, handed, slice.entry) {
                stale.push(slice.entry);
            }
        }
        stale
    }

    /// The same for a hole, of which nothing is read.
    pub(super) fn stale_in_hole(
        &mut self,
        layout: &Layout,
        handed: &Ranges,
        [start, end]: [u64; 2],
    ) -> Vec<usize> {
        let entries = layout.slices(start, end).map(|slice| slice.entry);
        entries.filter(|entry| self.has_changed(layout, handed, *entry)).collect()
    }

    /// Whether the entry is left, because all of it was handed over, and has changed since it was listed. What was read
    /// of it may then be of two states.
    fn has_changed(&mut self, layout: &Layout, handed: &Ranges, entry: usize) -> bool {
        let [start, end] = layout.range(entry);
        if !handed.covers(start, end) {
            return false;
        }
        let since = self.since(entry);
        if let Ok(Since::Grown) = since {
            self.grown.push(entry);
        }
        matches!(since, Ok(Since::Changed) | Err(_))
    }

    fn since(&mut self, entry: usize) -> io::Result<Since> {
        let metadata = self.open(entry)?.file.metadata()?;
        let listed = &self.entries[entry];
        let modified = [metadata.mtime(), metadata.mtime_nsec()];
        let is_listed = modified == [listed.modified.seconds, i64::from(listed.modified.nanos)];
        let bytes = listed.bytes();
        match metadata.len().cmp(&bytes) {
            Ordering::Equal if is_listed => return Ok(Since::Same),
            Ordering::Greater => {}
            _ => return Ok(Since::Changed),
        }
        let Some(open) = &self.open else { return Ok(Since::Changed) };
        let is_begin = self.last.is_begin_of(entry, &open.file, bytes)?;
        Ok(if is_begin { Since::Grown } else { Since::Changed })
    }

    /// Entries that only grew, and were not taken before.
    pub(super) fn take_grown(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.grown)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::send::{Wanted, walk};

    /// Reads a file of 100,000 bytes in two parts, with a change in between; which entries are stale, and which grew.
    fn changed(parts: [[u64; 2]; 2], change: impl Fn(&PathBuf)) -> [Vec<usize>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, vec![1; 100_000]).unwrap();
        let plan = walk(std::slice::from_ref(&path), &Wanted::default()).unwrap();
        let (mut layout, mut handed) = (Layout::default(), Ranges::default());
        assert!(layout.push(100_000));
        let mut source = Source::new(plan.entries, plan.sources);
        let mut block = Vec::new();
        let [first, second] = parts;
        handed.add(first[0], first[1]);
        assert!(source.read(&layout, &handed, first, &mut block).is_empty());
        change(&path);
        handed.add(0, 100_000);
        let stale = source.read(&layout, &handed, second, &mut block);
        [stale, source.take_grown()]
    }

    #[test]
    fn what_only_grew_is_as_it_was_read_and_all_else_has_changed() {
        let in_order = [[0, 60_000], [60_000, 100_000]];
        let append = |path: &PathBuf| {
            File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
        };
        assert_eq!(changed(in_order, append), [vec![], vec![0]]);
        // Written again, and longer: a half of each would be of no use.
        let rewrite = |path: &PathBuf| fs::write(path, vec![2; 200_000]).unwrap();
        assert_eq!(changed(in_order, rewrite), [vec![0], vec![]]);
        let touch = |path: &PathBuf| {
            let file = File::options().write(true).open(path).unwrap();
            let later = file.metadata().unwrap().modified().unwrap();
            file.set_modified(later + std::time::Duration::from_secs(1)).unwrap();
        };
        assert_eq!(changed(in_order, touch), [vec![0], vec![]]);
        // Of what an earlier attempt has sent nothing is known.
        assert_eq!(changed([[50_000, 60_000], [60_000, 100_000]], append), [vec![0], vec![]]);
    }
}
