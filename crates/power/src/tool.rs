//! Programs that control servers: `virsh`, `systemctl`, `ipmitool`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_host::secret::Secret;
use nightwatt_host::text::brief;
use tokio::process::Command;
use tracing::debug;

use crate::program_error_hints::{Complaints, cure};
use crate::{Error, helper};

/// One such program, and what is known of its complaints.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) program: PathBuf,
    /// Come first in each call.
    pub(crate) arguments: Vec<String>,
    /// A variable of its environment that holds a password.
    pub(crate) password: Option<(&'static str, Secret)>,
    /// How errors call it: `virsh -c qemu:///system`.
    pub(crate) called: String,
    pub(crate) timeout: Duration,
    pub(crate) clock: Clock,
    pub(crate) complaints: Complaints,
}

impl Tool {
    /// Runs it: what it printed, if it says that it succeeded.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        let told = format!("{} {}", self.called, arguments.join(" "));
        debug!(command = told, "running");
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(arguments);
        // What it says is read.
        command.env("LC_ALL", "C");
        if let Some((name, password)) = &self.password {
            command.env(name, password.reveal());
        }
        let ended = helper::run(&self.clock, self.timeout, command, &told).await;
        let (status, output) = ended.map_err(|error| self.could_not_run(error))?;
        if status.success() {
            return Ok(output);
        }
        let hint = cure(self.complaints.known, &output).unwrap_or(self.complaints.others);
        let why = if output.is_empty() { status.to_string() } else { brief(output.as_bytes()) };
        let (whom, what) = (self.called.clone(), arguments.join(" "));
        Err(Error::Refused { whom, what, why, hint })
    }

    fn could_not_run(&self, error: Error) -> Error {
        match error {
            Error::Start { program, source } if source.kind() == io::ErrorKind::NotFound => {
                Error::Missing { program, hint: self.complaints.missing }
            }
            Error::TimedOut { command: whom, limit, output } => {
                let known = cure(self.complaints.known, &output);
                Error::Silent { whom, limit, hint: known.unwrap_or(self.complaints.slow) }
            }
            error => error,
        }
    }

    /// The error for output that cannot be parsed.
    pub(crate) fn nonsense(&self, arguments: &[&str], output: &str) -> Error {
        let whom = format!("{} {}", self.called, arguments.join(" "));
        Error::Nonsense { whom, what: format!("`{}`", brief(output.as_bytes())) }
    }
}
