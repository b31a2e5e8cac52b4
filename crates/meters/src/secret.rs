//! Passwords: from files or the environment, never from the command line, which everybody on the
//! machine can read; and never in what is printed.

use std::fmt;
use std::fs::File;
use std::io::Read;

use crate::error::MeterError;
use crate::spec::MeterSpec;

/// Options that say who we are.
pub(crate) const OPTIONS: [&str; 3] = ["user", "password-file", "password-env"];

/// No password is longer.
const LONGEST: usize = 1024;

/// A password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The password itself, for the meter and nobody else.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The password that `password-file=` or `password-env=` names.
pub(crate) fn password(spec: &MeterSpec) -> Result<Option<Secret>, MeterError> {
    match (spec.text("password-file"), spec.text("password-env")) {
        (Some(_), Some(_)) => {
            Err(spec.wrong("`password-file` and `password-env` are both given: one is enough"))
        }
        (Some(path), None) => from_file(spec, path).map(Some),
        (None, Some(name)) => match std::env::var(name) {
            Ok(password) if !password.is_empty() => Ok(Some(Secret(password))),
            _ => Err(spec.wrong(format!("there is no password in the environment's `{name}`"))),
        },
        (None, None) => Ok(None),
    }
}

/// The first line of a file.
pub(crate) fn from_file(spec: &MeterSpec, path: &str) -> Result<Secret, MeterError> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| MeterError::reading(path, error))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() && line.len() <= LONGEST => Ok(Secret(line.to_owned())),
        _ => Err(spec.wrong(format!("the first line of {path} is to be the password"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_of_its_file_and_is_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "tell nobody \nmore\n").unwrap();
        let spec = format!("shelly=h,password-file={}", file.path().display());
        let spec: MeterSpec = spec.parse().unwrap();
        let secret = password(&spec).unwrap().unwrap();
        assert_eq!(secret.reveal(), "tell nobody ", "spaces may belong to it");
        assert!(!format!("{secret:?}").contains("tell"));
        std::fs::write(file.path(), "\n").unwrap();
        assert!(password(&spec).unwrap_err().to_string().contains("first line"));
        std::fs::write(file.path(), "x".repeat(100_000)).unwrap();
        let error = password(&spec).unwrap_err().to_string();
        assert!(!error.contains("xx"), "{error}");
    }

    #[test]
    fn a_password_that_is_not_there_is_told_by_its_place() {
        let missing: MeterSpec = "shelly=h,password-file=/nowhere/at/all".parse().unwrap();
        assert!(password(&missing).unwrap_err().to_string().contains("/nowhere/at/all"));
        let unset: MeterSpec = "shelly=h,password-env=NIGHTWATT_NOT_SET".parse().unwrap();
        assert!(password(&unset).unwrap_err().to_string().contains("`NIGHTWATT_NOT_SET`"));
        let both: MeterSpec = "shelly=h,password-env=A,password-file=b".parse().unwrap();
        assert!(password(&both).unwrap_err().to_string().contains("one is enough"));
        assert_eq!(password(&"shelly=h".parse().unwrap()).unwrap(), None);
    }
}
