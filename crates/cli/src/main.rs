//! The one binary: `nightwatt`.
//!
//! ```text
//! commands/<one per subcommand> (arguments, run) -> exit status
//! ```
//!
//! Results go to stdout; progress, logs, warnings and errors to stderr.

mod args;
mod commands;
mod control;
mod dry_run;
mod errors;
mod experiment;
mod figures;
mod help;
#[cfg(feature = "bpf")]
mod live_table;
mod logging;
mod negative_number;
mod old_spellings;
mod order_and_wait;
mod output;
mod progress;
mod report_file;
mod report_pages;
mod service_manager;
mod signals;
mod unknown_option;
mod values;
mod whole_file;

use std::env;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::commands::Cli;

/// How the program ended: the exit status that its caller sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitStatus {
    /// Success.
    Success,
    /// The command failed; for `demo` also: a request was lost or answered twice.
    Failed,
    /// The command line or a configuration file is wrong; nothing was done. (clap's own errors too.)
    Usage,
    /// The exit status of the command that was run for the user, or the status that says why it could not be run.
    Of(u8),
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(match status {
            ExitStatus::Success => 0,
            ExitStatus::Failed => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Of(status) => status,
        })
    }
}

fn main() -> ExitCode {
    let line = old_spellings::renewed(env::args_os(), output::complain);
    let program = help::command();
    let matches = match program.clone().try_get_matches_from(&line) {
        Ok(matches) => matches,
        Err(error) => {
            let negative = negative_number::failure(&error, &line, &program);
            let failure = negative.or_else(|| unknown_option::failure(&error, &line));
            let Some(failure) = failure else { error.exit() };
            output::complain(&failure.to_string());
            return failure.status().into();
        }
    };
    let args = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let status = args.command.run().unwrap_or_else(|failure| {
        output::complain(&failure.to_string());
        failure.status()
    });
    status.into()
}
