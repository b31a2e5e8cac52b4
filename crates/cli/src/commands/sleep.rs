//! `nightwatt sleep`.

use nightwatt_gateway::control::Order;

use crate::ExitStatus;
use crate::args::SiteArgs;
use crate::control;
use crate::errors::Failure;

/// Puts a server to sleep.
pub(crate) fn run(args: &SiteArgs) -> Result<ExitStatus, Failure> {
    let order = Order::Sleep { site: args.site.clone() };
    let done = "the server is put to sleep as soon as nothing is under way";
    control::command(&args.gateway, &order, done)
}
