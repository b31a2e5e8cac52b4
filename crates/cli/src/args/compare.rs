//! `compare` and `report`.

use std::path::PathBuf;

use clap::ValueHint;

/// `compare`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct CompareArgs {
    /// TOML file with environments, workloads and settings
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath, required_unless_present_any = ["tools", "environments"])]
    pub(crate) plan: Option<PathBuf>,
    /// Folder of the results; earlier results of the same plan there are continued [default: PLAN with `.results`
    /// in place of `.toml`]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Delete earlier results, and start from the beginning
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Print which runs would be made, in which order and how often, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// List the tools whose output `compare` can read
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
  nightwatt compare experiments/quick.toml            make all runs; write quick.results/report.html
  nightwatt compare experiments/quick.toml --dry-run  print the runs, and run nothing
  nightwatt compare experiments/quick.toml            after Ctrl-C: continue where it stopped
  nightwatt compare --tools                           list the tools: pgbench, fio, wrk, ..

Docs: docs/compare.md";

/// `report`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// The folder of results that `compare` wrote
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Write the report with charts as one HTML file
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
  nightwatt report quick.results                      print the tables of all runs so far
  nightwatt report quick.results --html quick.html    write them with charts, in one file
  nightwatt report quick.results --csv tables         write them for a spreadsheet

Docs: docs/compare.md";
