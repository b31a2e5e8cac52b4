//! Options that do not exist, before the command line of another program: they could be that program's name.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::errors::Failure;

/// Commands that run another program.
const RUNNERS: [&str; 3] = ["run", "caliper", "disk"];

/// What is wrong, if clap found an option that such a command does not have.
pub(crate) fn failure(error: &clap::Error, line: &[OsString]) -> Option<Failure> {
    let is_runner = line.get(1).is_some_and(|word| RUNNERS.iter().any(|it| word == it));
    if error.kind() != ErrorKind::UnknownArgument || !is_runner {
        return None;
    }
    let option = named(error.get(ContextKind::InvalidArg)?)?;
    let similar = error.get(ContextKind::SuggestedArg).and_then(named);
    let similar = similar.map_or_else(String::new, |it| format!("; similar: `{it}`"));
    let what = format!("there is no option `{option}`{similar}");
    let hint = "a program whose name begins with - goes after --";
    Some(Failure::new(what).hint(hint).into_usage())
}

fn named(value: &ContextValue) -> Option<&str> {
    match value {
        ContextValue::String(name) => Some(name),
        ContextValue::Strings(names) => names.first().map(String::as_str),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help;

    fn message(line: &str) -> Option<String> {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = help::command().try_get_matches_from(&line).err()?;
        failure(&error, &line).map(|it| it.to_string())
    }

    #[test]
    fn an_option_that_does_not_exist_is_no_program() {
        let wanted = "error: there is no option `--repeats`; similar: `--repeat`\n\
                      hint: a program whose name begins with - goes after --";
        assert_eq!(message("nightwatt run --repeats 3 -- true").as_deref(), Some(wanted));
        let said_of = message("nightwatt caliper --marker -- true").unwrap();
        assert!(said_of.contains("`--marker`; similar: `--markers`"), "{said_of}");
        for right in [
            "nightwatt run -r 3 ls -la",
            "nightwatt run -- --repeats 3",
            "nightwatt run ls --color",
        ] {
            assert_eq!(message(right), None);
        }
        assert_eq!(message("nightwatt serve --repeats"), None, "clap says it");
    }
}
