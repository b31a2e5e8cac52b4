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
    /// Stop after this time [default: when the command ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// Time between two updates of the table and the log
    #[arg(short = 'I', long, value_name = "TIME", default_value = "1s", value_parser = written::measuring_time)]
    pub(crate) interval: Duration,
    /// Show the table, updated at each interval
    #[arg(long)]
    pub(crate) live: bool,
    /// At the end, write all dirty data to the disks (as `sync` does), and count that too
    #[arg(long)]
    pub(crate) sync: bool,
    /// The kind of a device: `vda=nvme`; kinds are `hdd`, `sata-ssd` and `nvme`
    #[arg(long, value_name = "DEVICE=KIND", value_parser = written::device_class)]
    pub(crate) class: Vec<(String, Class)>,
    /// The energy model of a device, as `calibrate storage -o FILE` wrote it: `sda=disk.json`
    #[arg(long, value_name = "DEVICE=FILE", value_parser = written::device_model)]
    pub(crate) model: Vec<(String, PathBuf)>,
    /// Write a line of JSON for each process and file that was active in an interval
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    /// Write the figures here; `-` for stdout [default: stderr]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// A command to run during the measurement, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

pub(super) const DISK_EXAMPLES: &str = "Examples:
  nightwatt disk --live
  nightwatt disk --for 1h --log writes.jsonl --json -o hour.json
  nightwatt disk --sync -- make -j4
  nightwatt disk --class vda=nvme --for 10m

`disk` watches all processes, whether or not it runs a command. It attributes bytes to the process
that made them dirty, also when the kernel writes them after that process has ended. Needs root, or
CAP_BPF, CAP_PERFMON and, from Linux 6.16 on, CAP_SYS_ADMIN. Exit status: the command's, as for
`nightwatt run`; 125 if nightwatt itself failed.

Docs: docs/disk.md";
