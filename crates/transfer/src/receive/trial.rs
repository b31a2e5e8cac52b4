//! What would be done, without doing it (`--dry-run`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::access::{FOLDER, There, is_own, is_same, may_change, name_of, of_entry};
use super::remove::Removal;
use super::session::{Options, StoreError};
use crate::pure::grain::Grain;
use crate::pure::paths;
use crate::wire::{Change, Entry, EntryKind, What};

/// Why a file does not replace a folder.
pub(super) const KEPT: &str = "a folder has its name, with something in it that `--exclude` keeps";

/// Whether a folder has the name of a file or link, or the reverse. Without `--delete` that is an error.
pub(super) fn in_the_way(
    entry: &Entry,
    there: Option<FileType>,
    is_deleting: bool,
) -> Result<bool, StoreError> {
    let is_folder = there == Some(FileType::Directory);
    let in_the_way = match entry.kind {
        EntryKind::Folder => there.is_some() && !is_folder,
        EntryKind::File(_) | EntryKind::Link(_) | EntryKind::Stream => is_folder,
    };
    if in_the_way && !is_deleting {
        let what = if is_folder { "a folder" } else { "a file or a link" };
        // `--delete` is not for a stream.
        let hint = if entry.kind == EntryKind::Stream {
            "name a file in it, or choose another name"
        } else {
            "`--delete` replaces it"
        };
        return Err(StoreError::Entry(format!("{what} has its name: {hint}")));
    }
    Ok(in_the_way)
}

/// A comparison of a folder with a manifest.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    pub(super) root: BorrowedFd<'a>,
    /// One that was refused has no path.
    pub(super) entries: &'a [Entry],
    pub(super) options: &'a Options,
    pub(super) is_wary_of_links: bool,
    pub(super) grain: Grain,
}

impl Trial<'_> {
    /// All that would be done, in the order of the manifest, deletions last.
    pub(super) fn changes(&self) -> Result<Vec<Change>, StoreError> {
        // Nothing at all could be written, not even the journal.
        may_change(self.root).map_err(|errno| StoreError::All(errno.into()))?;
        let mut changes = Vec::new();
        let mut replaced = Vec::new();
        let mut refused: HashSet<&[u8]> = HashSet::new();
        for entry in self.entries.iter().filter(|entry| !entry.path.is_empty()) {
            let change = match parent_of(&entry.path) {
                Some(parent) if refused.contains(parent) => Err(of_entry(Errno::NOENT)),
                _ => self.change(entry, &mut replaced),
            };
            let (what, reason) = match change {
                Ok(None) => continue,
                Ok(Some(what)) => (what, String::new()),
                Err(StoreError::Entry(reason)) => {
                    let is_missing = self.stat(&entry.path).is_err();
                    if is_missing && entry.kind == EntryKind::Folder {
                        refused.insert(&entry.path);
                    }
                    (What::Refuse, reason)
                }
                Err(error) => return Err(error),
            };
            changes.push(Change { what, path: entry.path.clone(), reason });
        }
        // Where anything is refused, nothing is deleted but what is in the way of an entry.
        let are_fine = self.entries.iter().all(|entry| !entry.path.is_empty())
            && changes.iter().all(|change| change.what != What::Refuse);
        let others = if are_fine { self.others(&mut changes) } else { Vec::new() };
        let change = |path| Change { what: What::Delete, path, reason: String::new() };
        changes.extend(others.into_iter().chain(replaced).map(change));
        Ok(changes)
    }

    fn parent(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let parts = path[..end].split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        let mut folder = openat(self.root, ".", FOLDER, Mode::empty())?;
        for part in parts {
            let flags = FOLDER | OFlags::NOFOLLOW;
            folder = openat(&folder, OsStr::from_bytes(part), flags, Mode::empty())?;
        }
        Ok(folder)
    }

    fn stat(&self, path: &[u8]) -> Result<Stat, Errno> {
        let name = OsStr::from_bytes(name_of(path));
        statat(self.parent(path)?, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn change(
        &self,
        entry: &Entry,
        replaced: &mut Vec<Vec<u8>>,
    ) -> Result<Option<What>, StoreError> {
        if let (true, EntryKind::Link(target)) = (self.is_wary_of_links, &entry.kind) {
            let check = paths::check_link(&entry.path, target);
            check.map_err(|error| StoreError::Entry(error.to_string()))?;
        }
        let parent = match self.parent(&entry.path) {
            Ok(parent) => parent,
            Err(Errno::NOENT) => return Ok(Some(What::Write)),
            // What is in the way of the folder is replaced first.
            Err(Errno::NOTDIR | Errno::LOOP) if self.options.delete.is_some() => {
                return Ok(Some(What::Write));
            }
            Err(errno) => return Err(of_entry(errno)),
        };
        let name = OsStr::from_bytes(name_of(&entry.path));
        let there = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => there,
            Err(Errno::NOENT) => {
                may_change(parent.as_fd()).map_err(of_entry)?;
                return Ok(Some(What::Write));
            }
            Err(errno) => return Err(of_entry(errno)),
        };
        let kind = FileType::from_raw_mode(there.st_mode);
        if in_the_way(entry, Some(kind), self.options.delete.is_some())? {
            may_change(parent.as_fd()).map_err(of_entry)?;
            if kind == FileType::Directory {
                let none = HashSet::new();
                let mut removal =
                    Removal::trial(&none, self.options.delete.as_deref().unwrap_or_default());
                if !removal.empty(parent.as_fd(), name, &entry.path).map_err(of_entry)? {
                    return Err(StoreError::Entry(KEPT.to_owned()));
                }
                replaced.extend(removal.trial.into_iter().flatten());
            }
            replaced.push(entry.path.clone());
            return Ok(Some(What::Write));
        }
        let is_same = match &entry.kind {
            // It gets the permissions and the time of its entry in each run.
            EntryKind::Folder if !is_own(&there) => return Err(of_entry(Errno::PERM)),
            EntryKind::Folder => true,
            EntryKind::Link(target) => {
                let is_link = kind == FileType::Symlink;
                let there = readlinkat(&parent, name, Vec::new());
                let is_other = !is_link || there.map_err(of_entry)?.as_bytes() != target;
                // Each run makes it again.
                may_change(parent.as_fd()).map_err(of_entry)?;
                return Ok(is_other.then_some(What::Write));
            }
            EntryKind::File(bytes) => is_same(&there, *bytes, entry.modified, self.grain),
            EntryKind::Stream => false,
        };
        if !is_same {
            may_change(parent.as_fd()).map_err(of_entry)?;
            return Ok(Some(What::Write));
        }
        let attributes = self.options.attributes;
        let found = There { folder: parent.as_fd(), name, stat: &there, attributes };
        match found.differs(entry)? {
            true if !is_own(&there) => Err(of_entry(Errno::PERM)),
            differs => Ok(differs.then_some(What::Dress)),
        }
    }

    /// What is in folders of the manifest and not in it. Folders in which not all can be deleted are changes that are
    /// refused.
    fn others(&self, changes: &mut Vec<Change>) -> Vec<Vec<u8>> {
        let Some(excludes) = self.options.delete.as_deref() else { return Vec::new() };
        let paths = self.entries.iter().map(|entry| entry.path.as_slice()).collect();
        let mut removal = Removal::trial(&paths, excludes);
        for entry in self.entries.iter().filter(|entry| entry.kind == EntryKind::Folder) {
            let name = OsStr::from_bytes(name_of(&entry.path));
            let result = self
                .parent(&entry.path)
                .and_then(|parent| removal.empty(parent.as_fd(), name, &entry.path));
            match result {
                // There is no such folder yet.
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => {
                    let (what, path) = (What::Refuse, entry.path.clone());
                    changes.push(Change { what, path, reason: undeleted(errno) });
                }
            }
        }
        removal.trial.unwrap_or_default()
    }
}

/// Why something that has no entry is still there.
pub(super) fn undeleted(errno: Errno) -> String {
    format!("not all that is to be deleted in it could be: {errno}")
}

fn parent_of(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|byte| *byte == b'/').map(|end| &path[..end])
}
