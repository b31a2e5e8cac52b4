//! `nightwatt --help` as a table of contents: commands grouped by purpose.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::commands::{Cli, Group, LISTED, Listed};

/// The command line with its grouped help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let contents = contents(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{contents}\nOptions:\n{{options}}\n\n\
         `nightwatt COMMAND --help` has options and examples. Begin with `nightwatt demo`.\n"
    ))
}

fn contents(command: &Command) -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let _ = writeln!(text, "{}", group.heading());
        for listed in [Listed::First(group), Listed::In(group), Listed::Last(group)] {
            let commands = command.get_subcommands().zip(LISTED);
            for (command, _) in commands.filter(|(_, its)| **its == listed) {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(text, "  {:<12}{about}", command.get_name());
            }
        }
        text.push('\n');
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let contents = contents(&command);
        for command in command.get_subcommands() {
            let row = format!("\n  {:<12}", command.get_name());
            assert_eq!(contents.matches(&row).count(), 1, "{}", command.get_name());
        }
        assert_eq!(contents.matches("\n  ").count(), command.get_subcommands().count());
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("nightwatt {}", command.get_name());
            assert!(after.contains(&example), "{}", command.get_name());
        }
    }
}
