//! What can go wrong, and what to try next.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error as ThisError;

/// An environment could not be started or ended, or a setting not be made.
#[derive(Debug, ThisError)]
pub enum Error {
    /// Without the guardian nothing would undo what is done, so nothing is done.
    #[error("cannot start the guardian that undoes what is left (`setsid`, of util-linux): {0}")]
    Guardian(#[source] io::Error),
    /// The list of what is to be undone cannot be kept.
    #[error("cannot keep the list of what is to be undone in {}: {source}", path.display())]
    Journal {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A list of what is to be undone that others may have written, whose lines would be run.
    #[error("{} {why}, so its lines are not run; see what it says, remove it, or give the results a folder of their own", path.display())]
    Untrusted {
        /// The list.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another run, or the guardian of one, is at work.
    #[error("{} belongs to a run that has not ended: wait for it, or give this one a folder of its own", .0.display())]
    Busy(PathBuf),
    /// Something could not be undone.
    #[error(
        "not undone: {}; do that by hand, then remove its line (`+`, a number, what is run) from the list of \
         what is to be undone, the file `undo` of the results",
        .0.join("; ")
    )]
    LeftBehind(Vec<String>),
    /// A command said that it failed.
    #[error("{what}: {}", failed(.command, .status, .output))]
    Failed {
        /// What it was to do.
        what: String,
        /// The command.
        command: String,
        /// Its end in words.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A command could not be started.
    #[error("{what}: cannot start `{program}`: {source}; is it installed?")]
    Start {
        /// What it was to do.
        what: String,
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// It was not done in time.
    #[error("{what}: not done after {limit:?}{}; `ready_seconds` gives it more time", after_colon(.output))]
    TimedOut {
        /// What was to be done.
        what: String,
        /// The time it had.
        limit: Duration,
        /// The end of what it printed.
        output: String,
    },
    /// The caller has asked us to stop.
    #[error("stopped while it was about to {0}")]
    Stopped(String),
    /// A program that the environment needs is not there.
    #[error("{what} needs the program `{program}`, which is not on {place}; {hint}")]
    Missing {
        /// Who needs it.
        what: &'static str,
        /// What it is called.
        program: String,
        /// Where it was looked for.
        place: String,
        /// Where it comes from.
        hint: &'static str,
    },
    /// An option that does not fit.
    #[error("environment `{name}` ({kind}): {why}")]
    Option {
        /// The environment.
        name: String,
        /// Its kind.
        kind: &'static str,
        /// What does not fit, and what would.
        why: String,
    },
    /// A setting that this machine does not offer, or that did not take.
    #[error("{setting}: {why}; {hint}")]
    Setting {
        /// Which.
        setting: String,
        /// Why not.
        why: String,
        /// What helps.
        hint: &'static str,
    },
    /// The system refuses something.
    #[error("cannot {attempt}: {source}")]
    System {
        /// What was tried.
        attempt: String,
        /// Why not.
        source: io::Error,
    },
}

/// What a program said is worth more than how it was called.
fn failed(command: &str, status: &str, output: &str) -> String {
    match output.trim() {
        "" => format!("`{command}` failed ({status})"),
        output => format!("{output} ({status} of `{command}`)"),
    }
}

fn after_colon(output: &str) -> String {
    let output = output.trim();
    if output.is_empty() { String::new() } else { format!(": {output}") }
}
