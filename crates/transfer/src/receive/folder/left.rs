//! What attempts that were interrupted have left: temporary files, and the journals that list them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, openat};

use super::{Folder, TEMPORARY};
use crate::pure::paths::{self, OWN};
use crate::receive::access::{name_of, remove};
use crate::receive::journal::{Parts, read};
use crate::receive::remove::names;
use crate::receive::session::{Standing, StoreError};

/// What the same command has not gone on with after this time is removed: a week, s.
const ABANDONED: i64 = 7 * 24 * 3600;
const JOURNAL: &str = ".journal";

/// Whether a journal that was changed then is not gone on with any more.
fn is_abandoned(changed: i64, now: i64) -> bool {
    now.saturating_sub(changed) > ABANDONED
}

/// The name of the temporary file of an entry.
fn temporary(session: &str, path: &[u8]) -> Vec<u8> {
    let name = name_of(path);
    // Names of full length would become too long: their start and a sum of all of it stand for them.
    let sum = crate::wire::content_sum(0, name);
    let kept = &name[..name.len().min(100)];
    let own = format!("{}{session}-{sum:016x}-", String::from_utf8_lossy(OWN));
    [own.as_bytes(), kept, b".", TEMPORARY.as_bytes()].concat()
}

impl Folder {
    pub(super) fn journal_name(&self) -> String {
        format!("{}{}{JOURNAL}", String::from_utf8_lossy(OWN), self.session)
    }

    pub(super) fn temporary(&self, path: &[u8]) -> Vec<u8> {
        temporary(&self.session, path)
    }

    pub(super) fn remove_temporary(&mut self, path: &[u8]) -> Result<(), StoreError> {
        let temporary = self.temporary(path);
        self.remove_beside(path, &temporary)
    }

    /// Removes a file that is in the same folder as an entry.
    fn remove_beside(&mut self, path: &[u8], name: &[u8]) -> Result<(), StoreError> {
        remove(self.parent(path)?.as_fd(), OsStr::from_bytes(name))
    }

    /// Removes what an earlier attempt has begun and this one does not go on with.
    pub(super) fn remove_left(
        &mut self,
        before: Parts,
        standings: &[Standing],
    ) -> Result<(), StoreError> {
        let goes_on =
            |standing: &Standing| matches!(standing, Standing::Parts(parts) if parts.total() > 0);
        let going_on = standings.iter().zip(self.entries.iter()).filter(|(it, _)| goes_on(it));
        let going_on: HashSet<Vec<u8>> = going_on.map(|(_, entry)| entry.path.clone()).collect();
        let session = self.session.clone();
        self.remove_listed(before, &session, &going_on)
    }

    /// Removes the temporary files that a journal lists, except those of some paths.
    fn remove_listed(
        &mut self,
        parts: Parts,
        session: &str,
        kept: &HashSet<Vec<u8>>,
    ) -> Result<(), StoreError> {
        for described in parts.into_described() {
            let path = described.path();
            if kept.contains(path) || paths::check(path).is_err() {
                continue;
            }
            match self.remove_beside(path, &temporary(session, path)) {
                // The folder that it was in is gone as well, or is one no longer.
                Ok(()) | Err(StoreError::Entry(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes what other sessions have left a week before `now`, in seconds by the clock of the file system. One that a
    /// receiver has now is locked, and stays.
    pub(in crate::receive) fn remove_abandoned(&mut self, now: i64) -> Result<(), StoreError> {
        for name in names(self.root.as_fd()).map_err(io::Error::from)? {
            let session = name.strip_prefix(OWN).and_then(|it| it.strip_suffix(JOURNAL.as_bytes()));
            let session = session.and_then(|it| std::str::from_utf8(it).ok());
            let Some(session) = session.filter(|it| **it != self.session) else { continue };
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let name = OsStr::from_bytes(&name);
            let Ok(journal) = openat(&self.root, name, flags, Mode::empty()) else { continue };
            let is_old = fstat(&journal).is_ok_and(|stat| is_abandoned(stat.st_ctime, now));
            if !is_old || flock(&journal, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let lock = journal.try_clone()?;
            let parts = read(File::from(journal), &self.life)?;
            self.remove_listed(parts, session, &HashSet::new())?;
            remove(self.root.as_fd(), name)?;
            drop(lock);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_passes_before_anything_counts_as_abandoned() {
        let now = 1_800_000_000;
        assert!(!is_abandoned(now - 7 * 86_400, now));
        assert!(is_abandoned(now - 7 * 86_400 - 1, now));
        assert!(!is_abandoned(now + 10, now), "a clock that was put back abandons nothing");
    }
}
