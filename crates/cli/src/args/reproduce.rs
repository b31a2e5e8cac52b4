//! `reproduce`.

use std::path::PathBuf;

use clap::ValueHint;

/// `reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReproduceArgs {
    /// Claims, such as O8 or V1,V2 [default: all]
    #[arg(value_name = "ID", value_delimiter = ',')]
    pub(crate) ids: Vec<String>,
    /// Hold the claims about a log against this one, as often as wanted [default: the demo's day]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Vec<PathBuf>,
    /// What `compare` has measured by a plan of `experiments` (a folder; for O7, H2, H3 and V6), or what `tcp lab
    /// --json` (B1, B3, B4, B5) or `tcp helps --json` (B2) has printed (a file)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) results: Vec<PathBuf>,
    /// Also do what keeps this machine busy for a while (O6, S2, S3, V5 in full); for named claims it is
    /// done anyway
    #[arg(long)]
    pub(crate) measure: bool,
    /// Write a report, with charts of ours beside theirs
    #[arg(long, value_name = "FILE", visible_alias = "html", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "Examples:
  nightwatt reproduce
  nightwatt reproduce O8 O9 O10
  nightwatt reproduce O6                              ten seconds of a busy machine
  nightwatt reproduce S2,S3                           a minute of it, as root
  nightwatt reproduce O2 O3 O4 O5 --log access.log.gz
  nightwatt reproduce --report claims.html
  nightwatt reproduce --json | jq '.claims[] | select(.verdict == \"differs\") | {id, why}'

What takes hours of measuring is not done here: each such claim names the command that does it.

Docs: docs/reproduce.md";
