//! Files that record clients and their requests: readable for their group, but for no other user.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Options to create such a file. An existing file stays unchanged.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o640);
    options
}

/// A new, empty file to replace `old`: users that may read the old one may read the new one.
pub(crate) fn successor(new: &Path, old: &Path) -> io::Result<File> {
    let file = options().write(true).create(true).truncate(true).open(new)?;
    if let Ok(was) = old.metadata() {
        // Not every file system has modes.
        let _ = file.set_permissions(was.permissions());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_new_is_for_the_group_and_what_is_there_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mode = |file: &File| file.metadata().unwrap().permissions().mode() & 0o777;
        let open = |name: &str| options().append(true).create(true).open(path(name)).unwrap();
        // Whatever the umask is, other users have no access.
        assert_eq!(mode(&open("log")) & 0o137, 0);
        assert_eq!(mode(&successor(&path("new"), &path("none")).unwrap()) & 0o137, 0);
        set_permissions(path("log"), Permissions::from_mode(0o604)).unwrap();
        assert_eq!(mode(&open("log")), 0o604);
        assert_eq!(mode(&successor(&path("new"), &path("log")).unwrap()), 0o604);
    }
}
