//! `agent`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum, ValueHint};
use nightwatt_agent::config::{self, DEFAULT_FILE};
use nightwatt_agent::protocol::AGENT_PORT;

use super::LogArgs;
use crate::written;

/// `agent`: runs if no step is given.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentArgs {
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
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = written::some_time)]
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

pub(super) const AGENT_EXAMPLES: &str = "Examples:
  nightwatt agent key -o /etc/nightwatt/agent.key       # then copy it to the proxy
  nightwatt agent check                                 # why does it not sleep?
  nightwatt agent                                       # obeys /etc/nightwatt/agent.toml
  nightwatt agent log -n 20
  nightwatt agent ask 10.0.0.2 --key web.key            # on the proxy

A small configuration:
  listen = [\"10.0.0.2\"]                # this machine's address towards the proxy
  [[proxy]]
  key = \"/etc/nightwatt/agent.key\"
  announce = \"10.0.0.1\"                # the proxy, if it has `listen`

On the proxy: [site.power.sleep.agent] with `address` and `key`.

Docs: docs/agent.md";
