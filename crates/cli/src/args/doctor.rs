//! Arguments of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_model::duration_text;

/// `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Look at the servers of this configuration, from here; without it, at this machine
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Put a server to sleep and wake it so many times (once, if no number is given), and time that
    #[arg(long, value_name = "TIMES", requires = "config", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) cycle: Option<u32>,
    /// Only this one, by the name of its site or machine
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) site: Option<String>,
    /// How long it sleeps each time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_text::parse, requires = "cycle")]
    pub(crate) rest: Duration,
    /// No sleep and no wake-up takes longer
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration_text::parse, requires = "cycle")]
    pub(crate) patience: Duration,
    /// What this kernel lets `caliper` and `disk` do (eBPF), tried one by one
    #[arg(long, conflicts_with = "config")]
    pub(crate) probes: bool,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  sudo nightwatt doctor                               on the machine that is to sleep
  nightwatt doctor -c /etc/nightwatt.toml             on the proxy: every server, asked once
  sudo nightwatt doctor --probes                      which eBPF probes this kernel takes
  nightwatt doctor -c /etc/nightwatt.toml --cycle 5   sleep and wake five times, and how long each takes

No machine is changed, but for `--cycle`, which needs the gateway stopped. Exits with 1 if something is bad.";
