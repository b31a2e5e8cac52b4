//! `caliper`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_profile::caliper::Returns;

use super::MeterArgs;
use crate::written;

/// How returns of functions are detected.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum ReturnsArg {
    /// By return probes; for Go, at instructions
    #[default]
    Auto,
    /// At the instructions at which functions return; each of them costs the program some 20 us
    Instructions,
}

impl From<ReturnsArg> for Returns {
    fn from(argument: ReturnsArg) -> Self {
        match argument {
            ReturnsArg::Auto => Self::Auto,
            ReturnsArg::Instructions => Self::Instructions,
        }
    }
}

/// `caliper`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("section").required(true).multiple(true).args(["function", "start", "markers", "sample"])))]
#[command(group(clap::ArgGroup::new("target").required(true).args(["pid", "command"])))]
pub(crate) struct CaliperArgs {
    /// A function, from its entry to its return: `./prog:work`, `prog:ns::work`, `libc.so.6:qsort`.
    /// `*` matches anything, and each matching function is a section of its own
    #[arg(short, long, value_name = "PROGRAM:FUNCTION")]
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
    /// Watch a running process, and what it starts from now on [until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// Measure the idle machine for this time first, and report its energy separately
    #[arg(long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) idle: Option<Duration>,
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Time between two readings [default: as suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Write every call as Parquet: section, thread, begin, length, CPU time, joules. The file must not
    /// exist yet
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) events: Option<PathBuf>,
    /// Show the table of sections, updated each second
    #[arg(long)]
    pub(crate) live: bool,
    /// Write the figures here; `-` for stdout [default: stderr]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write stacks of sections with their energy in uJ, for flame graphs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) folded: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

pub(super) const CALIPER_EXAMPLES: &str = "Examples:
  nightwatt caliper --function ./prog:work -- ./prog
  nightwatt caliper -f './prog:ns::*' --idle 5s -- ./prog --fast
  nightwatt caliper --start ./prog:begin --end ./prog:done -p 4711 --for 1m
  nightwatt caliper -f ./prog:work --live -p 4711
  nightwatt caliper -f ./prog:work --events calls.parquet -- ./prog
  nightwatt caliper --markers -- ./prog
  nightwatt caliper -f './prog:*' --folded prog.folded -- ./prog && flamegraph.pl prog.folded
  nightwatt caliper -f './server:main.(*Cache).Get' -p 4711
  nightwatt caliper --sample -- ./prog
  nightwatt caliper --sample=1999 -f ./prog:work -- ./prog
  nightwatt caliper -f libz.so.1:deflate --json -o energy.json -- gzip -k big.tar

Do not use -f alone for a function that an exception or a panic may leave: the program would abort.
--returns instructions is safe, and Go programs always use it.

Needs root, or CAP_BPF, CAP_PERFMON and, from Linux 6.16 on, CAP_SYS_ADMIN. A call costs the program
about a microsecond, and some 20 more if the kernel has to single-step the first instruction of the
function: the report names such functions. Exit status: the command's, as for `nightwatt run`; 125
if nightwatt itself failed.

Docs: docs/caliper.md";
