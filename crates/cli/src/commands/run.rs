//! `nightwatt run`: how much energy a command takes.

use std::io;

use nightwatt_measure::Error;
use nightwatt_measure::run::{self, RunOptions, Running, Step};

use crate::ExitStatus;
use crate::args::RunArgs;
use crate::args::meters;
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::report_file::Output;
use crate::signals;

/// As `env`, `timeout` and their like: we failed; the command is no program; there is none.
const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// As a shell has it of a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Measures, runs, reports.
pub(crate) fn run(args: &RunArgs) -> Result<ExitStatus, Failure> {
    // Made first, so that a path that cannot be written does not cost the figures.
    let mut output = Output::open(args.output.as_deref()).map_err(failed)?;
    let options = RunOptions {
        command: args.command.clone(),
        repeats: args.repeat,
        warm_ups: args.warm_up,
        idle: args.idle,
        meters: meters::chosen(&args.meters),
        interval: args.interval,
    };
    let running = Running::new()
        .map_err(|error| failed(Failure::because("cannot prepare to run a command", &error)))?;
    signals::forward(&running).map_err(failed)?;
    let tell = |step| {
        if let (Step::Idle(time), false) = (step, args.json) {
            let time = figures::time(time);
            output::complain(&format!("measuring the idle machine for {time}"));
        }
    };
    let report = run::run(&options, &running, tell).map_err(|error| cannot_run(&error))?;
    output.write_report(&report, args.json, &report.text(), &report.warnings).map_err(failed)?;
    Ok(match report.exit_status {
        0 => ExitStatus::Success,
        status => ExitStatus::Of(status),
    })
}

pub(super) fn failed(failure: Failure) -> Failure {
    failure.ending_with(FAILED)
}

pub(super) fn cannot_run(error: &Error) -> Failure {
    let status = match error {
        Error::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        Error::Spawn { .. } => NOT_EXECUTABLE,
        Error::Interrupted => INTERRUPTED,
        _ => FAILED,
    };
    let hint = error.hint();
    Failure::failed(error).maybe_hint(hint).ending_with(status)
}

/// The same for what watches a command.
#[cfg(feature = "bpf")]
pub(super) fn cannot_watch(error: &nightwatt_profile::Error) -> Failure {
    match error {
        nightwatt_profile::Error::Measure(error) => cannot_run(error),
        error => Failure::failed(error).maybe_hint(error.hint()).ending_with(FAILED),
    }
}
