//! `calibrate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_measure::calibrate::sync::LineSpec;
use nightwatt_meters::MeterSpec;

use crate::written;

/// `calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// What to calibrate
    #[command(subcommand)]
    pub(crate) what: Calibrate,
}

/// What can be calibrated.
#[derive(Debug, Subcommand)]
pub(crate) enum Calibrate {
    /// Measure power awake, power asleep and energy of a sleep cycle: from runs, from a recording, or by
    /// putting the machine to sleep and waking it
    States(StatesArgs),
    /// Measure power by CPU utilisation: keeps this machine busy in steps while it reads a meter
    Utilisation {
        /// The meter
        #[arg(short, long, value_name = "METER")]
        meter: MeterSpec,
        /// Channel of the meter [default: the one that covers the machine]
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
        /// Duration of each of 20 loads
        #[arg(long, value_name = "TIME", default_value = "15s", value_parser = written::measuring_time)]
        step: Duration,
        /// Write the model of this machine to this file, for `-m model,fitted=FILE`
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Measure the energy that a disk uses for a write and for each byte: from a recording, or from a table
    Storage(StorageArgs),
    /// Measure the energy that a transition from idle to active costs: keeps this machine busy for periods
    /// of different lengths while it reads a meter, or reads a table
    Wakeups(WakeupsArgs),
    /// Put a DAQ's log on this machine's clock, by a line that both record
    Sync {
        /// The step
        #[command(subcommand)]
        step: Sync,
    },
}

/// `calibrate states`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["table", "log", "drive"]))]
pub(crate) struct StatesArgs {
    /// CSV file of runs, with the columns `on_s,off_s,cycles,joules` (and `joules_sd`); `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// A recording, with the options of the meter `file`: `night.parquet`, `log.csv,mean=1s`
    #[arg(long, value_name = "RECORDING", requires = "times", value_parser = written::recording)]
    pub(crate) log: Option<MeterSpec>,
    /// CSV file with two times per line: of the sleep command, and when the machine was awake again
    #[arg(long, value_name = "FILE", requires = "log", value_hint = ValueHint::FilePath)]
    pub(crate) times: Option<PathBuf>,
    /// Put the machine of this `serve` configuration through sleep cycles. Stop `serve` first
    #[arg(long, value_name = "CONFIG", value_hint = ValueHint::FilePath)]
    pub(crate) drive: Option<PathBuf>,
    /// The site of the server [default: the only one]
    #[arg(long, value_name = "NAME", requires = "drive")]
    pub(crate) site: Option<String>,
    /// The meter of the machine [default: the site's]
    #[arg(short, long, value_name = "METER", requires = "drive")]
    pub(crate) meter: Option<MeterSpec>,
    /// The machine's channel of the meter or the recording [default: the only one, or the one that covers
    /// a machine]
    #[arg(long, value_name = "NAME", conflicts_with = "table")]
    pub(crate) channel: Option<String>,
    /// Number of sleep cycles
    #[arg(short, long, value_name = "N", default_value_t = 8, requires = "drive", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) cycles: u32,
    /// Shortest and longest time awake
    #[arg(long, value_name = "TIME,TIME", default_value = "1m,2m", requires = "drive", value_parser = written::times)]
    pub(crate) on: (Duration, Duration),
    /// Shortest and longest time from the sleep command to the wake command
    #[arg(long, value_name = "TIME,TIME", default_value = "30s,5m", requires = "drive", value_parser = written::times)]
    pub(crate) off: (Duration, Duration),
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `calibrate storage`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("writes_from").required(true).args(["table", "log"]))]
pub(crate) struct StorageArgs {
    /// CSV file of writes, with the columns `bytes,joules`, without the idle disk's energy; `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// A recording, with the options of the meter `file`: `disk.parquet`, `log.csv,mean=100ms`
    #[arg(long, value_name = "RECORDING", requires = "writes", value_parser = written::recording)]
    pub(crate) log: Option<MeterSpec>,
    /// CSV file of writes, with two columns: the time at which a write was issued, and its bytes
    #[arg(long, value_name = "FILE", requires = "log", value_hint = ValueHint::FilePath)]
    pub(crate) writes: Option<PathBuf>,
    /// The channel of the recording [default: the only one]
    #[arg(long, value_name = "NAME", requires = "log")]
    pub(crate) channel: Option<String>,
    /// Period before a write from which the idle power is computed
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "log", value_parser = written::measuring_time)]
    pub(crate) baseline: Duration,
    /// A write has ended when power has been down for this time
    #[arg(long, value_name = "TIME", default_value = "3s", requires = "log", value_parser = written::measuring_time)]
    pub(crate) quiet: Duration,
    /// Longest time from the issue of a write until power rises
    #[arg(long, value_name = "TIME", default_value = "1m", requires = "log", value_parser = written::measuring_time)]
    pub(crate) patience: Duration,
    /// Write the model of this disk to this file, for `disk --model DEVICE=FILE`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `calibrate wakeups`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("wakeups_from").required(true).args(["table", "meter"]))]
pub(crate) struct WakeupsArgs {
    /// CSV file of loads, with the columns `watts,busy,wakeups_per_s`; `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// The meter of this machine
    #[arg(short, long, value_name = "METER")]
    pub(crate) meter: Option<MeterSpec>,
    /// Channel of the meter [default: the one that covers the machine]
    #[arg(long, value_name = "NAME", requires = "meter")]
    pub(crate) channel: Option<String>,
    /// Duration of each of 16 loads
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = written::measuring_time)]
    pub(crate) step: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The two steps of `calibrate sync`.
#[derive(Debug, Subcommand)]
pub(crate) enum Sync {
    /// Toggle a line that the DAQ records, and write a time stamp for each toggle
    Generate {
        /// The line: `rts=PORT`, `dtr=PORT`, `break=PORT` or `bytes=PORT` of a serial port,
        /// `gpio=CHIP:OFFSET` or `gpio=NAME`
        #[arg(short, long, value_name = "LINE")]
        line: LineSpec,
        /// Stop after this time [default: at Ctrl-C or SIGTERM]
        #[arg(long = "for", value_name = "TIME", value_parser = written::measuring_time)]
        time: Option<Duration>,
        /// Write the time stamps to this new CSV file
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
        /// Print a summary as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Compute when each sample of the DAQ was taken
    Align(AlignArgs),
}

/// `calibrate sync align`.
#[derive(Debug, clap::Args)]
pub(crate) struct AlignArgs {
    /// The DAQ's log: columns of text, plain or gzipped
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) log: PathBuf,
    /// The time stamps that `generate` wrote
    #[arg(value_name = "STAMPS", value_hint = ValueHint::FilePath)]
    pub(crate) stamps: PathBuf,
    /// The log's column of the line: its name, or its number from 0
    #[arg(short, long, value_name = "COLUMN", default_value = "Sync")]
    pub(crate) channel: String,
    /// Samples per second [default: from LOG's `_meta.csv`]
    #[arg(short, long, value_name = "HZ", value_parser = written::factor)]
    pub(crate) rate: Option<f64>,
    /// Low and high level of the line, in the unit of its column [default: found in the log]
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true, value_parser = written::levels)]
    pub(crate) levels: Option<(f64, f64)>,
    /// Write the log as CSV, with the time of each sample
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write the drift of each interval between two toggles as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) intervals: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const CALIBRATE_EXAMPLES: &str = "Examples:
  nightwatt calibrate states runs.csv
  nightwatt calibrate states --log night.parquet --times sleeps.csv
  nightwatt calibrate states --drive /etc/nightwatt.toml -m shelly=http://10.0.0.9
  nightwatt calibrate utilisation -m shelly=http://10.0.0.9 -o this-machine.json
  nightwatt run -m model,fitted=this-machine.json -- make
  nightwatt calibrate wakeups -m shelly=http://10.0.0.9
  nightwatt calibrate sync generate --line rts=/dev/ttyS0 --for 10m -o stamps.csv
  nightwatt calibrate sync align daq.txt stamps.csv --rate 10000 -o daq-with-times.csv

`states` fits E = P_on x on_s + P_off x off_s + E_switch x cycles by least squares. `off_s` counts
from the sleep command until the wake command has been answered. Sleeps of different lengths are
needed to separate P_off from E_switch.

Docs: docs/calibrate.md";
