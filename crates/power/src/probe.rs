//! Checks whether a server is awake: that it answers, not only that it was told to wake.
//!
//! ```toml
//! [site]
//! probe = "tcp 10.0.0.5:22"                     # a port that accepts connections
//! # probe = "http http://10.0.0.5/health"       # a page that does not say 502, 503 or 504; or https://
//! # probe = "controller"                        # what the power controller can tell
//!
//! # or, with every setting:
//! [site.probe.http]
//! url = "http://10.0.0.5:8080/health"
//! expect = [200, "300-399", 404]
//! contains = "ready"                            # in the first 64 KiB of the answer, head and all, as sent
//! timeout = "1s"                                # of each attempt; tcp has one too
//! ```
//!
//! A web server that answers 502, 503 or 504 is a gateway whose own origin is not there yet. Any other
//! answer, even in another protocol, means awake, unless `expect` or `contains` ask for more.

mod http;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use nightwatt_clock::connect::connect_any;
use nightwatt_clock::{Clock, Elapsed};
use nightwatt_energy::duration_text;
use nightwatt_host::tls;
use nightwatt_host::within;
use rustix::io::Errno;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

use crate::{Controller, Observed};
pub use http::{HttpUrl, StatusRange};

/// This process, in the `Via` fields of what it asks for: by it what comes back is known.
pub static OWN_MARK: LazyLock<String> =
    LazyLock::new(|| format!("{:x}", RandomState::new().build_hasher().finish()));

/// What to ask, as the configuration says it: one line of text, or a table with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Config {
    /// A port that accepts connections.
    Tcp(Tcp),
    /// A page.
    Http(Http),
    /// What the power controller can tell.
    Controller,
}

/// The table `[site.probe.tcp]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// `HOST:PORT`.
    #[serde(deserialize_with = "host_and_port")]
    pub address: String,
    /// How long one attempt may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

/// The table `[site.probe.http]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// `http://HOST[:PORT][/PATH]`, or `https://`. Any certificate is accepted: the probe only checks that
    /// the server answers, and sends nothing confidential.
    pub url: HttpUrl,
    /// The statuses that count as up; when left out, all but 502, 503 and 504.
    #[serde(default)]
    pub expect: Option<Vec<StatusRange>>,
    /// What the answer must contain in its first 64 KiB, head and all, as sent (so a chunk that ends in
    /// the middle hides it).
    #[serde(default)]
    pub contains: Option<String>,
    /// By TLS: the name that is asked for (SNI); default: the host of `url`.
    #[serde(default)]
    pub name: Option<String>,
    /// How long one attempt may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

fn timeout() -> Duration {
    Duration::from_secs(1)
}

fn host_and_port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let address = String::deserialize(deserializer)?;
    check_address(&address).map_err(D::Error::custom)?;
    Ok(address)
}

/// Is this `HOST:PORT` one of this machine, whatever the names of others may be?
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

pub(crate) fn check_address(address: &str) -> Result<(), String> {
    let valid = address.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && port.parse::<u16>().is_ok_and(|port| port > 0)
            && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'))
    });
    if valid {
        return Ok(());
    }
    Err(format!("`{address}` is not HOST:PORT, as in `10.0.0.5:22` or `[fd00::5]:22`"))
}

impl Config {
    /// Up when this `HOST:PORT` accepts a connection within a second.
    pub fn tcp(address: impl Into<String>) -> Self {
        Self::Tcp(Tcp { address: address.into(), timeout: timeout() })
    }

    /// The name or address of whom it asks; `None` if that is the controller.
    pub fn host(&self) -> Option<String> {
        let address = match self {
            Self::Tcp(tcp) => tcp.address.clone(),
            Self::Http(http) => http.url.address(),
            Self::Controller => return None,
        };
        let (host, _) = address.rsplit_once(':')?;
        Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
    }

    /// Up when this page answers within a second with a status that is not 502, 503 or 504.
    pub fn http(url: &str) -> Result<Self, String> {
        let (url, timeout) = (url.parse()?, timeout());
        Ok(Self::Http(Http { url, expect: None, contains: None, name: None, timeout }))
    }
}

impl std::str::FromStr for Config {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(' ').map(|(kind, what)| (kind, what.trim())) {
            None if text == "controller" => Ok(Self::Controller),
            Some(("tcp", address)) => check_address(address).map(|()| Self::tcp(address)),
            Some(("http", url)) => Self::http(url),
            _ => Err(format!(
                "`{text}` is not a probe: write `tcp HOST:PORT`, `http URL` or `controller`"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Table {
            Tcp(Tcp),
            Http(Http),
        }

        struct LineOrTable;

        impl<'de> Visitor<'de> for LineOrTable {
            type Value = Config;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a probe: a line as `tcp HOST:PORT`, or a table `tcp` or `http`")
            }

            fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Config, E> {
                line.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Config, A::Error> {
                Ok(match Table::deserialize(MapAccessDeserializer::new(map))? {
                    Table::Tcp(tcp) => Config::Tcp(tcp),
                    Table::Http(http) => Config::Http(http),
                })
            }
        }

        deserializer.deserialize_any(LineOrTable)
    }
}

/// Asks a server whether it is awake.
#[derive(Debug, Clone)]
pub struct Probe {
    config: Config,
    clock: Clock,
}

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Awake.
    pub up: bool,
    /// What the verdict rests on, for logs.
    pub reason: String,
}

impl Verdict {
    fn up(reason: impl Into<String>) -> Self {
        Self { up: true, reason: reason.into() }
    }

    fn down(reason: impl Into<String>) -> Self {
        Self { up: false, reason: reason.into() }
    }
}

impl Probe {
    /// A probe so configured.
    pub fn new(config: Config, clock: Clock) -> Self {
        Self { config, clock }
    }

    /// Does it ask the controller, and not the server?
    pub const fn asks_the_controller(&self) -> bool {
        matches!(self.config, Config::Controller)
    }

    /// Asks once. Whatever goes wrong is an answer too: down, and why. But that this machine is out of
    /// descriptors or memory says nothing of the server, which is asked again until there are some.
    pub async fn attempt(&self, controller: &dyn Controller) -> Verdict {
        let mut told = false;
        loop {
            match self.ask(controller).await {
                Ok(verdict) => return verdict,
                Err(error) if !std::mem::replace(&mut told, true) => {
                    tracing::warn!(%error, "cannot ask whether a server is awake; it is tried on");
                }
                Err(_) => {}
            }
            self.clock.sleep(BETWEEN_SHORTAGES).await;
        }
    }

    /// An error is one of this machine's own.
    async fn ask(&self, controller: &dyn Controller) -> io::Result<Verdict> {
        Ok(match &self.config {
            Config::Tcp(tcp) => {
                let connected = connect(&tcp.address);
                match within(&self.clock, tcp.timeout, connected).await {
                    Ok(Ok(_)) => Verdict::up(format!("{} accepts connections", tcp.address)),
                    Ok(Err(error)) if is_own_shortage(&error) => return Err(error),
                    Ok(Err(error)) => Verdict::down(format!("{}: {error}", tcp.address)),
                    Err(Elapsed) => silent(&tcp.address, tcp.timeout),
                }
            }
            Config::Http(http) => match within(&self.clock, http.timeout, http.ask()).await {
                Ok(Ok(answer)) => http.judge(&answer),
                Ok(Err(error)) if is_own_shortage(&error) => return Err(error),
                Ok(Err(error)) => http.judge_failure(&error),
                Err(Elapsed) => silent(&http.url.to_string(), http.timeout),
            },
            Config::Controller => match controller.state().await {
                Ok(Observed::Up) => Verdict::up("the controller says up"),
                Ok(Observed::Down | Observed::Frozen) => Verdict::down("the controller says down"),
                Ok(Observed::Unknown) => Verdict::down("the controller cannot tell"),
                Err(error) => Verdict::down(format!("the controller: {error}")),
            },
        })
    }
}

/// Between two attempts while this machine is out of descriptors or memory.
const BETWEEN_SHORTAGES: Duration = Duration::from_secs(1);

/// Is this machine out of descriptors or memory? Then the error says nothing about the server.
pub fn is_own_shortage(error: &io::Error) -> bool {
    let ours = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| ours.contains(&errno))
}

/// The kernel repeats an unanswered SYN only after a second, so each address is tried several times.
async fn connect(address: &str) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host(address).await?.collect();
    // A server lives in real time; see `within`.
    connect_any(&Clock::real(), addresses.repeat(ATTEMPTS)).await
}

const ATTEMPTS: usize = 3;

fn silent(whom: &str, limit: Duration) -> Verdict {
    Verdict::down(format!("{whom}: no answer within {limit:?}"))
}

impl Http {
    async fn ask(&self) -> io::Result<http::ProbeAnswer> {
        let stream = connect(&self.url.address()).await?;
        let text = self.contains.as_deref().unwrap_or_default();
        if !self.url.by_tls {
            return http::ask(stream, &self.url, text).await;
        }
        let name = self.name.clone().unwrap_or_else(|| self.url.host());
        let name = name.try_into().map_err(io::Error::other)?;
        let connector = TlsConnector::from(tls::unverified().map_err(io::Error::other)?);
        // Apart, so that probes without TLS are no larger for it.
        Box::pin(async { http::ask(connector.connect(name, stream).await?, &self.url, text).await })
            .await
    }

    /// Who answers, if only to refuse a handshake or by another protocol, is awake; unless more is asked of
    /// it. Requests then find out what is wrong, and say it.
    fn judge_failure(&self, error: &io::Error) -> Verdict {
        let answered =
            error.get_ref().is_some_and(|it| it.is::<rustls::Error>() || it.is::<http::NoHttp>());
        let up = answered && self.expect.is_none() && self.contains.is_none();
        Verdict { up, reason: format!("{}: {error}", self.url) }
    }

    fn judge(&self, answer: &http::ProbeAnswer) -> Verdict {
        let status = answer.status;
        let expected = match &self.expect {
            Some(expected) => expected.iter().any(|range| range.contains(status)),
            None => !matches!(status, 502..=504),
        };
        let lacks = self.contains.as_ref().filter(|_| !answer.contains);
        let without = lacks.map(|text| format!(", without {text:?}")).unwrap_or_default();
        let reason = format!("{} says {status}{without}", self.url);
        Verdict { up: expected && lacks.is_none(), reason }
    }
}
