//! `--dry-run`: what a command would do, and what this machine lacks for it.

use serde::Serialize;

use crate::errors::Failure;
use crate::{ExitStatus, output};

/// What is known without doing anything.
#[derive(Debug, Serialize)]
pub(crate) struct DryRun {
    /// What the command would do, step by step.
    pub(crate) would: Vec<String>,
    /// What this machine lacks for that, each with what to do about it.
    pub(crate) missing: Vec<String>,
}

impl DryRun {
    /// Prints it. The command fails if anything is missing.
    pub(crate) fn say(&self, json: bool) -> Result<ExitStatus, Failure> {
        output::print_result(self, json, || self.text(), &[])?;
        Ok(if self.missing.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
    }

    fn text(&self) -> String {
        let would = self.would.join("\n  ");
        let missing = match self.missing.as_slice() {
            [] => "nothing is missing".to_owned(),
            missing => format!("this machine lacks\n  {}", missing.join("\n  ")),
        };
        format!("nothing was run; it would\n  {would}\n{missing}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_stands_below_what_would_be_done() {
        let would = vec!["watch all disks".to_owned(), "run `make`".to_owned()];
        let whole = DryRun { would, missing: Vec::new() };
        assert_eq!(
            whole.text(),
            "nothing was run; it would\n  watch all disks\n  run `make`\nnothing is missing"
        );
        let lacking = DryRun { missing: vec!["CAP_BPF: run it as root".to_owned()], ..whole };
        assert!(
            lacking.text().ends_with("\nthis machine lacks\n  CAP_BPF: run it as root"),
            "{}",
            lacking.text()
        );
    }
}
