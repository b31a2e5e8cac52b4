//! `nightwatt run`: how much energy a command uses.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_measure::Error;
use nightwatt_measure::run::{self, RunOptions, Running, Step};

use crate::ExitStatus;
use crate::args::MeterArgs;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::report_file::Output;
use crate::signals;
use crate::values;

/// Measure how much energy a command uses
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Run the command N times, and print the mean with its 95 % interval
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Run it N times before that, unmeasured
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warm_up: u32,
    /// Measure the idle machine first for this long, and print what the command uses beyond it
    #[arg(long, value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) idle: Option<Duration>,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Write the figures into this file instead of to stderr; `-` for stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write the figures as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Measure);

const EXAMPLES: &str = "Examples:
  nightwatt run -- sleep 1
  nightwatt run -r 5 --idle 10s -- make -j2
  nightwatt run -m shelly=http://10.0.0.9 -- ./backup.sh
  nightwatt run --json -o energy.json -r 10 -- gzip -k big.tar

The command's own output is left alone: figures go to stderr, or where `-o` says. Exit status: the
command's (128 + N if signal N ended it), of the first run that failed; 125 if nightwatt itself failed,
126 and 127 if the command cannot be started or found.";

/// Exit statuses as of `env` and `timeout`: nightwatt failed; the command is not executable; it does not exist.
const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// The exit status that a shell reports for a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Measures, runs, reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    // Opened before the run, so that a path that cannot be written does not cost the figures.
    let mut file = Output::open(args.output.as_deref()).map_err(failed)?;
    let options = RunOptions {
        command: args.command.clone(),
        repeats: args.repeat,
        warm_ups: args.warm_up,
        idle: args.idle,
        meters: args.meters.chosen(),
        interval: args.interval,
    };
    let running = running()?;
    let on_progress = |step| {
        if let (Step::Idle(time), false) = (step, args.json) {
            let time = figures::time(time);
            output::complain(&format!("measuring the idle machine for {time}"));
        }
    };
    let report = run::run(&options, &running, on_progress).map_err(|error| cannot_run(&error))?;
    let words = output::folded(&report.text());
    file.write_report(&report, args.json, &words, &report.warnings).map_err(failed)?;
    Ok(like(report.exit_status))
}

pub(super) fn failed(failure: Failure) -> Failure {
    failure.ending_with(FAILED)
}

/// Prepares to run a command that gets the signals that this program gets.
pub(super) fn running() -> Result<Running, Failure> {
    let running = Running::new()
        .map_err(|error| failed(Failure::because("cannot prepare to run a command", &error)))?;
    signals::forward(&running).map_err(failed)?;
    Ok(running)
}

/// The exit status of this program after a command with this one.
pub(super) const fn like(status: u8) -> ExitStatus {
    match status {
        0 => ExitStatus::Success,
        status => ExitStatus::Of(status),
    }
}

pub(super) fn cannot_run(error: &Error) -> Failure {
    let status = match error {
        Error::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        Error::Spawn { .. } => NOT_EXECUTABLE,
        Error::Interrupted => INTERRUPTED,
        _ => FAILED,
    };
    let hint = match error {
        Error::Meter(error) => error.hint(),
        _ => error.hint(),
    };
    Failure::failed(error).maybe_hint(hint).ending_with(status)
}

/// The same for commands that watch another command.
#[cfg(feature = "bpf")]
pub(super) fn cannot_watch(error: &nightwatt_profile::Error) -> Failure {
    match error {
        nightwatt_profile::Error::Measure(error) => cannot_run(error),
        error => Failure::failed(error).maybe_hint(error.hint()).ending_with(FAILED),
    }
}
