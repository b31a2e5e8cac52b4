//! `tcp where`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;

use super::MeterArgs;
use crate::written;

/// `tcp where`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("until").required(true).multiple(true).args(["time", "command"])))]
pub(crate) struct TcpWhereArgs {
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

pub(super) const EXAMPLES: &str = "\
Examples:
  nightwatt tcp where -- iperf3 -c server.lan
  nightwatt tcp where --for 10s -p 4711
  nightwatt tcp where --idle 5s --folded tcp.folded -- curl -so /dev/null http://server.lan/big
  nightwatt tcp where --for 1m --json -o where.json

Needs root, or CAP_PERFMON and CAP_SYSLOG.

Docs: docs/tcp-where.md";
