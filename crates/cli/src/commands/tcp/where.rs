//! `nightwatt tcp where`: what the kernels spend CPU time on.

use std::path::PathBuf;

use clap::ValueHint;
use nightwatt_meters::MeterSpec;
use nightwatt_profile::kernel_time::{self, KernelTimeOptions};
use nightwatt_profile::preflight;

use crate::ExitStatus;
use crate::args::WatchArgs;
use crate::commands::run::{cannot_watch, failed, like, running};
use crate::dry_run::DryRun;
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::report_file::Output;

/// `tcp where`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("until").required(true).multiple(true).args(["time", "command"])))]
pub(crate) struct Args {
    /// A running process under test, with what it starts from now on; may be given several times
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Sample each CPU this many times per second
    #[arg(long, value_name = "HZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hz: u32,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    /// Write all stacks with their CPU time in us, for flame graphs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) folded: Option<PathBuf>,
    /// Print what would be watched, and what this machine lacks for it (then exit status 1); run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  nightwatt tcp where -- iperf3 -c server.lan
  nightwatt tcp where --for 10s -p 4711
  nightwatt tcp where --folded f -- curl -so /dev/null http://server.lan/
  nightwatt tcp where --for 1m --json -o where.json

Needs root, or CAP_PERFMON and CAP_SYSLOG.

Docs: docs/tcp-where.md";

/// Measures and reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let options = KernelTimeOptions {
        command: (!args.watch.command.is_empty()).then(|| args.watch.command.clone()),
        processes: args.pid.clone(),
        time: args.watch.time,
        hz: args.hz,
        idle: args.watch.idle,
        meters: args.watch.meters.chosen(),
        interval: args.watch.interval,
    };
    if args.dry_run {
        let missing = preflight::all_of_kernel_time(&options, &nightwatt_host::Host::default());
        return DryRun { would: would(&options), missing }.say(args.watch.json).map_err(failed);
    }
    // Opened before the run, so that paths that cannot be written do not cost the figures.
    let mut output = Output::open(args.watch.output.as_deref()).map_err(failed)?;
    let folded = args.folded.as_deref().map(|path| Output::open(Some(path)));
    let folded = folded.transpose().map_err(failed)?;
    let running = running()?;
    let on_progress = |time| {
        if !args.watch.json {
            let time = figures::time(time);
            output::complain(&format!("measuring the idle machine for {time}"));
        }
    };
    let report =
        kernel_time::run(&options, &running, on_progress).map_err(|error| cannot_watch(&error))?;
    output
        .write_report(&report, args.watch.json, &report.text(), &report.warnings)
        .map_err(failed)?;
    if let Some(mut folded) = folded {
        folded.write(report.folded().trim_end().to_owned()).map_err(failed)?;
    }
    Ok(like(report.exit_status))
}

/// What a run with these options does.
fn would(options: &KernelTimeOptions) -> Vec<String> {
    let idle = options
        .idle
        .map(|time| format!("measure the idle machine for {} first", figures::time(time)));
    let words: Vec<_> =
        options.command.iter().flatten().map(|word| word.to_string_lossy()).collect();
    let command = (!words.is_empty()).then(|| format!("run `{}`", words.join(" ")));
    let pids: Vec<String> = options.processes.iter().map(ToString::to_string).collect();
    let processes = (!pids.is_empty()).then(|| format!("watch the processes {}", pids.join(", ")));
    let sample = format!("sample each CPU {} times per second", options.hz);
    let meters: Vec<&str> = options.meters.iter().map(MeterSpec::name).collect();
    let meters = format!("read the meters {}", meters.join(", "));
    let time = options.time.map(|time| format!("stop after {}", figures::time(time)));
    [idle, command, processes, Some(sample), Some(meters), time].into_iter().flatten().collect()
}
