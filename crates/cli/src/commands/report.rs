//! `nightwatt report`: the tables and charts of what `compare` measured.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_compare::{self as compare, Report, store};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;

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
  nightwatt report quick.results                      print the tables of all runs so far
  nightwatt report quick.results --html quick.html    write them with charts, in one file
  nightwatt report quick.results --csv tables         write them for a spreadsheet

Docs: docs/compare.md";

/// Reads a folder of results, and reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let report = store::read(&args.folder).and_then(|(plan, runs)| compare::report(&plan, &runs));
    let report = report.map_err(|error| Failure::usage(&error).maybe_hint(error.hint()))?;
    output::say_result(&report, args.json, || report.text(), &report.warnings)?;
    if let Some(path) = &args.html {
        write_file(path, page(&report, &args.folder).as_bytes())?;
    }
    if let Some(folder) = &args.csv {
        fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
        write_tables(&report, folder)?;
    }
    Ok(ExitStatus::Success)
}

/// Writes a report in all its forms into the folder of its results.
pub(super) fn write(report: &Report, folder: &Path) -> Result<(), Failure> {
    write_file(&folder.join("report.html"), page(report, folder).as_bytes())?;
    let json = serde_json::to_vec(report)
        .map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
    write_file(&folder.join("report.json"), &json)?;
    write_tables(report, folder)
}

fn page(report: &Report, folder: &Path) -> String {
    report.document(generated(), folder).to_html()
}

/// By what and when a page is made.
pub(super) fn generated() -> String {
    let when = nightwatt_energy::civil::to_minute(Clock::real().now().wall.secs());
    format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"))
}

fn write_tables(report: &Report, folder: &Path) -> Result<(), Failure> {
    for (name, table) in report.tables() {
        write_file(&folder.join(format!("{name}.csv")), table.to_csv().as_bytes())?;
    }
    Ok(())
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    store::write_whole(path, bytes)
        .map_err(|error| Failure::failed(&error).hint("name a place that you may write to"))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("name a place that you may write to")
}
