//! Removal of what the sender no longer has (`--delete`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

use super::access::{FOLDER, allow, may_change};
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

/// What is removed.
#[derive(Debug)]
pub(super) struct Removal<'a> {
    pub(super) kept: Kept<'a>,
    /// Only listed: nothing is removed.
    pub(super) trial: Option<Vec<Vec<u8>>>,
    pub(super) count: u64,
}

impl<'a> Removal<'a> {
    pub(super) fn new(paths: &'a HashSet<&'a [u8]>, excludes: &'a [Exclude]) -> Self {
        Self { kept: Kept { paths, excludes }, trial: None, count: 0 }
    }

    pub(super) fn trial(paths: &'a HashSet<&'a [u8]>, excludes: &'a [Exclude]) -> Self {
        Self { trial: Some(Vec::new()), ..Self::new(paths, excludes) }
    }

    /// Removes all in a folder that does not stay, and returns whether the folder is empty now. No link is followed.
    pub(super) fn empty(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: &[u8],
    ) -> Result<bool, Errno> {
        if self.trial.is_none() {
            // A folder may allow only reading. Where it belongs to another user, the permissions that it has may do.
            let _ = allow(parent, name, Mode::RWXU);
        }
        let folder = openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        let mut is_empty = true;
        for name in names(folder.as_fd())? {
            let within = [path, b"/", name.as_slice()].concat();
            let name = OsStr::from_bytes(&name);
            let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let stays = name.as_bytes().starts_with(OWN) || self.kept.has(&within, is_folder);
            if stays || (is_folder && !self.empty(folder.as_fd(), name, &within)?) {
                is_empty = false;
                continue;
            }
            self.remove(folder.as_fd(), name, within, is_folder)?;
        }
        Ok(is_empty)
    }

    /// Removes a file, a link, or a folder that is empty.
    pub(super) fn remove(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        path: Vec<u8>,
        is_folder: bool,
    ) -> Result<(), Errno> {
        self.count += 1;
        if let Some(trial) = &mut self.trial {
            may_change(folder)?;
            trial.push(path);
            return Ok(());
        }
        unlinkat(folder, name, if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() })
    }
}

/// All are listed before any is removed: a folder that changes while it is read may list a name twice, or not at all.
pub(super) fn names(folder: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}
