//! `agent`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum, ValueHint};
use nightwatt_agent::config::{self, DEFAULT_FILE};
use nightwatt_agent::protocol::AGENT_PORT;

use super::LogArgs;
use crate::written;

/// `agent`: without a step it runs.
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
    /// Print what is printed as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where the agent's configuration is.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentConfigArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE, value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,
}

/// What an agent, or whoever cares for one, can do.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentStep {
    /// Run: what it does without a step too
    Run {
        #[command(flatten)]
        config: AgentConfigArgs,
        #[command(flatten)]
        log: LogArgs,
        /// Print what is printed as JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Say what keeps this machine awake now, and when it would wake by itself. Exit status 0 if it
    /// may sleep, 1 if not
    Check {
        #[command(flatten)]
        config: AgentConfigArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a key, for this machine and its proxy
    Key {
        /// Write it here, readable for nobody else [default: print it]
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Show when this machine was asleep, why it was not, and what woke it
    Log {
        #[command(flatten)]
        config: AgentConfigArgs,
        /// Only the last so many entries
        #[arg(short = 'n', long, value_name = "N")]
        last: Option<usize>,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Tell the agent that runs here that somebody else puts the machine to sleep, or that it is up:
    /// for hooks
    Announce {
        /// What happens
        #[arg(value_enum)]
        what: AnnounceWhat,
        #[command(flatten)]
        config: AgentConfigArgs,
    },
    /// Give an agent an order, as its proxy does: to see whether the two understand each other
    Ask(AskArgs),
}

/// What a hook announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnounceWhat {
    /// The machine falls asleep now: sets the alarm, tells the proxies, then ends.
    Leaving,
    /// The machine is up again.
    Back,
}

/// `agent ask`.
#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Where the agent is
    #[arg(value_parser = agent_address)]
    pub(crate) address: SocketAddr,
    /// The order
    #[arg(value_enum, default_value_t)]
    pub(crate) order: AgentOrder,
    /// The file of the key
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) key: PathBuf,
    /// Give up after so long
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
    /// Say how you are.
    #[default]
    State,
    /// Say what keeps you awake.
    Check,
    /// Fall asleep.
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

On the proxy: [site.power.sleep.agent] with `address` and `key`. docs/agent.md has the rest.";
