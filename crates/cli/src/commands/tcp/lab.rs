//! `nightwatt tcp lab`: what a connection costs over links of all kinds.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_clock::Clock;
use nightwatt_clock::meter::Stop;
use nightwatt_netlab::ends::{Cleaned, EndConfig, EndsConfig};
use nightwatt_netlab::scenario::Scenario;
use nightwatt_netlab::study::{self, Cell, Plan, StudyProgress, WakeCost};
use nightwatt_netlab::{Error, ends, scenario};
use nightwatt_report::{Document, Table};

use crate::ExitStatus;
use crate::args::MeterArgs;
use crate::dry_run::DryRun;
use crate::errors::Failure;
use crate::progress::Progress;
use crate::report_pages::{self, cannot_write};
use crate::{figures, output, signals, values, whole_file};

/// `tcp lab`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Other steps
    #[command(subcommand)]
    pub(crate) step: Option<LabStep>,
    /// Links by their names in the table: `d`, `a,d`, or `all`
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub(crate) scenario: String,
    /// Short form: 1 and 10 connections of 10 segments, a few runs of two seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Figure to which `--precision` applies, by its name in `--json`
    #[arg(long, value_name = "NAME", default_value = "lifetime")]
    pub(crate) until: String,
    /// Let cards cut and join segments (TSO, GSO, GRO) as far as they can, instead of one frame per segment
    #[arg(long)]
    pub(crate) offload: bool,
    /// Sample each CPU HZ times per second [default: 997], and report where its time and the energy of connections
    /// went (docs/tcp-where.md)
    #[arg(long = "where", value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "997", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) kernel_time: Option<u32>,
    /// Write all stacks with their CPU time in us, for flame graphs; each begins with its link and load
    #[arg(long, value_name = "FILE", requires = "kernel_time", value_hint = ValueHint::FilePath)]
    pub(crate) folded: Option<PathBuf>,
    /// Capture the sender's packets of each run with tcpdump, and compare them with the counts of kernels and cards
    #[arg(long)]
    pub(crate) capture: bool,
    #[command(flatten)]
    pub(crate) runs: RunsArgs,
}

const EXAMPLES: &str = "\
Examples:
  nightwatt tcp lab --scenario d --quick    10 Mbit/s, half a minute
  nightwatt tcp lab clean                   undo what a killed run left behind

Docs: docs/tcp-lab.md";

/// What `tcp lab` and `tcp helps` have in common.
#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// Print which links would be measured and how long that takes, and what this machine lacks for it (then exit
    /// status 1); run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Another table of links [default: the seven published ones]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// Machine that sends: `ssh:USER@HOST:PORT`, or `here` [default: a network namespace on this machine]
    #[arg(long, value_name = "END", requires = "receiver", conflicts_with = "ends")]
    pub(crate) sender: Option<String>,
    /// Machine that receives, in the same notation
    #[arg(long, value_name = "END", requires = "sender")]
    pub(crate) receiver: Option<String>,
    /// TOML file that describes the two ends: two QEMU guests, or two machines (docs/tcp-lab.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ends: Option<PathBuf>,
    /// Connections at once [default: 1,10,100]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: Vec<u32>,
    /// Segments of each connection [default: 10,10000]
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) segments: Vec<u64>,
    /// Congestion controls of the sender, by the kernel's names
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "cubic")]
    pub(crate) congestion: Vec<String>,
    /// Length of a run, in mean lifetimes [default: 200]
    #[arg(long, value_name = "N", value_parser = values::factor)]
    pub(crate) lifetimes: Option<f64>,
    /// Longest run; a run has three lifetimes if that is longer [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = values::some_time)]
    pub(crate) longest: Option<Duration>,
    /// Repeat runs until the 95 % interval is within this share of the mean
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub(crate) precision: f64,
    /// Most runs of each load, at least 3 [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub(crate) most: Option<u32>,
    /// Continue on links that fail their check, and mark that in the result
    #[arg(long)]
    pub(crate) accept_link: bool,
    /// Energy of a transition from idle to active, in joules, for modelled power (`calibrate wakeups` measures it)
    #[arg(long, value_name = "JOULES", value_parser = values::factor)]
    pub(crate) wake_energy: Option<f64>,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// Channel whose energy counts, as METER/CHANNEL [default: the one that covers most]
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) energy: Option<String>,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write a report with charts as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write the tables as CSV into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Append each run to this file when it ends, one JSON object per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) runs: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
    /// Our own binary
    #[arg(long, hide = true, value_hint = ValueHint::FilePath)]
    pub(crate) program: Option<PathBuf>,
}

/// Other steps of the laboratory.
#[derive(Debug, Subcommand)]
pub(crate) enum LabStep {
    /// Undo what a killed run left behind
    Clean,
}

/// A measurement that may last longer announces that first.
const LONG: Duration = Duration::from_mins(10);

/// The exit status that a shell reports for a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Runs the measurement, or cleans up.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    match &args.step {
        Some(LabStep::Clean) => clean(),
        None => measure(args),
    }
}

fn clean() -> Result<ExitStatus, Failure> {
    let Cleaned { undone, busy, failed } = ends::clean();
    let things = if undone == 1 { "thing" } else { "things" };
    output::print(&format!("{undone} {things} undone that a killed run had left"))?;
    for journal in busy {
        output::complain(&format!("warning: a run still goes on: {}", journal.display()));
    }
    for (list, error) in &failed {
        output::complain(&format!("error: {}: {error}", list.display()));
    }
    Ok(if failed.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
}

fn measure(args: &Args) -> Result<ExitStatus, Failure> {
    let plan = plan(args)?;
    let clock = Clock::real();
    let runs = &args.runs;
    if runs.dry_run {
        let missing = plan.ends.missing(plan.capture);
        return DryRun { would: would(&plan), missing }.say(runs.json);
    }
    is_ready("nightwatt tcp lab", &plan)?;
    if let Some(path) = &args.folded {
        can_write(path)?;
    }
    let [least, most] = plan.reckoned();
    if !runs.json && least > LONG {
        output::complain(&format!(
            "the runs take {} at least and {} at most, by what the links carry; Ctrl-C shows what is there by then, \
             and `--quick` takes minutes",
            figures::time(least),
            figures::time(most)
        ));
    }
    let (report, ended) =
        driven(runs, &clock, |stop, on_progress| study::run(&plan, stop, on_progress))?;
    // However the run ended, show the table of what was measured so far.
    if ended.is_ok()
        || report.scenarios.iter().any(|it| it.cells.iter().any(|it| !it.runs.is_empty()))
    {
        // A file that cannot be written is no reason to lose the others.
        let refused = refusals(runs, report.refused_links());
        let said = output::print_result(&report, runs.json, || report.text(), &refused);
        let written = write_files(runs, &report.tables(), |by| report.document(by));
        let folded = args.folded.as_deref().map_or(Ok(()), |path| {
            whole_file::write(path, report.folded().as_bytes())
                .map_err(|error| cannot_write(path, &error))
        });
        said?;
        written.and(folded)?;
    }
    ended.map_err(|error| failure(&error))?;
    Ok(if report.is_whole() { ExitStatus::Success } else { ExitStatus::Failed })
}

/// What the runs of a plan are.
fn would(plan: &Plan) -> Vec<String> {
    let links: Vec<&str> = plan.scenarios.iter().map(|it| it.name.as_str()).collect();
    let [least, most] = plan.reckoned().map(figures::time);
    vec![
        format!("measure over the links {}", links.join(", ")),
        format!(
            "make {} to {} runs of each of {} over each of them",
            plan.least,
            plan.most,
            figures::counted(plan.cells.len() as u64, "load")
        ),
        format!("take {least} at least and {most} at most, by what the links carry"),
    ]
}

/// An error that names all that this machine lacks for the runs.
pub(super) fn is_ready(command: &str, plan: &Plan) -> Result<(), Failure> {
    let missing = plan.ends.missing(plan.capture);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::missing(command, &missing).hint("docs/tcp-lab.md says what the laboratory needs"))
}

/// Links that were refused, as warnings for JSON output: its readers do not see the tables that list them.
pub(super) fn refusals(args: &RunsArgs, refusals: Vec<String>) -> Vec<String> {
    if args.json { refusals } else { Vec::new() }
}

/// The measurements, and how the run ended.
type Measured<R> = Result<(R, Result<(), Error>), Error>;

/// Measures, shows the progress, and writes each run to the file when it ends.
pub(super) fn driven<R>(
    args: &RunsArgs,
    clock: &Clock,
    measure: impl FnOnce(&Stop, &mut dyn FnMut(&StudyProgress<'_>)) -> Measured<R>,
) -> Result<(R, Result<(), Error>), Failure> {
    let stop = signals::stop_on_signals()?;
    let started = clock.now().mono;
    let mut progress = Progress::by_time(args.json);
    let mut runs = args.runs.as_deref().map(open_runs).transpose()?;
    can_write_files(args)?;
    let mut unwritten = None;
    let measured = measure(&stop, &mut |told: &StudyProgress<'_>| {
        if let (Some(file), Some(run)) = (&mut runs, &told.run) {
            // Synced to disk: a run may have needed minutes.
            let written = writeln!(file, "{run}").and_then(|()| file.sync_data());
            unwritten = unwritten.take().or(written.err());
            return;
        }
        let elapsed = clock.now().mono.since(started);
        let done = told.progress.map_or(0, |it| it.done);
        let left = told.progress.map_or(0, |it| it.expected_left.unwrap_or(it.most_left));
        let (place, of) = told.of;
        progress.update(done, done + left, elapsed, told.left, || {
            let links = if of > 1 { format!(" ({} of {of})", place + 1) } else { String::new() };
            format!("scenario {}{links}: {}", told.scenario, told.what)
        });
    });
    progress.end();
    if let Some(error) = unwritten {
        output::complain(&format!("warning: not all runs could be written: {error}"));
    }
    measured.map_err(|error| failure(&error))
}

fn open_runs(path: &Path) -> Result<File, Failure> {
    File::options().append(true).create(true).open(path).map_err(|error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("`--runs` names a file that may be written to")
            .into_usage()
    })
}

/// Checks that the tables and the page can be written, before hours of runs.
fn can_write_files(args: &RunsArgs) -> Result<(), Failure> {
    let try_folder = |folder: &Path| tempfile::NamedTempFile::new_in(folder).map(drop);
    if let Some(folder) = &args.csv {
        let tried = std::fs::create_dir_all(folder).and_then(|()| try_folder(folder));
        tried.map_err(|error| cannot_write(folder, &error).into_usage())?;
    }
    args.html.as_deref().map_or(Ok(()), can_write)
}

fn can_write(path: &Path) -> Result<(), Failure> {
    whole_file::can_write(path).map_err(|error| cannot_write(path, &error).into_usage())
}

/// Writes the tables and the page, if they are asked for.
pub(super) fn write_files(
    args: &RunsArgs,
    tables: &[(&str, Table)],
    document: impl FnOnce(String) -> Document,
) -> Result<(), Failure> {
    if let Some(folder) = &args.csv {
        report_pages::tables(folder, tables)?;
    }
    args.html.as_deref().map_or(Ok(()), |path| report_pages::page(path, document))
}

/// The table of scenarios: the user's, or the published one.
pub(super) fn table(args: &RunsArgs) -> Result<Vec<Scenario>, Failure> {
    match &args.table {
        Some(path) => read(path),
        None => Ok(scenario::published()),
    }
}

/// A plan for these links, with these limits; the given connections and segments are defaults.
pub(super) fn planned(
    args: &RunsArgs,
    scenarios: Vec<Scenario>,
    connections: &[u32],
    segments: &[u64],
    limits: &RunLimits,
) -> Result<Plan, Failure> {
    let connections = if args.connections.is_empty() { connections } else { &args.connections };
    let segments = if args.segments.is_empty() { segments } else { &args.segments };
    let mut cells = Vec::new();
    for congestion in &args.congestion {
        for &segments in segments {
            for &connections in connections {
                cells.push(Cell { connections, segments, congestion: congestion.clone() });
            }
        }
    }
    let program = match &args.program {
        Some(path) => path.clone(),
        None => own_binary()?,
    };
    Ok(Plan {
        ends: ends_of(args)?,
        scenarios,
        cells,
        lifetimes: args.lifetimes.unwrap_or(200.0),
        longest: args.longest.unwrap_or(limits.longest),
        least: 3,
        most: args.most.unwrap_or(limits.most),
        precision: args.precision,
        main: String::new(),
        accept_link: args.accept_link,
        offload: false,
        // The default meters depend on the ends.
        meters: if args.meter.meters.is_empty() { Vec::new() } else { args.meter.chosen() },
        energy: args.energy.clone(),
        wake_cost: args.wake_energy.map(|joules| WakeCost { joules }),
        kernel_time: None,
        capture: false,
        program,
        seed: args.seed,
    })
}

fn ends_of(args: &RunsArgs) -> Result<EndsConfig, Failure> {
    if let Some(path) = &args.ends {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::because(format!("cannot read {}", path.display()), &error)
                .into_usage()
                .hint("docs/tcp-lab.md says what a file of ends looks like")
                .into_usage()
        })?;
        return EndsConfig::from_toml(&path.display().to_string(), &text)
            .map_err(|it| failure(&it));
    }
    let (Some(sender), Some(receiver)) = (&args.sender, &args.receiver) else {
        return Ok(EndsConfig::Namespaces);
    };
    let end = |name, words: &str| EndConfig::from_words(name, words).map_err(|it| failure(&it));
    EndsConfig::of(end("sender", sender)?, end("receiver", receiver)?).map_err(|it| failure(&it))
}

/// Default limits of a cell.
pub(super) struct RunLimits {
    /// Duration of a run.
    longest: Duration,
    /// Number of runs.
    most: u32,
}

impl RunLimits {
    pub(super) const fn of(quick: bool) -> Self {
        if quick {
            Self { longest: Duration::from_secs(2), most: 5 }
        } else {
            Self { longest: Duration::from_mins(5), most: 20 }
        }
    }
}

fn plan(args: &Args) -> Result<Plan, Failure> {
    let table = table(&args.runs)?;
    let scenarios = scenario::chosen(&table, &args.scenario).map_err(|error| failure(&error))?;
    let (connections, segments): (&[u32], &[u64]) =
        if args.quick { (&[1, 10], &[10]) } else { (&[1, 10, 100], &[10, 10_000]) };
    let plan = planned(&args.runs, scenarios, connections, segments, &RunLimits::of(args.quick))?;
    let (main, kernel_time, capture) = (args.until.clone(), args.kernel_time, args.capture);
    let plan = Plan { main, offload: args.offload, kernel_time, capture, ..plan };
    plan.check().map_err(|error| failure(&error))?;
    Ok(plan)
}

fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::because("cannot find our own binary", &error))
}

fn read(path: &Path) -> Result<Vec<Scenario>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error)
            .into_usage()
            .hint("docs/tcp-lab.md says what a table of links looks like")
            .into_usage()
    })?;
    scenario::read(&path.display().to_string(), &text).map_err(|error| failure(&error))
}

/// Turns an error into a failure.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        error if error.is_interrupted() => {
            Failure::new("interrupted".to_owned()).ending_with(INTERRUPTED)
        }
        error if error.is_usage() => Failure::usage(error),
        error => Failure::failed(error),
    }
}
