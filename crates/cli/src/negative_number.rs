//! Negative numbers on the command line: clap takes `-1` for an option of that name.

use std::any::TypeId;
use std::ffi::OsString;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::errors::Failure;

/// What is wrong, if clap found a negative number where an option takes a positive one. `program` has all commands.
pub(crate) fn failure(
    error: &clap::Error,
    line: &[OsString],
    program: &Command,
) -> Option<Failure> {
    let (option, value) = match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::InvalidValue => alone(line, program)?,
        ErrorKind::ValueValidation => rejected(error, line, program)?,
        // What is missing is found before what is wrong.
        ErrorKind::MissingRequiredArgument => joined(line, program)?,
        _ => return None,
    };
    let name = spelling(option)?;
    Some(Failure::new(format!("`{name}` must not be negative, and is `{value}`")).into_usage())
}

/// An option and the word behind it, which clap took for another option: `--price -1`.
fn alone<'a>(line: &[OsString], program: &'a Command) -> Option<(&'a Arg, String)> {
    let ours = line.split(|word| word == "--").next().unwrap_or_default();
    ours.windows(2).find_map(|pair| {
        let [option, value] = pair else { return None };
        let value = value.to_str().filter(|value| is_negative(value))?;
        let option = option_of(of_line(line, program), option.to_str()?)?;
        let takes_one = option.get_action().takes_values();
        let is_left_alone = option.is_allow_hyphen_values_set();
        (takes_one && !is_left_alone).then(|| (option, value.to_owned()))
    })
}

/// A number in one word with its option: `--price=-1`.
fn joined<'a>(line: &[OsString], program: &'a Command) -> Option<(&'a Arg, String)> {
    let ours = line.split(|word| word == "--").next().unwrap_or_default();
    ours.iter().find_map(|word| {
        let (option, value) = word.to_str()?.split_once('=')?;
        let option = option_of(of_line(line, program), option)?;
        (is_negative(value) && is_number(option)).then(|| (option, value.to_owned()))
    })
}

/// A value that the option's parser did not take: `--price=-1`.
fn rejected<'a>(
    error: &clap::Error,
    line: &[OsString],
    program: &'a Command,
) -> Option<(&'a Arg, String)> {
    let (Some(ContextValue::String(name)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    // `--price <PRICE>`.
    let option = option_of(of_line(line, program), name.split([' ', '=', '[']).next()?)?;
    (is_negative(value) && is_number(option)).then(|| (option, value.clone()))
}

/// The command that the line is of, such as `tcp lab`.
fn of_line<'a>(line: &[OsString], program: &'a Command) -> &'a Command {
    let mut command = program;
    for word in line.iter().skip(1) {
        match word.to_str().and_then(|word| command.find_subcommand(word)) {
            Some(within) => command = within,
            None => break,
        }
    }
    command
}

fn option_of<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_it = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| word == format!("-{short}")),
    };
    command.get_arguments().find(is_it)
}

fn spelling(option: &Arg) -> Option<String> {
    let long = option.get_long().map(|long| format!("--{long}"));
    long.or_else(|| option.get_short().map(|short| format!("-{short}")))
}

/// `-1`, `-0.5`, `-10s`.
fn is_negative(word: &str) -> bool {
    let number = word.strip_prefix('-').map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    number.is_some_and(|number| number.starts_with(|it: char| it.is_ascii_digit()))
}

/// Whether its value is a number of something, or a time.
fn is_number(option: &Arg) -> bool {
    let types = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<f32>(),
        TypeId::of::<f64>(),
        TypeId::of::<Duration>(),
    ];
    let id = option.get_value_parser().type_id();
    types.iter().any(|it| id == *it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help;

    /// All options with a number, each with the words of its command.
    fn numeric(command: &Command, words: &[String], to: &mut Vec<(Vec<String>, String)>) {
        for within in command.get_subcommands() {
            let words = [words, &[within.get_name().to_owned()]].concat();
            numeric(within, &words, to);
        }
        let options = command.get_arguments().filter(|it| !it.is_positional() && is_number(it));
        to.extend(options.filter_map(|it| Some((words.to_vec(), spelling(it)?))));
    }

    fn message(words: &[String]) -> Option<String> {
        let line: Vec<OsString> = words.iter().map(OsString::from).collect();
        let program = help::command();
        let error = program.clone().try_get_matches_from(&line).err()?;
        failure(&error, &line, &program).map(|it| it.to_string())
    }

    #[test]
    fn no_number_of_any_command_may_be_negative() {
        let mut all = Vec::new();
        numeric(&help::command(), &["nightwatt".to_owned()], &mut all);
        assert!(all.len() > 80, "{}", all.len());
        for (words, option) in all {
            let line = words.join(" ");
            for value in ["-1", "-0.5", "-10s"] {
                let expected = format!("error: `{option}` must not be negative, and is `{value}`");
                let apart = [&words[..], &[option.clone(), value.to_owned()]].concat();
                let joined = [&words[..], &[format!("{option}={value}")]].concat();
                // A number that the parser takes is refused by the command itself.
                let is_taken = help::command().try_get_matches_from(&joined).is_ok();
                assert!(
                    is_taken || message(&joined).as_ref() == Some(&expected),
                    "{line} {option}={value}"
                );
                assert_eq!(message(&apart).as_ref(), Some(&expected), "{line} {option} {value}");
            }
        }
    }

    #[test]
    fn other_words_are_left_to_clap() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(message(&words("nightwatt run -r 3 -- tail -1")), None, "of another program");
        assert_eq!(message(&words("nightwatt run -1 true")), None, "of no option");
        assert_eq!(message(&words("nightwatt check --json -1")), None, "it has no value");
    }
}
