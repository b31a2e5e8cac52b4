//! `nightwatt forgive`.

use serde_json::json;

use crate::ExitStatus;
use crate::args::ClientArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::figures::counted;
use crate::output;

/// Forget why a client is refused
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt forgive 203.0.113.9 -c nightwatt.toml
  nightwatt forgive 203.0.113.9 --agent 'curl/8.5.0' -c nightwatt.toml

Forgets misses, failed log-ins and that robots.txt was read, and gives the budgets of the address and its
network back. What follows from the agent alone stays, and so does the budget of all clients that are not
recognised: name the agent in `api_agents` of `[site.clients]`.";

/// Makes a running gateway forget the offences of a client.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let forgiven = control::forgive(&args.client)?;
    if args.client.gateway.json {
        output::print_json(&json!({
            "forgiven": forgiven.clients,
            "budgets": forgiven.budgets,
            "restored": forgiven.restored,
        }))?;
    } else {
        let clients = counted(forgiven.clients as u64, "client");
        let spent: Vec<&str> = forgiven.budgets.iter().map(String::as_str).collect();
        let budgets = match (forgiven.restored, spent.is_empty()) {
            (false, _) => "; its budgets are full".to_owned(),
            (true, true) => ", and gave its budgets back (none was used up)".to_owned(),
            (true, false) => {
                format!(", and gave its budgets back (used up: {})", spent.join(", "))
            }
        };
        output::print(&format!(
            "forgave {clients}{budgets}\n\
             `nightwatt why` shows which clients are still refused because of their agent"
        ))?;
    }
    Ok(ExitStatus::Success)
}
