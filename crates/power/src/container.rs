//! Containers: the API of Docker, and podman's own, over a socket.
//!
//! Docker Engine API (`ContainerInspect`, `ContainerStart`, `ContainerStop`, `ContainerPause`,
//! `ContainerUnpause`) and podman's libpod API, which differ in the head of their paths and in the
//! name of one parameter.

mod needs;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use hyper::body::{Bytes, Incoming};
use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect;
use nightwatt_energy::duration_text;
use nightwatt_host::http::{Ask, Connection, HttpError, HttpResponse, Stream};
use nightwatt_host::text::brief;
use nightwatt_host::within;
use serde::{Deserialize, Deserializer};
use tokio::net::UnixStream;
use tracing::debug;

pub(crate) use self::needs::Needs;
use self::needs::Released;
use crate::rewake::Again;
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

/// Names of containers.
pub(crate) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Name(#[serde(deserialize_with = "name")] String);
    Ok(Vec::<Name>::deserialize(deserializer)?.into_iter().map(|it| it.0).collect())
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

/// Whether it has a health check that has not passed yet, or does not pass.
fn is_unhealthy(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Checked {
        #[serde(rename = "State")]
        state: CheckedState,
    }
    #[derive(Deserialize)]
    struct CheckedState {
        #[serde(rename = "Health")]
        health: Option<Health>,
    }
    #[derive(Deserialize)]
    struct Health {
        #[serde(rename = "Status")]
        status: String,
    }
    let checked = serde_json::from_slice::<Checked>(body).ok();
    checked
        .and_then(|it| it.state.health)
        .is_some_and(|it| ["starting", "unhealthy"].contains(&&*it.status))
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

/// A daemon of containers.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    pub(crate) name: &'static str,
    pub(crate) address: Address,
    pub(crate) hints: Hints,
}

impl Daemon {
    pub(crate) fn whom(&self) -> String {
        format!("{} at {}", self.name, self.address)
    }

    async fn connect(&self) -> Result<Stream, HttpError> {
        let no_one = |source| HttpError::Connect { authority: self.address.to_string(), source };
        Ok(match &self.address {
            Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(no_one)?),
            Address::Tcp(address) => {
                Box::new(connect(&Clock::real(), address).await.map_err(no_one)?)
            }
        })
    }

    /// Asks, and reads the answer up to a length in bytes.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        longest: usize,
    ) -> Result<HttpResponse, HttpError> {
        debug!(daemon = self.name, path, "asking");
        let ask = Ask { method, ..Ask::get(path) };
        let request = ask.request("localhost")?;
        let mut connection = Connection::open(self.connect().await?).await?;
        connection.send(request, longest).await
    }

    /// Asks for what has no end.
    pub(crate) async fn stream(&self, path: &str) -> Result<Incoming, HttpError> {
        let request = Ask::get(path).request("localhost")?;
        nightwatt_host::http::stream(self.connect().await?, request).await
    }

    pub(crate) fn no_answer(&self, error: HttpError) -> Error {
        let hints = self.hints;
        Error::of_http(error, self.whom(), |source| match source.kind() {
            io::ErrorKind::PermissionDenied => hints.not_allowed,
            _ => hints.not_there,
        })
    }

    /// The body of an answer, unless the daemon refuses.
    pub(crate) fn accepted(&self, answer: HttpResponse, what: &str) -> Result<Bytes, Error> {
        let HttpResponse { status, body, .. } = answer;
        let hint = match status {
            // It was so already.
            200..=299 | 304 => return Ok(body),
            403 => self.hints.not_allowed,
            404 => self.hints.no_such,
            _ => self.hints.refused,
        };
        let why = format!("{} (status {status})", complaint(&body));
        Err(Error::Refused { whom: self.whom(), what: what.to_owned(), why, hint })
    }

    /// As [`accepted`](Self::accepted), but nothing if there is no such container (404).
    pub(crate) fn if_there(
        &self,
        answer: HttpResponse,
        what: &str,
    ) -> Result<Option<Bytes>, Error> {
        if answer.status == 404 { Ok(None) } else { self.accepted(answer, what).map(Some) }
    }
}

/// Asks a daemon about containers.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) address: Address,
    pub(crate) dialect: Dialect,
    /// How long a container has to stop; the daemon knows what is usual.
    pub(crate) stop_timeout: Option<Duration>,
    pub(crate) timeout: Duration,
    pub(crate) clock: Clock,
}

impl Api {
    fn daemon(&self) -> Daemon {
        let Dialect { daemon: name, hints, .. } = self.dialect;
        Daemon { name, address: self.address.clone(), hints }
    }

    /// Asks about a container.
    async fn ask(&self, method: Method, order: &Order<'_>) -> Result<Bytes, Error> {
        let answer = self.answer(method, order).await?;
        self.daemon().accepted(answer, &order.words())
    }

    async fn answer(&self, method: Method, order: &Order<'_>) -> Result<HttpResponse, Error> {
        let Order { name, what, query, limit } = *order;
        let daemon = self.daemon();
        let path = format!("{}/containers/{name}/{what}{query}", self.dialect.head);
        let answer = within(&self.clock, limit, daemon.ask(method, &path, LONGEST)).await;
        let silent = |_| Error::Silent {
            whom: daemon.whom(),
            limit,
            hint: "ask it by hand what it is busy with; if it is meant to take that long, raise `timeout`",
        };
        answer.map_err(silent)?.map_err(|error| daemon.no_answer(error))
    }

    /// The state of a container, and whether it runs but is not healthy yet.
    async fn inspect(&self, name: &str) -> Result<(State, bool), Error> {
        let body = self.ask(Method::GET, &self.inspection(name)).await?;
        Ok((self.read_state(&body)?, is_unhealthy(&body)))
    }

    /// The state of a container, or nothing if no container has that name.
    async fn state_if_there(&self, name: &str) -> Result<Option<State>, Error> {
        let order = self.inspection(name);
        let answer = self.answer(Method::GET, &order).await?;
        let body = self.daemon().if_there(answer, &order.words())?;
        body.map(|body| self.read_state(&body)).transpose()
    }

    fn inspection<'a>(&self, name: &'a str) -> Order<'a> {
        Order { name, what: "json", query: "", limit: self.timeout }
    }

    fn read_state(&self, body: &[u8]) -> Result<State, Error> {
        let nonsense = |what| Error::Nonsense { whom: self.daemon().whom(), what };
        State::read(body).map_err(nonsense)
    }

    async fn command(&self, name: &str, what: &str) -> Result<(), Error> {
        let order = Order { name, what, query: "", limit: self.timeout };
        self.ask(Method::POST, &order).await.map(drop)
    }

    /// Starts a container. Returns whether it was stopped.
    async fn start(&self, name: &str) -> Result<bool, Error> {
        match self.inspect(name).await?.0 {
            State::Running | State::Changing => Ok(false),
            State::Paused => self.command(name, "unpause").await.map(|()| false),
            State::Stopped => self.command(name, "start").await.map(|()| true),
            State::Dead => Err(Error::Refused {
                whom: self.daemon().whom(),
                what: format!("start {name}"),
                why: "it is being removed".to_owned(),
                hint: "create it again",
            }),
        }
    }

    async fn stop(&self, name: &str) -> Result<(), Error> {
        let Some(time) = self.stop_timeout else { return self.command(name, "stop").await };
        let query = &format!("?{}={}", self.dialect.stop_time, time.as_secs());
        let order = Order { name, what: "stop", query, limit: time + self.timeout };
        self.ask(Method::POST, &order).await.map(drop)
    }
}

/// The controller of a container.
#[derive(Debug)]
pub struct Container {
    pub(crate) name: String,
    pub(crate) api: Api,
    /// Containers that it needs.
    pub(crate) needs: Arc<Needs>,
    pub(crate) sleep: Sleep,
    pub(crate) again: Again,
}

impl Container {
    async fn state_now(&self) -> Result<State, Error> {
        self.api.inspect(&self.name).await.map(|(state, _)| state)
    }

    async fn wake_up(&self) -> Result<(), Error> {
        self.again.woken();
        let _waking = self.needs.waking();
        self.needs.start(&self.api).await?;
        self.api.start(&self.name).await.map(drop)
    }

    async fn put_to_sleep(&self) -> Result<(), Error> {
        self.again.put_to_sleep();
        if self.state_now().await? == State::Running {
            match self.sleep {
                Sleep::Pause => self.api.command(&self.name, "pause").await?,
                Sleep::Stop => self.api.stop(&self.name).await?,
            }
        }
        // One that is paused still has connections to what it needs.
        if self.sleep == Sleep::Stop {
            self.release(Released::All);
        }
        Ok(())
    }

    /// Stops what it needs. It sleeps already, and a visitor who comes now does not wait for that.
    fn release(&self, which: Released) {
        if !self.needs.names.is_empty() {
            let (api, needs) = (self.api.clone(), Arc::clone(&self.needs));
            tokio::spawn(async move { needs.stop(&api, which).await });
        }
    }
}

/// What is asked about which container.
struct Order<'a> {
    name: &'a str,
    what: &'a str,
    query: &'a str,
    limit: Duration,
}

impl Order<'_> {
    /// For errors.
    fn words(&self) -> String {
        format!("{} {}", self.what, self.name)
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

    fn leave(&self) {
        self.release(Released::Started);
    }

    fn remind(&self) -> Work<'_, ()> {
        self.again.remind(self.wake_up())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// A daemon that answers so to each path, with status and body, as long as the process runs.
    pub(crate) fn daemon(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let Some(path) = head.first().and_then(|it| it.split(' ').nth(1)) else { continue };
                let (status, body) = answer(path);
                let length = match status {
                    204 => String::new(),
                    _ => format!("Content-Length: {}\r\n", body.len()),
                };
                let text =
                    format!("HTTP/1.1 {status} x\r\n{length}Connection: close\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).unwrap();
            }
        });
        address
    }

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
    fn a_container_is_ready_unless_its_health_check_does_not_pass() {
        for (health, starts) in [
            ("", false),
            (", \"Health\": null", false),
            (", \"Health\": {\"Status\": \"\"}", false),
            (", \"Health\": {\"Status\": \"healthy\"}", false),
            (", \"Health\": {\"Status\": \"starting\"}", true),
            (", \"Health\": {\"Status\": \"unhealthy\"}", true),
        ] {
            let body = format!(r#"{{"State": {{"Status": "running"{health}}}}}"#);
            assert_eq!(is_unhealthy(body.as_bytes()), starts, "{body}");
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
