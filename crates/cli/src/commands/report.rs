//! `nightwatt report`: the tables and charts of what `compare` measured.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_compare::{self as compare, Report, store};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::report_pages;

/// Show what `compare` has measured
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
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

pub(crate) const LISTED: Listed = Listed::First(Group::Compare);

const EXAMPLES: &str = "\
Examples:
  nightwatt report quick.results                    print the tables
  nightwatt report quick.results --html quick.html  write a page with charts
  nightwatt report quick.results --csv tables       write them for a spreadsheet

Docs: docs/compare.md";

/// Reads a folder of results, and reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let report = store::read(&args.folder).and_then(|(plan, runs)| compare::report(&plan, &runs));
    let report = report.map_err(|error| Failure::usage(&error).maybe_hint(error.hint()))?;
    output::print_result(&report, args.json, || report.text(), &report.warnings)?;
    if let Some(path) = &args.html {
        report_pages::page(path, |by| report.document(by, &args.folder))?;
    }
    if let Some(folder) = &args.csv {
        report_pages::tables(folder, &report.tables())?;
    }
    Ok(ExitStatus::Success)
}

/// Writes a report in all its forms into the folder of its results.
pub(super) fn write(report: &Report, folder: &Path) -> Result<(), Failure> {
    report_pages::folder(folder, report, |by| report.document(by, folder), &report.tables())
}
