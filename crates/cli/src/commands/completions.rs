//! `nightwatt completions`: what a shell needs to complete its command line.

use crate::ExitStatus;
use crate::args::CompletionsArgs;
use crate::errors::Failure;
use crate::{help, output};

/// Prints the shell's script.
pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "nightwatt", &mut script);
    output::say(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Success)
}
