//! Entries below a folder.
//!
//! A file is written under a temporary name beside its final one. Complete files are synced together and renamed then,
//! so that a final name never has half a file, also after a power cut. No link is followed below the folder.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT,
    XattrFlags, fchmod, flock, fsetxattr, fstat, ftruncate, futimens, mkdirat, open, openat,
    renameat, statat, symlinkat, syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::journal::{Described, Journal, Parts, read};
use super::remove::{Kept, others};
use super::session::{Standing, Store, StoreError};
use crate::pure::exclude::Exclude;
use crate::pure::paths::OWN;
use crate::pure::ranges::Ranges;
use crate::wire::{Attribute, Entry, EntryKind, Rejected, Stamp};

/// Files that are open at once.
const OPEN: usize = 64;
/// Complete files are renamed when there are this many, or this many bytes were written.
const PENDING: usize = 512;
const PENDING_BYTES: u64 = 64 << 20;
/// The name of a temporary file: own prefix, session, and the place of the final name's parts.
const TEMPORARY: &str = "part";

/// A folder that is written to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    root: OwnedFd,
    boot: String,
    session: String,
    entries: Vec<Entry>,
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
}

#[derive(Debug)]
struct Parent {
    path: Vec<u8>,
    folder: OwnedFd,
}

/// The error of an entry, or of all where no other entry would fare better.
fn of_entry(errno: Errno) -> StoreError {
    match errno {
        Errno::NOSPC
        | Errno::DQUOT
        | Errno::ROFS
        | Errno::IO
        | Errno::NFILE
        | Errno::MFILE
        | Errno::NOMEM => StoreError::All(errno.into()),
        Errno::LOOP | Errno::NOTDIR => {
            StoreError::Entry("a part of its path is a link or no folder".to_owned())
        }
        Errno::ISDIR | Errno::NOTEMPTY => StoreError::Entry("a folder has its name".to_owned()),
        errno => StoreError::Entry(io::Error::from(errno).to_string()),
    }
}

fn of_io(error: io::Error) -> StoreError {
    match error.raw_os_error() {
        Some(number) => of_entry(Errno::from_raw_os_error(number)),
        None => StoreError::All(error),
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the folder, and makes it if only its last part is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Err(error) = std::fs::create_dir(path)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            // Where the folder cannot be made and is there, opening it says what is wrong.
            if !path.is_dir() {
                return Err(error);
            }
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Ok(Self {
            path: path.to_owned(),
            root: open(path, FOLDER, Mode::empty())?,
            boot: boot.trim().to_owned(),
            session: String::new(),
            entries: Vec::new(),
            journal: None,
            open: HashMap::new(),
            order: VecDeque::new(),
            parent: None,
            pending: Vec::new(),
            unsynced: 0,
            failed: Vec::new(),
        })
    }

    fn journal_name(&self) -> String {
        format!("{}{}.journal", String::from_utf8_lossy(OWN), self.session)
    }

    /// Opens the journal, and waits until no other receiver of the same session has it: one whose sender was killed is
    /// still busy with what has arrived.
    fn locked(&self, name: &str) -> Result<File, StoreError> {
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&self.root, name, flags, Mode::RUSR | Mode::WUSR)
                .map_err(io::Error::from)?;
            flock(&file, FlockOperation::LockExclusive).map_err(io::Error::from)?;
            let ours = fstat(&file).map_err(io::Error::from)?;
            let named = statat(&self.root, name, AtFlags::SYMLINK_NOFOLLOW);
            if named.is_ok_and(|named| (named.st_ino, named.st_dev) == (ours.st_ino, ours.st_dev)) {
                return Ok(File::from(file));
            }
        }
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
            self.parent = Some(Parent { path: wanted.to_owned(), folder });
        }
        // The root stands in for a parent that was just set.
        Ok(self.parent.as_ref().map_or(&self.root, |parent| &parent.folder))
    }

    fn temporary(&self, place: usize) -> Vec<u8> {
        let name = name_of(&self.entries[place].path);
        // Names of full length would become too long: their start and a sum of all of it stand for them.
        let sum = crate::wire::content_sum(0, name);
        let kept = &name[..name.len().min(100)];
        let own = format!("{}{}-{sum:016x}-", String::from_utf8_lossy(OWN), self.session);
        [own.as_bytes(), kept, b".", TEMPORARY.as_bytes()].concat()
    }

    fn file(&mut self, place: usize) -> Result<&File, StoreError> {
        if !self.open.contains_key(&place) {
            if self.order.len() >= OPEN
                && let Some(oldest) = self.order.pop_front()
            {
                self.open.remove(&oldest);
            }
            let temporary = self.temporary(place);
            let path = self.entries[place].path.clone();
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let parent = self.parent(&path)?;
            let file =
                openat(parent, OsStr::from_bytes(&temporary), flags, Mode::RUSR | Mode::WUSR);
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
        match (&entry.kind, kind) {
            (EntryKind::Folder, Some(FileType::Directory)) => {
                Ok(Standing::Parts(Ranges::default()))
            }
            (EntryKind::Folder, None) => {
                let parent = self.parent(&entry.path)?;
                mkdirat(parent, name, Mode::RWXU).map_err(of_entry)?;
                Ok(Standing::Parts(Ranges::default()))
            }
            (EntryKind::Folder, Some(_)) => {
                Err(StoreError::Entry("a file or a link has its name".to_owned()))
            }
            (_, Some(FileType::Directory)) => {
                Err(StoreError::Entry("a folder has its name".to_owned()))
            }
            (EntryKind::Link(_), _) => Ok(Standing::Parts(Ranges::default())),
            (EntryKind::File(bytes), _) => {
                if there.is_some_and(|stat| is_same(&stat, *bytes, entry.modified)) {
                    return Ok(Standing::Complete);
                }
                let parts = before.remove(&Described::of(&entry)).unwrap_or_default();
                // A journal without its file is worth nothing.
                let temporary = self.temporary(place);
                let parent = self.parent(&entry.path)?;
                let is_there =
                    statat(parent, OsStr::from_bytes(&temporary), AtFlags::SYMLINK_NOFOLLOW);
                let is_there =
                    is_there.is_ok_and(|it| FileType::from_raw_mode(it.st_mode).is_file());
                if is_there && parts.total() > 0 {
                    return Ok(Standing::Parts(parts));
                }
                // What is in it may be of an earlier state of the file.
                self.abandon(place)?;
                Ok(Standing::Parts(Ranges::default()))
            }
        }
    }

    /// Syncs what was written, and gives complete files their names.
    fn rename_pending(&mut self) -> Result<(), StoreError> {
        if let Some(journal) = &mut self.journal {
            journal.flush()?;
        }
        syncfs(&self.root).map_err(io::Error::from)?;
        self.unsynced = 0;
        for place in std::mem::take(&mut self.pending) {
            if let Err(error) = self.rename(place) {
                let StoreError::Entry(reason) = error else { return Err(error) };
                self.failed.push(Rejected { path: self.entries[place].path.clone(), reason });
            }
        }
        match &mut self.journal {
            Some(journal) => Ok(journal.synced()?),
            None => Ok(()),
        }
    }

    fn rename(&mut self, place: usize) -> Result<(), StoreError> {
        let temporary = self.temporary(place);
        let path = self.entries[place].path.clone();
        let parent = self.parent(&path)?;
        let name = OsStr::from_bytes(name_of(&path));
        renameat(parent, OsStr::from_bytes(&temporary), parent, name).map_err(of_entry)
    }

    fn link(&mut self, place: usize) -> Result<(), StoreError> {
        let entry = self.entries[place].clone();
        let EntryKind::Link(target) = &entry.kind else { return Ok(()) };
        let temporary = self.temporary(place);
        let temporary = OsStr::from_bytes(&temporary);
        let name = OsStr::from_bytes(name_of(&entry.path));
        let parent = self.parent(&entry.path)?;
        match unlinkat(parent, temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(of_entry(errno)),
        }
        symlinkat(OsStr::from_bytes(target), parent, temporary).map_err(of_entry)?;
        let times = times(entry.modified);
        utimensat(parent, temporary, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(of_entry)?;
        renameat(parent, temporary, parent, name).map_err(of_entry)
    }

    fn dress_folder(&mut self, place: usize) -> Result<(), StoreError> {
        let entry = self.entries[place].clone();
        let name = OsStr::from_bytes(name_of(&entry.path));
        let parent = self.parent(&entry.path)?;
        let flags = FOLDER | OFlags::NOFOLLOW;
        let folder = openat(parent, name, flags, Mode::empty()).map_err(of_entry)?;
        attach(folder.as_fd(), &entry)?;
        futimens(&folder, &times(entry.modified)).map_err(of_entry)?;
        fchmod(&folder, mode(entry.mode)).map_err(of_entry)
    }
}

fn attach(file: BorrowedFd<'_>, entry: &Entry) -> Result<(), StoreError> {
    for Attribute { name, value } in &entry.attributes {
        let name = OsStr::from_bytes(name);
        fsetxattr(file, name, value, XattrFlags::empty()).map_err(|errno| match errno {
            Errno::OPNOTSUPP => {
                StoreError::Entry("its file system has no extended attributes".to_owned())
            }
            errno => of_entry(errno),
        })?;
    }
    Ok(())
}

/// Only permissions are taken from the sender: a file that was sent gets no set-uid bit.
fn mode(bits: u16) -> Mode {
    Mode::from_raw_mode(u32::from(bits & 0o777))
}

fn times(modified: Stamp) -> Timestamps {
    let modified = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() };
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: modified,
    }
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Whether the file is the one that is to be sent, as far as can be seen without reading it.
fn is_same(stat: &Stat, bytes: u64, modified: Stamp) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
        && u64::try_from(stat.st_size).is_ok_and(|size| size == bytes)
        && stat.st_mtime == modified.seconds
        && u32::try_from(stat.st_mtime_nsec) == Ok(modified.nanos)
}

impl Store for Folder {
    fn begin(&mut self, session: [u8; 16]) -> Result<(), StoreError> {
        self.session = format!("{:032x}", u128::from_be_bytes(session));
        self.session.truncate(16);
        Ok(())
    }

    fn prepare(&mut self, entries: &[Entry]) -> Result<Vec<Standing>, StoreError> {
        self.entries = entries.to_vec();
        let name = self.journal_name();
        let old = self.locked(&name)?;
        let mut before = read(old.try_clone()?, &self.boot)?;
        let mut standings = Vec::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            if entry.path.is_empty() {
                standings.push(Standing::Rejected("its path was refused".to_owned()));
                continue;
            }
            standings.push(match self.standing(place, &mut before) {
                Ok(standing) => standing,
                Err(StoreError::Entry(reason)) => Standing::Rejected(reason),
                Err(error) => return Err(error),
            });
        }
        // The new journal replaces the old one when it has all that still counts.
        let new = format!("{name}.new");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            openat(&self.root, &new, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
        flock(&file, FlockOperation::LockExclusive).map_err(io::Error::from)?;
        let mut journal = Journal::begin(File::from(file), &self.boot)?;
        for (place, standing) in standings.iter().enumerate() {
            if let Standing::Parts(parts) = standing {
                for range in parts.iter() {
                    journal.wrote(place, &entries[place], range)?;
                }
            }
        }
        journal.synced()?;
        renameat(&self.root, &new, &self.root, &name).map_err(io::Error::from)?;
        self.journal = Some(journal);
        // Another receiver that waits for it finds that the name is now that of the new one.
        drop(old);
        Ok(standings)
    }

    fn write(&mut self, place: usize, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = self.path.clone();
        self.file(place)?.write_all_at(bytes, offset).map_err(|error| match of_io(error) {
            StoreError::All(error) => StoreError::All(explained(&error, &folder)),
            error @ StoreError::Entry(_) => error,
        })?;
        self.note(place, offset, bytes.len() as u64)
    }

    fn zero(&mut self, place: usize, offset: u64, bytes: u64) -> Result<(), StoreError> {
        let end = offset.saturating_add(bytes);
        let file = self.file(place)?;
        // Nothing was written there before, or the same zeros: a longer file has a hole.
        if file.metadata()?.len() < end {
            ftruncate(file.as_fd(), end).map_err(of_entry)?;
        }
        self.note(place, offset, bytes)
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let result = self.journal.as_mut().map_or(Ok(()), Journal::flush);
        result.map_err(|error| StoreError::All(explained(&error, &self.path)))
    }

    fn complete(&mut self, place: usize) -> Result<(), StoreError> {
        let entry = self.entries[place].clone();
        let file = self.file(place)?.as_fd();
        ftruncate(file, entry.bytes()).map_err(of_entry)?;
        futimens(file, &times(entry.modified)).map_err(of_entry)?;
        attach(file, &entry)?;
        fchmod(file, mode(entry.mode)).map_err(of_entry)?;
        self.close(place);
        self.pending.push(place);
        if self.pending.len() >= PENDING || self.unsynced >= PENDING_BYTES {
            self.rename_pending()?;
        }
        Ok(())
    }

    fn abandon(&mut self, place: usize) -> Result<(), StoreError> {
        self.close(place);
        let temporary = self.temporary(place);
        let path = self.entries[place].path.clone();
        let parent = self.parent(&path)?;
        match unlinkat(parent, OsStr::from_bytes(&temporary), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(of_entry(errno)),
        }
    }

    fn remove_others(&mut self, excludes: &[Exclude]) -> Result<u64, StoreError> {
        self.rename_pending()?;
        if !self.failed.is_empty() {
            return Ok(0);
        }
        let entries = self.entries.clone();
        let paths = entries.iter().map(|entry| entry.path.as_slice()).collect();
        let kept = Kept { paths: &paths, excludes };
        let mut removed = 0;
        for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Folder) {
            let name = OsStr::from_bytes(name_of(&entry.path));
            let parent = self.parent(&entry.path)?;
            let flags = FOLDER | OFlags::NOFOLLOW;
            let result = openat(parent, name, flags, Mode::empty())
                .and_then(|folder| others(folder.as_fd(), &entry.path, &kept, &mut removed));
            if let Err(errno) = result {
                let reason = format!("not all that is to be deleted in it could be: {errno}");
                self.failed.push(Rejected { path: entry.path.clone(), reason });
            }
        }
        Ok(removed)
    }

    fn end(&mut self) -> Result<Vec<Rejected>, StoreError> {
        self.rename_pending()?;
        // Folders last, and the inner ones first: writing into them changes their times.
        let links = (0..self.entries.len())
            .filter(|it| matches!(self.entries[*it].kind, EntryKind::Link(_)));
        let folders =
            (0..self.entries.len()).filter(|it| self.entries[*it].kind == EntryKind::Folder);
        let places: Vec<usize> = links.chain(folders.rev()).collect();
        for place in places {
            if self.entries[place].path.is_empty() {
                continue;
            }
            let result = match self.entries[place].kind {
                EntryKind::Link(_) => self.link(place),
                _ => self.dress_folder(place),
            };
            match result {
                Ok(()) => {}
                Err(StoreError::Entry(reason)) => {
                    self.failed.push(Rejected { path: self.entries[place].path.clone(), reason });
                }
                Err(error) => return Err(error),
            }
        }
        syncfs(&self.root).map_err(io::Error::from)?;
        // Its name goes before the lock on it.
        unlinkat(&self.root, self.journal_name(), AtFlags::empty()).map_err(io::Error::from)?;
        self.journal = None;
        Ok(std::mem::take(&mut self.failed))
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

fn explained(error: &io::Error, folder: &Path) -> io::Error {
    let text = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
            "no room is left for {}: make room and send again; what has arrived is kept",
            folder.display()
        ),
        _ => format!("cannot write to {}: {error}", folder.display()),
    };
    io::Error::new(error.kind(), text)
}
