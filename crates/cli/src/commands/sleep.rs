//! `nightwatt sleep`.

use nightwatt_gateway::control::Order;
use nightwatt_policy::lifecycle::Phase;

use crate::ExitStatus;
use crate::args::{SiteArgs, WaitArgs};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::order_and_wait;

/// Put a server to sleep as soon as nothing is under way
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
  nightwatt sleep -c nightwatt.toml
  nightwatt sleep blog -c nightwatt.toml
  nightwatt sleep --wait --timeout 5m     # returns when it sleeps

Running exchanges end first. The next request that deserves it wakes the server again.";

/// Puts a server to sleep.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let order = Order::Sleep { site: args.site.site.clone() };
    if args.wait.wait {
        return order_and_wait::order_and_wait(&args.site, &order, Phase::Asleep, &args.wait);
    }
    let done = "the server is put to sleep as soon as nothing is under way";
    order_and_wait::only_order(&args.site, &order, Phase::Asleep, done)
}
