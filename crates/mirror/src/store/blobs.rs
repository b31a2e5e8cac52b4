//! Bodies as files: named after their hash, packed where that saves space, with a sum.

use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::media_of;
use crate::coding::{Coding, Effort, is_worth_packing, pack};
use crate::pure::entry::{BodyHash, BodyRef, Entry};
use crate::pure::represent::StoredBody;

const FOLDER: &str = "bodies";

/// Each file begins with it. A later format has another.
const MAGIC: &[u8; 8] = b"NWBODY1\n";

/// Magic, coding, seven zeros, length of the unpacked bytes, sum.
const HEAD: usize = 32;

/// Smaller bodies do not fill a block of the file system anyway.
const SMALLEST_PACKED: usize = 512;

/// What a file takes at least.
const BLOCK: u64 = 4096;

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not there.
    #[error("the body is not there")]
    Missing,
    /// Its sum, its head or its length is wrong.
    #[error("the body is damaged")]
    Damaged,
    /// The operating system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Clone, Copy, Debug)]
struct Blob {
    /// Of the file, in whole blocks.
    bytes: u64,
    references: u32,
}

/// The files that there are.
#[derive(Debug)]
pub(super) struct Blobs {
    store: PathBuf,
    known: HashMap<BodyHash, Blob>,
    bytes: u64,
    /// Whether bodies are synced.
    pub(super) is_durable: bool,
    /// Folders with new names that are not synced.
    unsynced: HashSet<PathBuf>,
    /// Bodies that may have no reference any more.
    unused: HashSet<BodyHash>,
    temporary: u64,
}

fn folder_of(store: &Path, hash: &BodyHash) -> PathBuf {
    store.join(FOLDER).join(&hash.to_string()[..2])
}

fn path_of(store: &Path, hash: &BodyHash) -> PathBuf {
    folder_of(store, hash).join(&hash.to_string()[2..])
}

fn blocks(length: u64) -> u64 {
    length.div_ceil(BLOCK).max(1) * BLOCK
}

impl Blobs {
    /// Looks what is there, without reading it. Nothing is referred to yet.
    pub(super) fn open(store: &Path) -> io::Result<Self> {
        let root = store.join(FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
        let mut blobs = Self {
            store: store.to_owned(),
            known: HashMap::new(),
            bytes: 0,
            is_durable: true,
            unsynced: HashSet::new(),
            unused: HashSet::new(),
            temporary: 0,
        };
        for folder in std::fs::read_dir(&root)? {
            let folder = folder?;
            let start = folder.file_name().to_string_lossy().into_owned();
            if !folder.file_type()?.is_dir() {
                // A body that was being written.
                if start.starts_with("new-") {
                    let _ = std::fs::remove_file(folder.path());
                }
                continue;
            }
            for file in std::fs::read_dir(folder.path())? {
                let file = file?;
                let name = format!("{start}{}", file.file_name().to_string_lossy());
                if let Some(hash) = BodyHash::parse(&name) {
                    blobs.add(hash, file.metadata()?.len());
                }
            }
        }
        Ok(blobs)
    }

    fn add(&mut self, hash: BodyHash, length: u64) {
        let blob = Blob { bytes: blocks(length), references: 0 };
        self.bytes += blob.bytes;
        self.known.insert(hash, blob);
        self.unused.insert(hash);
    }

    /// Bytes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a body is there.
    pub(super) fn has(&self, body: &BodyRef) -> bool {
        self.known.contains_key(&body.hash)
    }

    /// Adds a reference; false if there is no such body.
    pub(super) fn refer(&mut self, body: &BodyRef) -> bool {
        let Some(blob) = self.known.get_mut(&body.hash) else { return false };
        blob.references += 1;
        self.unused.remove(&body.hash);
        true
    }

    /// Takes a reference away.
    pub(super) fn release(&mut self, body: &BodyRef) {
        if let Some(blob) = self.known.get_mut(&body.hash) {
            blob.references = blob.references.saturating_sub(1);
            if blob.references == 0 {
                self.unused.insert(body.hash);
            }
        }
    }

    /// Writes a body that is not there yet; false if there is no room for it.
    pub(super) fn put(
        &mut self,
        of: &BodyRef,
        body: &Bytes,
        entry: &Entry,
        most: u64,
    ) -> io::Result<bool> {
        if self.known.contains_key(&of.hash) {
            return Ok(true);
        }
        let packed = packed(body, &media_of(entry));
        let file = file_of(of, packed.coding, &packed.bytes);
        if self.bytes + blocks(file.len() as u64) > most {
            return Ok(false);
        }
        self.temporary += 1;
        let temporary = self.store.join(FOLDER).join(format!("new-{}", self.temporary));
        let written = write_new(&temporary, &file, self.is_durable);
        let written = written.and_then(|()| self.name(&temporary, &of.hash));
        if let Err(error) = written {
            let _ = std::fs::remove_file(&temporary);
            return Err(error);
        }
        self.add(of.hash, file.len() as u64);
        Ok(true)
    }

    fn name(&mut self, temporary: &Path, hash: &BodyHash) -> io::Result<()> {
        let folder = folder_of(&self.store, hash);
        if !folder.is_dir() {
            DirBuilder::new().mode(0o700).create(&folder)?;
            self.unsynced.insert(self.store.join(FOLDER));
        }
        std::fs::rename(temporary, path_of(&self.store, hash))?;
        self.unsynced.insert(folder);
        Ok(())
    }

    /// What was written is on the disk, under its name, when this returns.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        for folder in self.unsynced.iter().filter(|_| self.is_durable) {
            File::open(folder)?.sync_all()?;
        }
        self.unsynced.clear();
        Ok(())
    }

    /// Removes the files of bodies that nothing refers to, at most so many; returns how many.
    pub(super) fn remove_unused(&mut self, most: usize) -> usize {
        let unused: Vec<BodyHash> = self.unused.iter().take(most).copied().collect();
        // If one cannot be removed, the next start tries again.
        for hash in &unused {
            self.forget(hash);
        }
        unused.len()
    }

    /// Whether there are bodies that nothing refers to.
    pub(super) fn has_unused(&self) -> bool {
        !self.unused.is_empty()
    }

    /// Whether there is no room for bodies of so many files and bytes.
    pub(super) fn is_short_of(&self, bodies: usize, bytes: u64, most: u64) -> bool {
        self.bytes + bytes + bodies as u64 * (BLOCK + HEAD as u64) > most
    }

    /// Removes all of them, at the start.
    pub(super) fn sweep(&mut self) -> usize {
        self.remove_unused(usize::MAX)
    }

    /// Removes a body, even if addresses still refer to it.
    pub(super) fn forget(&mut self, hash: &BodyHash) {
        let _ = std::fs::remove_file(path_of(&self.store, hash));
        self.unused.remove(hash);
        self.drop_known(hash);
    }

    fn drop_known(&mut self, hash: &BodyHash) {
        if let Some(blob) = self.known.remove(hash) {
            self.bytes -= blob.bytes;
        }
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        let all: Vec<BodyHash> = self.known.keys().copied().collect();
        for hash in &all {
            self.forget(hash);
        }
    }
}

struct Packed {
    coding: Coding,
    bytes: Bytes,
}

/// The body as it is kept: packed if that saves a tenth.
fn packed(body: &Bytes, media: &str) -> Packed {
    let as_it_is = || Packed { coding: Coding::Identity, bytes: body.clone() };
    if body.len() < SMALLEST_PACKED || !is_worth_packing(media) {
        return as_it_is();
    }
    match pack(Coding::Brotli, body, Effort::Store) {
        Some(packed) if packed.len() < body.len() / 10 * 9 => {
            Packed { coding: Coding::Brotli, bytes: packed.into() }
        }
        _ => as_it_is(),
    }
}

const CODINGS: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];

fn file_of(of: &BodyRef, coding: Coding, packed: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEAD + packed.len());
    file.extend_from_slice(MAGIC);
    let number = CODINGS.iter().position(|it| *it == coding).unwrap_or_default();
    file.push(u8::try_from(number).unwrap_or_default());
    file.extend_from_slice(&[0; 7]);
    file.extend_from_slice(&of.length.to_le_bytes());
    file.extend_from_slice(&[0; 8]);
    file.extend_from_slice(packed);
    let sum = sum_of(&of.hash, &file);
    file[HEAD - 8..HEAD].copy_from_slice(&sum.to_le_bytes());
    file
}

/// The sum of a file, except for the sum itself. It depends on the name: a file under another name is damaged.
fn sum_of(hash: &BodyHash, file: &[u8]) -> u64 {
    let seed = hash.as_bytes().first_chunk().map_or(0, |start| u64::from_le_bytes(*start));
    let head = twox_hash::XxHash3_64::oneshot_with_seed(seed, &file[..HEAD - 8]);
    twox_hash::XxHash3_64::oneshot_with_seed(head, &file[HEAD..])
}

fn write_new(path: &Path, bytes: &[u8], is_durable: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    if is_durable { file.sync_data() } else { Ok(()) }
}

/// Reads a body, whole and checked.
pub(super) fn read(store: &Path, body: &BodyRef) -> Result<StoredBody, Unreadable> {
    let file = std::fs::read(path_of(store, &body.hash)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unreadable::Missing,
        _ => Unreadable::Io(error),
    })?;
    parse(body, file).ok_or(Unreadable::Damaged)
}

fn parse(body: &BodyRef, file: Vec<u8>) -> Option<StoredBody> {
    let head: &[u8; HEAD] = file.first_chunk()?;
    let number = |from: usize| head[from..from + 8].try_into().ok().map(u64::from_le_bytes);
    let is_whole = head.starts_with(MAGIC)
        && number(16)? == body.length
        && number(24)? == sum_of(&body.hash, &file);
    if !is_whole {
        return None;
    }
    let coding = *CODINGS.get(usize::from(head[8]))?;
    let bytes = Bytes::from(file).slice(HEAD..);
    Some(StoredBody { coding, bytes, length: body.length })
}

/// A file as it would be written for a body that is not packed.
#[cfg(test)]
pub(super) struct TestFile {
    hash: BodyHash,
    pub(super) bytes: Vec<u8>,
}

#[cfg(test)]
impl TestFile {
    pub(super) fn folder(&self, store: &Path) -> PathBuf {
        folder_of(store, &self.hash)
    }

    pub(super) fn path(&self, store: &Path) -> PathBuf {
        path_of(store, &self.hash)
    }
}

#[cfg(test)]
pub(super) fn file_for_tests(body: &[u8]) -> TestFile {
    let of = BodyRef { hash: BodyHash::of(body), length: body.len() as u64 };
    TestFile { hash: of.hash, bytes: file_of(&of, Coding::Identity, body) }
}
