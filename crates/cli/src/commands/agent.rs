//! `nightwatt agent`: runs on the machine that sleeps.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueEnum, ValueHint};
use nightwatt_agent::Host;
use nightwatt_agent::config::{self, Config, DEFAULT_FILE};
use nightwatt_agent::dead_man::{Alarm, Purpose};
use nightwatt_agent::inhibit::Inhibitors;
use nightwatt_agent::key::{self, Key};
use nightwatt_agent::protocol::{AGENT_PORT, Outcome, Reply, Verb};
use nightwatt_agent::record::{self, Entry, RecordedEvent};
use nightwatt_agent::{Agent, Error, client, due, keys, utc};
use nightwatt_clock::Clock;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::ExitStatus;
use crate::args::LogArgs;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures;
use crate::logging;
use crate::output;
use crate::signals::Signals;
use crate::values;

/// On the server: suspend it when its proxy asks and nothing needs it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// What to do [default: run]
    #[command(subcommand)]
    pub(crate) step: Option<AgentStep>,
    #[command(flatten)]
    pub(crate) config: AgentConfigArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt agent key -o /etc/nightwatt/agent.key  # then copy it to the proxy
  nightwatt agent check                            # why does it not sleep?
  nightwatt agent                                  # obeys agent.toml there
  nightwatt agent log -n 20
  nightwatt agent ask 10.0.0.2 --key web.key            # on the proxy

A small configuration:
  listen = [\"10.0.0.2\"]  # this machine's address towards the proxy
  [[proxy]]
  key = \"/etc/nightwatt/agent.key\"
  announce = \"10.0.0.1\"                # the proxy, if it has `listen`

On the proxy: [site.power.sleep.agent] with `address` and `key`.

Docs: docs/agent.md";

/// Where the agent's configuration is.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentConfigArgs {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE, value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,
}

/// Steps of `agent`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentStep {
    /// Run (the default)
    Run {
        #[command(flatten)]
        config: AgentConfigArgs,
        #[command(flatten)]
        log: LogArgs,
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Show what keeps this machine awake now, and when it would wake by itself. Exit status: 0 if it may
    /// sleep, 1 if not
    Check {
        #[command(flatten)]
        config: AgentConfigArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Generate a key for this machine and its proxy
    Key {
        /// Write the key to this file, which only you can read [default: print it]
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Show when this machine slept, why it did not, and what woke it
    Log {
        #[command(flatten)]
        config: AgentConfigArgs,
        /// Only the last N entries
        #[arg(short = 'n', long, value_name = "N")]
        last: Option<usize>,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// For hooks: notify the agent on this machine that another program puts the machine to sleep, or that the
    /// machine is up again
    Announce {
        /// What happens: the machine falls asleep, or is up again
        #[arg(value_enum)]
        what: AnnounceWhat,
        #[command(flatten)]
        config: AgentConfigArgs,
    },
    /// Send an agent an order, as its proxy does, to check that the two can communicate
    Ask(AskArgs),
}

/// What a hook announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnounceWhat {
    /// The machine falls asleep now: set the alarm, notify the proxies, and return.
    Leaving,
    /// The machine is up again.
    Back,
}

/// `agent ask`.
#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Address of the agent
    #[arg(value_parser = agent_address)]
    pub(crate) address: SocketAddr,
    /// The order
    #[arg(value_enum, default_value_t)]
    pub(crate) order: AgentOrder,
    /// File of the key
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) key: PathBuf,
    /// Stop waiting after this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::some_time)]
    pub(crate) timeout: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn agent_address(text: &str) -> Result<SocketAddr, String> {
    config::address(text, AGENT_PORT)
}

/// What can be ordered by hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentOrder {
    /// Report the state.
    #[default]
    State,
    /// Report what keeps the machine awake.
    Check,
    /// Put the machine to sleep.
    Sleep,
}

/// Limit for a hook: the machine's sleep waits for it.
const HOOK_LIMIT: Duration = Duration::from_secs(8);

/// Runs the agent, or another of its subcommands.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    match &args.step {
        None => obey(&args.config, &args.log, args.json),
        Some(AgentStep::Run { config, log, json }) => obey(config, log, *json),
        Some(AgentStep::Check { config, json }) => check(config, *json),
        Some(AgentStep::Key { output }) => make_key(output.as_deref()),
        Some(AgentStep::Log { config, last, json }) => show(config, *last, *json),
        Some(AgentStep::Announce { what, config }) => announce(*what, config),
        Some(AgentStep::Ask(args)) => ask(args),
    }
}

fn failed(error: &Error) -> Failure {
    let failure = match error {
        Error::Config { .. } | Error::ConfigFile { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    };
    failure.hint(error.hint())
}

fn load(args: &AgentConfigArgs) -> Result<Config, Failure> {
    Config::read(&args.config).map_err(|error| failed(&error))
}

fn runtime() -> Result<Runtime, Failure> {
    Clock::real().runtime().map_err(|error| Failure::because("cannot start", &error))
}

/// Runs the agent until a signal.
fn obey(args: &AgentConfigArgs, log: &LogArgs, json: bool) -> Result<ExitStatus, Failure> {
    let config = load(args)?;
    logging::start(log)?;
    runtime()?.block_on(async {
        let mut signals = Signals::catch()?;
        let names: Vec<_> = config.proxy.iter().map(|proxy| proxy.name.clone()).collect();
        let agent = Agent::open(config, &Host::default()).map_err(|error| failed(&error))?;
        let addresses: Vec<_> = agent.addresses().iter().map(ToString::to_string).collect();
        if json {
            output::print_json(&json!({"schema": 1, "listen": addresses, "proxies": names}))?;
        } else {
            output::print(&format!(
                "obeys {} on {} (UDP)",
                names.join(", "),
                addresses.join(", ")
            ))?;
        }
        let stop = async {
            let signal = signals.end().await;
            tracing::info!(signal, "stopping");
        };
        agent.run(stop).await.map_err(|error| failed(&error))?;
        Ok(ExitStatus::Success)
    })
}

fn check(args: &AgentConfigArgs, json: bool) -> Result<ExitStatus, Failure> {
    let config = load(args)?;
    // Read here only to report errors that would end the agent at its start.
    keys(&config).map_err(|error| failed(&error))?;
    let (host, now) = (Host::default(), Clock::real().now());
    let (reasons, alarm) = runtime()?.block_on(async {
        let reasons = Inhibitors::new(&config, &host).check().await;
        (reasons, due::alarm(&host, &config.alarm, now).await)
    });
    // If the alarm cannot be read, that is among the reasons.
    let alarm = alarm.ok().flatten();
    let result = json!({
        "schema": 1,
        "may_sleep": reasons.is_empty(),
        "reasons": reasons,
        "alarm": alarm,
    });
    let words = || {
        let mut text = if reasons.is_empty() { "may sleep\n" } else { "stays awake:\n" }.to_owned();
        for reason in &reasons {
            let _ = writeln!(text, "  {reason}");
        }
        let _ = writeln!(
            text,
            "{}",
            alarm.as_ref().map_or("no alarm would be set".to_owned(), alarm_words)
        );
        text
    };
    output::print_result(&result, json, words, &[])?;
    Ok(if reasons.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
}

fn alarm_words(alarm: &Alarm) -> String {
    let purpose = match &alarm.purpose {
        Purpose::DeadMan => "dead man's switch",
        Purpose::Work(work) => work,
    };
    format!("wakes by itself at {} ({purpose})", utc(alarm.at_s.saturating_mul(1000)))
}

fn make_key(to: Option<&Path>) -> Result<ExitStatus, Failure> {
    let text = key::generate().map_err(|error| Failure::because("cannot make a key", &error))?;
    match to {
        None => output::print(&text)?,
        Some(path) => {
            key::write(path, &text).map_err(|error| {
                let hint = match error.kind() {
                    io::ErrorKind::AlreadyExists => {
                        "a key that is there is not overwritten: remove it first, or choose another name"
                    }
                    io::ErrorKind::NotFound => {
                        "create its folder first, readable by its owner only: `install -d -m 700 FOLDER`"
                    }
                    _ => "choose a place that you may write to",
                };
                Failure::because(format!("cannot write {}", path.display()), &error).hint(hint)
            })?;
            output::print(&format!(
                "{} is a new key. Copy it to the other machine over an encrypted connection (`scp -p`).",
                path.display()
            ))?;
        }
    }
    Ok(ExitStatus::Success)
}

fn show(args: &AgentConfigArgs, last: Option<usize>, json: bool) -> Result<ExitStatus, Failure> {
    let config = load(args)?;
    let entries = record::read(&config.state_dir).map_err(|error| {
        Failure::because(
            format!("cannot read the record in {}", config.state_dir.display()),
            &error,
        )
    })?;
    let from = entries.len().saturating_sub(last.unwrap_or(usize::MAX));
    for entry in &entries[from..] {
        if json {
            output::print_json(entry)?;
        } else {
            output::print(&format!("{}  {}", utc(entry.at_ms), words(entry)))?;
        }
    }
    if entries.is_empty() && !json {
        output::complain(&format!("nothing yet in {}", config.state_dir.display()));
    }
    Ok(ExitStatus::Success)
}

fn words(entry: &Entry) -> String {
    match &entry.what {
        RecordedEvent::Booted => "booted".to_owned(),
        RecordedEvent::Started => "agent started".to_owned(),
        RecordedEvent::Stopped => "agent stopped".to_owned(),
        RecordedEvent::Suspending { by, how, alarm } => {
            let who =
                if how.is_some() { format!("ordered by {by}") } else { "others do it".to_owned() };
            let alarm = alarm.as_ref().map(|alarm| format!("; {}", alarm_words(alarm)));
            format!("falls asleep, {who}{}", alarm.unwrap_or_default())
        }
        RecordedEvent::Resumed { slept_s, announced, alarm } => {
            let slept = figures::time(Duration::try_from_secs_f64(*slept_s).unwrap_or_default());
            let unknown = if *announced { "" } else { ", a sleep that was not announced" };
            let alarm = match alarm.as_ref().map(|alarm| &alarm.purpose) {
                Some(Purpose::DeadMan) => "; woken by the dead man's switch".to_owned(),
                Some(Purpose::Work(work)) => format!("; woken for {work}"),
                None => String::new(),
            };
            format!("resumed after {slept}{unknown}{alarm}")
        }
        RecordedEvent::Ready => "its service answers".to_owned(),
        RecordedEvent::Refused { by, reasons } => format!("refused {by}: {}", reasons.join("; ")),
        RecordedEvent::Failed { why } => format!("not asleep: {why}"),
        RecordedEvent::DeadMan => "no proxy for too long: waits for one".to_owned(),
        RecordedEvent::Alone => "no proxy is heard: stays awake".to_owned(),
        RecordedEvent::ProxyFound { by } => format!("{by} is back"),
    }
}

fn announce(what: AnnounceWhat, args: &AgentConfigArgs) -> Result<ExitStatus, Failure> {
    let config = load(args)?;
    // A configuration has at least one listener and one proxy.
    let (Some(listen), Some(proxy)) = (config.listen.first(), config.proxy.first()) else {
        return Ok(ExitStatus::Usage);
    };
    let key = Key::read(&proxy.key).map_err(|error| failed(&error))?;
    let here: IpAddr = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let verb = match what {
        AnnounceWhat::Leaving => Verb::Leave,
        AnnounceWhat::Back => Verb::Return,
    };
    let reply = give(&key, SocketAddr::new(here, listen.port()), verb, HOOK_LIMIT)?;
    Ok(if reply.outcome == Outcome::Failed { ExitStatus::Failed } else { ExitStatus::Success })
}

fn give(key: &Key, address: SocketAddr, verb: Verb, limit: Duration) -> Result<Reply, Failure> {
    let reply = runtime()?.block_on(client::ask(key, address, verb, limit));
    reply.map_err(|error| failed(&error))
}

fn ask(args: &AskArgs) -> Result<ExitStatus, Failure> {
    let key = Key::read(&args.key).map_err(|error| failed(&error))?;
    let verb = match args.order {
        AgentOrder::State => Verb::State,
        AgentOrder::Check => Verb::Check,
        AgentOrder::Sleep => Verb::Sleep,
    };
    let reply = give(&key, args.address, verb, args.timeout)?;
    let outcome = match reply.outcome {
        Outcome::Done if verb == Verb::Check => "may sleep",
        Outcome::Done => "up",
        Outcome::Going => "falls asleep",
        Outcome::Inhibited => "stays awake",
        Outcome::Busy => "busy",
        Outcome::Failed => "failed",
    };
    if args.json {
        output::print_json(&reply_json(&reply, outcome))?;
    } else {
        output::print(&reply_words(&reply, outcome))?;
    }
    let well = matches!(reply.outcome, Outcome::Done | Outcome::Going);
    Ok(if well { ExitStatus::Success } else { ExitStatus::Failed })
}

fn reply_json(reply: &Reply, outcome: &str) -> Value {
    let facts = &reply.facts;
    let never = |ms: i64| (ms != 0).then_some(ms);
    json!({
        "schema": 1,
        "outcome": outcome,
        "texts": reply.texts,
        "boot": facts.boot.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")),
        "awake_s": facts.awake_ms as f64 / 1000.0,
        "suspended_s": facts.suspended_ms as f64 / 1000.0,
        "wall_ms": facts.wall_ms,
        "fell_asleep_ms": never(facts.fell_asleep_ms),
        "resumed_ms": never(facts.resumed_ms),
    })
}

fn reply_words(reply: &Reply, outcome: &str) -> String {
    let facts = &reply.facts;
    let mut text = format!("{outcome}\n");
    for reason in &reply.texts {
        let _ = writeln!(text, "  {reason}");
    }
    let time = |ms| figures::time(Duration::from_millis(ms));
    let (awake, suspended) = (time(facts.awake_ms), time(facts.suspended_ms));
    let _ = writeln!(text, "since boot awake for {awake}, suspended for {suspended}");
    for (what, ms) in [("fell asleep", facts.fell_asleep_ms), ("was back", facts.resumed_ms)] {
        if ms != 0 {
            let _ = writeln!(text, "last {what} {}", utc(ms));
        }
    }
    text
}
