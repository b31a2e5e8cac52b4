//! A guest of libvirt, by the program `virsh`.
//!
//! ```toml
//! [site.power.libvirt]
//! domain = "web"                    # name or UUID of the guest
//! uri = "qemu:///system"            # optional, as all below; qemu+ssh://root@host/system: elsewhere
//! sleep = "shutdown"                # shutdown, suspend, pmsuspend or managedsave
//! program = "virsh"
//! timeout = "30s"                   # of each command
//! ```
//!
//! | `sleep` | what it does | what wakes it |
//! |---|---|---|
//! | `shutdown` | asks the guest to shut down; it may take its time | `start` |
//! | `suspend` | stops its processors; its memory stays where it is | `resume` |
//! | `pmsuspend` | lets its agent suspend it (qemu-guest-agent, `<pm>` in its definition) | `dompmwakeup` |
//! | `managedsave` | writes its memory to the host's disk: raise `timeout` if that is large | `start` |
//!
//! What wakes it goes by the state that it is found in, however it got there. A guest that is to wake
//! while it still shuts down is looked at again every 5 s.

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_energy::duration_text;
use serde::{Deserialize, Deserializer};

use crate::facts::{Facts, Program};
use crate::program_error_hints::Complaints;
use crate::rewake::Again;
use crate::tool::Tool;
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

/// What `virsh` complains of.
const COMPLAINTS: Complaints = Complaints {
    missing: "install it (Debian: `apt-get install libvirt-clients`), or say where it is: \
              `program = \"/path/virsh\"`",
    slow: "run it by hand as the proxy's user: libvirtd may hang, or ssh wait for a password; if it is \
           meant to take that long (`managedsave`), raise `timeout`",
    known: &[
        ("failed to get domain", "`virsh list --all` has the names of the guests; set `domain`"),
        (
            "Failed to connect socket",
            "start libvirtd (or virtqemud) on that host; as a user other than root be in its group \
             `libvirt`",
        ),
        ("authentication unavailable", "put the proxy's user into the group `libvirt`"),
        ("authentication failed", "put the proxy's user into the group `libvirt`"),
        ("access denied", "put the proxy's user into the group `libvirt`"),
        (
            "Permission denied",
            "put the proxy's user into the group `libvirt`, or its key on the host",
        ),
        (
            "Host key verification failed",
            "as the proxy's user, connect once by ssh and check the key",
        ),
        (
            "guest agent is not",
            "`pmsuspend` needs qemu-guest-agent running in the guest, and its channel \
             (org.qemu.guest_agent.0) in the guest's definition; or set `sleep = \"suspend\"`",
        ),
        ("agent is not responding", "check that qemu-guest-agent runs in the guest"),
        (
            "does not support suspend",
            "allow it in the guest's definition: `<pm><suspend-to-mem enabled='yes'/></pm>`",
        ),
        ("no connection driver", "check `uri`: `virsh uri` says which is the usual one here"),
    ],
    others: "run the command by hand as the proxy's user, and see what the host's libvirtd logs",
};

/// The table `[site.power.libvirt]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name or UUID of the guest.
    #[serde(deserialize_with = "domain")]
    pub domain: String,
    /// Which libvirt.
    #[serde(default = "system", deserialize_with = "uri")]
    pub uri: String,
    /// How it sleeps.
    #[serde(default)]
    pub sleep: Sleep,
    /// The program.
    #[serde(default = "virsh")]
    pub program: PathBuf,
    /// How long each of its commands may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

/// How a guest sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sleep {
    /// Off.
    #[default]
    Shutdown,
    /// Its processors stand still.
    Suspend,
    /// As a machine suspends to RAM.
    PmSuspend,
    /// Its memory is on disk.
    ManagedSave,
}

fn system() -> String {
    "qemu:///system".to_owned()
}

fn virsh() -> PathBuf {
    PathBuf::from("virsh")
}

fn timeout() -> Duration {
    Duration::from_secs(30)
}

fn domain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let wrong = |why: &str| Err(serde::de::Error::custom(format!("`{name}` {why}")));
    if name.is_empty() || name.starts_with('-') || name.chars().any(char::is_control) {
        return wrong("is no name of a guest; `virsh list --all` has them");
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return wrong(
            "is a number that changes with each start of the guest: give its name or UUID",
        );
    }
    Ok(name)
}

fn uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let uri = String::deserialize(deserializer)?;
    let wrong = |why: &str| Err(serde::de::Error::custom(format!("`uri` {why}")));
    let Some((scheme, rest)) = uri.split_once("://") else {
        return wrong("is one as `qemu:///system`, or `qemu+ssh://root@host/system`");
    };
    if scheme.is_empty() || uri.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return wrong("is one as `qemu:///system`, or `qemu+ssh://root@host/system`");
    }
    let host = rest.split('/').next().unwrap_or_default();
    if host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
        return wrong("holds a password, which everybody on this machine could read");
    }
    Ok(uri)
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let program = Some(Program { name: "virsh", package: "libvirt-clients" });
        let is_here = self.uri.split_once("://").is_some_and(|(_, rest)| rest.starts_with('/'));
        Facts { program, is_on_this_machine: is_here, ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Libvirt, ConfigError> {
        let tool = Tool {
            program: self.program.clone(),
            arguments: vec!["-c".to_owned(), self.uri.clone()],
            password: None,
            called: format!("virsh -c {}", self.uri),
            timeout: self.timeout,
            clock: context.clock.clone(),
            complaints: COMPLAINTS,
        };
        Ok(Libvirt { tool, config: self.clone(), again: Again::new(&context.clock) })
    }
}

/// What `virsh domstate` may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Paused,
    PmSuspended,
    ShutOff,
    /// On its way down.
    Leaving,
    Crashed,
    Unknown,
}

impl State {
    /// The words of `virsh`; warnings may stand before them.
    fn read(output: &str) -> Option<Self> {
        output.lines().rev().find_map(|line| match line.trim() {
            "running" | "idle" => Some(Self::Running),
            "paused" => Some(Self::Paused),
            "pmsuspended" => Some(Self::PmSuspended),
            "shut off" => Some(Self::ShutOff),
            "in shutdown" | "dying" => Some(Self::Leaving),
            "crashed" => Some(Self::Crashed),
            "no state" => Some(Self::Unknown),
            _ => None,
        })
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Libvirt {
    config: Config,
    tool: Tool,
    again: Again,
}

impl Libvirt {
    async fn state_now(&self) -> Result<State, Error> {
        let ask = ["domstate", "--domain", &self.config.domain];
        let output = self.tool.run(&ask).await?;
        State::read(&output).ok_or_else(|| self.tool.nonsense(&ask, &output))
    }

    async fn command(&self, name: &str, options: &[&str]) -> Result<(), Error> {
        let command = [&[name, "--domain", &self.config.domain], options].concat();
        self.tool.run(&command).await.map(drop)
    }

    async fn wake_up(&self) -> Result<(), Error> {
        self.again.woken();
        match self.state_now().await? {
            State::Running | State::Leaving | State::Unknown => Ok(()),
            State::Paused => self.command("resume", &[]).await,
            State::PmSuspended => self.command("dompmwakeup", &[]).await,
            State::ShutOff => self.command("start", &[]).await,
            State::Crashed => Err(Error::Refused {
                whom: self.tool.called.clone(),
                what: format!("wake {}", self.config.domain),
                why: "it has crashed".to_owned(),
                hint: "see why (`virsh console`, `virsh dump`), then `virsh destroy` it: what is off is \
                       started",
            }),
        }
    }

    async fn put_to_sleep(&self) -> Result<(), Error> {
        self.again.put_to_sleep();
        if self.state_now().await? != State::Running {
            return Ok(());
        }
        match self.config.sleep {
            Sleep::Shutdown => self.command("shutdown", &[]).await,
            Sleep::Suspend => self.command("suspend", &[]).await,
            Sleep::PmSuspend => self.command("dompmsuspend", &["--target", "mem"]).await,
            Sleep::ManagedSave => self.command("managedsave", &[]).await,
        }
    }
}

impl Controller for Libvirt {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.wake_up())
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.put_to_sleep())
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            Ok(match self.state_now().await? {
                State::Running => Observed::Up,
                State::Paused | State::PmSuspended | State::ShutOff | State::Crashed => {
                    Observed::Down
                }
                State::Leaving | State::Unknown => Observed::Unknown,
            })
        })
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn remind(&self) -> Work<'_, ()> {
        self.again.remind(self.wake_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_that_virsh_knows_is_read_and_nothing_else_is() {
        // virshDomainState in tools/virsh-domain-monitor.c of libvirt 9.0 has these.
        let known = [
            ("no state", State::Unknown),
            ("running", State::Running),
            ("idle", State::Running),
            ("paused", State::Paused),
            ("in shutdown", State::Leaving),
            ("shut off", State::ShutOff),
            ("crashed", State::Crashed),
            ("pmsuspended", State::PmSuspended),
        ];
        for (words, state) in known {
            assert_eq!(State::read(&format!("{words}\n\n")), Some(state));
        }
        assert_eq!(State::read("warning: x\nshut off"), Some(State::ShutOff));
        for other in ["", "running (booted)", "Running", "not running"] {
            assert_eq!(State::read(other), None, "{other}");
        }
    }
}
