//! `nightwatt purge`.

use nightwatt_gateway::control::{LONGEST, Order};
use serde_json::json;

use crate::ExitStatus;
use crate::args::PurgeArgs;
use crate::control;
use crate::errors::Failure;
use crate::figures::counted;
use crate::output;

/// Has stored answers forgotten.
pub(crate) fn run(args: &PurgeArgs) -> Result<ExitStatus, Failure> {
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
    if args.gateway.json {
        output::say_json(&json!({ "purged": purged }))?;
    } else {
        output::say(&format!("purged {}", counted(purged as u64, "object")))?;
    }
    Ok(ExitStatus::Success)
}

/// As many places to an order as it can hold; one order without any if there are none.
fn orders(places: &[String]) -> Vec<&[String]> {
    // Quotes and escapes take room as well.
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
