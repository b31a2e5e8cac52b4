//! `nightwatt wake`.

use nightwatt_gateway::control::Order;

use crate::ExitStatus;
use crate::args::SiteArgs;
use crate::control;
use crate::errors::Failure;

/// Wakes a server.
pub(crate) fn run(args: &SiteArgs) -> Result<ExitStatus, Failure> {
    let order = Order::Wake { site: args.site.clone() };
    control::command(&args.gateway, &order, "the server is being woken, if it sleeps")
}
