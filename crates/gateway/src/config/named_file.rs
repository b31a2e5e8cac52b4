//! Files that keys of the configuration name, and that are read with it.

use std::io::ErrorKind;
use std::path::Path;

use super::Wrong;

/// What to do about a file that may not be read.
const PERMIT: &str = "Let the user that nightwatt runs as read it, and pass through the folders above: \
                      `setfacl -m u:nightwatt:r FILE`, `setfacl -m u:nightwatt:x FOLDER`";

/// Reads such a file. The error says why that failed and what to do next; `make` is how to get one.
pub(super) fn read(path: &Path, make: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| {
        let next = match error.kind() {
            ErrorKind::NotFound => format!("{make}, or correct the path"),
            ErrorKind::PermissionDenied => PERMIT.to_owned(),
            ErrorKind::IsADirectory => "Write the path of a file".to_owned(),
            _ => "Check the path and the disk".to_owned(),
        };
        format!("cannot read it: {error}. {next}")
    })
}

/// What is wrong with the file that a dotted key names.
pub(super) fn wrong(key: &str, path: &Path, why: &str) -> Wrong {
    Wrong::new(key, format!("`{key}` is {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_depends_on_why_a_file_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let make = "Write one with `htpasswd -B -c FILE USER`";
        let missing = read(&folder.path().join("users"), make).unwrap_err();
        let expected = format!(
            "cannot read it: No such file or directory (os error 2). {make}, or correct the path"
        );
        assert_eq!(missing, expected);
        let is_folder = read(folder.path(), make).unwrap_err();
        assert!(is_folder.ends_with("Write the path of a file"), "{is_folder}");
    }
}
