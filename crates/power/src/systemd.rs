//! A unit of systemd, by the program `systemctl`.
//!
//! ```toml
//! [site.power.systemd]
//! unit = "web.service"
//! host = "root@web"                 # optional, as all below: on another machine, by ssh
//! sleep = "stop"                    # or freeze: its processes stand still, and keep their memory
//! program = "systemctl"
//! timeout = "2m"
//! ```
//!
//! It is started, or thawed if it is found frozen. `freeze` needs systemd 246 and unified cgroups.
//!
//! Another machine is spoken to by `systemctl --host`, that is by the OpenSSH client of the proxy's user:
//! the host's key must be known to it, and no password be needed. That machine has to stay awake, since
//! it is asked for the unit's state.

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_energy::duration_text;
use serde::{Deserialize, Deserializer};

use crate::facts::{Facts, Program};
use crate::program_error_hints::Complaints;
use crate::rewake::Again;
use crate::tool::Tool;
use crate::{ConfigError, Context, Controller, Error, Observed, Subject, Work};

/// What `systemctl` complains of.
const COMPLAINTS: Complaints = Complaints {
    missing: "this machine has no systemd: use the driver `process` or `command`; or say where it is: \
              `program = \"/path/systemctl\"`",
    slow: "`systemctl status UNIT` says what it waits for; if it is meant to take that long, raise \
           `timeout`",
    known: &[
        (
            "Host key verification failed",
            "as the proxy's user, connect to the host once by ssh, and check its key",
        ),
        (
            "Permission denied",
            "put the public key of the proxy's user into the host's authorized_keys",
        ),
        ("Could not resolve", "check the name of the host, or give its address"),
        ("Connection refused", "check that sshd runs on the host, and its port (`~/.ssh/config`)"),
        (
            "has not been booted with systemd",
            "this machine runs without systemd: use the driver `process` or `command`, or name a `host`",
        ),
        ("not found", "`systemctl list-unit-files` has the names of the units; set `unit`"),
        ("is masked", "`systemctl unmask UNIT`"),
        (
            "start request repeated too quickly",
            "`systemctl reset-failed UNIT`, and see `journalctl -u UNIT` for why it ends each time",
        ),
        (
            "authentication required",
            "run the proxy as root, or let polkit allow its user `org.freedesktop.systemd1.manage-units` \
             for this unit",
        ),
        (
            "Transport endpoint is not connected",
            "D-Bus lets in no user of `DynamicUser`: make one, as by `adduser --system --group nightwatt`, and \
             restart the proxy",
        ),
        (
            "Access denied",
            "run the proxy as root, or let polkit allow its user to manage this unit",
        ),
        ("not supported", "this kernel or systemd cannot freeze units: set `sleep = \"stop\"`"),
        ("control process exited", "`journalctl -u UNIT` says why it does not start"),
    ],
    others: "run the command by hand as the proxy's user; `systemctl status UNIT` says more",
};

/// The table `[site.power.systemd]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Its name, with its suffix.
    #[serde(deserialize_with = "unit")]
    pub unit: String,
    /// `[USER@]HOST`.
    #[serde(default, deserialize_with = "host")]
    pub host: Option<String>,
    /// How it sleeps.
    #[serde(default)]
    pub sleep: Sleep,
    /// The program.
    #[serde(default = "systemctl")]
    pub program: PathBuf,
    /// How long each of its commands may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

/// How a unit sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sleep {
    /// It is stopped.
    #[default]
    Stop,
    /// Its processes stand still.
    Freeze,
}

fn systemctl() -> PathBuf {
    PathBuf::from("systemctl")
}

fn timeout() -> Duration {
    Duration::from_mins(2)
}

fn unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    // systemd.unit(5); what else there is could be a pattern or an option.
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let has_suffix = name.rsplit_once('.').is_some_and(|(stem, suffix)| {
        !stem.is_empty()
            && suffix.bytes().all(|byte| byte.is_ascii_lowercase())
            && !suffix.is_empty()
    });
    if name.starts_with('-') || !name.chars().all(allowed) || !has_suffix {
        return Err(serde::de::Error::custom(format!(
            "`{name}` is no name of a unit, as `web.service` or `machine@1.target`"
        )));
    }
    Ok(name)
}

fn host<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    crate::ssh::destination(deserializer).map(Some)
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let program = Some(Program { name: "systemctl", package: "systemd" });
        Facts { program, is_on_this_machine: self.host.is_none(), ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Systemd, ConfigError> {
        let mut arguments = Vec::new();
        let mut called = "systemctl".to_owned();
        if let Some(host) = &self.host {
            arguments.push(format!("--host={host}"));
            called = format!("systemctl --host={host}");
        }
        arguments.extend(["--no-ask-password", "--no-pager"].map(str::to_owned));
        let tool = Tool {
            program: self.program.clone(),
            arguments,
            password: None,
            called,
            timeout: self.timeout,
            clock: context.clock.clone(),
            complaints: COMPLAINTS,
        };
        Ok(Systemd { tool, config: self.clone(), again: Again::new(&context.clock) })
    }
}

/// What is asked of a unit.
const PROPERTIES: &str = "--property=LoadState,ActiveState,FreezerState";

/// The state of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    Frozen,
    /// Stopped, or failed.
    Inactive,
    Starting,
    Stopping,
    NotFound,
}

impl State {
    fn read(output: &str) -> Option<Self> {
        let of = |name: &str| {
            output.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))
        };
        if of("LoadState")? == "not-found" {
            return Some(Self::NotFound);
        }
        match of("ActiveState")? {
            // Older systemd has no freezer.
            "active" if of("FreezerState").is_some_and(|it| it.starts_with("frozen")) => {
                Some(Self::Frozen)
            }
            "active" | "reloading" | "refreshing" => Some(Self::Active),
            "inactive" | "failed" => Some(Self::Inactive),
            "activating" | "maintenance" => Some(Self::Starting),
            "deactivating" => Some(Self::Stopping),
            _ => None,
        }
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Systemd {
    config: Config,
    tool: Tool,
    again: Again,
}

impl Systemd {
    async fn state_now(&self) -> Result<State, Error> {
        let ask = ["show", PROPERTIES, "--", &self.config.unit];
        let output = self.tool.run(&ask).await?;
        match State::read(&output) {
            Some(State::NotFound) => Err(Error::Refused {
                whom: self.tool.called.clone(),
                what: format!("control {}", self.config.unit),
                why: "there is no such unit".to_owned(),
                hint: "`systemctl list-unit-files` has the names of the units; set `unit`",
            }),
            Some(state) => Ok(state),
            None => Err(self.tool.nonsense(&ask, &output)),
        }
    }

    async fn command(&self, name: &str) -> Result<(), Error> {
        self.tool.run(&[name, "--", &self.config.unit]).await.map(drop)
    }

    async fn wake_up(&self) -> Result<(), Error> {
        self.again.woken();
        match self.state_now().await? {
            State::Active | State::Starting => Ok(()),
            State::Frozen => self.command("thaw").await,
            // After what stops it, if it is still being stopped.
            _ => self.command("start").await,
        }
    }

    async fn put_to_sleep(&self) -> Result<(), Error> {
        self.again.put_to_sleep();
        match (self.state_now().await?, self.config.sleep) {
            (State::Frozen | State::Inactive | State::Stopping, _) => Ok(()),
            (_, Sleep::Stop) => self.command("stop").await,
            (_, Sleep::Freeze) => self.command("freeze").await,
        }
    }
}

impl Controller for Systemd {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.wake_up())
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.put_to_sleep())
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            Ok(match self.state_now().await? {
                State::Active => Observed::Up,
                State::Frozen => Observed::Frozen,
                State::Inactive => Observed::Down,
                _ => Observed::Unknown,
            })
        })
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn subject(&self) -> Subject {
        Subject::Unit
    }

    fn remind(&self) -> Work<'_, ()> {
        self.again.remind(self.wake_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_unit_is_what_its_properties_say_together() {
        let read = |load: &str, active: &str, freezer: &str| {
            State::read(&format!("LoadState={load}\nActiveState={active}\n{freezer}"))
        };
        assert_eq!(read("loaded", "active", "FreezerState=running\n"), Some(State::Active));
        assert_eq!(read("loaded", "active", "FreezerState=frozen"), Some(State::Frozen));
        assert_eq!(read("loaded", "active", "FreezerState=frozen-by-parent"), Some(State::Frozen));
        assert_eq!(read("loaded", "active", ""), Some(State::Active), "before systemd 246");
        assert_eq!(read("loaded", "failed", "FreezerState=running"), Some(State::Inactive));
        assert_eq!(read("loaded", "deactivating", ""), Some(State::Stopping));
        assert_eq!(read("not-found", "inactive", ""), Some(State::NotFound));
        for nonsense in ["", "active", "LoadState=loaded", "LoadState=loaded\nActiveState=well"] {
            assert_eq!(State::read(nonsense), None, "{nonsense}");
        }
    }
}
