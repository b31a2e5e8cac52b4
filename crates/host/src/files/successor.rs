//! Files that are replaced in one step: readers see the old file or the new one, whole.
//!
//! The new file is written beside the old one, as `NAME.new`, and then renamed. Each such file has one
//! writer at a time, and no other file has this name: that holds in folders that are ours. In a folder of
//! the user, choose the name with [`Successor::begin_at`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How a file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// Who may read and write the new file.
    pub access: Access,
    /// What a power cut leaves.
    pub durability: Durability,
}

/// Who may read and write a file that replaces another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// This user only.
    Owner,
    /// As the umask has it for all new files.
    Usual,
    /// Who may do so with the old file. Without an old file, this user, and their group for reading.
    AsBefore,
}

/// What a power cut leaves of a file that was just replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Perhaps an empty file: nothing is synced.
    ThisBoot,
    /// The old file or the new one, whole: the file is synced.
    Whole,
    /// The new one: the file and its folder are synced.
    Kept,
}

/// Replaces a file in one step. If it fails, what was there stays.
pub fn replace(path: &Path, how: Replacement, content: &[u8]) -> io::Result<()> {
    let mut new = Successor::begin(path, how)?;
    new.write_all(content)?;
    new.put_in_place().map(drop)
}

/// Syncs the folder that a file is in: after a power cut, the name means the same file.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// A new file that replaces another once it is whole. One that is dropped before is removed.
#[derive(Debug)]
pub struct Successor {
    file: File,
    temporary: Temporary,
    path: PathBuf,
    durability: Durability,
}

impl Successor {
    /// An empty file beside the one at this path.
    pub fn begin(path: &Path, how: Replacement) -> io::Result<Self> {
        Self::begin_at(path.with_added_extension("new"), path, how)
    }

    /// The same with another name for the time being. It must be in the same folder.
    pub fn begin_at(new: PathBuf, path: &Path, how: Replacement) -> io::Result<Self> {
        // One left over from a crash may be readable by others, or be held open by them.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let before = match how.access {
            Access::AsBefore => path.metadata().ok().map(|it| it.permissions()),
            Access::Owner | Access::Usual => None,
        };
        let mode = match how.access {
            Access::Usual => 0o666,
            Access::AsBefore if before.is_none() => 0o640,
            Access::AsBefore | Access::Owner => 0o600,
        };
        let file = OpenOptions::new().append(true).create_new(true).mode(mode).open(&new)?;
        if let Some(before) = before {
            // Not every file system has modes.
            let _ = file.set_permissions(before);
        }
        let temporary = Temporary { path: new, is_in_place: false };
        Ok(Self { file, temporary, path: path.to_owned(), durability: how.durability })
    }

    /// Waits until the disk has what was written, whatever is to come.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Replaces the old file. Returns the new one, open for appending.
    pub fn put_in_place(self) -> io::Result<File> {
        let Self { file, mut temporary, path, durability } = self;
        if durability != Durability::ThisBoot {
            file.sync_all()?;
        }
        fs::rename(&temporary.path, &path)?;
        temporary.is_in_place = true;
        if durability == Durability::Kept {
            sync_folder_of(&path)?;
        }
        Ok(file)
    }
}

impl Write for Successor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file that nothing needs unless it gets its place.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    is_in_place: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_in_place {
            // One that stays is removed by the next attempt.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const fn how(access: Access) -> Replacement {
        Replacement { access, durability: Durability::Kept }
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_for_the_owner_has_their_mode_whatever_was_there_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        fs::write(&path, "old").unwrap();
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        replace(&path, how(Access::Owner), b"new").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", 0o600));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing beside it");
    }

    #[test]
    fn a_file_left_over_by_a_crash_leaks_neither_its_mode_nor_what_is_written_now() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("key.pem"), dir.path().join("key.pem.new"));
        fs::write(&new, "torn").unwrap();
        set_permissions(&new, Permissions::from_mode(0o666)).unwrap();
        let mut held_open = File::open(&new).unwrap();
        replace(&path, how(Access::Owner), b"secret").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("secret", 0o600));
        let mut seen = String::new();
        held_open.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "torn");
        assert!(!new.exists());
    }

    #[test]
    fn a_link_left_at_the_temporary_name_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("kept"), dir.path().join("other"));
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("kept.new")).unwrap();
        replace(&path, how(Access::Usual), b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn the_old_content_survives_a_write_that_fails() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("kept"), dir.path().join("kept.new"));
        replace(&path, how(Access::Usual), b"old").unwrap();
        // Half of it is written, and then something fails.
        let mut successor = Successor::begin(&path, how(Access::Usual)).unwrap();
        successor.write_all(b"ne").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(successor);
        assert!(!new.exists());
        // Nothing can be written.
        fs::create_dir(&new).unwrap();
        assert!(replace(&path, how(Access::Usual), b"new").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        // It cannot get its name.
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        assert!(replace(&folder, how(Access::Usual), b"new").is_err());
        assert!(folder.is_dir() && !dir.path().join("folder.new").exists());
        let missing = replace(&dir.path().join("none/kept"), how(Access::Usual), b"new");
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn those_who_may_read_the_old_file_may_read_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        replace(&path, how(Access::AsBefore), b"1").unwrap();
        // Whatever the umask is, other users have no access.
        assert_eq!(mode(&path) & 0o137, 0);
        for before in [0o604, 0o600] {
            set_permissions(&path, Permissions::from_mode(before)).unwrap();
            replace(&path, how(Access::AsBefore), b"2").unwrap();
            assert_eq!(mode(&path), before);
        }
    }

    #[test]
    fn the_new_file_can_be_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for durability in [Durability::ThisBoot, Durability::Whole, Durability::Kept] {
            let how = Replacement { access: Access::Usual, durability };
            let mut new = Successor::begin(&path, how).unwrap();
            new.write_all(b"a").unwrap();
            let mut file = new.put_in_place().unwrap();
            file.write_all(b"b").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "ab");
        }
    }
}
