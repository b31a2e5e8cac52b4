//! The folder as a store: its errors say what is full, how much is still to come, and what to do.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, fchmod, flock, fstat, fstatfs, ftruncate, futimens,
    openat, renameat, statat, unlinkat,
};

use super::{Folder, PENDING, PENDING_BYTES, UNSYNCED_BYTES};
use crate::pure::grain::Grain;
use crate::pure::paths::OWN;
use crate::receive::access::{
    Explained, attach, mode, name_of, of_entry, of_io, remove, stamp_of, times,
};
use crate::receive::journal::{Journal, Parts, read};
use crate::receive::remove::Removal;
use crate::receive::session::{Options, Outcome, Standing, Store, StoreError};
use crate::receive::trial::{Trial, undeleted};
use crate::wire::{Change, Entry, EntryKind, Rejected};

/// The number of the FAT file systems.
const FAT: u32 = 0x4d44;

impl Store for Folder {
    fn begin(&mut self, session: [u8; 16]) -> Result<(), StoreError> {
        self.begin_session(session);
        Ok(())
    }

    fn prepare(
        &mut self,
        entries: Arc<[Entry]>,
        options: &Options,
    ) -> Result<Vec<Standing>, StoreError> {
        let result = self.prepared(&entries, options);
        self.explained(result)
    }

    fn compared(
        &mut self,
        entries: &[Entry],
        options: &Options,
    ) -> Result<Vec<Change>, StoreError> {
        let result = self.compare(entries, options);
        self.explained(result)
    }

    fn ended(&mut self, place: usize, bytes: u64) -> Result<(), StoreError> {
        self.end_stream(place, bytes);
        Ok(())
    }

    fn write(&mut self, place: usize, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let result = self.with_room(|it| it.write_part(place, offset, bytes));
        self.explained(result)
    }

    fn zero(&mut self, place: usize, offset: u64, bytes: u64) -> Result<(), StoreError> {
        let result = self.with_room(|it| it.write_zeros(place, offset, bytes));
        self.explained(result)
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let result = self.with_room(super::Folder::flush_journal);
        self.explained(result)
    }

    fn complete(&mut self, place: usize) -> Result<(), StoreError> {
        let result = self.with_room(|it| it.finish(place));
        self.explained(result)
    }

    fn abandon(&mut self, place: usize) -> Result<(), StoreError> {
        let result = self.drop_file(place);
        self.explained(result)
    }

    fn remove_others(&mut self) -> Result<(), StoreError> {
        let result = self.remove_rest();
        self.explained(result)
    }

    fn end(&mut self) -> Result<Outcome, StoreError> {
        let result = self.end_session();
        self.explained(result)
    }
}

/// What [`Store`](super::session::Store) asks for, with the errors of the file system as they are.
impl Folder {
    fn begin_session(&mut self, session: [u8; 16]) {
        self.session = format!("{:032x}", u128::from_be_bytes(session));
        self.session.truncate(16);
    }

    /// An error that says what to do.
    fn explained<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let (folder, root) = (self.path.as_path(), self.root.as_fd());
        let explained = Explained { folder, root, to_come: self.to_come };
        result.map_err(|error| match error {
            StoreError::All(error) => StoreError::All(explained.error(&error)),
            error @ StoreError::Entry(_) => error,
        })
    }

    /// Finds out how finely times are kept here, by a file without a name, or one that goes at once. If neither can be
    /// made, times are taken to be kept as they are: at worst, something is sent that is there.
    fn find_grain(&mut self, may_name: bool) -> Result<(), StoreError> {
        let own = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let name = format!("{}{}.times", String::from_utf8_lossy(OWN), self.session);
        let file = openat(&self.root, ".", flags | OFlags::TMPFILE, own).or_else(|errno| {
            if !may_name {
                return Err(errno);
            }
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            openat(&self.root, &name, flags, own)
        });
        let Ok(file) = file else {
            // FAT has no files without a name.
            let is_fat = fstatfs(&self.root).is_ok_and(|it| it.f_type as u32 == FAT);
            self.grain = if is_fat { Grain::FAT } else { Grain::FINEST };
            return Ok(());
        };
        let kept = futimens(&file, &times(Grain::PROBE)).and_then(|()| fstat(&file));
        if may_name {
            remove(self.root.as_fd(), OsStr::new(&name))?;
        }
        let kept = kept.ok().as_ref().and_then(stamp_of);
        self.grain = kept.map_or(Grain::FINEST, Grain::of_kept);
        Ok(())
    }

    fn prepared(
        &mut self,
        entries: &Arc<[Entry]>,
        options: &Options,
    ) -> Result<Vec<Standing>, StoreError> {
        self.entries = Arc::clone(entries);
        self.options = options.clone();
        self.to_come = to_come(entries, &[]);
        self.find_grain(true)?;
        let name = self.journal_name();
        let old = self.locked(&name)?;
        let mut before = read(old.try_clone()?, &self.life)?;
        let mut standings = Vec::with_capacity(entries.len());
        let result = self.standings(&mut before, &mut standings);
        // Before anything is written: there may be no room, until old files are replaced.
        self.finish_complete(&mut standings)?;
        result?;
        self.remove_left(before, &standings)?;
        self.to_come = to_come(entries, &standings);
        self.begin_journal(&name, &standings)?;
        // Another receiver that waits for it finds that the name is now that of the new one.
        drop(old);
        // The journal was written just now.
        let now = statat(&self.root, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
        self.remove_abandoned(now.st_ctime)?;
        Ok(standings)
    }

    /// What there is of each entry. Folders are made.
    fn standings(
        &mut self,
        before: &mut Parts,
        standings: &mut Vec<Standing>,
    ) -> Result<(), StoreError> {
        for place in 0..self.entries.len() {
            let standing = if self.entries[place].path.is_empty() {
                Err(StoreError::Entry("its path was refused".to_owned()))
            } else {
                self.standing(place, before)
            };
            standings.push(match standing {
                Ok(standing) => standing,
                Err(StoreError::Entry(reason)) => {
                    self.refused.insert(place);
                    Standing::Rejected(reason)
                }
                Err(error) => return Err(error),
            });
        }
        Ok(())
    }

    /// Gives files their names of which all had arrived before.
    fn finish_complete(&mut self, standings: &mut [Standing]) -> Result<(), StoreError> {
        let mut failed = HashMap::new();
        let mut done = Vec::new();
        for (place, standing) in standings.iter().enumerate() {
            let bytes = self.entries[place].bytes();
            if !matches!(standing, Standing::Parts(it) if bytes > 0 && it.covers(0, bytes)) {
                continue;
            }
            match self.finish(place) {
                Ok(()) => done.push(place),
                Err(StoreError::Entry(reason)) => {
                    self.drop_file(place)?;
                    failed.insert(self.entries[place].path.clone(), reason);
                    done.push(place);
                }
                Err(error) => return Err(error),
            }
        }
        if done.is_empty() {
            return Ok(());
        }
        self.rename_pending()?;
        let unnamed = std::mem::take(&mut self.failed).into_iter();
        failed.extend(unnamed.map(|Rejected { path, reason }| (path, reason)));
        for place in done {
            standings[place] = match failed.remove(&self.entries[place].path) {
                Some(reason) => Standing::Rejected(reason),
                None => Standing::Complete,
            };
        }
        Ok(())
    }

    /// The new journal replaces the old one when it has all that still counts.
    fn begin_journal(&mut self, name: &str, standings: &[Standing]) -> Result<(), StoreError> {
        let new = format!("{name}.new");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            openat(&self.root, &new, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
        flock(&file, FlockOperation::LockExclusive).map_err(io::Error::from)?;
        let mut journal = Journal::begin(File::from(file), &self.life)?;
        let mut has_parts = false;
        for (place, standing) in standings.iter().enumerate() {
            let Standing::Parts(parts) = standing else { continue };
            for range in parts.iter() {
                journal.wrote(place, &self.entries[place], range)?;
                has_parts = true;
            }
        }
        if has_parts {
            // What an earlier attempt wrote may be in the kernel's memory alone.
            self.sync()?;
        }
        journal.synced()?;
        renameat(&self.root, &new, &self.root, name).map_err(io::Error::from)?;
        self.journal = Some(journal);
        Ok(())
    }

    /// Does something. Where there is no room for it, complete files get their names, which may make room because they
    /// replace others, and it is tried once more.
    fn with_room(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match work(self) {
            Err(StoreError::All(error)) if is_full(&error) && !self.pending.is_empty() => {
                self.name_pending()?;
                work(self)
            }
            result => result,
        }
    }

    fn write_part(&mut self, place: usize, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.file(place)?.write_all_at(bytes, offset).map_err(of_io)?;
        self.to_come = self.to_come.map(|count| count.saturating_sub(bytes.len() as u64));
        self.note(place, offset, bytes.len() as u64)
    }

    /// A stream has ended.
    fn end_stream(&mut self, place: usize, bytes: u64) {
        let mut entries = self.entries.to_vec();
        entries[place].kind = EntryKind::File(bytes);
        self.entries = entries.into();
    }

    fn write_zeros(&mut self, place: usize, offset: u64, bytes: u64) -> Result<(), StoreError> {
        let end = offset.saturating_add(bytes);
        let file = self.file(place)?;
        // Nothing was written there before, or the same zeros: a longer file has a hole.
        if file.metadata()?.len() < end {
            ftruncate(file.as_fd(), end).map_err(of_entry)?;
        }
        self.note(place, offset, bytes)
    }

    fn flush_journal(&mut self) -> Result<(), StoreError> {
        if self.unsynced >= UNSYNCED_BYTES {
            return self.rename_pending();
        }
        Ok(self.journal.as_mut().map_or(Ok(()), Journal::flush)?)
    }

    fn finish(&mut self, place: usize) -> Result<(), StoreError> {
        let entry = self.entries[place].clone();
        if entry.bytes() == 0 {
            // Nothing was written, so the journal has nothing of it yet.
            self.note(place, 0, 0)?;
        }
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

    fn drop_file(&mut self, place: usize) -> Result<(), StoreError> {
        self.close(place);
        let path = self.entries[place].path.clone();
        self.remove_temporary(&path)
    }

    fn remove_rest(&mut self) -> Result<(), StoreError> {
        self.rename_pending()?;
        let Some(excludes) = self.options.delete.clone().filter(|_| self.failed.is_empty()) else {
            return Ok(());
        };
        let entries = Arc::clone(&self.entries);
        let paths = entries.iter().map(|entry| entry.path.as_slice()).collect();
        let mut removal = Removal::new(&paths, &excludes);
        for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Folder) {
            let name = OsStr::from_bytes(name_of(&entry.path));
            let parent = self.parent(&entry.path)?;
            if let Err(errno) = removal.empty(parent.as_fd(), name, &entry.path) {
                self.failed.push(Rejected { path: entry.path.clone(), reason: undeleted(errno) });
            }
        }
        self.removed += removal.count;
        Ok(())
    }

    fn compare(&mut self, entries: &[Entry], options: &Options) -> Result<Vec<Change>, StoreError> {
        self.find_grain(false)?;
        if self.is_new {
            std::fs::remove_dir(&self.path)?;
        }
        let root = self.root.as_fd();
        let Self { is_wary_of_links, grain, .. } = *self;
        Trial { root, entries, options, is_wary_of_links, grain }.changes()
    }

    fn end_session(&mut self) -> Result<Outcome, StoreError> {
        self.rename_pending()?;
        // Folders last, and the inner ones first: writing into them changes their times.
        let links = (0..self.entries.len())
            .filter(|it| matches!(self.entries[*it].kind, EntryKind::Link(_)));
        let folders =
            (0..self.entries.len()).filter(|it| self.entries[*it].kind == EntryKind::Folder);
        let places = links.chain(folders.rev()).filter(|place| !self.refused.contains(place));
        for place in places.collect::<Vec<usize>>() {
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
        self.sync()?;
        // Its name goes before the lock on it.
        unlinkat(&self.root, self.journal_name(), AtFlags::empty()).map_err(io::Error::from)?;
        self.journal = None;
        Ok(Outcome { rejected: std::mem::take(&mut self.failed), removed: self.removed })
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Bytes of what is not complete: unknown for a stream.
fn to_come(entries: &[Entry], standings: &[Standing]) -> Option<u64> {
    let mut all = 0_u64;
    for (place, entry) in entries.iter().enumerate() {
        let there = match standings.get(place) {
            Some(Standing::Complete | Standing::Rejected(_)) => entry.bytes(),
            Some(Standing::Parts(parts)) => parts.total(),
            None => 0,
        };
        all = all.saturating_add(entry.bytes().saturating_sub(there));
    }
    let is_stream = entries.iter().any(|entry| entry.kind == EntryKind::Stream);
    (!is_stream).then_some(all)
}
