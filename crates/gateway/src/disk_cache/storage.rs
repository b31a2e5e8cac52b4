//! The files of the log. The trait has few methods, so that tests can replace the files with a disk whose power is cut.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Segments by number.
pub trait Storage: Send + Sync + 'static {
    /// The existing segments, with their lengths.
    fn list(&self) -> io::Result<Vec<(u64, u64)>>;
    /// Makes an empty segment.
    fn create(&self, segment: u64) -> io::Result<()>;
    /// Writes at a place.
    fn write(&self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads from a place, exactly as much as `into` holds.
    fn read(&self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// Returns when everything that was written into a segment is on the disk.
    fn sync(&self, segment: u64) -> io::Result<()>;
    /// Returns when everything that was created and removed is on the disk.
    fn sync_names(&self) -> io::Result<()>;
    /// Truncates a segment.
    fn cut(&self, segment: u64, length: u64) -> io::Result<()>;
    /// Removes a segment.
    fn remove(&self, segment: u64) -> io::Result<()>;
}

/// Names of segments are 16 hexadecimal digits followed by this suffix.
const SUFFIX: &str = ".segment";

/// The file that is locked. Named so that the folder may be `state_dir`, which is locked by another name already.
pub(super) const LOCK: &str = "cache.lock";

/// Segments as files of a folder; nothing else in it is touched.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The folder, open to be synced.
    names: File,
    /// The segment that was last written to.
    open: Mutex<Option<(u64, File)>>,
    /// Two processes must not write the same segments. The kernel releases the lock when the process ends, however it
    /// ends.
    lock: File,
}

impl Folder {
    /// Opens a folder, or creates one that only this user can access.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if another process has it open.
    pub fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let names = File::open(path)?;
        let mut lock = OpenOptions::new();
        let lock = lock.write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(path.join(LOCK))?;
        let folder = Self { path: path.to_owned(), names, open: Mutex::default(), lock };
        folder.lock()?;
        Ok(folder)
    }

    /// Locks the folder for this process.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if another process has locked it.
    pub(super) fn lock(&self) -> io::Result<()> {
        self.lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })
    }

    /// Unlocks the folder for another process.
    pub(super) fn unlock(&self) -> io::Result<()> {
        self.lock.unlock()
    }

    fn name(&self, segment: u64) -> PathBuf {
        self.path.join(format!("{segment:016x}{SUFFIX}"))
    }

    /// Runs `work` on a segment that is open for writing.
    fn with<T>(&self, segment: u64, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match open.take() {
            Some((number, file)) if number == segment => file,
            _ => OpenOptions::new().write(true).open(self.name(segment))?,
        };
        let (_, file) = open.insert((segment, file));
        work(file)
    }
}

/// The files of all segments in a folder.
pub(super) fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_segment = entry.file_name().to_str().and_then(number_of).is_some();
        if is_segment && entry.metadata()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:016x}") == digits).then_some(number)
}

impl Storage for Folder {
    fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(number_of) else { continue };
            let about = entry.metadata()?;
            // Anything else with such a name is not ours.
            if about.is_file() {
                all.push((number, about.len()));
            }
        }
        Ok(all)
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(self.name(segment))?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some((segment, file));
        Ok(())
    }

    fn write(&self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(segment, |file| file.write_all_at(bytes, at))
    }

    fn read(&self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<()> {
        File::open(self.name(segment))?.read_exact_at(into, at)
    }

    fn sync(&self, segment: u64) -> io::Result<()> {
        self.with(segment, File::sync_data)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.names.sync_all()
    }

    fn cut(&self, segment: u64, length: u64) -> io::Result<()> {
        self.with(segment, |file| file.set_len(length))
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        std::fs::remove_file(self.name(segment))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nobody_else_may_read_it_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let folder = Folder::open(&path).unwrap();
        std::fs::write(path.join("notes.txt"), "mine").unwrap();
        std::fs::write(path.join("1.segment"), "mine too").unwrap();
        std::fs::create_dir(folder.name(7)).unwrap();
        folder.create(255).unwrap();
        folder.write(255, 0, b"hello").unwrap();
        assert_eq!(folder.list().unwrap(), [(255, 5)]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.name(255))), (0o700, 0o600));
        let mut text = [0; 3];
        folder.read(255, 1, &mut text).unwrap();
        assert_eq!(&text, b"ell");
        assert!(folder.read(255, 3, &mut text).is_err(), "there are only two");
    }

    #[test]
    fn two_at_once_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = Folder::open(dir.path()).unwrap();
        let second = Folder::open(dir.path()).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        Folder::open(dir.path()).unwrap();
    }
}
