//! `nightwatt sleep`.

use nightwatt_gateway::control::Order;

use crate::ExitStatus;
use crate::args::SiteArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;

/// Put a server to sleep as soon as nothing is under way
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) site: SiteArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt sleep -c nightwatt.toml
  nightwatt sleep blog -c nightwatt.toml

Running exchanges end first. The next request that deserves it wakes the server again.";

/// Puts a server to sleep.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let order = Order::Sleep { site: args.site.site.clone() };
    let done = "the server is put to sleep as soon as nothing is under way";
    control::command(&args.site.gateway, &order, done)
}
