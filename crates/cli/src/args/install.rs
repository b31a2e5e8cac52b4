//! `completions` and `man`: what a system wants of a program that is installed.

use std::path::PathBuf;

use clap::ValueHint;
use clap_complete::Shell;

/// `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// For this shell
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
    /// Of this command, such as `serve` or `tcp lab` [default: of nightwatt]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Vec<String>,
    /// Write those of all commands into this folder: `nightwatt.1`, `nightwatt-serve.1`, ..
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
}

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  nightwatt man serve | man -l -
  nightwatt man --out /usr/local/share/man/man1";
