//! `nightwatt wake`.

use nightwatt_gateway::control::Order;

use crate::ExitStatus;
use crate::args::SiteArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;

/// Wake a server now
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) site: SiteArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt wake -c nightwatt.toml
  nightwatt wake blog -c nightwatt.toml        # before a visit that is known to come

It then sleeps again when its policy says so; `stay-awake` keeps it awake.";

/// Wakes a server.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let order = Order::Wake { site: args.site.site.clone() };
    control::command(&args.site.gateway, &order, "the server is being woken, if it sleeps")
}
