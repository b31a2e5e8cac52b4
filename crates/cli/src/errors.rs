//! Failures as the user sees them: what failed, why, and what to try next.
//!
//! ```text
//! error: cannot read nightwatt.toml
//!   because: No such file or directory (os error 2)
//! hint: run `nightwatt init` to write one, or give its path with `-c FILE`
//! ```

use std::error::Error;
use std::fmt;

use crate::ExitStatus;

/// Why a command ended without its result.
#[derive(Debug)]
pub(crate) struct Failure {
    status: ExitStatus,
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
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

    /// The command failed; `what` says so in our own words.
    pub(crate) fn because(what: impl Into<String>, cause: &dyn Error) -> Self {
        let mut failure = Self::saying(what);
        failure.causes = chain(cause);
        failure
    }

    /// The command failed, and no further cause is known.
    pub(crate) fn saying(what: impl Into<String>) -> Self {
        Self { status: ExitStatus::Failed, what: what.into(), causes: Vec::new(), hint: None }
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
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds what to try next, if that is known.
    pub(crate) fn maybe_hint(self, hint: Option<&str>) -> Self {
        Self { hint: hint.map(str::to_owned).or(self.hint), ..self }
    }

    /// The exit status of the process.
    pub(crate) const fn status(&self) -> ExitStatus {
        self.status
    }

    fn of(status: ExitStatus, error: &dyn Error) -> Self {
        let mut said = chain(error);
        let advice = said.iter_mut().find_map(advice);
        let what = said.remove(0);
        Self { status, what, causes: said, hint: advice }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        for cause in &self.causes {
            write!(f, "\n  because: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// Splits the advice off a message of the form `what is wrong; what to try`. (Not off messages that quote a file with
/// its line breaks.)
fn advice(message: &mut String) -> Option<String> {
    let (_, advice) = message.rsplit_once("; ").filter(|_| !message.contains('\n'))?;
    let advice = advice.to_owned();
    message.truncate(message.len() - advice.len() - 2);
    Some(advice)
}

/// The error and its causes, without repetition: many errors quote their cause in their own message. Has at least one
/// element.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        next = error.source();
        let quoted = format!(": {text}");
        match said.last_mut() {
            Some(last) if last.ends_with(&quoted) || last.contains(&format!("{quoted}; ")) => {
                *last = last.replacen(&quoted, "", 1);
                said.push(text);
            }
            // Quoted in the middle of a sentence: leave it there.
            Some(last) if last.contains(&text) => {}
            _ => said.push(text),
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0.replace("{}", &self.1.to_string()))
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    fn rendered(template: &'static str) -> String {
        Failure::failed(&Outer(template, io::Error::other("the disk is on fire"))).to_string()
    }

    #[test]
    fn a_cause_is_told_once_wherever_the_message_quotes_it() {
        let apart = "error: cannot read a.log\n  because: the disk is on fire";
        assert_eq!(rendered("cannot read a.log"), apart);
        assert_eq!(rendered("cannot read a.log: {}"), apart);
        assert_eq!(
            rendered("cannot read a.log: {}; fetch water"),
            format!("{apart}\nhint: fetch water")
        );
        assert_eq!(
            rendered("cannot ({}) read a.log"),
            "error: cannot (the disk is on fire) read a.log"
        );
    }

    #[test]
    fn a_failure_ends_in_the_next_thing_to_try() {
        let failure = Failure::saying("no").hint("try yes").maybe_hint(None);
        assert_eq!(failure.to_string(), "error: no\nhint: try yes");
        assert_eq!(failure.status(), ExitStatus::Failed);
        assert_eq!(failure.into_usage().status(), ExitStatus::Usage);
    }
}
