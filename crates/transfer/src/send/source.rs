//! Contents of files, as parts of the address space.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use rustix::fs::{SeekFrom, seek};

use crate::pure::layout::{Layout, Slice};
use crate::pure::ranges::Ranges;
use crate::wire::Entry;

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
}

#[derive(Debug)]
struct Open {
    entry: usize,
    file: File,
    has_holes: bool,
}

impl Source {
    pub(super) fn new(entries: Vec<Entry>, paths: Vec<PathBuf>) -> Self {
        Self { entries, paths, open: None }
    }

    fn open(&mut self, entry: usize) -> io::Result<&Open> {
        if self.open.as_ref().is_none_or(|open| open.entry != entry) {
            let file = File::open(&self.paths[entry])?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(io::Error::other("it is a file no longer"));
            }
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
            if !is_read {
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
        let metadata = self.open(entry).and_then(|open| open.file.metadata());
        !metadata.is_ok_and(|metadata| is_as_listed(&self.entries[entry], &metadata))
    }
}

fn is_as_listed(entry: &Entry, metadata: &Metadata) -> bool {
    let modified = [metadata.mtime(), metadata.mtime_nsec()];
    metadata.len() == entry.bytes()
        && modified == [entry.modified.seconds, i64::from(entry.modified.nanos)]
}
