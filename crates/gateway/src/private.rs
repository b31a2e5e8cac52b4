//! Files that record clients and their requests: readable for their group, but for no other user.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// Options to create such a file. An existing file stays unchanged.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o640);
    options
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions, set_permissions};
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
        set_permissions(path("log"), Permissions::from_mode(0o604)).unwrap();
        assert_eq!(mode(&open("log")), 0o604);
    }
}
