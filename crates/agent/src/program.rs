//! Programs of others: their time and what is kept of their output are limited.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_host::tool::{self, Capture, Failed};
use tokio::process::Command;

/// More than any list of timers needs.
const OUTPUT_KEPT: usize = 1 << 20;

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The first line that says something, of either output.
    pub(crate) fn first_line(&self) -> Option<&str> {
        let mut lines = self.stdout.lines().chain(self.stderr.lines()).map(str::trim);
        lines.find(|line| !line.is_empty())
    }
}

/// Why there is no such end.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// There is no such program.
    Absent,
    /// It cannot be run.
    Cannot(io::Error),
    /// It took too long and was killed.
    TimedOut,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no such program"),
            Self::Cannot(error) => write!(f, "{error}"),
            Self::TimedOut => f.write_str("it took too long and was killed"),
        }
    }
}

/// A command line for the shell.
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

/// Runs it to its end.
pub(crate) async fn run(command: Command, limit: Duration) -> Result<Ended, Trouble> {
    let capture = Capture::BeginningOfEach(OUTPUT_KEPT);
    match tool::run(&Clock::real(), limit, command, capture).await {
        Ok(tool::Ended { status, stdout, stderr }) => {
            let [stdout, stderr] =
                [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            Ok(Ended { status, stdout, stderr })
        }
        Err(Failed::Start(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err(Trouble::Absent)
        }
        Err(Failed::Start(error) | Failed::Wait(error)) => Err(Trouble::Cannot(error)),
        Err(Failed::TimedOut(_)) => Err(Trouble::TimedOut),
    }
}
