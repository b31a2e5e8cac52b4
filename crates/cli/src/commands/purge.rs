//! `nightwatt purge`.

use nightwatt_gateway::control::{LONGEST, Order};
use nightwatt_gateway::mirror::orders::MirrorOrder;
use serde_json::json;

use crate::ExitStatus;
use crate::args::GatewayArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::figures::counted;
use crate::output;

/// Remove answers from the cache of a running gateway
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// URLs, or paths that are meant on every host of the site
    #[arg(value_name = "URL", required_unless_present = "all")]
    pub(crate) places: Vec<String>,
    /// Everything whose URL begins like one of these
    #[arg(long)]
    pub(crate) prefix: bool,
    /// Everything that is stored, of one site or of all
    #[arg(long, conflicts_with_all = ["places", "prefix"])]
    pub(crate) all: bool,
    /// Fetch mirrored pages again at once, and wake servers for that
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Name of the site; needed for paths if there are several sites
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt purge https://blog.example.org/feed.xml -c nightwatt.toml
  nightwatt purge --prefix /articles/ --site blog  # /a begins /ab too
  nightwatt purge --refresh --prefix /             # after a deployment
  nightwatt purge --all

An answer that is on its way when it is purged is not stored either.";

/// Makes a running gateway forget stored answers.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let mut purged = 0;
    for places in orders(&args.places) {
        let order = Order::Purge {
            site: args.site.clone(),
            places: places.to_vec(),
            prefix: args.prefix,
            all: args.all,
        };
        purged += control::purge(&args.gateway, &order)?;
    }
    if args.refresh {
        let order = Order::Mirror { site: args.site.clone(), ask: MirrorOrder::Fetch };
        control::mirror(&args.gateway, &order)?;
    }
    if args.gateway.json {
        output::print_json(&json!({ "purged": purged }))?;
    } else {
        output::print(&format!("purged {}", counted(purged as u64, "object")))?;
    }
    Ok(ExitStatus::Success)
}

/// Splits the places into orders, each as large as an order may be; one empty order if there are no places.
fn orders(places: &[String]) -> Vec<&[String]> {
    // Quotes and escapes need room as well.
    let most = LONGEST as usize / 4;
    let (mut orders, mut start, mut length) = (Vec::new(), 0, 0);
    for (at, place) in places.iter().enumerate() {
        if at > start && length + place.len() > most {
            orders.push(&places[start..at]);
            (start, length) = (at, 0);
        }
        length += place.len() + 3;
    }
    orders.push(&places[start..]);
    orders
}
