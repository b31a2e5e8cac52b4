//! Keeps comparisons on one machine apart: they disturb each other's figures, and settings have one value.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::error::Error;

/// Where locks of the machine are kept; `NIGHTWATT_LOCKS` names another folder (of containers that share
/// the host's settings, and not its `/run`).
const FOLDER: &str = "/run/lock";

/// While it exists, no other comparison changes settings; if this one changes them, no other one runs.
#[derive(Debug)]
pub struct MachineLock {
    _lock: Option<File>,
    /// Another comparison runs, too.
    pub is_shared: bool,
}

impl MachineLock {
    /// Takes the machine for a comparison, for itself alone if it changes settings.
    pub fn take(changes_settings: bool) -> Result<Self, Error> {
        let folder =
            std::env::var_os("NIGHTWATT_LOCKS").map_or_else(|| FOLDER.into(), PathBuf::from);
        Self::take_in(&folder, changes_settings)
    }

    fn take_in(folder: &Path, changes_settings: bool) -> Result<Self, Error> {
        let path = folder.join("nightwatt-compare.lock");
        let lock = match open(&path) {
            Ok(lock) => lock,
            // Without root, in a folder that only root may write to. Only root can change settings, so no
            // lock is needed.
            Err(_) if !changes_settings => return Ok(Self { _lock: None, is_shared: false }),
            Err(source) => return Err(Error::Results { what: "open", path, source }),
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            if !changes_settings {
                // Another comparison may come first between the two calls: then this one fails.
                shared(&lock)?;
            }
            return Ok(Self { _lock: Some(lock), is_shared: false });
        }
        if changes_settings {
            return Err(Error::NotAlone);
        }
        shared(&lock)?;
        Ok(Self { _lock: Some(lock), is_shared: true })
    }
}

fn shared(lock: &File) -> Result<(), Error> {
    flock(lock, FlockOperation::NonBlockingLockShared).map_err(|_| Error::SettingsChange)
}

/// Opens the file before it tries to create it: in a folder that every user may write to, the kernel
/// refuses to create a file that belongs to another user.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let there = || OpenOptions::new().read(true).custom_flags(flags).open(path);
    match there() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => there(),
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_changes_settings_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let take = |changes| MachineLock::take_in(folder.path(), changes);
        let first = take(false).unwrap();
        assert!(!first.is_shared);
        let second = take(false).unwrap();
        assert!(second.is_shared, "each is in the other's figures");
        assert!(matches!(take(true), Err(Error::NotAlone)));
        drop((first, second));
        let alone = take(true).unwrap();
        assert!(matches!(take(false), Err(Error::SettingsChange)));
        assert!(matches!(take(true), Err(Error::NotAlone)));
        drop(alone);
        assert!(!take(false).unwrap().is_shared);
    }

    #[test]
    fn a_link_in_the_locks_place_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("nightwatt-compare.lock");
        std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
        assert!(MachineLock::take_in(folder.path(), true).is_err());
    }
}
