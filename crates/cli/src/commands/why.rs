//! `nightwatt why`: what the sites of a running gateway know of a client.

use std::fmt::Write;

use nightwatt_gateway::clients::{AgentStatus, ClientStatus};
use serde_json::json;

use crate::ExitStatus;
use crate::args::ClientArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::figures::{count, counted, percent, seconds};
use crate::output;

/// Show the class of a client, and why it has that class
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt why 203.0.113.9 -c nightwatt.toml
  nightwatt why 203.0.113.9 --agent 'curl/8.5.0' --site blog -c nightwatt.toml

Shows the class of each client behind the address, the rule that gives it, since when and until when, and
what is left of its budgets. `nightwatt forgive` ends what a client has earned by what it did.";

/// Asks the gateway, and shows what it knows.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let sites = control::why(&args.client)?;
    if args.client.gateway.json {
        output::print_json(&json!({ "client": args.client.client, "sites": sites }))?;
    } else {
        output::print(&output::folded(page(&sites).trim_end()))?;
    }
    Ok(ExitStatus::Success)
}

fn page(sites: &[ClientStatus]) -> String {
    let mut text = String::new();
    for site in sites {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "site {}: this client may wake it {} more this hour",
            site.site,
            counted(site.wakes_left.into(), "time"),
        );
        let together = site.unrecognised_wakes_left;
        let _ = writeln!(
            text,
            "  clients that are not recognised: {} more together, {} of them from here",
            counted(together.into(), "time"),
            count(site.unrecognised_wakes_left_here.min(together).into())
        );
        budgets(&mut text, site);
        if let Some(failed) = &site.failed_log_ins {
            let _ = writeln!(
                text,
                "  {} in a row since {} ago: further ones do not wake the server for {}",
                counted(failed.failures.into(), "failed log-in"),
                seconds(failed.since_s),
                seconds(failed.ends_in_s)
            );
        }
        if site.clients.is_empty() {
            text.push_str("  no client was seen from this address\n");
        }
        for client in &site.clients {
            row(&mut text, client);
        }
        text.push('\n');
    }
    text
}

/// The budgets of the network and of awake time, and which of them are spent.
fn budgets(text: &mut String, site: &ClientStatus) {
    if let Some(left) = site.network_wakes_left {
        let _ = writeln!(text, "  its network may wake it {} more", counted(left.into(), "time"));
    }
    if let Some(left) = site.awake_left_s {
        let _ = writeln!(text, "  it may keep the server awake alone for {} more", seconds(left));
    }
    for spent in &site.spent {
        let whom = if spent.unrecognised_only { " clients that are not recognised" } else { "" };
        let _ = writeln!(
            text,
            "  rule {} refuses{whom} for another {}",
            spent.rule,
            seconds(spent.ends_in_s)
        );
    }
}

fn row(text: &mut String, it: &AgentStatus) {
    let agent = match it.agent.as_deref() {
        Some("") => "(no agent)",
        Some(agent) => agent,
        None => "(an agent that is not remembered)",
    };
    let stranger = if it.recognised { "" } else { ", not recognised" };
    let _ = writeln!(
        text,
        "  {}\n    {}, by rule {}{stranger}",
        agent.escape_debug(),
        it.class,
        it.rule
    );
    if matches!(&*it.rule, "crawler-table" | "monitor-table") {
        text.push_str(
            "    by GET, HEAD and OPTIONS; what it sends by POST and the like wakes the server\n",
        );
    }
    if let Some(since) = it.since_s {
        let _ = writeln!(text, "    since {} ago", seconds(since));
    }
    if let Some(ends) = it.ends_in_s {
        let _ = writeln!(text, "    for another {}", seconds(ends));
    }
    if it.misses > 0 {
        let _ = writeln!(
            text,
            "    missed {} in the last ten minutes, {} of its requests",
            counted(it.misses.into(), "time"),
            percent(it.missed_share)
        );
    }
}
