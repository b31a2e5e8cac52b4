//! Arguments of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_model::duration_text;

/// `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Check the servers of this configuration from here [default: check this machine]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Put a server to sleep and wake it this many times, and measure how long both need [without a number: once]
    #[arg(long, value_name = "TIMES", requires = "config", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) cycle: Option<u32>,
    /// Check only the server of this site or machine
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) site: Option<String>,
    /// Time asleep in each cycle
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_text::parse, requires = "cycle")]
    pub(crate) rest: Duration,
    /// Longest time allowed for falling asleep and for waking
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration_text::parse, requires = "cycle")]
    pub(crate) patience: Duration,
    /// Try each kind of eBPF probe that `caliper` and `disk` need
    #[arg(long, conflicts_with = "config")]
    pub(crate) probes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  sudo nightwatt doctor                               on the machine that should sleep
  nightwatt doctor -c /etc/nightwatt.toml             on the proxy: check every server once
  sudo nightwatt doctor --probes                      which eBPF probes this kernel supports
  nightwatt doctor -c /etc/nightwatt.toml --cycle 5   sleep and wake five times, and time it

Only `--cycle` changes a machine; stop the gateway before. Exit status: 1 if something is bad.";
