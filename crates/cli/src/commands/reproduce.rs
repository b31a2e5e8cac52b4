//! `nightwatt reproduce`: the published claims, with our figures beside the published ones.

use std::path::PathBuf;

use clap::ValueHint;
use nightwatt_claims::{self as claims, Error, ReproduceOptions};
use nightwatt_clock::Clock;

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;
use crate::report_pages;

/// Check the claims of five published works against results from here
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
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
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const EXAMPLES: &str = "Examples:
  nightwatt reproduce
  nightwatt reproduce O8 O9 O10
  nightwatt reproduce O6     ten seconds of a busy machine
  nightwatt reproduce S2,S3  a minute of a busy machine, as root
  nightwatt reproduce O2 O3 O4 O5 --log access.log.gz
  nightwatt reproduce --html claims.html
  nightwatt reproduce --json | jq '.claims[] | {id, verdict}'

Claims that need hours of measurement are not checked here. For each of them, the output names the
command that measures it.

Docs: docs/reproduce.md";

/// Reproduces the claims and prints the result. A claim that differs is not a failure.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let options = ReproduceOptions {
        ids: args.ids.clone(),
        logs: args.log.clone(),
        results: args.results.clone(),
        measure: args.measure,
    };
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut progress = Progress::by_time(args.json);
    let found = claims::run(&options, |id, done, all| {
        let elapsed = clock.now().mono.since(started);
        progress.update(done, all, elapsed, None, || format!("{done} of {all} claims; {id}"));
    });
    progress.end();
    let found = found.map_err(|error| failure(&error))?;
    // A report that cannot be written does not lose the result.
    output::print_result(&found, args.json, || found.text(), &[])?;
    if let Some(path) = &args.html {
        report_pages::page(path, |by| found.document(by))?;
    }
    Ok(ExitStatus::Success)
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::NoClaim { .. } => Failure::usage(error),
        Error::Savings(error) => Failure::failed(error).maybe_hint(error.hint()),
        Error::Compare(error) => Failure::usage(error).maybe_hint(error.hint()),
        _ => Failure::failed(error),
    }
}
