//! Failures as the user sees them: what failed, why, and what to try next.
//!
//! ```text
//! error: cannot read nightwatt.toml
//!   because: No such file or directory (os error 2)
//! hint: run `nightwatt init` to write one, or give its path with `-c FILE`
//! ```

use std::error::Error;
use std::fmt;

use nightwatt_host::explained::Explained;

use crate::ExitStatus;

/// Why a command ended without its result.
#[derive(Debug)]
pub(crate) struct Failure {
    status: ExitStatus,
    explained: Explained,
}

impl Failure {
    /// The command failed.
    pub(crate) fn failed(error: &dyn Error) -> Self {
        Self::of(ExitStatus::Failed, error)
    }

    /// The command line or a file it names is wrong.
    pub(crate) fn usage(error: &dyn Error) -> Self {
        Self::of(ExitStatus::Usage, error)
    }

    /// The command failed. If a file that the command line names is missing, is a folder or may not be read, the command
    /// line is wrong.
    pub(crate) fn of_input(error: &(dyn Error + 'static)) -> Self {
        use std::io::ErrorKind::{IsADirectory, NotFound, PermissionDenied};
        let mut causes =
            std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
        let is_of_file = causes.any(|error| {
            let error = error.downcast_ref::<std::io::Error>();
            error.is_some_and(|it| [NotFound, IsADirectory, PermissionDenied].contains(&it.kind()))
        });
        Self::of(if is_of_file { ExitStatus::Usage } else { ExitStatus::Failed }, error)
    }

    /// The command failed; `what` says so in our own words.
    pub(crate) fn because(what: impl Into<String>, cause: &dyn Error) -> Self {
        Self { status: ExitStatus::Failed, explained: Explained::because(what, cause) }
    }

    /// The command failed, and no further cause is known.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { status: ExitStatus::Failed, explained: Explained::new(what) }
    }

    /// `command` was not started, because this machine lacks something: all of it, each with what to do about it.
    pub(crate) fn missing(command: &str, missing: &[String]) -> Self {
        let list = missing.join("\n  ");
        Self::new(format!("`{command}` was not started: this machine lacks\n  {list}"))
    }

    /// The same, but as a mistake on the command line.
    pub(crate) fn into_usage(self) -> Self {
        Self { status: ExitStatus::Usage, ..self }
    }

    /// The same, and the process ends with `status`.
    pub(crate) fn ending_with(self, status: u8) -> Self {
        Self { status: ExitStatus::Of(status), ..self }
    }

    /// Adds what to try next.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.maybe_hint(Some(&hint.into()))
    }

    /// Adds what to try next, if that is known.
    pub(crate) fn maybe_hint(self, hint: Option<&str>) -> Self {
        Self { explained: self.explained.maybe_hint(hint), ..self }
    }

    /// The exit status of the process.
    pub(crate) const fn status(&self) -> ExitStatus {
        self.status
    }

    fn of(status: ExitStatus, error: &dyn Error) -> Self {
        Self { status, explained: Explained::of(error) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.explained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_in_the_next_thing_to_try() {
        let failure = Failure::new("no").hint("try yes").maybe_hint(None);
        assert_eq!(failure.to_string(), "error: no\nhint: try yes");
        assert_eq!(failure.status(), ExitStatus::Failed);
        assert_eq!(failure.into_usage().status(), ExitStatus::Usage);
    }
}
