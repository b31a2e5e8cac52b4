//! Shell commands of your own for waking, sleeping and asking.
//!
//! ```toml
//! [site.power.command]
//! wake = "wakeonlan 00:11:22:33:44:55"
//! sleep = "ssh root@web systemctl suspend"
//! probe = "ping -c1 -W1 web"                # optional: exit status 0 = up, others = down
//! timeout = "30s"                           # then the command is killed, with all it started
//! ```
//!
//! They run through `/bin/sh -c`, with `NIGHTWATT_SITE` and `NIGHTWATT_ACTION` (`wake`, `sleep` or
//! `probe`) in their environment, and may be called again in any state: waking what is awake must
//! succeed. What they leave running in the background on success lives on; it should not write to
//! their standard output, which is closed by then.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nightwatt_clock::{Clock, Elapsed};
use nightwatt_model::duration_text;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Deserializer};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command as Shell};
use tracing::debug;

use crate::real_work::within;
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

/// So much of the end of a command's output goes into the error message.
const OUTPUT_KEPT: usize = 4096;

/// As much as a pipe holds: what a command had written before it ended, and no more.
const PIPE_SIZE: usize = 65_536;

/// What a shell exits with when it cannot run (126) or find (127) what it was asked to.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// The table `[site.power.command]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Wakes the server.
    #[serde(deserialize_with = "script")]
    pub wake: String,
    /// Puts it to sleep.
    #[serde(deserialize_with = "script")]
    pub sleep: String,
    /// Exits with 0 when the server is up, and otherwise when it is down.
    #[serde(default)]
    pub probe: Option<String>,
    /// How long each may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

fn timeout() -> Duration {
    Duration::from_secs(30)
}

fn script<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let script = String::deserialize(deserializer)?;
    if script.trim().is_empty() {
        return Err(serde::de::Error::custom(
            "the command is empty; `true` is the one that does nothing and succeeds",
        ));
    }
    Ok(script)
}

impl Config {
    /// These commands, with nothing to ask with and the usual time-out.
    pub fn new(wake: impl Into<String>, sleep: impl Into<String>) -> Self {
        Self { wake: wake.into(), sleep: sleep.into(), probe: None, timeout: timeout() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Command, ConfigError> {
        let (clock, site) = (context.clock.clone(), context.site.clone());
        Ok(Command { config: self.clone(), clock, site })
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Command {
    config: Config,
    clock: Clock,
    site: String,
}

impl Command {
    async fn command(&self, action: &'static str, script: &str) -> Result<(), Error> {
        let (status, output) = self.run(action, script).await?;
        if status.success() { Ok(()) } else { Err(failed(script, status, &output)) }
    }

    async fn probe(&self) -> Result<Observed, Error> {
        let Some(script) = &self.config.probe else { return Ok(Observed::Unknown) };
        let (status, output) = self.run("probe", script).await?;
        match status.code() {
            Some(0) => Ok(Observed::Up),
            Some(code) if !CANNOT_RUN.contains(&code) => Ok(Observed::Down),
            _ => Err(failed(script, status, &output)),
        }
    }

    async fn run(&self, action: &str, script: &str) -> Result<(ExitStatus, Tail), Error> {
        debug!(site = self.site, action, script, "running a command");
        let shell = "/bin/sh";
        let mut started = Started::new(shell, script, &self.site, action)
            .map_err(|source| Error::Start { program: shell.to_owned(), source })?;
        let mut output = Tail::default();
        let limit = self.config.timeout;
        match within(&self.clock, limit, started.finish(&mut output)).await {
            Ok(Ok(status)) => Ok((status, output)),
            Ok(Err(source)) => {
                Err(Error::System { attempt: format!("wait for `{script}`"), source })
            }
            Err(Elapsed) => {
                let (command, output) = (script.to_owned(), output.text());
                Err(Error::TimedOut { command, limit, output })
            }
        }
    }
}

fn failed(script: &str, status: ExitStatus, output: &Tail) -> Error {
    Error::Failed { command: script.to_owned(), status: status.to_string(), output: output.text() }
}

/// A command that runs. Dropped before it ended, it is killed with all it started.
struct Started {
    child: Child,
    output: pipe::Receiver,
    /// Its process group, as long as that is certainly its own.
    group: Option<Pid>,
}

impl Started {
    fn new(shell: &str, script: &str, site: &str, action: &str) -> io::Result<Self> {
        // One pipe for both, so that their order is kept.
        let (output, writer) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(output))?;
        let child = Shell::new(shell)
            .args(["-c", script])
            .env("NIGHTWATT_SITE", site)
            .env("NIGHTWATT_ACTION", action)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, output, group })
    }

    /// Waits for the shell itself: what it left in the background may hold the pipe open for ever.
    async fn finish(&mut self, tail: &mut Tail) -> io::Result<ExitStatus> {
        let mut buffer = [0; OUTPUT_KEPT];
        let mut open = true;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                read = self.output.read(&mut buffer), if open => {
                    let count = read?;
                    open = count > 0;
                    tail.push(&buffer[..count]);
                }
            }
        };
        self.group = None;
        let mut left = PIPE_SIZE;
        while let Ok(count @ 1..) = self.output.try_read(&mut buffer)
            && left > 0
        {
            left = left.saturating_sub(count);
            tail.push(&buffer[..count]);
        }
        Ok(status)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The shell is not yet waited for (tokio does that after us), so the id is still its.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// The end of an output.
#[derive(Debug, Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(OUTPUT_KEPT);
        self.0.drain(..surplus);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).trim().to_owned()
    }
}

impl Controller for Command {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.command("wake", &self.config.wake))
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.command("sleep", &self.config.sleep))
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(self.probe())
    }
}
