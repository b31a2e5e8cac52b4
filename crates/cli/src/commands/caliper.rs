//! `nightwatt caliper`: how much energy sections of code take.

use std::path::Path;

use nightwatt_measure::run::Running;
use nightwatt_profile::caliper::{self, CaliperOptions, SectionSpec, Step, Target, sampled};

use super::run::{cannot_watch, failed};
use crate::ExitStatus;
use crate::args::CaliperArgs;
use crate::args::meters;
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::report_file::Output;
use crate::signals;

/// Measures and reports.
pub(crate) fn run(args: &CaliperArgs) -> Result<ExitStatus, Failure> {
    let options = CaliperOptions {
        sections: sections(args).map_err(failed)?,
        returns: args.returns.into(),
        markers: args.markers,
        target: match args.pid {
            Some(pid) => Target::Process(pid),
            None => Target::Command(args.command.clone()),
        },
        time: args.time,
        idle: args.idle,
        meters: meters::chosen(&args.meters),
        interval: args.interval,
        events: args.events.clone(),
        live: args.live,
    };
    // Made first, so that paths that cannot be written do not cost the figures.
    let mut output = Output::open(args.output.as_deref()).map_err(failed)?;
    let folded = args.folded.as_deref().map(|path| Output::open(Some(path)));
    let folded = folded.transpose().map_err(failed)?;
    let running = Running::new()
        .map_err(|error| failed(Failure::because("cannot prepare to run a command", &error)))?;
    signals::forward(&running).map_err(failed)?;
    let tell = |step| match step {
        Step::MayAbort { file, by_unwinding, by_switching } => {
            output::complain(&careful(&file, by_unwinding, by_switching));
        }
        Step::Idle(time) if !args.json => {
            let time = figures::time(time);
            output::complain(&format!("measuring the idle machine for {time}"));
        }
        Step::Idle(_) => {}
        Step::Live(report) => output::renew(&report.text()),
    };
    let (stacks, exit_status);
    let mut calls_lost = None;
    if let Some(hz) = args.sample {
        let report = sampled::run(&options, hz, &running, tell);
        let report = report.map_err(|error| cannot_watch(&error))?;
        output
            .write_report(&report, args.json, &report.text(), &report.warnings)
            .map_err(failed)?;
        (stacks, exit_status) = (report.folded(), report.exit_status);
    } else {
        let report =
            caliper::run(&options, &running, tell).map_err(|error| cannot_watch(&error))?;
        output
            .write_report(&report, args.json, &report.text(), &report.warnings)
            .map_err(failed)?;
        (stacks, exit_status) = (report.folded(), report.exit_status);
        calls_lost = report.events.and_then(|events| events.error);
    }
    if let Some(mut folded) = folded {
        folded.write(stacks.trim_end().to_owned()).map_err(failed)?;
    }
    if let Some(error) = calls_lost {
        return Err(failed(Failure::saying(error).hint(
            "the figures are whole. Name a file on a disk with room: some 20 bytes for each call, and \
             as much again while the parts are joined. If FILE.parts is there, it holds the calls up \
             to the last whole minute: `nightwatt record -o FILE --recover` joins them",
        )));
    }
    Ok(match exit_status {
        0 => ExitStatus::Success,
        status => ExitStatus::Of(status),
    })
}

fn sections(args: &CaliperArgs) -> Result<Vec<SectionSpec>, Failure> {
    if args.start.len() != args.end.len() {
        let (starts, ends) = (args.start.len(), args.end.len());
        return Err(Failure::saying(format!(
            "{starts} --start and {ends} --end do not make pairs"
        ))
        .hint("the n-th --start and the n-th --end belong together"));
    }
    let point = |text: &String| {
        text.parse()
            .map_err(|error: caliper::PlaceError| Failure::failed(&error).maybe_hint(error.hint()))
    };
    let functions = args.function.iter().map(|text| Ok(SectionSpec::Function(point(text)?)));
    let pairs = args.start.iter().zip(&args.end);
    let pairs = pairs.map(|(start, end)| Ok(SectionSpec::Between(point(start)?, point(end)?)));
    functions.chain(pairs).collect()
}

/// What return probes may do to a program.
fn careful(file: &Path, by_unwinding: bool, by_switching: bool) -> String {
    let unwinds =
        "knows exceptions or panics, and one that leaves a watched function aborts the program";
    let switches = "may run functions on other stacks (sigaltstack, swapcontext), and if watched ones \
                    do, the kernel ends it with SIGILL";
    let why = match (by_unwinding, by_switching) {
        (true, true) => format!("{unwinds}; it {switches}"),
        (true, false) => unwinds.to_owned(),
        (false, _) => switches.to_owned(),
    };
    let file = file.display();
    format!(
        "careful: {file} {why}; `--returns instructions` does neither, nor do --start and --end"
    )
}
