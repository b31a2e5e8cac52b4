//! `nightwatt compare`: the same work in several environments, repeated, and the energy that it uses in each.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_clock::meter::Stop;
use nightwatt_compare::{self as compare, Error, Plan, PlanFile, RunProgress, Store};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::{experiment, logging, output};

/// Run the same work in several environments, and compare its energy
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    /// TOML file with environments, workloads and settings
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath, required_unless_present_any = ["tools", "environments", "commands"])]
    pub(crate) plan: Option<PathBuf>,
    /// Instead of a plan: commands to compare, each in quotes, with `--` between them. Each run is one
    /// operation; the folder of the results is `compare.results`, and earlier ones there are deleted
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "plan", value_hint = ValueHint::CommandString)]
    pub(crate) commands: Vec<String>,
    /// Run each of these commands N times [default: 8 to 30 times, until the mean is known to 3 %]
    #[arg(short, long, value_name = "N", conflicts_with = "plan", value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub(crate) repeat: Option<u32>,
    /// Run each N times before that, unmeasured [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "plan")]
    pub(crate) warm_up: Option<u32>,
    /// A meter to read, as of `nightwatt run` [default: those of this machine]
    #[arg(short, long, value_name = "METER", conflicts_with = "plan")]
    pub(crate) meter: Vec<String>,
    /// Folder of the results; earlier results of the same plan there are continued [default: PLAN with `.results`
    /// in place of `.toml`]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Delete earlier results, and start from the beginning
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Print which runs would be made, in which order and how often, and what this machine lacks for
    /// them (then exit status 1); run nothing
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

pub(crate) const LISTED: Listed = Listed::First(Group::Compare);

const EXAMPLES: &str = "\
Examples:
  nightwatt compare quick.toml            make all runs, and a report
  nightwatt compare quick.toml --dry-run  print the runs, and what is missing
  nightwatt compare quick.toml            after Ctrl-C: continue from there
  nightwatt compare -- 'gzip -kf a' -- 'zstd -kf a'
  nightwatt compare --tools               list the tools: pgbench, fio, wrk, ..

Docs: docs/compare.md";

/// The exit status that a shell reports for a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Lists, plans, or runs.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    if args.tools {
        output::print(&compare::tools())?;
        return Ok(ExitStatus::Success);
    }
    if args.environments {
        output::print(&compare::environments())?;
        return Ok(ExitStatus::Success);
    }
    logging::start_warnings()?;
    // Unless one of the two lists is asked for, there is a plan: the rules of the command line require it.
    let path = args.plan.as_deref().unwrap_or_else(|| Path::new("compare"));
    let plan = if args.commands.is_empty() { read(path)? } else { of_commands(args)? };
    let folder = args.output.clone().unwrap_or_else(|| beside(path));
    let is_fresh = args.fresh || !args.commands.is_empty() && args.output.is_none();
    let missing = missing(&plan)?;
    if args.dry_run {
        let lacks = !missing.is_empty();
        let schedule = compare::schedule(&plan, missing).map_err(|error| failure(&error))?;
        output::print_result(&schedule, args.json, || schedule.text(), &[])?;
        return Ok(if lacks { ExitStatus::Failed } else { ExitStatus::Success });
    }
    if !missing.is_empty() {
        return Err(Failure::missing("nightwatt compare", &missing)
            .hint("nothing was run; `--dry-run` looks again"));
    }
    let mut store =
        Store::open(&folder, plan.subject(), is_fresh).map_err(|error| failure(&error))?;
    for warning in &store.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    let ran = experiment::with_progress(args.json, next_and_failed, |stop, on_progress| {
        compare::run(&plan, &mut store, stop, on_progress)
    })?;
    // However the run ended, show the tables of what was measured so far.
    let report = compare::report(&plan, &store.done).map_err(|error| failure(&error))?;
    if !store.done.is_empty() {
        super::report::write(&report, &folder)?;
    }
    match ran {
        Ok(()) => {}
        Err(Error::Interrupted) => {
            let what = format!("interrupted after {} runs, which are kept", store.done.len());
            let out = args.output.as_ref().map(|it| format!(" --output {}", it.display()));
            let out = out.unwrap_or_default();
            let again = match args.plan {
                Some(_) => {
                    format!("`nightwatt compare {}{out}` goes on from there", path.display())
                }
                None => format!("`nightwatt report {}` shows them", folder.display()),
            };
            return Err(Failure::new(what).hint(again).ending_with(INTERRUPTED));
        }
        Err(error) => return Err(failure(&error)),
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

/// What this machine lacks for a plan.
fn missing(plan: &Plan) -> Result<Vec<String>, Failure> {
    let stop = Stop::new().map_err(|error| Failure::because("cannot start", &error))?;
    Ok(plan.missing(&stop))
}

/// What comes next, and how many runs failed so far.
fn next_and_failed(told: &RunProgress<'_>) -> String {
    match told.progress.failed {
        0 => told.next.to_owned(),
        count => format!("{}, {count} failed", told.next),
    }
}

fn failure(error: &Error) -> Failure {
    let failure = if error.is_usage() { Failure::usage(error) } else { Failure::failed(error) };
    failure.maybe_hint(error.hint())
}

/// The plan that commands are.
fn of_commands(args: &Args) -> Result<Plan, Failure> {
    let lines: Vec<String> = args.commands.iter().filter(|line| *line != "--").cloned().collect();
    if lines.len() < 2 {
        return Err(Failure::new("one command alone has nothing to be compared with")
            .hint(
                "write `nightwatt compare -- 'COMMAND' -- 'COMMAND'`; `nightwatt run` measures one",
            )
            .into_usage());
    }
    let (runs, warm_ups) = (args.repeat, args.warm_up);
    let commands = compare::Commands { lines, runs, warm_ups, meters: args.meter.clone() };
    commands.plan().map_err(|error| failure(&error))
}

fn read(path: &Path) -> Result<Plan, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error)
            .hint("check that it is there and may be read; docs/compare.md has plans to begin with")
            .into_usage()
    })?;
    let title = path.file_stem().unwrap_or_default().to_string_lossy();
    let plan = PlanFile::read(&path.display().to_string(), &title, &text);
    plan.map_err(|error| Failure::usage(&error).maybe_hint(error.hint()))
}

/// `quick.results` in the working directory for `experiments/quick.toml`.
pub(super) fn beside(plan: &Path) -> PathBuf {
    let mut name = plan.file_stem().unwrap_or_default().to_owned();
    name.push(".results");
    PathBuf::from(name)
}
