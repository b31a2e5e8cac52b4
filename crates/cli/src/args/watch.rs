//! How long a program is watched, with which meters, and where the figures go.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;

use super::MeterArgs;
use crate::values;

/// What commands that watch a program have in common.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// Stop after this time; a command is ended then
    #[arg(long = "for", value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// Measure the idle machine for this time first, and report its energy separately
    #[arg(long, value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) idle: Option<Duration>,
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Time between two readings [default: as suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Write the figures here; `-` for stdout [default: stderr]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}
