//! `fleet`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_lab::fleet::fit;
use nightwatt_lab::fleet::plan::ServiceText;
use nightwatt_model::queueing::ResponsePoint;

use crate::written;

/// `fleet`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct FleetArgs {
    /// What else to do
    #[command(subcommand)]
    pub(crate) step: Option<FleetStep>,
    #[command(flatten)]
    pub(crate) plan: FleetPlanArgs,
}

/// What can be asked of pools.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetStep {
    /// How many servers of which kind, by which policy, for a log and a response time
    Size(FleetSizeArgs),
    /// What one server can do, from measured response times
    Fit(FleetFitArgs),
    /// The published claims about pools of small servers: ours beside theirs
    Published(FleetPublishedArgs),
}

/// `fleet [PLAN]`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetPlanArgs {
    /// Pools, traffic and policies as a TOML file; or the options below for one kind of server
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["rates", "log", "service_rate", "points", "policies"])]
    pub(crate) file: Option<PathBuf>,
    /// Poisson arrivals a second; several are a run each: `300,600`
    #[arg(long = "rate", value_name = "N", value_delimiter = ',', value_parser = written::factor, conflicts_with = "log")]
    pub(crate) rates: Vec<f64>,
    #[command(flatten)]
    pub(crate) server: FleetServerArgs,
    /// Servers there are
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) servers: u32,
    /// Access log, or counts per second; several are one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) copies: FleetCopiesArgs,
    /// A policy, with all its parameters: predictive, baseline, 'always-on 1..10', 'delayed-off 1s 10s', 'hybrid 2 4 1s', oracle [default: all of them but the oracle, roughly]
    #[arg(long = "policy", value_name = "POLICY")]
    pub(crate) policies: Vec<String>,
    /// Independent repetitions, from which the intervals come [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) replications: Option<u32>,
    /// Requests that each counts [default: 100000, or all of a log]
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Seed of the first repetition: same seed, same result [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Write a report with the charts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write the tables as CSV into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

/// One kind of server and what it has to keep. The defaults are a small board, as published.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetServerArgs {
    /// Requests a second that one server can serve [default: 261.8]
    #[arg(long, value_name = "N", value_parser = written::factor, conflicts_with = "points")]
    pub(crate) service_rate: Option<f64>,
    /// Or measured: a rate and the mean response time at it, as often as wanted: 200=10ms
    #[arg(long = "point", value_name = "RATE=TIME", value_parser = fit::point)]
    pub(crate) points: Vec<ResponsePoint>,
    /// How service times are distributed: deterministic, exponential, 'log-normal 0.5', 'empirical FILE'
    #[arg(long, value_name = "LAW", default_value = "deterministic")]
    pub(crate) service: ServiceText,
    /// Watts when off
    #[arg(long, value_name = "W", default_value_t = 0.0)]
    pub(crate) off: f64,
    /// Watts when on and idle
    #[arg(long, value_name = "W", default_value_t = 1.8)]
    pub(crate) idle: f64,
    /// Watts when serving
    #[arg(long, value_name = "W", default_value_t = 2.2)]
    pub(crate) busy: f64,
    /// Joules of a cycle of off and on
    #[arg(long, value_name = "J", default_value_t = 10.0)]
    pub(crate) switch_j: f64,
    /// Time to start
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = written::duration)]
    pub(crate) switch_on: Duration,
    /// Every request is to be answered within this
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = written::some_time)]
    pub(crate) sla: Duration,
    /// Share of requests that may be refused, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub(crate) refused: f64,
    /// What sparing a server one transition is worth, J
    #[arg(long, value_name = "J", default_value_t = 0.0)]
    pub(crate) transition_price: f64,
    /// Requests that may wait until a server has a place
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) line: u32,
}

/// How a log is made larger and shorter.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetCopiesArgs {
    /// Copies of the log on top of each other, shifted by whole days and up to 30 minutes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) copies: u32,
    /// Only the first so many days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
}

/// `fleet size`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetSizeArgs {
    /// Access logs, or files of counts per second
    #[arg(required = true, value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) copies: FleetCopiesArgs,
    #[command(flatten)]
    pub(crate) server: FleetServerArgs,
    /// Take the kinds of servers and what binds them from this plan; how many it has does not count
    #[arg(long, value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub(crate) plan: Option<PathBuf>,
    /// Take the price of electricity from this scenario
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fleet fit`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetFitArgs {
    /// Points, one a line: requests a second, mean response time
    #[arg(value_name = "FILE", required_unless_present = "points", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// A point, as often as wanted: 200=10ms
    #[arg(long = "point", value_name = "RATE=TIME", value_parser = fit::point)]
    pub(crate) points: Vec<ResponsePoint>,
    /// Also say how many requests a server may have to answer each within this
    #[arg(long, value_name = "TIME", value_parser = written::some_time)]
    pub(crate) sla: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fleet published`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetPublishedArgs {
    /// Requests that each simulation counts (published: 980000)
    #[arg(long, value_name = "N", default_value_t = 980_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub(crate) arrivals: u64,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "Examples:
  nightwatt fleet plan.toml --html report.html
  nightwatt fleet --rate 300,600,900 --servers 10 --policy predictive --policy 'always-on 1..8'
  nightwatt fleet size access.log.gz --sla 50ms --service-rate 20
  nightwatt fleet fit --point 200=10ms --point 100=5.2ms --sla 10ms
  nightwatt fleet published

docs/fleet.md has a plan, says how a pool is simulated and what each policy does.";
