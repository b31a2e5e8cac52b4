//! `nightwatt --help` as a table of contents: commands grouped by purpose.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::commands::{Cli, Group, LISTED, Listed};

/// The command line with its grouped help.
pub(crate) fn command() -> Command {
    // clap takes 100 columns where there is no terminal.
    let command = flowing(Cli::command()).max_term_width(80);
    let contents = contents(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{contents}\nOptions:\n{{options}}\n\n\
         `nightwatt COMMAND --help` has options and examples. Begin: `nightwatt demo`.\n"
    ))
}

/// The command and those within it, with a line for each paragraph behind their options: clap breaks lines at the width
/// of the terminal, and would break those that the source has a second time.
fn flowing(command: Command) -> Command {
    let after = command.get_after_help().map(|text| paragraphs(&text.to_string()));
    let command = command.mut_subcommands(flowing);
    match after {
        Some(text) => command.after_help(text),
        None => command,
    }
}

/// Joins the lines of each paragraph. Headings and indented lines, which are examples, stay as they are.
fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let mut flows = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        if !joined.is_empty() {
            joined.push(if flows && is_prose { ' ' } else { '\n' });
        }
        joined.push_str(line);
        flows = is_prose;
    }
    joined
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

    /// All commands with their names, such as `tcp lab`.
    fn every(command: Command, name: &str, to: &mut Vec<(String, Command)>) {
        for within in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            every(within.clone(), format!("{name} {}", within.get_name()).trim(), to);
        }
        to.push((name.to_owned(), command));
    }

    fn all() -> Vec<(String, Command)> {
        let mut all = Vec::new();
        every(command(), "", &mut all);
        all
    }

    #[test]
    fn no_help_is_wider_than_80_columns() {
        let commands = all();
        assert!(commands.len() > 60, "{}", commands.len());
        for (name, command) in commands {
            for text in [
                command.clone().term_width(80).render_help(),
                command.term_width(80).render_long_help(),
            ] {
                for line in text.to_string().lines() {
                    assert!(line.chars().count() <= 80, "nightwatt {name} --help: {line}");
                }
            }
        }
    }

    #[test]
    fn examples_are_not_broken_and_paragraphs_are_broken_once() {
        for (name, command) in all() {
            let Some(after) = command.get_after_help().map(ToString::to_string) else { continue };
            let help = command.term_width(80).render_help().to_string();
            let lines: Vec<&str> = help.lines().collect();
            for example in after.lines().filter(|line| line.starts_with(' ')) {
                assert!(lines.contains(&example), "nightwatt {name} --help: {example}");
            }
            // A line ends only where the next word has no room.
            for pair in lines.windows(2) {
                let [line, next] = pair else { continue };
                let is_prose =
                    |it: &str| !it.is_empty() && !it.starts_with(' ') && !it.ends_with(':');
                let first = next.split(' ').next().unwrap_or_default();
                if after.contains(line) && is_prose(line) && is_prose(next) {
                    let wide = line.chars().count() + 1 + first.chars().count();
                    assert!(wide > 80, "nightwatt {name} --help: `{line}` before `{next}`");
                }
            }
        }
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
