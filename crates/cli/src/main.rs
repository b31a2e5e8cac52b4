//! The one binary: `nightwatt`.
//!
//! ```text
//! args (parse) -> commands/<one per subcommand> (resolve, run) -> exit status
//! ```
//!
//! Results go to stdout; progress, logs, warnings and errors to stderr.

mod args;
mod commands;
mod control;
mod errors;
mod figures;
mod help;
mod logging;
mod output;
mod progress;
mod report_file;
mod service_manager;
mod signals;
mod whole_file;
mod written;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::{Args, Command};
use crate::errors::Failure;

/// How the program ended, for whoever started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitStatus {
    /// All is well.
    Success,
    /// The command failed; for `demo` also: a request was lost or answered twice.
    Failed,
    /// The command line or a configuration file is wrong; nothing was done. (Also what clap says.)
    Usage,
    /// As a command ended that was run for the user, or why it could not be run.
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
    let matches = help::command().get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let status = run(&args.command).unwrap_or_else(|failure| {
        output::complain(&failure.to_string());
        failure.status()
    });
    status.into()
}

fn run(command: &Command) -> Result<ExitStatus, Failure> {
    match command {
        Command::Meters(args) => commands::meters::run(args),
        Command::Record(args) => commands::record::run(args),
        Command::Export(args) => commands::export::run(args),
        Command::Calibrate(args) => commands::calibrate::run(args),
        Command::Run(args) => commands::run::run(args),
        #[cfg(feature = "bpf")]
        Command::Caliper(args) => commands::caliper::run(args),
        #[cfg(feature = "bpf")]
        Command::Disk(args) => commands::disk::run(args),
        Command::Init(args) => commands::init::run(args),
        Command::Serve(args) => commands::serve::run(args),
        Command::Agent(args) => commands::agent::run(args),
        Command::Status(args) => commands::status::run(args),
        Command::Wake(args) => commands::wake::run(args),
        Command::Sleep(args) => commands::sleep::run(args),
        Command::StayAwake(args) => commands::stay_awake::run(args),
        Command::Purge(args) => commands::purge::run(args),
        Command::Why(args) => commands::why::run(args),
        Command::Forgive(args) => commands::forgive::run(args),
        Command::Reload(args) => commands::reload::run(args),
        Command::Analyze(args) => commands::analyze::run(args),
        Command::Published(args) => commands::published::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Reproduce(args) => commands::reproduce::run(args),
        Command::Demo(args) => commands::demo::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Load(args) => commands::load::run(args),
        Command::Tcp(args) => commands::tcp::run(args),
        Command::Fleet(args) => commands::fleet::run(args),
        Command::Mining(args) => commands::mining::run(args),
        Command::Origin(args) => commands::origin::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
    }
}
