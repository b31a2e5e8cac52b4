//! `reproduce`.

use std::path::PathBuf;

use clap::ValueHint;

/// `reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReproduceArgs {
    /// Claims, such as O8 or V1,V2 [default: all]
    #[arg(value_name = "ID", value_delimiter = ',')]
    pub(crate) ids: Vec<String>,
    /// Check the claims about a log on this one; may be given several times [default: the demo's day]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Vec<PathBuf>,
    /// Results: a folder of `compare` for a plan of `experiments` (O7, H2, H3, V6), or a file with the output of
    /// `tcp lab --json` (B1, B3, B4, B5) or `tcp helps --json` (B2)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) results: Vec<PathBuf>,
    /// Also run the measurements that keep this machine busy for a while (O6, S2, S3, V5 in full). Claims that
    /// you name run them anyway
    #[arg(long)]
    pub(crate) measure: bool,
    /// Write an HTML report, with charts of our figures beside the published ones
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
  nightwatt reproduce S2,S3                           a minute of a busy machine, as root
  nightwatt reproduce O2 O3 O4 O5 --log access.log.gz
  nightwatt reproduce --report claims.html
  nightwatt reproduce --json | jq '.claims[] | select(.verdict == \"differs\") | {id, why}'

Claims that need hours of measurement are not checked here. For each of them, the output names the
command that measures it.

Docs: docs/reproduce.md";
