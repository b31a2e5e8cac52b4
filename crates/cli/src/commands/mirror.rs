//! `nightwatt mirror`: shows what the mirrors of a running gateway hold, and has their pages confirmed.

use std::fmt::Write;

use clap::Subcommand;
use nightwatt_gateway::control::Order;
use nightwatt_gateway::mirror::orders::{MirrorOrder, MirrorReply};
use nightwatt_gateway::mirror::status::Explained;
use nightwatt_gateway::status::MirrorStatus;
use serde_json::json;

use crate::ExitStatus;
use crate::args::GatewayArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::figures::{self, bytes, count, counted, energy, percent};
use crate::output;

/// Show what the mirror of a site holds, and have it confirmed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) step: MirrorStep,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt mirror status
  nightwatt mirror refresh /news/ --site blog  # /a begins /ab too
  nightwatt mirror explain /about.html

Docs: docs/mirror.md";

/// Steps of `mirror`.
#[derive(Debug, Subcommand)]
pub(crate) enum MirrorStep {
    /// Show what is mirrored, how old it is, and what is not mirrored
    Status {
        /// Name of the site, as `--site`
        #[arg(value_name = "SITE", conflicts_with = "site")]
        name: Option<String>,
        #[command(flatten)]
        target: MirrorTarget,
    },
    /// Have pages confirmed before they are served again
    Refresh {
        /// Paths; all pages that begin so are meant [default: all pages]
        #[arg(value_name = "PATH")]
        places: Vec<String>,
        #[command(flatten)]
        target: MirrorTarget,
    },
    /// Show whether an address is mirrored, and why not
    Explain {
        /// Path with its query, or the whole URL
        #[arg(value_name = "PATH")]
        address: String,
        #[command(flatten)]
        target: MirrorTarget,
    },
}

/// Which mirrors, of which gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct MirrorTarget {
    /// Name of the site [default: all that have a mirror]
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// Sends a running gateway an order about its mirrors.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let mut site = None;
    let (ask, target) = match &args.step {
        MirrorStep::Status { name, target } => {
            site.clone_from(name);
            (MirrorOrder::Status, target)
        }
        MirrorStep::Refresh { places, target } => {
            (MirrorOrder::Refresh { places: places.clone() }, target)
        }
        MirrorStep::Explain { address, target } => {
            (MirrorOrder::Explain { address: address.clone() }, target)
        }
    };
    let order = Order::Mirror { site: site.or_else(|| target.site.clone()), ask };
    let reply = control::mirror(&target.gateway, &order)?;
    if target.gateway.json {
        match reply {
            MirrorReply::Done => output::print_json(&json!({ "done": true, "order": order }))?,
            MirrorReply::Outdated { pages } => {
                output::print_json(&json!({ "done": true, "order": order, "pages": pages }))?;
            }
            reply => output::print_json(&reply)?,
        }
    } else {
        output::print(text(&reply).trim_end())?;
    }
    Ok(ExitStatus::Success)
}

fn text(reply: &MirrorReply) -> String {
    match reply {
        MirrorReply::Status(all) => all.iter().map(status).collect(),
        MirrorReply::Done => {
            "the mirror is not open yet: pages are confirmed before it serves them".to_owned()
        }
        MirrorReply::Outdated { pages: 0 } => {
            "no mirrored page begins so: there is nothing to confirm".to_owned()
        }
        MirrorReply::Outdated { pages } => {
            let verb = if *pages == 1 { "is" } else { "are" };
            let pages = counted(*pages as u64, "page");
            format!("{pages} {verb} to be confirmed: until then, the server itself answers")
        }
        MirrorReply::Explained(explained) => explain(explained),
    }
}

/// Whole seconds: how old pages are.
fn seconds(seconds: f64) -> String {
    figures::seconds(seconds.round())
}

fn status(it: &MirrorStatus) -> String {
    let mut text = format!("{}\n", it.site);
    let mut row = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    let Some(url) = &it.url else {
        row(
            "mirror",
            "not open: no client has used the site yet, or another process has it".into(),
        );
        return text;
    };
    row("mirror", format!("{} of {url}", counted(it.pages as u64, "page")));
    if it.errors + it.redirects > 0 {
        let errors = counted(it.errors as u64, "error");
        row("beside them", format!("{errors}, {}", counted(it.redirects as u64, "redirect")));
    }
    row("on the disk", format!("{} of {}", bytes(it.bytes), bytes(it.max_bytes)));
    if let Some(share) = it.coverage {
        let of = counted(it.requests, "anonymous request");
        row("coverage", format!("{} of {of} of people in the last week", percent(share)));
    }
    if let Some(oldest) = it.oldest_s {
        row("oldest", format!("confirmed {} ago", seconds(oldest)));
    }
    row(
        "last pass",
        match it.last_pass_s_ago {
            Some(ago) => format!("began {} ago", seconds(ago)),
            None if it.is_running => "the first one is under way".to_owned(),
            None => "none yet".to_owned(),
        },
    );
    if it.due > 0 {
        row("due", format!("{} before the server sleeps", counted(it.due as u64, "page")));
    }
    row("costs", own_use(it));
    if it.is_complete_wanted {
        let words = it.not_complete.clone().unwrap_or_else(|| "yes".to_owned());
        row("complete", words);
    }
    for (reason, number) in &it.not_mirrored {
        row("not mirrored", format!("{} ({reason})", count(*number as u64)));
    }
    text
}

/// What the server uses for a mirror.
pub(super) fn own_use(it: &MirrorStatus) -> String {
    format!(
        "{}: {} for it alone, {} awake for it",
        energy(&it.own_energy),
        counted(it.own_wakeups, "wake-up"),
        seconds(it.own_awake_s)
    )
}

/// How much of a site is mirrored, in one line.
pub(super) fn summary(it: &MirrorStatus) -> String {
    let mut text = format!("{}, {}", counted(it.pages as u64, "page"), bytes(it.bytes));
    if let Some(share) = it.coverage {
        let _ = write!(text, "; could answer {} of the last week's requests", percent(share));
    }
    if let Some(oldest) = it.oldest_s {
        let _ = write!(text, "; the oldest was confirmed {} ago", seconds(oldest));
    }
    let refused: usize = it.not_mirrored.values().sum();
    if refused > 0 {
        let _ =
            write!(text, "; {} not mirrored (`nightwatt mirror status`)", count(refused as u64));
    }
    text
}

fn explain(it: &Explained) -> String {
    let mut text = format!("{}: {}", it.address, it.why);
    if let Some(reason) = &it.reason {
        let _ = write!(text, " ({reason})");
    }
    if let (Some(status), Some(length), Some(ago)) = (it.status, it.bytes, it.confirmed_s_ago) {
        let _ =
            write!(text, "\nstatus {status}, {}, confirmed {} ago", bytes(length), seconds(ago));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_to_be_confirmed_are_counted() {
        let words = |pages| text(&MirrorReply::Outdated { pages });
        assert!(words(0).contains("nothing to confirm"), "{}", words(0));
        assert!(words(1).starts_with("1 page is to be confirmed"), "{}", words(1));
        assert!(words(1200).contains("pages are to be confirmed"), "{}", words(1200));
    }

    #[test]
    fn an_address_is_explained_in_words() {
        let explained = Explained {
            address: "/cart".to_owned(),
            is_mirrored: false,
            why: "the address looks like it changes something".to_owned(),
            reason: Some("action".to_owned()),
            status: None,
            bytes: None,
            confirmed_s_ago: None,
            requests: 0.0,
        };
        assert_eq!(
            explain(&explained),
            "/cart: the address looks like it changes something (action)"
        );
        let kept = Explained {
            status: Some(200),
            bytes: Some(1000),
            confirmed_s_ago: Some(60.0),
            ..explained
        };
        assert!(
            explain(&kept).contains("status 200, 1.0 kB, confirmed 1m ago"),
            "{}",
            explain(&kept)
        );
    }
}
