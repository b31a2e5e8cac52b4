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

use std::process::ExitStatus;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use serde::{Deserialize, Deserializer};
use tracing::debug;

use crate::facts::Facts;
use crate::helper;
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

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

    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts { is_mute: self.probe.is_none(), ..Facts::default() }
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
        if status.success() { Ok(()) } else { Err(failed(script, status, output)) }
    }

    async fn probe(&self) -> Result<Observed, Error> {
        let Some(script) = &self.config.probe else { return Ok(Observed::Unknown) };
        let (status, output) = self.run("probe", script).await?;
        match status.code() {
            Some(0) => Ok(Observed::Up),
            Some(code) if !CANNOT_RUN.contains(&code) => Ok(Observed::Down),
            _ => Err(failed(script, status, output)),
        }
    }

    async fn run(&self, action: &str, script: &str) -> Result<(ExitStatus, String), Error> {
        debug!(site = self.site, action, script, "running a command");
        let mut shell = tokio::process::Command::new("/bin/sh");
        shell.args(["-c", script]);
        shell.env("NIGHTWATT_SITE", &self.site).env("NIGHTWATT_ACTION", action);
        helper::run(&self.clock, self.config.timeout, shell, script).await
    }
}

fn failed(script: &str, status: ExitStatus, output: String) -> Error {
    Error::Failed { command: script.to_owned(), status: status.to_string(), output }
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
