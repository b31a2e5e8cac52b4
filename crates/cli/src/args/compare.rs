//! `compare` and `report`.

use std::path::PathBuf;

use clap::ValueHint;

/// `compare`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct CompareArgs {
    /// Environments, workloads and what else is varied, as a TOML file
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath, required_unless_present_any = ["tools", "environments"])]
    pub(crate) plan: Option<PathBuf>,
    /// Keep the results here; what is there of the same plan is gone on with [default: PLAN without `.toml`, and `.results`]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Forget what is there, and begin anew
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Say what would be run in which order and how long that may take, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// List the tools whose output is understood
    #[arg(long, exclusive = true)]
    pub(crate) tools: bool,
    /// List the kinds of environments and their options
    #[arg(long, exclusive = true)]
    pub(crate) environments: bool,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  nightwatt compare experiments/quick.toml            do all runs; the report is in quick.results/report.html
  nightwatt compare experiments/quick.toml --dry-run  what would be run, and how long that may take
  nightwatt compare experiments/quick.toml            again, after Ctrl-C: goes on where it was
  nightwatt compare --tools                           pgbench, fio, wrk, ..: whose output is understood

Docs: docs/compare.md";

/// `report`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// The folder that `compare` keeps its results in
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Write the report with the charts here too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write the tables as CSV into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const REPORT_EXAMPLES: &str = "\
Examples:
  nightwatt report quick.results                      the tables of what was run so far
  nightwatt report quick.results --html quick.html    the same with charts, in one file
  nightwatt report quick.results --csv tables         the same for a spreadsheet

Docs: docs/compare.md";
