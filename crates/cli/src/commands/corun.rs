//! `nightwatt corun`: jobs alone and together, and which of them are better run together.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_compare::Store;
use nightwatt_corun::{self as corun, Plan, Report};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::{experiment, logging, output, report_pages};

/// Run jobs alone and together, and report which belong together
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Args {
    /// TOML file with the jobs
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath, required_unless_present = "jobs", conflicts_with = "jobs")]
    pub(crate) plan: Option<PathBuf>,
    /// Folder of the results; earlier results of the same plan there are continued [default: PLAN with `.results`
    /// in place of `.toml`, or corun.results]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Delete earlier results, and start from the beginning
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Print which groups would be run, in which order and on which CPUs, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
    /// Run this before each run of the commands, not measured; give it once for all commands, or once for each
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString, requires = "jobs", conflicts_with = "plan")]
    pub(crate) prepare: Vec<String>,
    /// In place of a plan: commands, each after a `--` of its own
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandName)]
    pub(crate) jobs: Vec<String>,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const USAGE: &str = "\
nightwatt corun [OPTIONS] <PLAN>
       nightwatt corun [OPTIONS] -- <COMMAND> -- <COMMAND>...";

const EXAMPLES: &str = "\
Examples:
  nightwatt corun -- 'xz -kf a' -- 'make -B b'   each alone, and both together
  nightwatt corun --prepare 'make clean' -- make -- 'xz -kf a'
  nightwatt corun jobs.toml                      alone, in pairs, all together
  nightwatt corun jobs.toml --dry-run            print the groups, run nothing
  nightwatt corun jobs.toml                      after Ctrl-C: continue

Docs: docs/corun.md";

/// Plans, or runs.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    logging::start_warnings()?;
    let (plan, default_folder) = match &args.plan {
        Some(path) => (read(path)?, super::compare::beside(path)),
        None => (of_commands(&args.jobs, &args.prepare)?, PathBuf::from("corun.results")),
    };
    let folder = args.output.clone().unwrap_or(default_folder);
    let placement = corun::placement(&plan).map_err(|error| experiment::of_corun(&error))?;
    if args.dry_run {
        let schedule =
            corun::schedule(&plan, placement).map_err(|error| experiment::of_corun(&error))?;
        output::print_result(&schedule, args.json, || schedule.text(), &[])?;
        return Ok(ExitStatus::Success);
    }
    let store = Store::open(&folder, plan.subject(), args.fresh);
    let mut store = store.map_err(|error| experiment::of_corun(&error.into()))?;
    for warning in &store.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    let ran = experiment::with_progress(
        args.json,
        |told| told.next.to_owned(),
        |stop, on_progress| corun::run(&plan, &mut store, stop, on_progress),
    )?;
    // However the run ended, show what was measured so far.
    let report = corun::report(&plan, &placement, &store.done)
        .map_err(|error| experiment::of_corun(&error))?;
    if !store.done.is_empty() {
        write(&report, &folder)?;
    }
    match ran {
        Ok(()) => {}
        Err(error) if error.is_interrupted() => {
            let done = format!("{} runs, which are kept", store.done.len());
            return Err(experiment::interrupted(&done));
        }
        Err(error) => return Err(experiment::of_corun(&error)),
    }
    output::print_result(&report, args.json, || report.text(), &report.warnings)?;
    if !args.json {
        output::complain(&format!(
            "the report with its charts is {}",
            folder.join("report.html").display()
        ));
    }
    Ok(if report.is_whole() { ExitStatus::Success } else { ExitStatus::Failed })
}

fn read(path: &Path) -> Result<Plan, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error)
            .hint("check that it is there and may be read; docs/corun.md has a plan to begin with")
            .into_usage()
    })?;
    let title = path.file_stem().unwrap_or_default().to_string_lossy();
    let plan = Plan::read(&path.display().to_string(), &title, &text);
    plan.map_err(|error| experiment::of_corun(&error.into()))
}

/// Commands are separated by `--`.
fn of_commands(words: &[String], prepare: &[String]) -> Result<Plan, Failure> {
    let commands: Vec<Vec<String>> =
        words.split(|word| word == "--").map(<[String]>::to_vec).collect();
    if commands.len() < 2 || commands.iter().any(Vec::is_empty) {
        return Err(Failure::new("two or more commands are needed, each after `--`")
            .hint("write: nightwatt corun -- 'COMMAND A' -- 'COMMAND B'")
            .into_usage());
    }
    Plan::of_commands(&commands, prepare).map_err(|error| experiment::of_corun(&error.into()))
}

/// Writes a report in all its forms into the folder of its results.
fn write(report: &Report, folder: &Path) -> Result<(), Failure> {
    report_pages::folder(folder, report, |by| report.document(by), &report.tables())
}
