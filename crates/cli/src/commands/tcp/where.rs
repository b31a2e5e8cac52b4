//! `nightwatt tcp where`: what the kernels spend CPU time on.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_measure::run::Running;
use nightwatt_profile::kernel_time::{self, KernelTimeOptions};

use crate::ExitStatus;
use crate::args::MeterArgs;
use crate::commands::run::{cannot_watch, failed};
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::report_file::Output;
use crate::signals;
use crate::written;

/// `tcp where`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("until").required(true).multiple(true).args(["time", "command"])))]
pub(crate) struct Args {
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// A running process under test, with what it starts from now on; may be given several times
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Sample each CPU this many times per second
    #[arg(long, value_name = "HZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hz: u32,
    /// Measure the idle machine for this time first, and report its energy separately
    #[arg(long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) idle: Option<Duration>,
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Time between two readings [default: as suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Write the figures here; `-` for stdout [default: stderr]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write all stacks with their CPU time in us, for flame graphs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) folded: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The command under test and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  nightwatt tcp where -- iperf3 -c server.lan
  nightwatt tcp where --for 10s -p 4711
  nightwatt tcp where --idle 5s --folded tcp.folded -- curl -so /dev/null http://server.lan/big
  nightwatt tcp where --for 1m --json -o where.json

Needs root, or CAP_PERFMON and CAP_SYSLOG.

Docs: docs/tcp-where.md";

/// Measures and reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let options = KernelTimeOptions {
        command: (!args.command.is_empty()).then(|| args.command.clone()),
        processes: args.pid.clone(),
        time: args.time,
        hz: args.hz,
        idle: args.idle,
        meters: args.meters.chosen(),
        interval: args.interval,
    };
    // Opened before the run, so that paths that cannot be written do not cost the figures.
    let mut output = Output::open(args.output.as_deref()).map_err(failed)?;
    let folded = args.folded.as_deref().map(|path| Output::open(Some(path)));
    let folded = folded.transpose().map_err(failed)?;
    let running = Running::new()
        .map_err(|error| failed(Failure::because("cannot prepare to run a command", &error)))?;
    signals::forward(&running).map_err(failed)?;
    let tell = |time| {
        if !args.json {
            let time = figures::time(time);
            output::complain(&format!("measuring the idle machine for {time}"));
        }
    };
    let report =
        kernel_time::run(&options, &running, tell).map_err(|error| cannot_watch(&error))?;
    output.write_report(&report, args.json, &report.text(), &report.warnings).map_err(failed)?;
    if let Some(mut folded) = folded {
        folded.write(report.folded().trim_end().to_owned()).map_err(failed)?;
    }
    Ok(match report.exit_status {
        0 => ExitStatus::Success,
        status => ExitStatus::Of(status),
    })
}
