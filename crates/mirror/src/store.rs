//! The copy on disk.
//!
//! * **Bodies** are files named after the SHA-256 of their bytes without content coding, so two addresses with
//!   one body share it. Text is packed with Brotli. Each file has a sum, which is checked before a byte of it is
//!   sent: what is torn or damaged is a miss.
//! * **The manifest** says which address has which fields and which body. A batch of changes is appended as
//!   one frame and synced; an incomplete frame doesn't count. So a batch happens or does not, and what was
//!   removed stays removed. When the manifest has grown, it is rewritten beside the old one, synced and
//!   renamed.
//! * **Readers** see one [`Generation`]: the state after some batch, which never changes under them.
//!
//! All calls that read or write files block.

mod blobs;
mod generation;
mod manifest;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub use self::blobs::Unreadable;
pub use self::generation::Generation;

use self::blobs::Blobs;
use self::manifest::{Batch, Manifest, Read};
use crate::pure::address::Address;
use crate::pure::entry::{BodyHash, BodyRef, Entry};
use crate::pure::plan::{Change, SavedPlan};
use crate::pure::represent::StoredBody;

/// How much a store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of packed bodies, each file counted in whole blocks.
    pub bytes: u64,
    /// Addresses.
    pub entries: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 1 << 30, entries: 20_000 }
    }
}

/// Why the store fails.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it.
    #[error("another process uses the mirror in {0}: stop it, or give this one another directory")]
    InUse(PathBuf),
    /// The operating system says so.
    #[error(
        "the mirror in {path} cannot be {verb}: {source}; check its permissions and free space"
    )]
    Io {
        /// The folder.
        path: PathBuf,
        /// `read` or `written`.
        verb: &'static str,
        /// What it says.
        source: io::Error,
    },
}

/// What was found when a store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Opened {
    /// The plan that was saved last.
    pub plan: SavedPlan,
    /// Addresses whose bodies are missing. They are not mirrored any more.
    pub lost: usize,
    /// All was dropped, because the manifest is damaged, of a later version, or of another site.
    pub dropped_all: bool,
    /// A batch was being written when the last process ended.
    pub was_torn: bool,
    /// Files that belonged to nothing.
    pub garbage: usize,
}

/// What a batch of changes has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The number of the generation that has them.
    pub generation: u64,
    /// Addresses that could not be kept, because there is no room. Nothing is mirrored under them.
    pub full: Vec<Address>,
    /// Addresses that were to keep a body that is not there any more. Nothing is mirrored under them.
    pub lost: Vec<Address>,
}

/// A mirror's copy on disk.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    bounds: Bounds,
    current: RwLock<Arc<Generation>>,
    writer: Mutex<Writer>,
    /// It goes with the process, however that ends.
    lock: File,
}

#[derive(Debug)]
struct Writer {
    blobs: Blobs,
    manifest: Manifest,
}

const PLAN: &str = "plan.json";

/// Files that are removed at once: each takes milliseconds, and others wait for the store meanwhile.
const FILES_AT_ONCE: usize = 128;

impl Store {
    /// Opens a store for a site, or makes one, for this user alone.
    ///
    /// # Errors
    ///
    /// If another process has it, or files cannot be read or written.
    pub fn open(path: &Path, site: &str, bounds: Bounds) -> Result<(Self, Opened), StoreError> {
        let failed = |source| StoreError::Io { path: path.to_owned(), verb: "read", source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let lock = lock(path)?;
        let (manifest, read) = Manifest::open(path, site).map_err(failed)?;
        let Read { entries, was_torn, dropped_all } = read;
        let mut opened = Opened { dropped_all, was_torn, ..Opened::default() };
        let mut blobs = Blobs::open(path).map_err(failed)?;
        let mut generation = Generation::new(manifest.generation());
        for entry in entries {
            if entry.body.is_none_or(|body| blobs.refer(&body)) {
                generation.put(entry);
            } else {
                opened.lost += 1;
            }
        }
        opened.garbage = blobs.sweep();
        if !dropped_all {
            opened.plan = read_plan(&path.join(PLAN));
        }
        let store = Self {
            path: path.to_owned(),
            bounds,
            current: RwLock::new(Arc::new(generation)),
            writer: Mutex::new(Writer { blobs, manifest }),
            lock,
        };
        Ok((store, opened))
    }

    /// Stops syncing bodies, for simulations. A body that a power cut damages is a miss, as every damaged one.
    pub fn sync_no_bodies(&self) {
        self.lock_writer().blobs.is_durable = false;
    }

    /// The present state. It does not change; ask again for a later one.
    pub fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads a body, whole and checked.
    ///
    /// # Errors
    ///
    /// If it is not there or damaged; call [`Store::forget_body`] then.
    pub fn body(&self, body: &BodyRef) -> Result<StoredBody, Unreadable> {
        blobs::read(&self.path, body)
    }

    /// Applies changes: all of them, or, if the process or the machine dies, none. When it returns, they are on
    /// the disk.
    ///
    /// # Errors
    ///
    /// If a file cannot be written. If something was to be removed, the whole store is emptied then, which
    /// needs no room: what was removed must not come back.
    pub fn apply(&self, changes: Vec<Change>) -> Result<Applied, StoreError> {
        let applied = self.apply_but_leave_files(changes)?;
        while self.remove_unused_bodies() {}
        Ok(applied)
    }

    /// Removes what is mirrored under these addresses, as [`Store::apply`] does. The files of their bodies go later:
    /// call [`Store::remove_unused_bodies`] until it returns false. Those that are left, the next start removes.
    ///
    /// # Errors
    ///
    /// As [`Store::apply`].
    pub fn remove(&self, addresses: Vec<Address>) -> Result<Applied, StoreError> {
        self.apply_but_leave_files(addresses.into_iter().map(Change::Remove).collect())
    }

    /// Removes some files of bodies that nothing refers to; returns whether there are more.
    pub fn remove_unused_bodies(&self) -> bool {
        let mut writer = self.lock_writer();
        writer.blobs.remove_unused(FILES_AT_ONCE);
        writer.blobs.has_unused()
    }

    fn apply_but_leave_files(&self, changes: Vec<Change>) -> Result<Applied, StoreError> {
        let mut writer = self.lock_writer();
        let removes = changes.iter().any(|change| matches!(change, Change::Remove(_)));
        let applied = self.try_apply(&mut writer, changes);
        applied.map_err(|source| {
            if removes {
                self.empty(&mut writer);
            }
            StoreError::Io { path: self.path.clone(), verb: "written", source }
        })
    }

    fn try_apply(&self, writer: &mut Writer, changes: Vec<Change>) -> io::Result<Applied> {
        make_room(writer, &changes, self.bounds.bytes);
        let mut next = Generation::clone(&self.current());
        let mut batch = Batch::default();
        let mut applied = Applied::default();
        let mut new = 0;
        for change in changes {
            match change {
                Change::Put { entry, body } => {
                    let is_new = next.find(&entry.address).is_none();
                    let has_room = !is_new || next.len() + new < self.bounds.entries;
                    let is_kept = has_room
                        && match &entry.body {
                            Some(of) => writer.blobs.put(of, &body, &entry, self.bounds.bytes)?,
                            None => true,
                        };
                    if is_kept {
                        new += usize::from(is_new);
                        batch.put(*entry);
                    } else {
                        batch.remove(entry.address.clone());
                        applied.full.push(entry.address);
                    }
                }
                Change::Update(entry) if entry.body.is_none_or(|it| writer.blobs.has(&it)) => {
                    batch.put(*entry);
                }
                Change::Update(entry) => {
                    batch.remove(entry.address.clone());
                    applied.lost.push(entry.address);
                }
                Change::Remove(address) => batch.remove(address),
            }
        }
        let (mut unused, mut used) = (Vec::new(), Vec::new());
        for address in &batch.remove {
            unused.extend(next.remove(address).and_then(|it| it.body));
        }
        for entry in &batch.put {
            used.extend(entry.body);
            unused.extend(next.put(entry.clone()).and_then(|it| it.body));
        }
        writer.blobs.sync()?;
        next.number = writer.manifest.append(&batch)?;
        applied.generation = next.number;
        for body in &used {
            writer.blobs.refer(body);
        }
        let next = Arc::new(next);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        // A reader of an earlier generation misses them, and asks the server.
        for body in &unused {
            writer.blobs.release(body);
        }
        writer.manifest.compact_if_large(&next)?;
        Ok(applied)
    }

    /// A body could not be read: nothing refers to it any more. Returns the addresses that are not mirrored any
    /// more, for the plan.
    ///
    /// # Errors
    ///
    /// As [`Store::apply`].
    pub fn forget_body(&self, hash: &BodyHash) -> Result<Vec<Address>, StoreError> {
        let addresses = self.current().with_body(hash);
        self.apply(addresses.iter().cloned().map(Change::Remove).collect())?;
        self.lock_writer().blobs.forget(hash);
        Ok(addresses)
    }

    /// Removes everything.
    pub fn clear(&self) {
        self.empty(&mut self.lock_writer());
    }

    fn empty(&self, writer: &mut Writer) {
        writer.manifest.destroy();
        writer.blobs.clear();
        let _ = std::fs::remove_file(self.path.join(PLAN));
        let number = writer.manifest.generation();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Generation::new(number));
    }

    /// Saves the plan: at the end of a pass, and at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save_plan(&self, plan: &SavedPlan) -> Result<(), StoreError> {
        // Two writers would write one temporary file.
        let _writer = self.lock_writer();
        let saved = write_whole(&self.path, PLAN, |file| Ok(serde_json::to_writer(file, plan)?));
        saved.map_err(|source| StoreError::Io { path: self.path.clone(), verb: "written", source })
    }

    /// Bytes of packed bodies.
    pub fn bytes(&self) -> u64 {
        self.lock_writer().blobs.bytes()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A child that was forked a moment ago may still have the file open.
        let _ = self.lock.unlock();
    }
}

/// Removes files that are left from earlier removals, if what comes may need their room. Not later: the bodies of a
/// batch have no references before its end.
fn make_room(writer: &mut Writer, changes: &[Change], most: u64) {
    let new = changes.iter().filter_map(|change| match change {
        Change::Put { body, .. } => Some(body.len() as u64),
        _ => None,
    });
    let (bodies, bytes) =
        new.fold((0_usize, 0_u64), |(count, all), bytes| (count + 1, all + bytes));
    if bodies > 0 && writer.blobs.is_short_of(bodies, bytes, most) {
        writer.blobs.remove_unused(usize::MAX);
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let failed = |source| StoreError::Io { path: path.to_owned(), verb: "read", source };
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let lock = options.open(path.join("mirror.lock")).map_err(failed)?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StoreError::InUse(path.to_owned()),
        TryLockError::Error(error) => failed(error),
    })?;
    Ok(lock)
}

/// A plan that cannot be read says nothing: the next pass finds everything again.
fn read_plan(path: &Path) -> SavedPlan {
    let text = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Writes a file beside its name, syncs and renames it: it is there whole, or as it was.
fn write_whole(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = folder.join(format!("{name}.tmp"));
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    file.into_inner()?.sync_all()?;
    std::fs::rename(&temporary, folder.join(name))?;
    File::open(folder)?.sync_all()
}

/// What an entry says of the media type of its body.
fn media_of(entry: &Entry) -> String {
    crate::discover::content_type(&entry.headers())
}

#[cfg(test)]
mod tests;
