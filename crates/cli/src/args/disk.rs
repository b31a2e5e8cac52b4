//! `disk`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_model::storage::Class;

use crate::written;

/// `disk`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiskArgs {
    /// Stop after so long [default: when the command ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// Time between two looks at what was done
    #[arg(short = 'I', long, value_name = "TIME", default_value = "1s", value_parser = written::measuring_time)]
    pub(crate) interval: Duration,
    /// Show the table at each look
    #[arg(long)]
    pub(crate) live: bool,
    /// At the end have everything written that is dirty (as `sync` does), and count that too
    #[arg(long)]
    pub(crate) sync: bool,
    /// What kind of device one is: `vda=nvme`; kinds: `hdd`, `sata-ssd`, `nvme`
    #[arg(long, value_name = "DEVICE=KIND", value_parser = written::device_class)]
    pub(crate) class: Vec<(String, Class)>,
    /// What a device takes, as `calibrate storage -o FILE` has found: `sda=disk.json`
    #[arg(long, value_name = "DEVICE=FILE", value_parser = written::device_model)]
    pub(crate) model: Vec<(String, PathBuf)>,
    /// Write a line of JSON for each process and file that did something between two looks
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    /// Where the figures go; `-`: stdout [default: stderr]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// A command to run meanwhile, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

pub(super) const DISK_EXAMPLES: &str = "Examples:
  nightwatt disk --live
  nightwatt disk --for 1h --log writes.jsonl --json -o hour.json
  nightwatt disk --sync -- make -j4
  nightwatt disk --class vda=nvme --for 10m

All processes are watched, whether or not a command is run. Bytes go to whoever made them dirty, also
when the kernel writes them after that process has gone. Needs root, or CAP_BPF, CAP_PERFMON and, from
Linux 6.16 on, CAP_SYS_ADMIN. Exit status: the command's, as `nightwatt run` has it; 125 if nightwatt
itself failed.";
