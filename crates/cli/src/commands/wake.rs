//! `nightwatt wake`.

use nightwatt_gateway::control::Order;
use nightwatt_policy::lifecycle::Phase;

use crate::ExitStatus;
use crate::args::{SiteArgs, WaitArgs};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::order_and_wait;

/// Wake a server now
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) site: SiteArgs,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt wake -c nightwatt.toml
  nightwatt wake blog -c nightwatt.toml  # before a visit that is known to come
  nightwatt wake --wait && ssh web       # when it answers

It then sleeps again when its policy says so; `stay-awake` keeps it awake.";

/// Wakes a server.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let order = Order::Wake { site: args.site.site.clone() };
    if args.wait.wait {
        return order_and_wait::order_and_wait(&args.site, &order, Phase::Awake, &args.wait);
    }
    order_and_wait::only_order(&args.site, &order, Phase::Awake, "the server is being woken")
}
