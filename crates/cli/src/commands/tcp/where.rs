//! `nightwatt tcp where`: what the CPUs' time goes into.

use nightwatt_measure::run::Running;
use nightwatt_profile::kernel_time::{self, KernelTimeOptions};

use crate::ExitStatus;
use crate::args::TcpWhereArgs;
use crate::args::meters;
use crate::commands::run::{cannot_watch, failed};
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::report_file::Output;
use crate::signals;

/// Watches and reports.
pub(crate) fn run(args: &TcpWhereArgs) -> Result<ExitStatus, Failure> {
    let options = KernelTimeOptions {
        command: (!args.command.is_empty()).then(|| args.command.clone()),
        processes: args.pid.clone(),
        time: args.time,
        hz: args.hz,
        idle: args.idle,
        meters: meters::chosen(&args.meters),
        interval: args.interval,
    };
    // Made first, so that paths that cannot be written do not cost the figures.
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
