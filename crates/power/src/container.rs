//! Containers: the API of Docker, and podman's own, over a socket.
//!
//! Docker Engine API (`ContainerInspect`, `ContainerStart`, `ContainerStop`, `ContainerPause`,
//! `ContainerUnpause`) and podman's libpod API, which differ in the head of their paths and in the
//! name of one parameter.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use hyper::body::Bytes;
use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect;
use nightwatt_energy::duration_text;
use nightwatt_host::http::{Ask, Connection, HttpError, HttpResponse};
use nightwatt_host::text::brief;
use nightwatt_host::within;
use serde::{Deserialize, Deserializer};
use tokio::net::UnixStream;
use tracing::debug;

use crate::again::Again;
use crate::{Controller, Error, Observed, Subject, Work};

/// What is said of a container has a few KiB, and more with many mounts and labels.
const LONGEST: usize = 1 << 20;

/// Where a daemon listens: the path of a socket, or `tcp://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl Address {
    /// Is the daemon on this machine?
    pub(crate) fn is_here(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => crate::probe::is_loopback(address),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let path = text.strip_prefix("unix://").unwrap_or(&text);
        if path.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let address = text.strip_prefix("tcp://").ok_or_else(|| {
            format!("`{text}` is neither the whole path of a socket nor `tcp://HOST:PORT`")
        });
        let checked =
            address.and_then(|it| crate::probe::check_address(it).map(|()| it.to_owned()));
        checked.map(Self::Tcp).map_err(serde::de::Error::custom)
    }
}

/// How a container sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sleep {
    /// Its processes end.
    #[default]
    Stop,
    /// Its processes stand still, and keep their memory.
    Pause,
}

/// The name of a container, or its id; as the daemons allow it, and safe in a path.
pub(crate) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if begins && name.len() <= 255 && name.chars().all(allowed) {
        return Ok(name);
    }
    Err(serde::de::Error::custom(format!(
        "`{name}` is no name of a container: letters, digits, `_`, `.` and `-`, the first a letter or \
         digit"
    )))
}

/// A time that may be left out.
pub(crate) fn some_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration_text::deserialize(deserializer).map(Some)
}

/// One of the two APIs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// Who speaks it.
    pub(crate) daemon: &'static str,
    /// What comes before `/containers`.
    pub(crate) head: &'static str,
    /// How the time is called that a container gets to stop.
    pub(crate) stop_time: &'static str,
    pub(crate) hints: Hints,
}

/// What helps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hints {
    pub(crate) not_there: &'static str,
    pub(crate) not_allowed: &'static str,
    pub(crate) no_such: &'static str,
    pub(crate) refused: &'static str,
}

/// What is said of a container, as far as it is of use.
#[derive(Debug, Deserialize)]
struct Inspected {
    #[serde(rename = "State")]
    state: InspectedState,
}

#[derive(Debug, Deserialize)]
struct InspectedState {
    #[serde(rename = "Status")]
    status: String,
}

/// What a container can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// Its processes stand still.
    Paused,
    /// It was never started, or has ended.
    Stopped,
    /// The daemon starts or stops it.
    Changing,
    /// It is being removed, or could not be.
    Dead,
}

impl State {
    /// The state of the container that the daemon describes; the error says what is there instead.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let inspected: Inspected = serde_json::from_slice(body)
            .map_err(|error| format!("`{}` describes no container: {error}", brief(body)))?;
        let status = inspected.state.status;
        Ok(match status.as_str() {
            "running" => Self::Running,
            "paused" => Self::Paused,
            // The last three are podman's.
            "created" | "exited" | "configured" | "initialized" | "stopped" => Self::Stopped,
            "restarting" | "stopping" => Self::Changing,
            "removing" | "dead" => Self::Dead,
            other => {
                let other = brief(other.as_bytes());
                return Err(format!("`{other}` is no state of a container"));
            }
        })
    }
}

/// Why a daemon says no: both APIs put it into `message`.
fn complaint(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Complaint {
        message: String,
    }
    match serde_json::from_slice::<Complaint>(body) {
        Ok(complaint) => brief(complaint.message.as_bytes()),
        Err(_) => brief(body),
    }
}

/// The controller of a container.
#[derive(Debug)]
pub struct Container {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) dialect: Dialect,
    pub(crate) sleep: Sleep,
    /// How long it has to stop; the daemon knows what is usual.
    pub(crate) stop_timeout: Option<Duration>,
    pub(crate) timeout: Duration,
    pub(crate) clock: Clock,
    pub(crate) again: Again,
}

impl Container {
    fn whom(&self) -> String {
        format!("{} at {}", self.dialect.daemon, self.address)
    }

    async fn connect_and_ask(&self, method: Method, path: &str) -> Result<HttpResponse, HttpError> {
        let ask = Ask { method, ..Ask::get(path) };
        let request = ask.request("localhost")?;
        let no_one = |source| HttpError::Connect { authority: self.address.to_string(), source };
        let mut connection = match &self.address {
            Address::Unix(path) => {
                Connection::open(UnixStream::connect(path).await.map_err(no_one)?).await?
            }
            Address::Tcp(address) => {
                Connection::open(connect(&Clock::real(), address).await.map_err(no_one)?).await?
            }
        };
        connection.send(request, LONGEST).await
    }

    async fn ask(
        &self,
        method: Method,
        what: &str,
        query: &str,
        limit: Duration,
    ) -> Result<Bytes, Error> {
        let Dialect { head, hints, .. } = self.dialect;
        let path = format!("{head}/containers/{}/{what}{query}", self.name);
        debug!(daemon = self.dialect.daemon, path, "asking");
        let answer = within(&self.clock, limit, self.connect_and_ask(method, &path)).await;
        let silent = |_| Error::Silent {
            whom: self.whom(),
            limit,
            hint: "ask it by hand what it is busy with; if it is meant to take that long, raise `timeout`",
        };
        let answer = answer.map_err(silent)?;
        let HttpResponse { status, body, .. } = answer.map_err(|error| self.no_answer(error))?;
        let hint = match status {
            // It was so already.
            200..=299 | 304 => return Ok(body),
            403 => hints.not_allowed,
            404 => hints.no_such,
            _ => hints.refused,
        };
        let (what, why) = (format!("{what} {}", self.name), complaint(&body));
        let why = format!("{why} (status {status})");
        Err(Error::Refused { whom: self.whom(), what, why, hint })
    }

    fn no_answer(&self, error: HttpError) -> Error {
        let hints = self.dialect.hints;
        Error::of_http(error, self.whom(), |source| match source.kind() {
            io::ErrorKind::PermissionDenied => hints.not_allowed,
            _ => hints.not_there,
        })
    }

    async fn state_now(&self) -> Result<State, Error> {
        let body = self.ask(Method::GET, "json", "", self.timeout).await?;
        State::read(&body).map_err(|what| Error::Nonsense { whom: self.whom(), what })
    }

    async fn command(&self, what: &str) -> Result<(), Error> {
        self.ask(Method::POST, what, "", self.timeout).await.map(drop)
    }

    async fn wake_up(&self) -> Result<(), Error> {
        self.again.woken();
        match self.state_now().await? {
            State::Running | State::Changing => Ok(()),
            State::Paused => self.command("unpause").await,
            State::Stopped => self.command("start").await,
            State::Dead => Err(Error::Refused {
                whom: self.whom(),
                what: format!("start {}", self.name),
                why: "it is being removed".to_owned(),
                hint: "create it again",
            }),
        }
    }

    async fn put_to_sleep(&self) -> Result<(), Error> {
        self.again.put_to_sleep();
        if self.state_now().await? != State::Running {
            return Ok(());
        }
        if self.sleep == Sleep::Pause {
            return self.command("pause").await;
        }
        let Some(time) = self.stop_timeout else { return self.command("stop").await };
        let query = format!("?{}={}", self.dialect.stop_time, time.as_secs());
        self.ask(Method::POST, "stop", &query, time + self.timeout).await.map(drop)
    }
}

impl Controller for Container {
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
                State::Paused => Observed::Frozen,
                State::Stopped | State::Dead => Observed::Down,
                State::Changing => Observed::Unknown,
            })
        })
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn subject(&self) -> Subject {
        Subject::Program
    }

    fn remind(&self) -> Work<'_, ()> {
        Box::pin(async { if self.again.is_due() { self.wake_up().await } else { Ok(()) } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_container_is_the_word_of_its_daemon() {
        let read = |status: &str| {
            let body = format!(r#"{{"Id": "ab", "State": {{"Status": "{status}", "Pid": 7}}}}"#);
            State::read(body.as_bytes())
        };
        // Docker's ContainerState.Status, and podman's ContainerStatus.
        let docker = ["created", "running", "paused", "restarting", "removing", "exited", "dead"];
        let podman = ["configured", "initialized", "stopping", "stopped"];
        assert!(docker.iter().chain(&podman).all(|status| read(status).is_ok()));
        assert_eq!(read("exited"), Ok(State::Stopped));
        assert!(read("levitating").unwrap_err().contains("`levitating` is no state"));
        for other in ["", "{}", "[]", "{\"State\": \"running\"}", "<html>"] {
            assert!(State::read(other.as_bytes()).unwrap_err().contains("describes no"), "{other}");
        }
    }

    #[test]
    fn a_complaint_is_its_message_or_else_its_beginning() {
        assert_eq!(
            complaint(br#"{"message": "No such\u001b container"}"#),
            "No such\u{fffd} container"
        );
        assert_eq!(complaint(b"<html>\n502"), "<html> 502");
    }
}
