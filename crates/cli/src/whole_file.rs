//! Writes result files completely or not at all: a run that fails leaves the previous file.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The usual mode of new files, before the umask.
const USUAL: u32 = 0o666;

/// Checks that the file can be written later. Existing content stays.
pub(crate) fn can_write(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if path.exists() {
        File::options().append(true).open(path)?;
    }
    if is_replaced(path) { new_beside(path).map(drop) } else { Ok(()) }
}

/// Writes the whole file, or leaves it as it is.
pub(crate) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if !is_replaced(path) {
        return fs::write(path, text);
    }
    let mut file = new_beside(path)?;
    if let Ok(before) = fs::metadata(path) {
        file.as_file().set_permissions(before.permissions())?;
    }
    file.write_all(text)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Whether another file may replace it: it is no device or pipe, and no link to a file elsewhere.
fn is_replaced(path: &Path) -> bool {
    fs::symlink_metadata(path).map_or(true, |it| it.is_file())
}

fn new_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().permissions(Permissions::from_mode(USUAL)).tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_asked_about_without_harm_and_replaced_with_what_it_may_be_read_by() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        can_write(&path).unwrap();
        assert!(!path.exists(), "asked, not made");
        fs::write(&path, "older").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        can_write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "older");
        write(&path, b"newer").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing beside it");
        assert!(can_write(folder.path()).is_err() && can_write(&path.join("x")).is_err());
    }

    #[test]
    fn a_link_stays_one_and_a_device_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink(&file, &link).unwrap();
        can_write(&link).unwrap();
        write(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let full = Path::new("/dev/full");
        can_write(full).unwrap();
        assert!(write(full, b"new").is_err(), "there is never room");
        assert!(full.exists());
    }
}
