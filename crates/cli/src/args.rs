//! The command line.

mod agent;
mod calibrate;
#[cfg(feature = "bpf")]
mod caliper;
mod client;
mod compare;
#[cfg(feature = "bpf")]
mod disk;
mod doctor;
mod fleet;
mod init;
mod install;
mod load;
mod measure;
pub(crate) mod meters;
mod mining;
mod purge;
mod reading;
mod replay;
mod reproduce;
mod scenario;
mod tcp;
mod tcp_helps;
mod tcp_lab;
#[cfg(feature = "bpf")]
mod tcp_where;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use nightwatt_model::duration_text;
use nightwatt_model::policy::sleep::PolicyChoice;

use crate::written;

pub(crate) use agent::{AgentArgs, AgentConfigArgs, AgentOrder, AgentStep, AnnounceWhat, AskArgs};
pub(crate) use calibrate::{
    AlignArgs, Calibrate, CalibrateArgs, StatesArgs, StorageArgs, Sync, WakeupsArgs,
};
#[cfg(feature = "bpf")]
pub(crate) use caliper::CaliperArgs;
pub(crate) use client::ClientArgs;
pub(crate) use compare::{CompareArgs, ReportArgs};
#[cfg(feature = "bpf")]
pub(crate) use disk::DiskArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use fleet::{
    FleetArgs, FleetCopiesArgs, FleetFitArgs, FleetPlanArgs, FleetPublishedArgs, FleetServerArgs,
    FleetSizeArgs, FleetStep,
};
pub(crate) use init::{InitArgs, KindChoice, PowerChoice};
pub(crate) use install::{CompletionsArgs, ManArgs};
pub(crate) use load::{ArrivalKind, LoadArgs};
pub(crate) use measure::{ExportArgs, MeterArgs, MetersArgs, RecordArgs, RunArgs};
pub(crate) use mining::MiningArgs;
pub(crate) use purge::{PurgeArgs, ReloadArgs};
pub(crate) use reading::ReadingArgs;
pub(crate) use replay::{OriginArgs, ReplayArgs};
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use scenario::ScenarioArgs;
pub(crate) use tcp::{CaptureAt, TcpArgs, TcpCheckArgs, TcpFetchArgs, TcpServeArgs, TcpStep};
pub(crate) use tcp_helps::TcpHelpsArgs;
pub(crate) use tcp_lab::{TcpLabArgs, TcpLabStep, TcpLinkArgs, TcpLinkStep, TcpRunsArgs};
#[cfg(feature = "bpf")]
pub(crate) use tcp_where::TcpWhereArgs;

/// Measures the energy that a network service uses, models what it could do without, and saves it by
/// letting servers sleep behind a caching proxy that keeps the service up.
#[derive(Debug, Parser)]
#[command(name = "nightwatt", version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done. `help::GROUPS` says in which group each is listed.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the meters of this machine, their readings, and the meters it could have
    #[command(after_help = measure::METERS_EXAMPLES)]
    Meters(MetersArgs),
    /// Measure how much energy a command uses
    #[command(after_help = measure::RUN_EXAMPLES)]
    Run(RunArgs),
    /// Measure how much energy functions and sections of a program use
    #[cfg(feature = "bpf")]
    #[command(after_help = caliper::CALIPER_EXAMPLES)]
    Caliper(CaliperArgs),
    /// Count the bytes that each process writes to each disk, and their energy
    #[cfg(feature = "bpf")]
    #[command(after_help = disk::DISK_EXAMPLES)]
    Disk(DiskArgs),
    /// Record the readings of meters
    #[command(after_help = measure::RECORD_EXAMPLES)]
    Record(RecordArgs),
    /// Serve the readings of meters to Prometheus and OpenTelemetry
    #[command(after_help = measure::EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Measure what this machine draws awake, asleep and under load
    #[command(after_help = calibrate::CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Write a first configuration, after six questions
    #[command(after_help = init::EXAMPLES)]
    Init(InitArgs),
    /// Serve sites and let their servers sleep
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Run on the server: suspend it when its proxy asks and nothing needs it
    #[command(after_help = agent::AGENT_EXAMPLES)]
    Agent(AgentArgs),
    /// Show the state of a running gateway, and what it has saved
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Wake a server now
    #[command(after_help = WAKE_EXAMPLES)]
    Wake(SiteArgs),
    /// Put a server to sleep as soon as nothing is under way
    #[command(after_help = SLEEP_EXAMPLES)]
    Sleep(SiteArgs),
    /// Keep a server awake for a while
    #[command(after_help = STAY_AWAKE_EXAMPLES)]
    StayAwake(StayAwakeArgs),
    /// Remove answers from the cache of a running gateway
    #[command(after_help = purge::PURGE_EXAMPLES)]
    Purge(PurgeArgs),
    /// Show the class of a client, and why it has that class
    #[command(after_help = client::WHY_EXAMPLES)]
    Why(ClientArgs),
    /// Forget why a client is refused
    #[command(after_help = client::FORGIVE_EXAMPLES)]
    Forgive(ClientArgs),
    /// Make a running gateway reload its configuration
    #[command(after_help = purge::RELOAD_EXAMPLES)]
    Reload(ReloadArgs),
    /// Compute from a log what sleep would save, and which requests it would delay
    #[command(after_help = ANALYZE_EXAMPLES)]
    Analyze(AnalyzeArgs),
    /// Run the published comparison of five configurations over a log
    #[command(after_help = PUBLISHED_EXAMPLES)]
    Published(PublishedArgs),
    /// Simulate pools of servers that are switched on and off by a policy
    #[command(after_help = fleet::EXAMPLES)]
    Fleet(Box<FleetArgs>),
    /// Compute energy, cost and income of proof-of-work mining
    #[command(after_help = mining::EXAMPLES)]
    Mining(Box<MiningArgs>),
    /// Run the same work in several environments, and compare its energy
    #[command(after_help = compare::COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Show what `compare` has measured
    #[command(after_help = compare::REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Check the claims of five published works against results from here
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(ReproduceArgs),
    /// Watch a day of traffic meet a server that sleeps, and see what that saves
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArgs),
    /// Send the requests of a log to a server, at the times of the log
    #[command(after_help = replay::REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Generate load: Poisson, constant, bursty, daily, or from a trace
    #[command(after_help = load::EXAMPLES)]
    Load(LoadArgs),
    /// Measure TCP connections: lifetime, CPU time, wake-ups, energy
    #[command(after_help = tcp::EXAMPLES)]
    Tcp(TcpArgs),
    /// Answer replayed requests as the server of the log did
    #[command(after_help = replay::ORIGIN_EXAMPLES)]
    Origin(OriginArgs),
    /// Check a configuration and explain it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Find what keeps a machine from sleeping or from waking
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Print the completions of a shell
    #[command(after_help = install::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them
    #[command(after_help = install::MAN_EXAMPLES)]
    Man(ManArgs),
}

/// Where the configuration is.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The configuration [default: nightwatt.toml, else /etc/nightwatt/nightwatt.toml]
    #[arg(short, long, value_name = "FILE", default_value_os_t = default_config(), hide_default_value = true, value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,
}

/// The configuration in this folder, or else the one that the packages install.
fn default_config() -> PathBuf {
    let (here, installed) =
        (PathBuf::from("nightwatt.toml"), PathBuf::from("/etc/nightwatt/nightwatt.toml"));
    if !here.exists() && installed.exists() { installed } else { here }
}

/// How to log.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// How the log on stderr is written: text or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace [default: `RUST_LOG`, or info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Shadow mode: leave servers alone, and report at the end what sleeping would have saved
    #[arg(long)]
    pub(crate) observe: bool,
    /// Take the place of the gateway that runs with this configuration, without a lost connection; if none
    /// runs, just start
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Print what is printed as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

const SERVE_EXAMPLES: &str = r#"Examples:
  nightwatt serve -c nightwatt.toml
  nightwatt serve -c nightwatt.toml --observe        # see first what it would do
  nightwatt serve -c nightwatt.toml --log-format json
  nightwatt serve -c nightwatt.toml --replace        # a new release takes over

A small configuration:
  listen = ["0.0.0.0:8080"]
  state_dir = "/var/lib/nightwatt"

  [[site]]
  name = "blog"
  origin = "http://10.0.0.5:80"

  [site.power.command]
  wake = "wakeonlan 00:11:22:33:44:55"
  sleep = "ssh root@10.0.0.5 systemctl suspend"

SIGTERM or SIGINT stops it in good order; a second one stops it at once."#;

/// `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const CHECK_EXAMPLES: &str = "Examples:
  nightwatt check -c nightwatt.toml
  nightwatt check -c nightwatt.toml && systemctl restart nightwatt

Exit status: 0 if it can be used, 2 if not.";

/// How a running gateway is found.
#[derive(Debug, clap::Args)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// The gateway's control socket, instead of the one that the configuration names
    #[arg(long, value_name = "PATH", conflicts_with = "config", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Name of the site [default: all]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

const STATUS_EXAMPLES: &str = "Examples:
  nightwatt status -c nightwatt.toml
  nightwatt status blog --socket /var/lib/nightwatt/control.sock
  nightwatt status --json | jq '.sites[] | {name, state, saving: .ledger.saving}'";

/// `wake` and `sleep`.
#[derive(Debug, clap::Args)]
pub(crate) struct SiteArgs {
    /// Name of the site; can be left out if there is only one
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

const WAKE_EXAMPLES: &str = "Examples:
  nightwatt wake -c nightwatt.toml
  nightwatt wake blog -c nightwatt.toml        # before a visit that is known to come

It then sleeps again when its policy says so; `stay-awake` keeps it awake.";

const SLEEP_EXAMPLES: &str = "Examples:
  nightwatt sleep -c nightwatt.toml
  nightwatt sleep blog -c nightwatt.toml

Running exchanges end first. The next request that deserves it wakes the server again.";

/// `stay-awake`.
#[derive(Debug, clap::Args)]
pub(crate) struct StayAwakeArgs {
    /// Name of the site; can be left out if there is only one
    pub(crate) site: Option<String>,
    /// For how long
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = written::some_time)]
    pub(crate) time: Duration,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

const STAY_AWAKE_EXAMPLES: &str = "Examples:
  nightwatt stay-awake --for 2h -c nightwatt.toml
  nightwatt stay-awake blog --for 30m -c nightwatt.toml        # while it is maintained

`nightwatt sleep` ends it early.";

/// `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Seed of the generated traffic: same seed, same day
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Days of traffic [default: 1, or all of the log]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    /// A real log (Common or Combined, plain or gzip) instead of generated traffic
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Let a day take a day, instead of jumping over the time in which nothing happens
    #[arg(long)]
    pub(crate) real_time: bool,
    /// Show the dashboard at this address, until Ctrl-C
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9180", conflicts_with = "json")]
    pub(crate) dashboard: Option<SocketAddr>,
    /// Open the dashboard in a browser; without `--dashboard`, on a free port
    #[arg(long, conflicts_with = "json")]
    pub(crate) open: bool,
    /// With a dashboard: how long the day takes to watch; 0: as long as it has to
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration_text::parse)]
    pub(crate) day_in: Duration,
    /// Keep logs, ledger and records here
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

const DEMO_EXAMPLES: &str = "Examples:
  nightwatt demo
  nightwatt demo --open
  nightwatt demo --dashboard 127.0.0.1:9180 --days 30 --day-in 0
  nightwatt demo --policy 'timeout 5s' --no-sla
  nightwatt demo --log access.log.gz --days 7
  nightwatt demo --json | jq '{requests, wakeups, saving}'

Exit status: 1 also if a request was lost or answered twice.";

/// `analyze`.
#[derive(Debug, clap::Args)]
pub(crate) struct AnalyzeArgs {
    /// Access logs, in any order, plain or packed; `-` for stdin
    #[arg(required = true, value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Only the first so many days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Write a report for people: one page with charts that loads nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write every table as CSV into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Show clients' addresses and queries of URLs as they are [default: labels, and no queries]
    #[arg(long)]
    pub(crate) show_addresses: bool,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

const ANALYZE_EXAMPLES: &str = "Examples:
  nightwatt analyze /var/log/nginx/access.log*
  nightwatt analyze access.log.gz --html report.html --csv tables
  nightwatt analyze --policy 'timeout 5m' --no-sla access.log.gz
  ssh web zcat /var/log/nginx/access.log.2.gz | nightwatt analyze -
  nightwatt analyze --json access.log | jq '{saving: .policies.learned.saving, costs}'";

/// `published`.
#[derive(Debug, clap::Args)]
pub(crate) struct PublishedArgs {
    /// Access logs, in any order, plain or packed; `-` for stdin
    #[arg(required = true, value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Who is a crawler: whom the nine published strings name, or nightwatt's classifier
    #[arg(long, value_name = "BY", value_enum, default_value_t)]
    pub(crate) crawlers: CrawlerRule,
    /// When the server sleeps: window (the published rule), learned, ski-rental, 'timeout 5s'
    #[arg(long, value_name = "POLICY", default_value = "window")]
    pub(crate) policy: PolicyChoice,
    /// Set no SLA: sleep even if requests have to wait
    #[arg(long)]
    pub(crate) no_sla: bool,
    /// Server, proxy, SLA and cache, as in `[scenario]` of a configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: Option<PathBuf>,
    /// Write the table as CSV, in the rows and columns of the published one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,
    /// Write a report with charts, and the published figures for comparison
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who counts as a crawler in the published comparison.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum CrawlerRule {
    /// Whose agent holds one of the nine strings.
    #[default]
    Published,
    /// Whom the classifier of `serve` and `analyze` takes for one.
    Classifier,
}

const PUBLISHED_EXAMPLES: &str = "Examples:
  nightwatt published access.log.gz
  nightwatt published --csv table.csv --html report.html /var/log/nginx/access.log*
  nightwatt published --crawlers classifier --no-sla access.log
  nightwatt published --json access.log | jq '.configurations[] | {name, saving}'

No proxy; a cache; a cache with an hour of grace; a server that sleeps besides while crawlers are
sent away; and waiting pages besides. Delays and energy are modelled: docs/published-comparison.md.";
