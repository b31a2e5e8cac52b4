//! `nightwatt completions`: prints what a shell needs to complete a command line of nightwatt.

use clap_complete::Shell;

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::{help, output};

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    pub(crate) shell: Shell,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Install);

const EXAMPLES: &str = "\
Examples:
  nightwatt completions bash > /etc/bash_completion.d/nightwatt
  nightwatt completions zsh > \"${fpath[1]}/_nightwatt\"
  nightwatt completions fish > ~/.config/fish/completions/nightwatt.fish";

/// Prints the shell's script.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "nightwatt", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Success)
}
