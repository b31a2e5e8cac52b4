//! `nightwatt reload`: makes a running gateway read its configuration again.

use nightwatt_gateway::Reloaded;

use crate::ExitStatus;
use crate::args::GatewayArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::output;

/// Make a running gateway reload its configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt check -c nightwatt.toml && nightwatt reload -c nightwatt.toml
  nightwatt reload --socket /var/lib/nightwatt/control.sock --json

A configuration that cannot be used changes nothing. SIGHUP does the same, without an answer.";

/// Reloads, and prints what changed.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let done = control::reload(&args.gateway)?;
    if args.gateway.json {
        output::say_json(&done)?;
    } else {
        output::say(&in_words(&done))?;
    }
    Ok(ExitStatus::Success)
}

fn in_words(Reloaded { new, changed, gone }: &Reloaded) -> String {
    let parts = [("new", new), ("changed", changed), ("gone", gone)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> =
        parts.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
    if parts.is_empty() {
        return "reloaded: no site or machine is otherwise than before".to_owned();
    }
    format!("reloaded: {}", parts.join("; "))
}
