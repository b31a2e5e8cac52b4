//! `nightwatt --help` as a table of contents: commands grouped by what they are for.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::args::Args;

/// The groups, in the order of the work: measure, model, compare, act.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Measure: how many joules something uses",
        &["run", "caliper", "disk", "record", "export", "meters", "calibrate"],
    ),
    ("Model: what a service could do without", &["analyze", "fleet", "mining"]),
    (
        "Compare: environments, servers, published results",
        &["compare", "report", "published", "reproduce", "replay", "load", "tcp", "origin"],
    ),
    (
        "Act: let servers sleep",
        &[
            "demo",
            "init",
            "serve",
            "agent",
            "status",
            "wake",
            "sleep",
            "stay-awake",
            "purge",
            "mirror",
            "why",
            "forgive",
            "reload",
        ],
    ),
    ("Check: configurations and machines", &["check", "doctor"]),
    ("Install: completions and manual pages", &["completions", "man"]),
];

/// The command line with its grouped help.
pub(crate) fn command() -> Command {
    let command = Args::command();
    let contents = contents(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{contents}\nOptions:\n{{options}}\n\n\
         `nightwatt COMMAND --help` has options and examples. Begin with `nightwatt demo`.\n"
    ))
}

fn contents(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{heading}");
        for name in names {
            // A static binary goes without those that need eBPF.
            let Some(found) = command.find_subcommand(name) else { continue };
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<12}{about}");
        }
        text.push('\n');
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Args::command();
        let commands: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let is_here = |name: &&str| cfg!(feature = "bpf") || !["caliper", "disk"].contains(name);
        let listed: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).filter(is_here).collect();
        assert_eq!(listed.len(), commands.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), commands);
    }

    #[test]
    fn every_command_has_examples() {
        for command in Args::command().get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("nightwatt {}", command.get_name());
            assert!(after.contains(&example), "{}", command.get_name());
        }
    }
}
