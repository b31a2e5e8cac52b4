//! `nightwatt reload`: makes a running gateway read its configuration again.

use nightwatt_gateway::Reloaded;

use crate::ExitStatus;
use crate::args::GatewayArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::output;

/// Make a running gateway reload its configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt check -c nightwatt.toml && nightwatt reload -c nightwatt.toml
  nightwatt reload --socket /var/lib/nightwatt/control.sock --json

A configuration that cannot be used changes nothing. SIGHUP does the same, without an answer.";

/// Reloads, and prints what changed.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let done = control::reload(&args.gateway)?;
    if args.gateway.json {
        output::print_json(&done)?;
    } else {
        output::print(&in_words(&done))?;
    }
    Ok(ExitStatus::Success)
}

fn in_words(done: &Reloaded) -> String {
    let parts = [
        ("new:", &done.new),
        ("changed:", &done.changed),
        ("gone:", &done.gone),
        ("listens on", &done.listens_on),
        ("no longer on", &done.no_longer_on),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> =
        parts.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
    match (&*parts, done.has_changed) {
        ([], false) => "reloaded: nothing changed".to_owned(),
        ([], true) => "reloaded: settings changed that belong to no one site or machine".to_owned(),
        _ => format!("reloaded: {}", parts.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changed_only_if_nothing_did() {
        let mut done = Reloaded::default();
        assert_eq!(in_words(&done), "reloaded: nothing changed");
        done.has_changed = true;
        assert!(in_words(&done).contains("settings changed"), "{}", in_words(&done));
        done.listens_on = vec!["127.0.0.1:81".to_owned()];
        done.no_longer_on = vec!["127.0.0.1:80".to_owned()];
        assert_eq!(in_words(&done), "reloaded: listens on 127.0.0.1:81; no longer on 127.0.0.1:80");
        done.changed = vec!["blog".to_owned(), "wiki".to_owned()];
        assert!(in_words(&done).starts_with("reloaded: changed: blog, wiki; listens on"));
    }
}
