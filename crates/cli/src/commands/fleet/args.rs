//! Arguments of `nightwatt fleet`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_policy::queueing::ResponsePoint;
use nightwatt_savings::fleet::fit;
use nightwatt_savings::fleet::plan::{PolicyList, ServiceText};

use crate::args::ReadingArgs;
use crate::values;

/// Simulate pools of servers that are switched on and off by a policy
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// What else to do
    #[command(subcommand)]
    pub(crate) step: Option<FleetStep>,
    #[command(flatten)]
    pub(crate) plan: FleetPlanArgs,
}

const EXAMPLES: &str = "Examples:
  nightwatt fleet plan.toml --html report.html
  nightwatt fleet --rate 300,600,900 --servers 10 --policy 'always-on 1..8'
  nightwatt fleet size access.log.gz --answer-within 50ms --service-rate 20
  nightwatt fleet fit --point 200=10ms --point 100=5.2ms --answer-within 10ms
  nightwatt fleet published

docs/fleet.md has a plan, says how a pool is simulated and what each policy does.";

/// What can be asked of pools.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetStep {
    /// How many servers of which kind, by which policy, for a log and a response time
    Size(Box<FleetSizeArgs>),
    /// What one server can do, from measured response times
    Fit(FleetFitArgs),
    /// The published claims about pools of small servers: ours beside theirs
    Published(FleetPublishedArgs),
}

/// `fleet [PLAN]`.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetPlanArgs {
    /// Pools, traffic and policies as a TOML file; or the options below for one kind of server
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Poisson arrivals a second; several are a run each: `300,600`
    #[arg(long = "rate", value_name = "N", value_delimiter = ',', value_parser = values::factor, conflicts_with = "log")]
    pub(crate) rates: Vec<f64>,
    #[command(flatten)]
    pub(crate) server: FleetServerArgs,
    /// Servers there are [default: 20]
    #[arg(long, value_name = "N")]
    pub(crate) servers: Option<u32>,
    /// Access log, or counts per second; several are one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) copies: FleetCopiesArgs,
    #[arg(long = "policy", value_name = "POLICY", help = policy_help())]
    pub(crate) policies: Vec<String>,
    /// Independent repetitions, from which the intervals come [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) replications: Option<u32>,
    /// Requests that each counts; of a log all do [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
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
    #[arg(long, value_name = "N", value_parser = values::factor, conflicts_with = "points")]
    pub(crate) service_rate: Option<f64>,
    /// Or measured: a rate and the mean response time at it, as often as wanted: 200=10ms
    #[arg(long = "point", value_name = "RATE=TIME", value_parser = fit::point)]
    pub(crate) points: Vec<ResponsePoint>,
    #[arg(long, value_name = "LAW", help = service_help())]
    pub(crate) service: Option<ServiceText>,
    /// Watts when off [default: 0]
    #[arg(long, value_name = "W")]
    pub(crate) off: Option<f64>,
    /// Watts when on and idle [default: 1.8]
    #[arg(long, value_name = "W")]
    pub(crate) idle: Option<f64>,
    /// Watts when serving [default: 2.2]
    #[arg(long, value_name = "W")]
    pub(crate) busy: Option<f64>,
    /// Joules of a cycle of off and on [default: 10]
    #[arg(long, value_name = "J")]
    pub(crate) switch_j: Option<f64>,
    /// Time to start [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) switch_on: Option<Duration>,
    /// Every request is to be answered within this [default: 10ms]
    #[arg(long = "answer-within", value_name = "TIME", value_parser = values::some_time)]
    pub(crate) sla: Option<Duration>,
    /// Share of requests that may be refused, 0 to 1 [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    pub(crate) refused: Option<f64>,
    /// What sparing a server one transition is worth, J [default: 0]
    #[arg(long, value_name = "J")]
    pub(crate) transition_price: Option<f64>,
    /// Requests that may wait until a server has a place [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) line: Option<u32>,
}

fn policy_help() -> String {
    let examples = values::as_words(PolicyList::EXAMPLES);
    format!(
        "A policy, with all its parameters: {examples} [default: all of them but the oracle, roughly]"
    )
}

fn service_help() -> String {
    let [usual, ..] = ServiceText::EXAMPLES;
    let examples = values::as_words(ServiceText::EXAMPLES);
    format!("How service times are distributed: {examples} [default: {usual}]")
}

/// Which of some options were given.
fn named<const N: usize>(options: [(&'static str, bool); N]) -> Vec<&'static str> {
    options.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

impl FleetPlanArgs {
    /// The options for a pool without a plan that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let own = named([
            ("--rate", !self.rates.is_empty()),
            ("--log", !self.log.is_empty()),
            ("--servers", self.servers.is_some()),
            ("--policy", !self.policies.is_empty()),
        ]);
        [own, self.server.given(), self.copies.given()].concat()
    }
}

impl FleetServerArgs {
    /// Those that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        named([
            ("--service-rate", self.service_rate.is_some()),
            ("--point", !self.points.is_empty()),
            ("--service", self.service.is_some()),
            ("--off", self.off.is_some()),
            ("--idle", self.idle.is_some()),
            ("--busy", self.busy.is_some()),
            ("--switch-j", self.switch_j.is_some()),
            ("--switch-on", self.switch_on.is_some()),
            ("--answer-within", self.sla.is_some()),
            ("--refused", self.refused.is_some()),
            ("--transition-price", self.transition_price.is_some()),
            ("--line", self.line.is_some()),
        ])
    }
}

impl FleetCopiesArgs {
    /// Those that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let copies = [("--copies", self.copies.is_some()), ("--days", self.days.is_some())];
        let reading = self.reading.given();
        named(copies).into_iter().chain(reading).collect()
    }
}

/// How a log is made larger and shorter.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetCopiesArgs {
    /// Copies of the log on top of each other, shifted by whole days and up to 30 minutes [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) copies: Option<u32>,
    /// Only the first N days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
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
    /// Or from this configuration [default: nightwatt.toml, else /etc/nightwatt/nightwatt.toml, if there is one]
    #[arg(short, long, value_name = "FILE", conflicts_with = "scenario", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
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
    #[arg(long = "answer-within", value_name = "TIME", value_parser = values::some_time)]
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
