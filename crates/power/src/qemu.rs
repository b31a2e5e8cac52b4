//! A guest of QEMU, by its machine protocol (QMP).
//!
//! ```toml
//! [site.power.qemu]
//! monitor = "/run/web.qmp"          # or tcp:127.0.0.1:4444
//! sleep = "stop"                    # optional; or powerdown: its power button, for the guest to see
//! timeout = "10s"                   # optional
//! ```
//!
//! QEMU is started with `-qmp unix:/run/web.qmp,server=on,wait=off`: a monitor for the proxy alone, since
//! it speaks to one client at a time. Over TCP anyone who reaches the port owns the guest.
//!
//! | what the guest is found in | what wakes it |
//! |---|---|
//! | `paused`, `prelaunch` (`-S`) | `cont` |
//! | `suspended` (it has put itself to sleep; `ssh` can make it) | `system_wakeup` |
//! | `shutdown` (it is off, and QEMU runs with `-no-shutdown`) | `system_reset`, then `cont` |
//!
//! Without `-no-shutdown` QEMU ends when its guest is off, and the guest cannot be turned on again: use
//! `powerdown` only with that option. A guest that still shuts down is looked at again every 5 s.
//!
//! The protocol: docs/interop/qmp-spec.rst and qapi/run-state.json in QEMU's sources.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect;
use nightwatt_energy::duration_text;
use nightwatt_host::text::brief;
use nightwatt_host::within;
use serde::{Deserialize, Deserializer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tracing::debug;

use crate::facts::Facts;
use crate::rewake::Again;
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

/// No message is longer: the longest that we ask for has a few hundred bytes.
const LINE: u64 = 64 << 10;

/// Between question and answer there are no more events than these.
const EVENTS: usize = 1000;

/// The table `[site.power.qemu]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where QEMU listens.
    pub monitor: Monitor,
    /// How the guest sleeps.
    #[serde(default)]
    pub sleep: Sleep,
    /// How long each exchange may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

/// Where QEMU listens: the path of a socket, or `tcp:HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Monitor {
    /// A socket in the file system.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl std::fmt::Display for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl<'de> Deserialize<'de> for Monitor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        let address = text.strip_prefix("tcp:").ok_or_else(|| {
            format!("`{text}` is neither the whole path of a socket nor `tcp:HOST:PORT`")
        });
        let checked =
            address.and_then(|it| crate::probe::check_address(it).map(|()| it.to_owned()));
        checked.map(Self::Tcp).map_err(serde::de::Error::custom)
    }
}

/// How a guest sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sleep {
    /// Its processors stand still.
    #[default]
    Stop,
    /// Its operating system shuts it down.
    Powerdown,
}

fn timeout() -> Duration {
    Duration::from_secs(10)
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let is_on_this_machine = match &self.monitor {
            Monitor::Unix(_) => true,
            Monitor::Tcp(address) => crate::probe::is_loopback(address),
        };
        Facts { is_on_this_machine, ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Qemu, ConfigError> {
        let (config, clock) = (self.clone(), context.clock.clone());
        Ok(Qemu { config, again: Again::new(&clock), clock })
    }
}

/// What QEMU sends, as far as it is of use.
#[derive(Debug, Deserialize)]
struct Message {
    /// The greeting.
    #[serde(rename = "QMP")]
    greeting: Option<serde::de::IgnoredAny>,
    event: Option<serde::de::IgnoredAny>,
    #[serde(rename = "return")]
    answer: Option<QmpAnswer>,
    error: Option<Complaint>,
}

/// The answer to `query-status`; to other commands it is empty.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct QmpAnswer {
    #[serde(default)]
    status: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Complaint {
    #[serde(default)]
    desc: String,
}

/// A line from QEMU.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// It is there.
    Greeting,
    /// Something happened to the guest.
    Event,
    /// What was asked is answered, or done.
    Answer(QmpAnswer),
    /// It says no, and why.
    No(String),
}

impl Line {
    /// Reads one; the error says what is there instead.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        let message: Message = serde_json::from_slice(line)
            .map_err(|_| format!("`{}` is no message of QMP", brief(line)))?;
        match message {
            Message { error: Some(error), .. } => Ok(Self::No(brief(error.desc.as_bytes()))),
            Message { answer: Some(answer), .. } => Ok(Self::Answer(answer)),
            Message { event: Some(_), .. } => Ok(Self::Event),
            Message { greeting: Some(_), .. } => Ok(Self::Greeting),
            _ => Err(format!("`{}` is no message of QMP", brief(line))),
        }
    }
}

/// What a guest can be in (`RunState`), as far as it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Stopped,
    Suspended,
    Off,
    /// It cannot go on.
    Broken,
    /// QEMU is busy with it.
    Busy,
}

impl State {
    fn read(status: &str) -> Option<Self> {
        Some(match status {
            "running" | "debug" => Self::Running,
            // After an error of a disk too, it goes on where it stood.
            "paused" | "prelaunch" | "io-error" | "watchdog" => Self::Stopped,
            "suspended" => Self::Suspended,
            "shutdown" => Self::Off,
            "internal-error" | "guest-panicked" => Self::Broken,
            "inmigrate" | "postmigrate" | "finish-migrate" | "restore-vm" | "save-vm" | "colo" => {
                Self::Busy
            }
            _ => return None,
        })
    }
}

/// A connection to QEMU, or anything that speaks as it does.
struct Connection<S> {
    stream: BufReader<S>,
}

/// Why a connection is of no more use.
enum Broken {
    Io(io::Error),
    Nonsense(String),
    /// It says no to that command.
    No(&'static str, String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn greeted(stream: S) -> Result<Self, Broken> {
        let mut connection = Self { stream: BufReader::new(stream) };
        match connection.line().await? {
            Line::Greeting => {}
            _ => return Err(Broken::Nonsense("no greeting comes first".to_owned())),
        }
        connection.command("qmp_capabilities").await?;
        Ok(connection)
    }

    async fn line(&mut self) -> Result<Line, Broken> {
        let mut line = Vec::new();
        (&mut self.stream).take(LINE).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(Broken::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        Line::read(&line).map_err(Broken::Nonsense)
    }

    async fn command(&mut self, name: &'static str) -> Result<QmpAnswer, Broken> {
        debug!(command = name, "QMP");
        let message = format!("{{\"execute\": \"{name}\"}}\r\n");
        self.stream.get_mut().write_all(message.as_bytes()).await?;
        for _ in 0..EVENTS {
            match self.line().await? {
                Line::Answer(answer) => return Ok(answer),
                Line::No(why) => return Err(Broken::No(name, why)),
                Line::Event => {}
                Line::Greeting => return Err(Broken::Nonsense("another greeting".to_owned())),
            }
        }
        Err(Broken::Nonsense("nothing but events".to_owned()))
    }

    async fn state(&mut self) -> Result<State, Broken> {
        let status = self.command("query-status").await?.status.unwrap_or_default();
        State::read(&status).ok_or_else(|| {
            Broken::Nonsense(format!("`{}` is no state of a guest", brief(status.as_bytes())))
        })
    }

    async fn wake(&mut self) -> Result<(), Broken> {
        let commands: &[_] = match self.state().await? {
            State::Running | State::Busy => &[],
            State::Stopped => &["cont"],
            State::Suspended => &["system_wakeup"],
            State::Off => &["system_reset", "cont"],
            State::Broken => {
                return Err(Broken::No("cont", "the guest has crashed".to_owned()));
            }
        };
        for command in commands {
            self.command(command).await?;
        }
        Ok(())
    }

    async fn sleep(&mut self, how: Sleep) -> Result<(), Broken> {
        if self.state().await? != State::Running {
            return Ok(());
        }
        let command = match how {
            Sleep::Stop => "stop",
            Sleep::Powerdown => "system_powerdown",
        };
        self.command(command).await.map(drop)
    }

    async fn observe(&mut self) -> Result<Observed, Broken> {
        Ok(match self.state().await? {
            State::Running => Observed::Up,
            State::Stopped | State::Suspended | State::Off | State::Broken => Observed::Down,
            State::Busy => Observed::Unknown,
        })
    }
}

/// What one exchange is for.
#[derive(Clone, Copy)]
enum Task {
    Wake,
    Sleep(Sleep),
    Observe,
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    task: Task,
) -> Result<Observed, Broken> {
    let mut connection = Connection::greeted(stream).await?;
    match task {
        Task::Wake => connection.wake().await.map(|()| Observed::Unknown),
        Task::Sleep(how) => connection.sleep(how).await.map(|()| Observed::Unknown),
        Task::Observe => connection.observe().await,
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Qemu {
    config: Config,
    clock: Clock,
    again: Again,
}

impl Qemu {
    async fn exchange(&self, task: Task) -> Result<Observed, Error> {
        let exchange = async {
            match &self.config.monitor {
                Monitor::Unix(path) => talk(UnixStream::connect(path).await?, task).await,
                Monitor::Tcp(address) => talk(connect(&Clock::real(), address).await?, task).await,
            }
        };
        let whom = || format!("QEMU at {}", self.config.monitor);
        match within(&self.clock, self.config.timeout, exchange).await {
            Ok(Ok(told)) => Ok(told),
            Ok(Err(Broken::Io(source))) => {
                let hint = match source.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "let the proxy's user read and write the socket"
                    }
                    _ => {
                        "start QEMU with `-qmp unix:PATH,server=on,wait=off`, and with `-no-shutdown` if \
                         its guest is to be turned on again"
                    }
                };
                Err(Error::Unreachable { whom: whom(), hint, source })
            }
            Ok(Err(Broken::Nonsense(what))) => Err(Error::Nonsense { whom: whom(), what }),
            Ok(Err(Broken::No(command, why))) => Err(Error::Refused {
                whom: whom(),
                what: command.to_owned(),
                why,
                hint: "see what QEMU has logged; a guest that has crashed is to be reset \
                       (`system_reset`)",
            }),
            Err(_) => Err(Error::Silent {
                whom: whom(),
                limit: self.config.timeout,
                hint: "it speaks to one client at a time: give the proxy a `-qmp` socket of its own",
            }),
        }
    }

    async fn wake_up(&self) -> Result<(), Error> {
        self.again.woken();
        self.exchange(Task::Wake).await.map(drop)
    }
}

impl Controller for Qemu {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.wake_up())
    }

    fn sleep(&self) -> Work<'_, ()> {
        self.again.put_to_sleep();
        Box::pin(async { self.exchange(Task::Sleep(self.config.sleep)).await.map(drop) })
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(self.exchange(Task::Observe))
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
    fn messages_are_told_apart_and_what_is_none_is_quoted() {
        let read = |line: &str| Line::read(line.as_bytes());
        assert_eq!(
            read(r#"{"QMP": {"version": {}, "capabilities": ["oob"]}}"#),
            Ok(Line::Greeting)
        );
        assert_eq!(read(r#"{"event": "STOP", "timestamp": {"seconds": 1}}"#), Ok(Line::Event));
        assert_eq!(read(r#"{"return": {}}"#), Ok(Line::Answer(QmpAnswer::default())));
        let status = Some("paused".to_owned());
        assert_eq!(
            read(r#"{"return": {"running": false, "status": "paused"}}"#),
            Ok(Line::Answer(QmpAnswer { status }))
        );
        let no = r#"{"error": {"class": "GenericError", "desc": "not\u001b now"}}"#;
        assert_eq!(read(no), Ok(Line::No("not\u{fffd} now".to_owned())));
        for other in ["", "{}", "[]", "7", "SSH-2.0", "{\"return\": 7}", "{\"return\": {}"] {
            assert!(read(other).unwrap_err().contains("no message of QMP"), "{other}");
        }
    }

    #[test]
    fn every_run_state_of_qemu_is_known() {
        // `RunState` of qapi/run-state.json in QEMU 7.2.
        let states = "debug finish-migrate inmigrate internal-error io-error paused postmigrate \
                      prelaunch restore-vm running save-vm shutdown suspended watchdog \
                      guest-panicked colo";
        assert!(states.split_whitespace().all(|state| State::read(state).is_some()));
        assert_eq!(State::read("levitating"), None);
    }
}
