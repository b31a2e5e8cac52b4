//! Commands on another machine, by the OpenSSH client.
//!
//! ```toml
//! [site.power.sleep.ssh]            # the machine itself is put to sleep
//! host = "root@web"                 # as `ssh` has it: an alias of ~/.ssh/config too
//! sleep = "systemctl suspend"       # optional: this is what it is
//! identity = "/etc/nightwatt/id"    # optional
//! port = 22                         # optional
//! known_hosts = "/etc/nightwatt/known_hosts"    # optional: ~/.ssh/known_hosts
//! timeout = "20s"                   # optional
//!
//! [site.power.ssh]                  # or its host starts and stops it
//! host = "root@hypervisor"
//! wake = "virsh start web"
//! sleep = "virsh shutdown web"
//! state = "virsh domstate web | grep -q running"    # optional: exit status 0 = up
//! ```
//!
//! The host's key must be known (`StrictHostKeyChecking=yes`): an impostor could keep the server awake, or
//! worse. `ssh` never asks for a password. `state` is asked of the host while the server sleeps: set it
//! only if the two are different machines.
//!
//! A machine that falls asleep may take the connection with it. That is no failure: whether it sleeps
//! is for the probe to find out.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use serde::{Deserialize, Deserializer};
use tokio::process::Command;
use tracing::debug;

use crate::facts::{Facts, Program};
use crate::helper;
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

/// What `ssh` exits with if it failed, and not the command.
const FAILED: i32 = 255;

/// What it says if the connection ended while the command ran.
const WENT_AWAY: [&str; 4] =
    ["closed by remote host", "Connection reset", "Broken pipe", "not responding"];

/// What it says if the connection ended before there was one.
const NEVER_CAME: [&str; 2] = ["exchange_identification", "banner exchange"];

/// The table `[site.power.ssh]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[USER@]HOST`.
    #[serde(deserialize_with = "destination")]
    pub host: String,
    /// Wakes the server.
    #[serde(default)]
    pub wake: Option<String>,
    /// Puts it to sleep.
    #[serde(default = "suspend")]
    pub sleep: String,
    /// Exits with 0 if it is up.
    #[serde(default)]
    pub state: Option<String>,
    /// The file of the private key.
    #[serde(default)]
    pub identity: Option<PathBuf>,
    /// Where `sshd` listens.
    #[serde(default)]
    pub port: Option<u16>,
    /// The file of the keys of hosts.
    #[serde(default)]
    pub known_hosts: Option<PathBuf>,
    /// How long all of it may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

fn suspend() -> String {
    "systemctl suspend".to_owned()
}

fn timeout() -> Duration {
    Duration::from_secs(20)
}

pub(crate) fn destination<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let host = String::deserialize(deserializer)?;
    // What begins with a dash is an option to `ssh`.
    let is_host = !host.is_empty()
        && !host.starts_with('-')
        && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_host {
        return Ok(host);
    }
    Err(serde::de::Error::custom(format!("`{host}` is no host as `root@web` is")))
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let (identity, known_hosts) = (self.identity.as_deref(), self.known_hosts.as_deref());
        let cannot_wake = self.wake.is_none().then(|| {
            format!(
                "what wakes the server? A sleeping machine takes no commands: say `wake = \"...\"` if \
                 {} is another one, or write `[site.power.sleep.ssh]` and beside it how the server is \
                 woken, as `[site.power.wake.wol]`",
                self.host
            )
        });
        Facts {
            program: Some(Program { name: "ssh", package: "openssh-client" }),
            is_mute: self.state.is_none(),
            cannot_wake,
            files: vec![("identity", identity), ("known_hosts", known_hosts)],
            ..Facts::default()
        }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Ssh, ConfigError> {
        Ok(Ssh { config: self.clone(), clock: context.clock.clone() })
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Ssh {
    config: Config,
    clock: Clock,
}

impl Ssh {
    async fn run(&self, script: &str) -> Result<(ExitStatus, String), Error> {
        let Config { host, identity, port, known_hosts, timeout, .. } = &self.config;
        debug!(host, script, "running a command by ssh");
        let mut ssh = Command::new("ssh");
        let connect = timeout.as_secs().clamp(1, 10);
        ssh.args(["-T", "-n", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]);
        ssh.args(["-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"]);
        // A master connection would outlive the command, and keep the machine awake.
        ssh.args(["-o", "ControlMaster=no", "-o", "ControlPath=none"]);
        ssh.arg("-o").arg(format!("ConnectTimeout={connect}"));
        if let Some(identity) = identity {
            ssh.args(["-o", "IdentitiesOnly=yes", "-i"]).arg(identity);
        }
        if let Some(port) = port {
            ssh.arg("-p").arg(port.to_string());
        }
        if let Some(known_hosts) = known_hosts {
            let mut option = std::ffi::OsString::from("UserKnownHostsFile=");
            option.push(known_hosts);
            ssh.arg("-o").arg(option);
        }
        ssh.args([host, "--", script]);
        helper::run(&self.clock, *timeout, ssh, &format!("ssh {host} {script}")).await
    }

    fn failed(&self, script: &str, status: ExitStatus, output: String) -> Error {
        let host = self.config.host.clone();
        if status.code() == Some(FAILED) {
            return Error::Ssh { host, output };
        }
        let command = format!("ssh {host} {script}");
        Error::Failed { command, status: status.to_string(), output }
    }

    async fn command(&self, script: &str) -> Result<(), Error> {
        let (status, output) = self.run(script).await?;
        if status.success() { Ok(()) } else { Err(self.failed(script, status, output)) }
    }

    async fn put_to_sleep(&self) -> Result<(), Error> {
        let script = &self.config.sleep;
        let (status, output) = self.run(script).await?;
        let says = |words: &[&str]| words.iter().any(|words| output.contains(words));
        let went_away = status.code() == Some(FAILED) && says(&WENT_AWAY) && !says(&NEVER_CAME);
        if status.success() || went_away {
            return Ok(());
        }
        Err(self.failed(script, status, output))
    }

    async fn ask(&self) -> Result<Observed, Error> {
        let Some(script) = &self.config.state else { return Ok(Observed::Unknown) };
        let (status, output) = self.run(script).await?;
        match status.code() {
            Some(0) => Ok(Observed::Up),
            Some(code) if code != FAILED => Ok(Observed::Down),
            _ => Err(self.failed(script, status, output)),
        }
    }
}

impl Controller for Ssh {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            match &self.config.wake {
                Some(script) => self.command(script).await,
                // No configuration gets here.
                None => Ok(()),
            }
        })
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.put_to_sleep())
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(self.ask())
    }

    fn asks_others(&self) -> bool {
        self.config.state.is_some()
    }

    fn nothing(&self) -> Work<'_, ()> {
        Box::pin(self.command("true"))
    }
}
