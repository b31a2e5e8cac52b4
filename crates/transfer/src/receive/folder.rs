//! Entries below a folder.
//!
//! A file is written under a temporary name beside its final one. Complete files are synced together and renamed then,
//! so that a final name never has half a file, also after a power cut. No link is followed below the folder.

mod left;
mod store;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, futimens, mkdirat,
    open, openat, renameat, statat, symlinkat, syncfs, utimensat,
};
use rustix::io::Errno;
use rustix::thread::nanosleep;
use rustix::time::Timespec;

use super::access::{FOLDER, There, allow, folder_mode, is_same, name_of, of_entry, remove, times};
use super::journal::{Described, Journal, Parts};
use super::life::Life;
use super::remove::Removal;
use super::session::{Options, Standing, StoreError};
use super::trial::{KEPT, in_the_way};
use crate::pure::grain::Grain;
use crate::pure::paths;
use crate::pure::ranges::Ranges;
use crate::wire::{Entry, EntryKind, Rejected};

/// Files that are open at once.
const OPEN: usize = 64;
/// Complete files are renamed when there are this many, or this many bytes were written.
const PENDING: usize = 8192;
const PENDING_BYTES: u64 = 64 << 20;
/// Of a large file, no more is lost when the machine restarts.
const UNSYNCED_BYTES: u64 = if cfg!(test) { 512 << 10 } else { 256 << 20 };
/// Times that a journal is tried which another receiver has, and the time between, ns: 2 s together.
const TRIES: u32 = 40;
const BETWEEN: i64 = 50_000_000;
/// The name of a temporary file: own prefix, session, and the place of the final name's parts.
const TEMPORARY: &str = "part";

/// A folder that is written to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Whether it was made just now.
    is_new: bool,
    root: OwnedFd,
    device: u64,
    /// A folder of each other file system that is mounted below, by the number of its device: they are synced too.
    others: HashMap<u64, OwnedFd>,
    life: Arc<Life>,
    session: String,
    entries: Arc<[Entry]>,
    journal: Option<Journal>,
    open: HashMap<usize, File>,
    /// Open files, the one that was opened first first.
    order: VecDeque<usize>,
    /// The parent of the last entry, which is most often that of the next.
    parent: Option<Parent>,
    /// Complete and not yet renamed.
    pending: Vec<usize>,
    unsynced: u64,
    failed: Vec<Rejected>,
    /// Entries that were rejected before anything was written.
    refused: HashSet<usize>,
    options: Options,
    grain: Grain,
    /// Bytes that are still to be written, if that is known.
    to_come: Option<u64>,
    removed: u64,
    is_wary_of_links: bool,
}

#[derive(Debug)]
struct Parent {
    path: Vec<u8>,
    folder: OwnedFd,
}

impl Folder {
    /// Opens the folder, and makes it if only its last part is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        let is_new = match std::fs::create_dir(path) {
            Ok(()) => true,
            // Where the folder cannot be made and is there, opening it says what is wrong.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists || path.is_dir() => false,
            Err(error) => return Err(error),
        };
        let root = open(path, FOLDER, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            is_new,
            life: Arc::new(Life::of(&root)),
            device: fstat(&root)?.st_dev,
            root,
            others: HashMap::new(),
            session: String::new(),
            entries: Arc::default(),
            journal: None,
            open: HashMap::new(),
            order: VecDeque::new(),
            parent: None,
            pending: Vec::new(),
            unsynced: 0,
            failed: Vec::new(),
            refused: HashSet::new(),
            options: Options::default(),
            grain: Grain::FINEST,
            to_come: None,
            removed: 0,
            is_wary_of_links: false,
        })
    }

    /// Refuses links that could lead outside: for folders that other programs serve. This one follows none.
    #[must_use]
    pub fn wary_of_links(mut self) -> Self {
        self.is_wary_of_links = true;
        self
    }

    /// Opens the journal, and waits a while for another receiver of the same session: one whose sender was killed may be
    /// busy with what has arrived.
    fn locked(&self, name: &str) -> Result<File, StoreError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            let file = openat(&self.root, name, flags, Mode::RUSR | Mode::WUSR)
                .map_err(io::Error::from)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: BETWEEN });
                    continue;
                }
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
            let ours = fstat(&file).map_err(io::Error::from)?;
            let named = statat(&self.root, name, AtFlags::SYMLINK_NOFOLLOW);
            if named.is_ok_and(|named| (named.st_ino, named.st_dev) == (ours.st_ino, ours.st_dev)) {
                return Ok(File::from(file));
            }
        }
        let text =
            "another receiver has the same files: end its sender, or send again when it is done";
        Err(io::Error::new(io::ErrorKind::ResourceBusy, text).into())
    }

    /// Opens the folder that holds an entry, without following links.
    fn parent(&mut self, path: &[u8]) -> Result<&OwnedFd, StoreError> {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let wanted = &path[..end];
        if self.parent.as_ref().is_none_or(|parent| parent.path != wanted) {
            let mut folder = self.root.try_clone()?;
            for part in wanted.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
                let flags = FOLDER | OFlags::NOFOLLOW;
                folder = openat(&folder, OsStr::from_bytes(part), flags, Mode::empty())
                    .map_err(of_entry)?;
            }
            let device = fstat(&folder).map_err(of_entry)?.st_dev;
            if device != self.device && !self.others.contains_key(&device) {
                self.others.insert(device, folder.try_clone()?);
            }
            self.parent = Some(Parent { path: wanted.to_owned(), folder });
        }
        // The root stands in for a parent that was just set.
        Ok(self.parent.as_ref().map_or(&self.root, |parent| &parent.folder))
    }

    fn file(&mut self, place: usize) -> Result<&File, StoreError> {
        if !self.open.contains_key(&place) {
            if self.order.len() >= OPEN
                && let Some(oldest) = self.order.pop_front()
            {
                self.open.remove(&oldest);
            }
            let path = self.entries[place].path.clone();
            let temporary = self.temporary(&path);
            let temporary = OsStr::from_bytes(&temporary);
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let parent = self.parent(&path)?;
            let own = Mode::RUSR | Mode::WUSR;
            let file = openat(parent, temporary, flags, own).or_else(|errno| match errno {
                // It was complete already, and has the permissions of its entry.
                Errno::ACCESS => allow(parent.as_fd(), temporary, own)
                    .and_then(|()| openat(parent, temporary, flags, own)),
                errno => Err(errno),
            });
            self.open.insert(place, File::from(file.map_err(of_entry)?));
            self.order.push_back(place);
        }
        self.open.get(&place).ok_or_else(|| StoreError::Entry("it is not open".to_owned()))
    }

    fn close(&mut self, place: usize) {
        if self.open.remove(&place).is_some() {
            self.order.retain(|open| *open != place);
        }
    }

    fn standing(&mut self, place: usize, before: &mut Parts) -> Result<Standing, StoreError> {
        let entry = self.entries[place].clone();
        let name = OsStr::from_bytes(name_of(&entry.path));
        let there = match statat(self.parent(&entry.path)?, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(of_entry(errno)),
        };
        let kind = there.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
        let is_folder = kind == Some(FileType::Directory);
        let in_the_way = in_the_way(&entry, kind, self.options.delete.is_some())?;
        match &entry.kind {
            EntryKind::Folder => self.folder_standing(&entry, is_folder, in_the_way),
            EntryKind::Link(target) => {
                let check = paths::check_link(&entry.path, target);
                if self.is_wary_of_links {
                    check.map_err(|error| StoreError::Entry(error.to_string()))?;
                }
                Ok(Standing::Parts(Ranges::default()))
            }
            EntryKind::File(_) | EntryKind::Stream => {
                self.file_standing(&entry, there.as_ref(), before)
            }
        }
    }

    fn folder_standing(
        &mut self,
        entry: &Entry,
        is_there: bool,
        in_the_way: bool,
    ) -> Result<Standing, StoreError> {
        let name = OsStr::from_bytes(name_of(&entry.path));
        let parent = self.parent(&entry.path)?;
        if is_there {
            // It gets the permissions of its entry at the end. Where it belongs to another user, those that it has may do.
            let _ = allow(parent.as_fd(), name, Mode::RWXU);
        } else {
            if in_the_way {
                remove(parent.as_fd(), name)?;
            }
            mkdirat(parent, name, Mode::RWXU).map_err(of_entry)?;
            self.removed += u64::from(in_the_way);
        }
        Ok(Standing::Parts(Ranges::default()))
    }

    fn file_standing(
        &mut self,
        entry: &Entry,
        there: Option<&Stat>,
        before: &mut Parts,
    ) -> Result<Standing, StoreError> {
        let temporary = self.temporary(&entry.path);
        let (grain, attributes) = (self.grain, self.options.attributes);
        let life = Arc::clone(&self.life);
        let parent = self.parent(&entry.path)?;
        let is_there = |it: &&Stat| is_same(it, entry.bytes(), entry.modified, grain);
        if let Some(stat) = there.filter(is_there) {
            let name = OsStr::from_bytes(name_of(&entry.path));
            There { folder: parent.as_fd(), name, stat, attributes }.redress(entry)?;
            return Ok(Standing::Complete);
        }
        let is_elsewhere = || !life.has(parent);
        // A journal without its file, or with one that is too short for it, is worth nothing.
        let part = statat(parent, OsStr::from_bytes(&temporary), AtFlags::SYMLINK_NOFOLLOW);
        let part = part.ok().filter(|it| FileType::from_raw_mode(it.st_mode).is_file());
        let length = part.map_or(0, |it| u64::try_from(it.st_size).unwrap_or(0));
        let is_long_enough = |parts: &Ranges| parts.iter().all(|[_, end]| end <= length);
        match before.take(&Described::of(entry), is_elsewhere) {
            Some(parts) if parts.total() > 0 && is_long_enough(&parts) => {
                Ok(Standing::Parts(parts))
            }
            _ => {
                // What is in it may be of an earlier state of the file.
                self.remove_temporary(&entry.path)?;
                Ok(Standing::Parts(Ranges::default()))
            }
        }
    }

    /// What was written is on the disk after this.
    fn sync(&self) -> io::Result<()> {
        Ok(self.others.values().chain([&self.root]).try_for_each(syncfs)?)
    }

    /// Syncs what was written, and gives complete files their names.
    fn rename_pending(&mut self) -> Result<(), StoreError> {
        if let Some(journal) = &mut self.journal {
            journal.flush()?;
        }
        self.name_pending()?;
        match &mut self.journal {
            Some(journal) => Ok(journal.synced()?),
            None => Ok(()),
        }
    }

    /// The same without the journal, which may have no room.
    fn name_pending(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.unsynced = 0;
        for place in std::mem::take(&mut self.pending) {
            if let Err(error) = self.rename(place) {
                let StoreError::Entry(reason) = error else { return Err(error) };
                self.failed.push(Rejected { path: self.entries[place].path.clone(), reason });
            }
        }
        Ok(())
    }

    fn rename(&mut self, place: usize) -> Result<(), StoreError> {
        let path = self.entries[place].path.clone();
        let temporary = self.temporary(&path);
        let temporary = OsStr::from_bytes(&temporary);
        let name = OsStr::from_bytes(name_of(&path));
        let parent = self.parent(&path)?;
        let result = match renameat(parent, temporary, parent, name) {
            Err(Errno::ISDIR) if self.options.delete.is_some() => {
                self.replace_folder(&path, temporary)
            }
            result => result.map_err(of_entry),
        };
        if let Err(StoreError::Entry(_)) = &result {
            self.remove_temporary(&path)?;
        }
        result
    }

    /// Removes a folder that has the name of a file or a link, and gives that its name.
    fn replace_folder(&mut self, path: &[u8], temporary: &OsStr) -> Result<(), StoreError> {
        let excludes = self.options.delete.clone().unwrap_or_default();
        let none = HashSet::new();
        let name = OsStr::from_bytes(name_of(path));
        let parent = self.parent(path)?;
        // Nothing is removed unless all may be.
        let mut trial = Removal::trial(&none, &excludes);
        if !trial.empty(parent.as_fd(), name, path).map_err(of_entry)? {
            return Err(StoreError::Entry(KEPT.to_owned()));
        }
        let mut removal = Removal::new(&none, &excludes);
        let result = removal.empty(parent.as_fd(), name, path).and_then(|is_empty| {
            if is_empty {
                removal.remove(parent.as_fd(), name, path.to_vec(), true)?;
                renameat(parent, temporary, parent, name)?;
            }
            Ok(is_empty)
        });
        self.removed += removal.count;
        if result.map_err(of_entry)? {
            return Ok(());
        }
        Err(StoreError::Entry(KEPT.to_owned()))
    }

    fn link(&mut self, place: usize) -> Result<(), StoreError> {
        let entry = self.entries[place].clone();
        let EntryKind::Link(target) = &entry.kind else { return Ok(()) };
        let temporary = self.temporary(&entry.path);
        let temporary = OsStr::from_bytes(&temporary);
        let parent = self.parent(&entry.path)?;
        remove(parent.as_fd(), temporary)?;
        symlinkat(OsStr::from_bytes(target), parent, temporary).map_err(of_entry)?;
        let times = times(entry.modified);
        utimensat(parent, temporary, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(of_entry)?;
        self.rename(place)
    }

    fn dress_folder(&mut self, place: usize) -> Result<(), StoreError> {
        let entry = self.entries[place].clone();
        let name = OsStr::from_bytes(name_of(&entry.path));
        let parent = self.parent(&entry.path)?;
        let flags = FOLDER | OFlags::NOFOLLOW;
        let folder = openat(parent, name, flags, Mode::empty()).map_err(of_entry)?;
        let stat = fstat(&folder).map_err(of_entry)?;
        let attributes = self.options.attributes;
        if attributes || !entry.attributes.is_empty() {
            let parent = self.parent(&entry.path)?.as_fd();
            There { folder: parent, name, stat: &stat, attributes }.redress(&entry)?;
        }
        futimens(&folder, &times(entry.modified)).map_err(of_entry)?;
        fchmod(&folder, folder_mode(entry.mode, &stat)).map_err(of_entry)
    }
}

impl Folder {
    fn note(&mut self, place: usize, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.unsynced += bytes;
        if let Some(journal) = &mut self.journal {
            let entry = &self.entries[place];
            journal.wrote(place, entry, [offset, offset.saturating_add(bytes)])?;
        }
        Ok(())
    }
}
