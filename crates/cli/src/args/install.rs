//! `completions` and `man`: for an installed program.

use std::path::PathBuf;

use clap::ValueHint;
use clap_complete::Shell;

/// `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  nightwatt completions bash > /etc/bash_completion.d/nightwatt
  nightwatt completions zsh > \"${fpath[1]}/_nightwatt\"
  nightwatt completions fish > ~/.config/fish/completions/nightwatt.fish";

/// `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Command, such as `serve` or `tcp lab` [default: nightwatt itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands to this folder: `nightwatt.1`, `nightwatt-serve.1`, ..
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
}

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  nightwatt man serve | man -l -
  nightwatt man --out /usr/local/share/man/man1";
