//! The manifest: which address has which fields and which body, as a log of batches.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Generation;
use crate::pure::address::Address;
use crate::pure::entry::Entry;

/// The format that this version writes. It reads all that are not later.
const FORMAT: u32 = 1;

/// Each frame begins with it: behind damage, frames are looked for.
const MAGIC: &[u8; 8] = b"NWFRAME\n";

/// Magic, length, sum.
const FRAME_HEAD: usize = 20;

/// Names of manifests: this, the generation in 16 hexadecimal digits.
const PREFIX: &str = "manifest-";

/// Entries in one frame of the base. A frame is in memory while it is written, the whole base is not.
const ENTRIES_AT_ONCE: usize = 256;

/// A manifest is rewritten when what was appended is larger than its base, and than this.
const SMALLEST_COMPACTED: u64 = 1 << 20;

/// What a manifest begins with.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    site: String,
}

/// Changes that happen together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Batch {
    /// Counts batches.
    generation: u64,
    /// These take the places of what was there.
    #[serde(default)]
    pub(super) put: Vec<Entry>,
    /// These go.
    #[serde(default)]
    pub(super) remove: Vec<Address>,
    /// The addresses of both.
    #[serde(skip)]
    changed: HashSet<Address>,
}

impl Batch {
    /// Of several changes of one address the last counts.
    pub(super) fn put(&mut self, entry: Entry) {
        if !self.changed.insert(entry.address.clone()) {
            self.remove.retain(|address| *address != entry.address);
            self.put.retain(|other| other.address != entry.address);
        }
        self.put.push(entry);
    }

    pub(super) fn remove(&mut self, address: Address) {
        if !self.changed.insert(address.clone()) {
            self.put.retain(|other| other.address != address);
            self.remove.retain(|other| *other != address);
        }
        self.remove.push(address);
    }
}

/// What a manifest says.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) entries: Vec<Entry>,
    pub(super) was_torn: bool,
    pub(super) dropped_all: bool,
}

/// The manifest that is appended to.
#[derive(Debug)]
pub(super) struct Manifest {
    folder: PathBuf,
    site: String,
    /// None if it could not be made, or was destroyed: the next batch makes one.
    file: Option<File>,
    generation: u64,
    /// Bytes of what it began with, and of all.
    base: u64,
    length: u64,
}

impl Manifest {
    /// Reads the latest manifest of a folder. What is damaged in its middle, of a later version or of another
    /// site is dropped as a whole: an earlier state would bring back what was removed.
    pub(super) fn open(folder: &Path, site: &str) -> io::Result<(Self, Read)> {
        let mut manifest = Self {
            folder: folder.to_owned(),
            site: site.to_owned(),
            file: None,
            generation: 0,
            base: 0,
            length: 0,
        };
        let mut names = list(folder)?;
        let Some(latest) = names.pop() else { return Ok((manifest, Read::default())) };
        manifest.generation = latest.generation;
        let bytes = std::fs::read(&latest.path)?;
        let Some(log) = read(&bytes, site) else {
            names.push(latest);
            names.iter().try_for_each(|name| std::fs::remove_file(&name.path))?;
            File::open(folder)?.sync_all()?;
            return Ok((manifest, Read { dropped_all: true, ..Read::default() }));
        };
        // Those before it were left by a process that died after it had written this one.
        for name in &names {
            std::fs::remove_file(&name.path)?;
        }
        let mut file = OpenOptions::new().write(true).open(&latest.path)?;
        if log.was_torn {
            file.set_len(log.length)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::Start(log.length))?;
        manifest.file = Some(file);
        manifest.generation = log.generation.max(latest.generation);
        manifest.base = log.base;
        manifest.length = log.length;
        let read = Read { entries: log.entries, was_torn: log.was_torn, dropped_all: false };
        Ok((manifest, read))
    }

    /// The number of the last batch.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Writes a batch; it is on the disk when this returns. Returns its number.
    pub(super) fn append(&mut self, batch: &Batch) -> io::Result<u64> {
        let generation = self.generation + 1;
        if self.file.is_none() {
            self.begin(&[], generation)?;
        }
        let text = serde_json::to_vec(&Batch { generation, ..batch.clone() })?;
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let frame = frame(self.length, &text)?;
        let written = file.write_all(&frame).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // What is half written is cut off, or the next batch would stand behind damage.
            let is_cut = file.set_len(self.length).is_ok()
                && file.seek(SeekFrom::Start(self.length)).is_ok();
            if !is_cut {
                self.file = None;
            }
            return Err(error);
        }
        self.length += frame.len() as u64;
        self.generation = generation;
        Ok(generation)
    }

    /// Rewrites the manifest if much of it is outdated.
    pub(super) fn compact_if_large(&mut self, generation: &Generation) -> io::Result<()> {
        let appended = self.length.saturating_sub(self.base);
        if appended < SMALLEST_COMPACTED.max(self.base) {
            return Ok(());
        }
        let entries: BTreeMap<&Address, &Entry> =
            generation.iter().map(|entry| (&entry.address, &**entry)).collect();
        let entries: Vec<&Entry> = entries.into_values().collect();
        self.begin(&entries, self.generation)
    }

    /// Makes a manifest with these entries, and removes the others.
    fn begin(&mut self, entries: &[&Entry], generation: u64) -> io::Result<()> {
        #[derive(Serialize)]
        struct Base<'a> {
            generation: u64,
            put: &'a [&'a Entry],
        }
        // Never the name of one that there is.
        let latest = list(&self.folder)?.last().map_or(0, |it| it.generation + 1);
        let number = generation.max(latest);
        let path = self.folder.join(format!("{PREFIX}{number:016x}"));
        let temporary = self.folder.join("manifest.tmp");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&temporary)?;
        let head = serde_json::to_vec(&Head { format: FORMAT, site: self.site.clone() })?;
        let mut length = write_frame(&mut file, 0, &head)?;
        // There is a base without entries, too.
        let parts = entries.chunks(ENTRIES_AT_ONCE).chain(entries.is_empty().then_some(entries));
        for put in parts {
            let payload = serde_json::to_vec(&Base { generation, put })?;
            length += write_frame(&mut file, length, &payload)?;
        }
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        // From here on it is the one that is read at the next start, whatever fails below.
        self.file = Some(file);
        self.base = length;
        self.length = length;
        File::open(&self.folder)?.sync_all()?;
        for name in list(&self.folder)?.iter().filter(|name| name.path != path) {
            // One that stays is older, and is removed at the next start.
            let _ = std::fs::remove_file(&name.path);
        }
        Ok(())
    }

    /// Removes all manifests.
    pub(super) fn destroy(&mut self) {
        self.file = None;
        for name in list(&self.folder).unwrap_or_default() {
            let _ = std::fs::remove_file(&name.path);
        }
        let _ = File::open(&self.folder).and_then(|folder| folder.sync_all());
    }
}

struct Name {
    generation: u64,
    path: PathBuf,
}

/// All manifests, the latest last.
fn list(folder: &Path) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = digits.filter(|digits| digits.len() == 16);
        if let Some(generation) = number.and_then(|it| u64::from_str_radix(it, 16).ok()) {
            names.push(Name { generation, path: entry.path() });
        }
    }
    names.sort_by_key(|name| name.generation);
    Ok(names)
}

/// A frame at an offset in the file. Its checksum depends on the offset, so what an earlier file left there
/// is not a valid frame.
fn frame(at: u64, payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a batch of 4 GiB"))?;
    let mut frame = Vec::with_capacity(FRAME_HEAD + payload.len());
    frame.extend_from_slice(MAGIC);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&sum_of(at, length, payload).to_le_bytes());
    frame.extend_from_slice(payload);
    Ok(frame)
}

/// Writes a frame at an offset in the file; returns its length.
fn write_frame(file: &mut File, at: u64, payload: &[u8]) -> io::Result<u64> {
    let frame = frame(at, payload)?;
    file.write_all(&frame)?;
    Ok(frame.len() as u64)
}

fn sum_of(at: u64, length: u32, payload: &[u8]) -> u64 {
    let seed = at ^ (u64::from(length) << 32);
    twox_hash::XxHash3_64::oneshot_with_seed(seed, payload)
}

/// The payload of the frame at a place, if it is whole.
fn payload_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let head: &[u8; FRAME_HEAD] = rest.first_chunk()?;
    if !head.starts_with(MAGIC) {
        return None;
    }
    let length = u32::from_le_bytes(head[8..12].try_into().ok()?);
    let sum = u64::from_le_bytes(head[12..20].try_into().ok()?);
    let payload = rest.get(FRAME_HEAD..)?.get(..usize::try_from(length).ok()?)?;
    (sum_of(at as u64, length, payload) == sum).then_some(payload)
}

struct Log {
    entries: Vec<Entry>,
    generation: u64,
    base: u64,
    /// Of what is whole.
    length: u64,
    was_torn: bool,
}

/// Reads a manifest; `None` if it is not to be trusted.
fn read(bytes: &[u8], site: &str) -> Option<Log> {
    let head: Head = serde_json::from_slice(payload_at(bytes, 0)?).ok()?;
    if head.format > FORMAT || head.site != site {
        return None;
    }
    let mut at = FRAME_HEAD + payload_at(bytes, 0)?.len();
    let mut log =
        Log { entries: Vec::new(), generation: 0, base: 0, length: at as u64, was_torn: false };
    let mut entries: BTreeMap<Address, Entry> = BTreeMap::new();
    while let Some(payload) = payload_at(bytes, at) {
        let batch: Batch = serde_json::from_slice(payload).ok()?;
        for address in &batch.remove {
            entries.remove(address);
        }
        entries.extend(batch.put.into_iter().map(|entry| (entry.address.clone(), entry)));
        // The frames of the base have one number.
        let is_base = log.base == 0 || log.generation == batch.generation;
        log.generation = batch.generation;
        at += FRAME_HEAD + payload.len();
        if is_base {
            log.base = at as u64;
        }
        log.length = at as u64;
    }
    // The base was synced before the file got its name: without it, nothing is whole.
    if log.base == 0 {
        return None;
    }
    log.was_torn = at < bytes.len();
    if log.was_torn && has_frame_behind(bytes, at) {
        return None;
    }
    log.entries = entries.into_values().collect();
    Some(log)
}

/// Whether there is a whole frame behind a place: then what is there is no write that was cut off.
fn has_frame_behind(bytes: &[u8], at: usize) -> bool {
    let mut from = at + 1;
    while let Some(rest) = bytes.get(from..) {
        let Some(next) = rest.windows(MAGIC.len()).position(|it| it == MAGIC) else { break };
        if payload_at(bytes, from + next).is_some() {
            return true;
        }
        from += next + 1;
    }
    false
}

/// The paths of all manifests.
#[cfg(test)]
pub(super) fn list_for_tests(folder: &Path) -> Vec<PathBuf> {
    list(folder).unwrap().into_iter().map(|name| name.path).collect()
}

/// How many entries each frame of a manifest has.
#[cfg(test)]
pub(super) fn entries_of_frames_for_tests(path: &Path) -> Vec<usize> {
    let bytes = std::fs::read(path).unwrap();
    let mut at = FRAME_HEAD + payload_at(&bytes, 0).unwrap().len();
    let mut counts = Vec::new();
    while let Some(payload) = payload_at(&bytes, at) {
        counts.push(serde_json::from_slice::<Batch>(payload).unwrap().put.len());
        at += FRAME_HEAD + payload.len();
    }
    counts
}

/// Puts a manifest without entries in place of all others.
#[cfg(test)]
pub(super) fn write_for_tests(folder: &Path, head: &str) {
    for path in list_for_tests(folder) {
        std::fs::remove_file(path).unwrap();
    }
    let mut bytes = frame(0, head.as_bytes()).unwrap();
    bytes.extend(frame(bytes.len() as u64, b"{\"generation\":1}").unwrap());
    std::fs::write(folder.join(format!("{PREFIX}{:016x}", 7)), bytes).unwrap();
}
