//! `nightwatt caliper`: how much energy sections of code use.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_meters::MeterSpec;
use nightwatt_profile::caliper::{self, CaliperOptions, SectionSpec, Step, Target, sampled};
use nightwatt_profile::preflight;

use super::run::{cannot_watch, failed, like, running};
use crate::ExitStatus;
use crate::args::WatchArgs;
use crate::commands::{Group, Listed};
use crate::dry_run::DryRun;
use crate::errors::Failure;
use crate::figures;
use crate::live_table;
use crate::output;
use crate::report_file::Output;

/// Measure how much energy functions and sections of a program use
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
#[command(group(clap::ArgGroup::new("section").required(true).multiple(true).args(["function", "start", "markers", "sample"])))]
#[command(group(clap::ArgGroup::new("target").required(true).args(["pid", "all", "command"])))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    /// A function, from its entry to its return: `./prog:work`, `prog:ns::work`, `libc.so.6:qsort`.
    /// `*` matches anything, and each matching function is a section of its own
    #[arg(short, long, value_name = "PROGRAM:NAME")]
    pub(crate) function: Vec<String>,
    /// Where a section begins: `./prog:work`, `./prog:work+0x10`, `./prog:0x1139`, or a USDT probe,
    /// `./prog:usdt:NAME`. The n-th `--start` and the n-th `--end` form a pair
    #[arg(long, value_name = "PROGRAM:PLACE")]
    pub(crate) start: Vec<String>,
    /// Where a section ends, in the same notation
    #[arg(long, value_name = "PROGRAM:PLACE")]
    pub(crate) end: Vec<String>,
    /// How returns of functions are detected: `auto`, by return probes (not for Go); `instructions`, for
    /// functions that exceptions or panics may leave, and programs that switch stacks
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) returns: ReturnsArg,
    /// Sample what runs on each CPU, HZ times per second [default: 997], without probes: the functions
    /// named with `-f`, or all functions
    #[arg(
        long,
        value_name = "HZ",
        conflicts_with_all = ["events", "live", "returns"],
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "997",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) sample: Option<u32>,
    /// Sections that the program marks itself: `NIGHTWATT_BEGIN("parse")` in C, `section!("parse")`
    /// in Rust, `with nightwatt.caliper("parse"):` in Python (docs/markers.md)
    #[arg(long, conflicts_with_all = ["function", "start", "end", "sample", "events", "live", "returns"])]
    pub(crate) markers: bool,
    /// Watch a running process, what it has started, and what these start from now on [until it ends, or
    /// Ctrl-C]. Several may be named
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Watch every process [until Ctrl-C]
    #[arg(long, conflicts_with = "markers")]
    pub(crate) all: bool,
    /// Write every call as Parquet: section, thread, begin, length, CPU time, joules. The file must not
    /// exist yet
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) events: Option<PathBuf>,
    /// Show the table of sections, updated each second
    #[arg(long)]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    /// Write stacks of sections with their energy in uJ, for flame graphs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) folded: Option<PathBuf>,
    /// Print what would be watched, and what this machine lacks for it (then exit status 1); run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Measure);

const USAGE: &str = "\
nightwatt caliper [OPTIONS] --function <PROGRAM:NAME> [-- COMMAND...]
       nightwatt caliper [OPTIONS] --start <PROGRAM:PLACE> [-- COMMAND...]
       nightwatt caliper [OPTIONS] <--markers|--sample> [-- COMMAND...]";

const EXAMPLES: &str = "Examples:
  nightwatt caliper --function ./prog:work -- ./prog
  nightwatt caliper -f './prog:ns::*' --idle 5s -- ./prog --fast
  nightwatt caliper --start ./prog:begin --end ./prog:done -p 4711 --for 1m
  nightwatt caliper -f ./prog:work --live -p 4711
  nightwatt caliper -f libz.so.1:deflate --all --for 1m
  nightwatt caliper -f ./prog:work --events calls.parquet -- ./prog
  nightwatt caliper --markers -- ./prog
  nightwatt caliper -f './prog:*' --folded f -- ./prog && flamegraph.pl f
  nightwatt caliper -f './server:main.(*Cache).Get' -p 4711
  nightwatt caliper --sample -- ./prog
  nightwatt caliper --sample=1999 -f ./prog:work -- ./prog
  nightwatt caliper -f libz.so.1:deflate --json -o energy.json -- gzip -k a

Do not use -f alone for a function that an exception or a panic may leave: the program would abort.
--returns instructions is safe, and Go programs always use it.

Needs root, or CAP_BPF, CAP_PERFMON and, from Linux 6.16 on, CAP_SYS_ADMIN. A call costs the program
about a microsecond, and some 20 more if the kernel has to single-step the first instruction of the
function: the report names such functions. Exit status: the command's, as for `nightwatt run`; 125
if nightwatt itself failed.

Docs: docs/caliper.md";

/// How returns of functions are detected.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum ReturnsArg {
    /// By return probes; for Go, at instructions
    #[default]
    Auto,
    /// At the instructions at which functions return; each of them costs the program some 20 us
    Instructions,
}

impl From<ReturnsArg> for caliper::Returns {
    fn from(argument: ReturnsArg) -> Self {
        match argument {
            ReturnsArg::Auto => Self::Auto,
            ReturnsArg::Instructions => Self::Instructions,
        }
    }
}

/// Measures and reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let options = options(args)?;
    let host = nightwatt_host::Host::default();
    if args.dry_run {
        let missing = preflight::all_of_caliper(&options, args.sample.is_some(), &host);
        let found = DryRun { would: would(args, &options), missing };
        return found.say(args.watch.json).map_err(failed);
    }
    let missing = preflight::of_caliper(&options, args.sample.is_some(), &host);
    if !missing.is_empty() {
        return Err(failed(
            Failure::missing("nightwatt caliper", &missing).hint(super::disk::RIGHTS),
        ));
    }
    // Opened before the run, so that paths that cannot be written do not cost the figures.
    let mut output = Output::open(args.watch.output.as_deref()).map_err(failed)?;
    let folded = args.folded.as_deref().map(|path| Output::open(Some(path)));
    let folded = folded.transpose().map_err(failed)?;
    let running = running()?;
    let on_progress = |step| match step {
        Step::MayAbort { file, by_unwinding, by_switching } => {
            output::complain(&careful(&file, by_unwinding, by_switching));
        }
        Step::Idle(time) if !args.watch.json => {
            let time = figures::time(time);
            output::complain(&format!("measuring the idle machine for {time}"));
        }
        Step::Idle(_) => {}
        Step::Live(report) => live_table::renew(&report.text()),
    };
    let (stacks, exit_status);
    let mut calls_lost = None;
    if let Some(hz) = args.sample {
        let report = sampled::run(&options, hz, &running, on_progress);
        let report = report.map_err(|error| cannot_watch(&error))?;
        output
            .write_report(&report, args.watch.json, &report.text(), &report.warnings)
            .map_err(failed)?;
        (stacks, exit_status) = (report.folded(), report.exit_status);
    } else {
        let report =
            caliper::run(&options, &running, on_progress).map_err(|error| cannot_watch(&error))?;
        output
            .write_report(&report, args.watch.json, &report.text(), &report.warnings)
            .map_err(failed)?;
        (stacks, exit_status) = (report.folded(), report.exit_status);
        calls_lost = report.events.and_then(|events| events.error);
    }
    if let Some(mut folded) = folded {
        folded.write(stacks.trim_end().to_owned()).map_err(failed)?;
    }
    if let Some(error) = calls_lost {
        return Err(failed(Failure::new(error).hint(
            "the figures are whole. Name a file on a disk with room: some 20 bytes for each call, and \
             as much again while the parts are joined. If FILE.parts is there, it holds the calls up \
             to the last whole minute: `nightwatt record -o FILE --recover` joins them",
        )));
    }
    Ok(like(exit_status))
}

/// What is to be measured, and how.
fn options(args: &Args) -> Result<CaliperOptions, Failure> {
    Ok(CaliperOptions {
        sections: sections(args).map_err(failed)?,
        returns: args.returns.into(),
        markers: args.markers,
        target: match args.pid.as_slice() {
            [] if args.all => Target::Everything,
            [] => Target::Command(args.watch.command.clone()),
            pids => Target::Processes(pids.to_vec()),
        },
        time: args.watch.time,
        idle: args.watch.idle,
        meters: args.watch.meters.chosen(),
        interval: args.watch.interval,
        events: args.events.clone(),
        live: args.live,
    })
}

/// What a run with these options does.
fn would(args: &Args, options: &CaliperOptions) -> Vec<String> {
    let functions = args.function.iter().map(|it| format!("the function {it}"));
    let pairs = args.start.iter().zip(&args.end).map(|(from, to)| format!("from {from} to {to}"));
    let mut watched: Vec<String> = functions.chain(pairs).collect();
    if args.markers {
        watched.push("the sections that the program marks".to_owned());
    }
    if watched.is_empty() {
        watched.push("all functions".to_owned());
    }
    let how = match args.sample {
        Some(hz) => format!("sample each CPU {hz} times per second: "),
        None => "measure ".to_owned(),
    };
    let target = match &options.target {
        Target::Everything => "watch every process until Ctrl-C".to_owned(),
        Target::Processes(pids) => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("watch the processes {}", pids.join(", "))
        }
        Target::Command(words) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            format!("run `{}`", words.join(" "))
        }
    };
    let meters: Vec<&str> = options.meters.iter().map(MeterSpec::name).collect();
    let idle = options
        .idle
        .map(|time| format!("measure the idle machine for {} first", figures::time(time)));
    let meters = format!("read the meters {}", meters.join(", "));
    let time = options.time.map(|time| format!("stop after {}", figures::time(time)));
    let watch = format!("{how}{}", watched.join(", "));
    [idle, Some(target), Some(watch), Some(meters), time].into_iter().flatten().collect()
}

fn sections(args: &Args) -> Result<Vec<SectionSpec>, Failure> {
    if args.start.len() != args.end.len() {
        let (starts, ends) = (args.start.len(), args.end.len());
        return Err(Failure::new(format!("{starts} --start and {ends} --end do not make pairs"))
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

/// The warning about what return probes may do to a program.
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
