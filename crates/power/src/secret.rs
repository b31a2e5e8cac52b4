//! Passwords: from files or the environment, never from the configuration, which backups and
//! colleagues read, nor from a command line, which everybody on the machine can; and never in what is
//! printed.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::ConfigError;

/// No password is longer.
const LONGEST: usize = 1024;

/// A password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// The password itself, for whoever asks for it and nobody else.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The first line of a file, or a variable of the environment; `None` where neither is named.
pub(crate) fn password(
    file: Option<&Path>,
    variable: Option<&str>,
) -> Result<Option<Secret>, ConfigError> {
    match (file, variable) {
        (Some(path), _) => from_file(path).map(Some),
        (None, Some(name)) => match std::env::var(name) {
            Ok(password) if !password.is_empty() => Ok(Some(Secret(password))),
            _ => Err(ConfigError::NoPassword { place: format!("the environment's `{name}`") }),
        },
        (None, None) => Ok(None),
    }
}

/// The first line of a file.
pub(crate) fn from_file(path: &Path) -> Result<Secret, ConfigError> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text))
        .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
    match text.lines().next() {
        Some(line) if !line.is_empty() && line.len() <= LONGEST => Ok(Secret(line.to_owned())),
        _ => {
            Err(ConfigError::NoPassword { place: format!("the first line of {}", path.display()) })
        }
    }
}

/// What is wrong with who may read a file with `what` in it (the password, the private key), in words.
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

/// What a configuration may say of it: one of the two.
pub(crate) fn check(file: Option<&Path>, variable: Option<&str>) -> Result<(), String> {
    match (file, variable) {
        (Some(_), Some(_)) => {
            Err("`password_file` and `password_env` are both given: one is enough".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_the_first_line_of_its_file_and_is_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = || password(Some(file.path()), None);
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
        let error = password(Some(Path::new("/nowhere/at/all")), None).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/at/all");
        let error = password(None, Some("NIGHTWATT_NOT_SET")).unwrap_err();
        assert!(error.to_string().contains("`NIGHTWATT_NOT_SET`"), "{error}");
        assert_eq!(password(None, None).unwrap(), None);
    }
}
