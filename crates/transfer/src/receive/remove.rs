//! Removal of what the sender no longer has (`--delete`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

use super::access::{FOLDER, allow};
use crate::pure::exclude::Exclude;
use crate::pure::paths::OWN;

/// What stays: paths from the receiver's folder, and what the patterns leave out.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    pub(super) paths: &'a HashSet<&'a [u8]>,
    pub(super) excludes: &'a [Exclude],
}

impl Kept<'_> {
    fn has(&self, path: &[u8], is_folder: bool) -> bool {
        self.paths.contains(path) || self.excludes.iter().any(|it| it.matches(path, is_folder))
    }
}

/// Removes all in a folder that does not stay. Adds what was removed to `removed`, and returns whether the folder is empty
/// now. No link is followed.
pub(super) fn emptied(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    path: &[u8],
    kept: &Kept<'_>,
    removed: &mut u64,
) -> Result<bool, Errno> {
    // A folder may allow only reading; where it belongs to another user, its permissions may do.
    let _ = allow(parent, name, Mode::RWXU);
    let folder = openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    others(folder.as_fd(), path, kept, removed)
}

fn others(
    folder: BorrowedFd<'_>,
    path: &[u8],
    kept: &Kept<'_>,
    removed: &mut u64,
) -> Result<bool, Errno> {
    let mut is_empty = true;
    for name in names(folder)? {
        let within = [path, b"/", name.as_slice()].concat();
        let name = OsStr::from_bytes(&name);
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if name.as_bytes().starts_with(OWN) || kept.has(&within, is_folder) {
            is_empty = false;
            continue;
        }
        let flags = if is_folder {
            if !emptied(folder, name, &within, kept, removed)? {
                is_empty = false;
                continue;
            }
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        unlinkat(folder, name, flags)?;
        *removed += 1;
    }
    Ok(is_empty)
}

/// All are listed before any is removed: a folder that changes while it is read may list a name twice, or not at all.
fn names(folder: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}
