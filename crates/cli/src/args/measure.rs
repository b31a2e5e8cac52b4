//! What measures: `meters`, `run`, `record`, `export`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_measure::export::otlp::Endpoint;
use nightwatt_meters::MeterSpec;

use super::LogArgs;
use crate::written;

/// Which meters.
#[derive(Debug, clap::Args)]
pub(crate) struct MeterArgs {
    /// A meter: `rapl`, `shelly=http://10.0.0.9`; several if given several times [default: those
    /// that this machine has, else a model of it]
    #[arg(short, long = "meter", value_name = "METER")]
    pub(crate) meters: Vec<MeterSpec>,
}

/// `meters`.
#[derive(Debug, clap::Args)]
pub(crate) struct MetersArgs {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Compare this meter with the one behind `--against`, on the same load: error, scale, offset,
    /// lag, noise. Two recordings (`file=...`) are read as fast as can be
    #[arg(long, value_name = "METER", requires = "against", conflicts_with_all = ["meters", "spectrum"])]
    pub(crate) check: Option<MeterSpec>,
    /// The meter that is believed
    #[arg(long, value_name = "METER", requires = "check")]
    pub(crate) against: Option<MeterSpec>,
    /// Show how fast this meter's power changes (its power spectrum), and how often it is worth
    /// reading
    #[arg(long, value_name = "METER", conflicts_with = "meters")]
    pub(crate) spectrum: Option<MeterSpec>,
    /// Channel of the meter [default: the only one, or the one that covers the machine]
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Channel of the meter behind `--against`
    #[arg(long, value_name = "NAME", requires = "against")]
    pub(crate) against_channel: Option<String>,
    /// Read for this long
    #[arg(long = "for", value_name = "TIME", default_value = "1m", value_parser = written::measuring_time)]
    pub(crate) time: Duration,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Look for a lag up to this, either way
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "check", value_parser = written::measuring_time)]
    pub(crate) longest_lag: Duration,
    /// Separate frequencies that differ by this many Hz [default: what the readings allow]
    #[arg(long, value_name = "HZ", requires = "spectrum", value_parser = written::factor)]
    pub(crate) resolution: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const METERS_EXAMPLES: &str = "Examples:
  nightwatt meters                                   # what is here, what is missing, and why
  nightwatt meters -m shelly=http://10.0.0.9         # does this one answer, and what does it say?
  nightwatt meters --check rapl --against shelly=http://10.0.0.9 --for 10m
  nightwatt meters --check file=a.parquet --against file=b.csv
  nightwatt meters --spectrum iio=ina226,rate=1000 --for 30s
  nightwatt meters --spectrum file=daq.csv.gz,sense=cpu:0:0.0025:100:4

While two meters are checked, the load should change, from idle to full: a steady one says nothing of
scale, offset and lag.";

/// `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Run the command N times, and print the mean with its 95 % interval
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Run it N times before that, unmeasured
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warm_up: u32,
    /// Measure the idle machine first for this long, and print what the command uses beyond it
    #[arg(long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) idle: Option<Duration>,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Write the figures into this file instead of to stderr; `-` for stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write the figures as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

pub(super) const RUN_EXAMPLES: &str = "Examples:
  nightwatt run -- sleep 1
  nightwatt run -r 5 --idle 10s -- make -j2
  nightwatt run -m shelly=http://10.0.0.9 -- ./backup.sh
  nightwatt run --json -o energy.json -r 10 -- gzip -k big.tar

The command's own output is left alone: figures go to stderr, or where `-o` says. Exit status: the
command's (128 + N if signal N ended it), of the first run that failed; 125 if nightwatt itself failed,
126 and 127 if the command cannot be started or found.";

/// `record`.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Where to; the name says how: `.parquet`, `.csv` or `.jsonl`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// For how long [default: until Ctrl-C or SIGTERM]
    #[arg(long = "for", value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// The meter that the others are compared with as it goes: `plug`, `rapl/psys` [default: of those
    /// that cover the machine, the one that states the best accuracy]
    #[arg(long, value_name = "METER")]
    pub(crate) reference: Option<String>,
    /// Parquet: what is older than this and a second survives a SIGKILL or a power failure
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = written::measuring_time)]
    pub(crate) part: Duration,
    /// Join the parts that a killed recorder has left of FILE, and record nothing
    #[arg(long, conflicts_with_all = ["time", "interval", "meters", "reference"])]
    pub(crate) recover: bool,
    /// Print what was recorded as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const RECORD_EXAMPLES: &str = "Examples:
  nightwatt record -o night.parquet --for 8h
  nightwatt record -o fast.parquet -I 1ms -m rapl          # a thousand readings a second
  nightwatt record -o plug.csv -m shelly=http://10.0.0.9
  nightwatt record -o night.parquet --recover              # after a power failure

  duckdb -c \"select channel, sum(joules), sum(covers_s) from 'night.parquet' group by channel\"";

/// `export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Where Prometheus finds the figures, under `/metrics`
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:9836")]
    pub(crate) listen: SocketAddr,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = written::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Tell the energy of so many processes too, by name: the machine's by share of CPU time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) processes: usize,
    /// Send the figures to a collector of OpenTelemetry as well
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<Endpoint>,
    /// How often
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = written::measuring_time, requires = "otlp")]
    pub(crate) otlp_every: Duration,
    /// Print the address as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

pub(super) const EXPORT_EXAMPLES: &str = "Examples:
  nightwatt export
  nightwatt export -l 0.0.0.0:9836 -m rapl -m shelly=http://10.0.0.9
  nightwatt export --processes 20                      # who uses how much of it
  nightwatt export --otlp http://127.0.0.1:4318 --otlp-every 15s
  curl -s http://127.0.0.1:9836/metrics

docs/examples/grafana-power.json is a dashboard for it. SIGTERM or SIGINT stops it.";
