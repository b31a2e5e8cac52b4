//! Passwords from files or the environment. They are never in the configuration, which backups and
//! colleagues read, nor on a command line, which every user of the machine can read, and they are never
//! printed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of the longest password.
const LONGEST: usize = 1024;

/// A password. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why there is no password.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Its file cannot be read.
    #[error("cannot read {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The first line of the file is empty or too long.
    #[error("there is no password in the first line of {}", .0.display())]
    NoLine(PathBuf),
    /// The variable of the environment is not set, or empty.
    #[error("there is no password in the environment's `{0}`")]
    NoVariable(String),
}

impl Secret {
    /// A password that is known in another way.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The password itself, only for the peer that asks for it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The password in the first line of a file.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text))
            .map_err(|source| SecretError::File { path: path.to_owned(), source })?;
        match text.lines().next() {
            Some(line) if !line.is_empty() && line.len() <= LONGEST => Ok(Self(line.to_owned())),
            _ => Err(SecretError::NoLine(path.to_owned())),
        }
    }

    /// The password in a variable of the environment.
    pub fn from_env(name: &str) -> Result<Self, SecretError> {
        match std::env::var(name) {
            Ok(password) if !password.is_empty() => Ok(Self(password)),
            _ => Err(SecretError::NoVariable(name.to_owned())),
        }
    }

    /// The password in a file, or else in a variable of the environment; `None` if neither is named.
    pub fn from_either(
        file: Option<&Path>,
        variable: Option<&str>,
    ) -> Result<Option<Self>, SecretError> {
        match (file, variable) {
            (Some(path), _) => Self::from_file(path).map(Some),
            (None, Some(name)) => Self::from_env(name).map(Some),
            (None, None) => Ok(None),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// If every user can read the file of a secret (`what`: the password, the private key), what is wrong
/// and how to fix it.
pub fn exposed(path: &Path, what: &str) -> Option<String> {
    let mode = path.metadata().ok()?.mode();
    (mode & 0o007 != 0).then(|| {
        format!(
            "everybody on this machine can read {what} in {0} (mode {1:03o}): `chmod 640 {0}`",
            path.display(),
            mode & 0o777
        )
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_the_first_line_of_its_file_and_is_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = || Secret::from_either(Some(file.path()), None);
        std::fs::write(file.path(), "tell nobody \nmore\n").unwrap();
        let secret = read().unwrap().unwrap();
        assert_eq!(secret.reveal(), "tell nobody ", "spaces may belong to it");
        assert!(!format!("{secret:?}").contains("tell"));
        let mode = |mode| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            exposed(file.path(), "the password")
        };
        assert_eq!(mode(0o640), None);
        assert!(mode(0o644).unwrap().contains("(mode 644)"));
        for wrong in ["", "\nx", &"x".repeat(100_000)] {
            std::fs::write(file.path(), wrong).unwrap();
            let error = read().unwrap_err().to_string();
            assert!(error.contains("first line") && !error.contains("xx"), "{error}");
        }
    }

    #[test]
    fn a_password_that_is_not_there_is_told_by_its_place() {
        let error = Secret::from_either(Some(Path::new("/nowhere/at/all")), None).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/at/all");
        let error = Secret::from_either(None, Some("NIGHTWATT_NOT_SET")).unwrap_err();
        assert!(error.to_string().contains("`NIGHTWATT_NOT_SET`"), "{error}");
        assert_eq!(Secret::from_either(None, None).unwrap(), None);
    }
}
