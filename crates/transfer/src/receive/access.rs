//! What the receiver asks of the file system: errors, permissions, times, attributes.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nightwatt_energy::display::bytes;
use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, XattrFlags,
    accessat, chmod, fsetxattr, fstat, fstatvfs, getxattr, listxattr, openat, removexattr,
    setxattr, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

use super::session::StoreError;
use crate::pure::grain::Grain;
use crate::wire::{Attribute, Entry, EntryKind, OF_USERS, Stamp};

/// Bytes of a list of attributes, more than Linux ever has.
const LIST: usize = 64 << 10;

/// The error of an entry, or of all where no other entry would fare better.
pub(super) fn of_entry(errno: Errno) -> StoreError {
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

pub(super) fn of_io(error: io::Error) -> StoreError {
    match error.raw_os_error() {
        Some(number) => of_entry(Errno::from_raw_os_error(number)),
        None => StoreError::All(error),
    }
}

pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub(super) fn attach(file: BorrowedFd<'_>, entry: &Entry) -> Result<(), StoreError> {
    for Attribute { name, value } in &entry.attributes {
        let name = OsStr::from_bytes(name);
        fsetxattr(file, name, value, XattrFlags::empty()).map_err(of_attribute)?;
    }
    Ok(())
}

fn of_attribute(errno: Errno) -> StoreError {
    match errno {
        Errno::OPNOTSUPP => {
            StoreError::Entry("its file system has no extended attributes".to_owned())
        }
        errno => of_entry(errno),
    }
}

/// Only permissions are taken from the sender: a file that was sent gets no set-uid bit.
pub(super) fn mode(bits: u16) -> Mode {
    Mode::from_raw_mode(u32::from(bits & 0o777))
}

/// A folder also gets the sticky bit, without which more users could remove what is in it. The set-gid bit is that of
/// the folder there.
pub(super) fn folder_mode(bits: u16, there: &Stat) -> Mode {
    Mode::from_raw_mode(u32::from(bits & 0o1777) | (there.st_mode & 0o2000))
}

/// What an entry is to have, where this is there.
fn mode_of(entry: &Entry, there: &Stat) -> Mode {
    match entry.kind {
        EntryKind::Folder => folder_mode(entry.mode, there),
        EntryKind::File(_) | EntryKind::Link(_) | EntryKind::Stream => mode(entry.mode),
    }
}

pub(super) fn times(modified: Stamp) -> Timestamps {
    let modified = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() };
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: modified,
    }
}

pub(super) fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Whether the file is the one that is to be sent, as far as can be seen without reading it, where times have this
/// grain.
pub(super) fn is_same(stat: &Stat, bytes: u64, modified: Stamp, grain: Grain) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
        && u64::try_from(stat.st_size).is_ok_and(|size| size == bytes)
        && stamp_of(stat).is_some_and(|there| grain.is_same(modified, there))
}

/// When a file was changed last.
pub(super) fn stamp_of(stat: &Stat) -> Option<Stamp> {
    Some(Stamp { seconds: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).ok()? })
}

/// What is full, how much is still to come, and what to do.
#[derive(Debug)]
pub(super) struct Explained<'a> {
    pub(super) folder: &'a Path,
    pub(super) root: BorrowedFd<'a>,
    /// Bytes that are still to be written, if that is known.
    pub(super) to_come: Option<u64>,
}

impl Explained<'_> {
    pub(super) fn error(&self, error: &io::Error) -> io::Error {
        let folder = self.folder.display();
        let to_come = match self.to_come {
            Some(count @ 1..) => format!(", and {} are still to come", bytes(count)),
            _ => String::new(),
        };
        let text = match error.kind() {
            io::ErrorKind::StorageFull => format!(
                "the file system of {folder} is full ({}{to_come}): make room there and send again; what has \
                 arrived is kept",
                self.free()
            ),
            io::ErrorKind::QuotaExceeded => format!(
                "the quota of the user that writes to {folder} is used up{to_come}: raise it, or make room there, \
                 and send again; what has arrived is kept"
            ),
            io::ErrorKind::ReadOnlyFilesystem => format!(
                "the file system of {folder} is mounted for reading only: mount it for writing and send again"
            ),
            io::ErrorKind::ResourceBusy => return io::Error::new(error.kind(), error.to_string()),
            _ => format!("cannot write to {folder}: {error}"),
        };
        io::Error::new(error.kind(), text)
    }

    /// A file system may also have no more files to give.
    fn free(&self) -> String {
        let Ok(there) = fstatvfs(self.root) else { return "it has no room".to_owned() };
        if there.f_files > 0 && there.f_favail == 0 {
            return format!("all of its {} files are in use", there.f_files);
        }
        let count = there.f_bavail.saturating_mul(there.f_frsize);
        let all = there.f_blocks.saturating_mul(there.f_frsize);
        format!("{} of {} are free", bytes(count), bytes(all))
    }
}

/// Opens what has this name without a right to read it; a link is opened itself.
fn named(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The path of an open file that is not followed to any other.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Adds permissions for the owner, so that the receiver can work in a folder or a file that allows only reading.
pub(super) fn allow(folder: BorrowedFd<'_>, name: &OsStr, added: Mode) -> Result<(), Errno> {
    let file = named(folder, name)?;
    let there = fstat(&file)?;
    let mode = Mode::from_raw_mode(there.st_mode & 0o7777);
    match FileType::from_raw_mode(there.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ if mode.contains(added) => Ok(()),
        _ => chmod(path_of(&file), mode | added),
    }
}

/// Whether entries could be made and removed in a folder: its owner may allow it to itself. Nothing is tried.
pub(super) fn may_change(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    let is_own = fstat(folder).is_ok_and(|stat| is_own(&stat));
    match accessat(folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Err(Errno::ACCESS) if is_own => Ok(()),
        result => result,
    }
}

/// Whether this user may change permissions and times of a file, which belongs to its owner.
pub(super) fn is_own(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw()
        || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::FOWNER))
}

/// What is there under the name of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct There<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a OsStr,
    pub(super) stat: &'a Stat,
    /// Whether it is to have the attributes of its entry and no others.
    pub(super) attributes: bool,
}

impl There<'_> {
    /// Gives a file that was there before the permissions and attributes of its entry, where they differ.
    pub(super) fn redress(&self, entry: &Entry) -> Result<(), StoreError> {
        let file = named(self.folder, self.name).map_err(of_entry)?;
        let path = path_of(&file);
        let wanted = mode_of(entry, self.stat);
        let new = new_attributes(&path, entry);
        let old = self.old_attributes(&path, entry)?;
        if !new.is_empty() || !old.is_empty() {
            // Attributes count as contents: the owner must be allowed to write.
            chmod(&path, wanted | Mode::RUSR | Mode::WUSR).map_err(of_entry)?;
        }
        for Attribute { name, value } in &new {
            setxattr(&path, OsStr::from_bytes(name), value, XattrFlags::empty())
                .map_err(of_attribute)?;
        }
        for name in &old {
            removexattr(&path, OsStr::from_bytes(name)).map_err(of_attribute)?;
        }
        if !new.is_empty() || !old.is_empty() || has_other_mode(self.stat, entry) {
            chmod(&path, wanted).map_err(of_entry)?;
        }
        Ok(())
    }

    /// Whether a file or folder has other permissions or attributes than its entry.
    pub(super) fn differs(&self, entry: &Entry) -> Result<bool, StoreError> {
        let file = named(self.folder, self.name).map_err(of_entry)?;
        let path = path_of(&file);
        Ok(has_other_mode(self.stat, entry)
            || !new_attributes(&path, entry).is_empty()
            || !self.old_attributes(&path, entry)?.is_empty())
    }

    /// Attributes of users that the entry does not have.
    fn old_attributes(&self, path: &str, entry: &Entry) -> Result<Vec<Vec<u8>>, StoreError> {
        if !self.attributes {
            return Ok(Vec::new());
        }
        let mut list = vec![0; LIST];
        let length = match listxattr(path, &mut list[..]) {
            Ok(length) => length,
            Err(Errno::OPNOTSUPP) => 0,
            Err(errno) => return Err(of_entry(errno)),
        };
        let names = list[..length].split(|byte| *byte == 0).filter(|it| it.starts_with(OF_USERS));
        let is_old = |name: &&[u8]| entry.attributes.iter().all(|it| it.name != **name);
        Ok(names.filter(is_old).map(<[u8]>::to_vec).collect())
    }
}

/// Attributes that the file does not have yet, or with another value.
fn new_attributes<'a>(path: &str, entry: &'a Entry) -> Vec<&'a Attribute> {
    entry.attributes.iter().filter(|it| !has(path, it)).collect()
}

fn has(path: &str, wanted: &Attribute) -> bool {
    let mut value = vec![0; wanted.value.len() + 1];
    let length = getxattr(path, OsStr::from_bytes(&wanted.name), &mut value[..]);
    length.is_ok_and(|length| value[..length] == wanted.value)
}

fn has_other_mode(there: &Stat, entry: &Entry) -> bool {
    there.st_mode & 0o7777 != mode_of(entry, there).as_raw_mode()
}

/// Removes a file or link, if it is there.
pub(super) fn remove(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), StoreError> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(of_entry(errno)),
    }
}
