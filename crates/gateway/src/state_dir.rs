//! The folder of ledgers and lessons: for this user alone, and for one gateway at a time.

use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::process::geteuid;

use crate::error::StartError;

/// Creates the folder if necessary, and refuses one in which another user has put links: what is written there would go
/// elsewhere.
pub(crate) fn make(path: &Path) -> Result<(), StartError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(StartError::file(path))?;
    for entry in path.read_dir().map_err(StartError::file(path))?.flatten() {
        let Ok(about) = entry.path().symlink_metadata() else { continue };
        if about.is_symlink() && !is_trusted(about.uid()) {
            return Err(StartError::Planted { path: entry.path(), user: about.uid() });
        }
    }
    Ok(())
}

/// Root can do everything anyway.
fn is_trusted(user: u32) -> bool {
    user == geteuid().as_raw() || user == 0
}

/// Problems of the folder's permissions, in words.
pub(crate) fn risks(path: &Path) -> Vec<String> {
    // A folder that does not exist yet is created properly.
    let Ok(about) = path.metadata() else { return Vec::new() };
    let shown = path.display();
    let mut risks = Vec::new();
    if !is_trusted(about.uid()) {
        risks.push(format!(
            "`state_dir` {shown} belongs to another user (number {}), who can change the ledgers and stop the \
             next start: `chown` it",
            about.uid()
        ));
    }
    if about.mode() & 0o002 != 0 {
        risks.push(format!(
            "everybody on this machine can write to `state_dir` {shown} (mode {:03o}): `chmod 700 {shown}`",
            about.mode() & 0o777
        ));
    }
    risks
}

/// Two gateways must not write the same ledgers. The kernel releases the lock when the process ends, however it ends;
/// `handed` is that of the previous process, which is kept if it is for this folder.
pub(crate) fn lock(state_dir: &Path, handed: Option<File>) -> Result<File, StartError> {
    let path = state_dir.join("lock");
    let failed = StartError::file(&path);
    let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow);
    let mut lock = options.open(&path).map_err(&failed)?;
    let about = lock.metadata().map_err(&failed)?;
    // Any user who can open it can lock it: earlier versions made it readable for all.
    if about.mode() & 0o077 != 0 {
        lock.set_permissions(Permissions::from_mode(0o600)).map_err(&failed)?;
    }
    let same = |it: &File| {
        it.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (about.dev(), about.ino()))
    };
    if let Some(handed) = handed.filter(same) {
        lock = handed;
    }
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::Locked { path: state_dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn folder_and_lock_are_for_this_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        make(&path).unwrap();
        let lock = lock(&path, None).unwrap();
        assert_eq!((mode(&path), mode(&path.join("lock"))), (0o700, 0o600));
        drop(lock);
    }

    #[test]
    fn a_lock_file_that_others_could_open_is_closed_to_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _lock = lock(dir.path(), None).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_lock_that_is_handed_over_is_never_free_in_between() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path(), None).unwrap();
        let is_locked = || matches!(lock(dir.path(), None), Err(StartError::Locked { .. }));
        let handed = first.try_clone().unwrap();
        let second = lock(dir.path(), Some(handed)).unwrap();
        assert!(is_locked());
        drop(first);
        assert!(is_locked());
        drop(second);
        assert!(!is_locked());
        // A lock of another folder is of no use here.
        let other = tempfile::tempdir().unwrap();
        let theirs = lock(other.path(), None).unwrap();
        let ours = lock(dir.path(), Some(theirs)).unwrap();
        assert!(is_locked());
        drop(ours);
    }

    #[test]
    fn a_lock_that_is_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        symlink(&elsewhere, dir.path().join("lock")).unwrap();
        assert!(lock(dir.path(), None).is_err());
        assert!(!elsewhere.exists());
        assert!(make(dir.path()).is_ok(), "our own links are our own affair");
    }

    #[test]
    fn links_of_another_user_are_refused_and_a_folder_of_theirs_is_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(risks(dir.path()), [""; 0]);
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(risks(dir.path())[0].contains("(mode 777)"), "{:?}", risks(dir.path()));
        // Only root can create files that belong to another user.
        if !geteuid().is_root() {
            return;
        }
        let link = dir.path().join("blog.ledger.jsonl");
        symlink("/etc/passwd", &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(1234), None).unwrap();
        assert!(matches!(make(dir.path()), Err(StartError::Planted { user: 1234, .. })));
        std::os::unix::fs::chown(dir.path(), Some(1234), None).unwrap();
        assert!(risks(dir.path())[0].contains("another user (number 1234)"));
    }
}
