//! The configuration file: one TOML file for everything `serve` does.
//!
//! Every table refuses keys it does not know; errors name file, line and what would be right.

mod network;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_model::duration_text;
use nightwatt_model::scenario::Scenario;
use nightwatt_power::{ControllerConfig, probe};
use nightwatt_traffic::classes::ClassifierConfig;
use serde::Deserialize;

pub use self::network::Network;
use crate::error::ConfigError;

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses to listen on: `["0.0.0.0:80", "[::]:80"]`.
    pub listen: Vec<SocketAddr>,
    /// Where ledgers and process ids are kept.
    #[serde(default = "default_state_dir")]
    pub state_dir: PathBuf,
    /// The local socket of `status`, `wake`, `sleep`, `stay-awake`; default: in `state_dir`.
    pub control_socket: Option<PathBuf>,
    /// Combined access log with what nightwatt did behind it; default: none.
    pub access_log: Option<PathBuf>,
    /// Proxies whose `X-Forwarded-For` and `X-Request-Id` are believed: `["10.0.0.0/8"]`.
    #[serde(default)]
    pub trusted_proxies: Vec<Network>,
    /// Say in a header how each request was answered (`Nightwatt-Answer`).
    #[serde(default = "yes")]
    pub answer_header: bool,
    /// Bounds.
    #[serde(default)]
    pub limits: Limits,
    /// Server, proxy, promise, cache and policy; each site may have its own instead.
    #[serde(default)]
    pub scenario: Scenario,
    /// What is served.
    pub site: Vec<SiteConfig>,
}

/// Bounds on what a client may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at once; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Bytes of a request's head; more is answered with 431.
    pub header_bytes: usize,
    /// Header fields of a request; more is answered with 431.
    pub headers: usize,
    /// Time for a request's head to arrive, and for an idle connection.
    #[serde(with = "duration_text")]
    pub header_timeout: Duration,
    /// Bytes of a request's body; more is answered with 413.
    pub body_bytes: u64,
    /// Bytes of a body that are kept in memory while its request is held; the rest waits in the
    /// client's connection.
    pub spool_bytes: usize,
    /// How long a request is held for a server to wake; then 504.
    #[serde(with = "duration_text")]
    pub hold: Duration,
    /// Requests held at once; further ones are answered with 503.
    pub held: usize,
    /// Time for the server to begin its answer, and between two parts of it.
    #[serde(with = "duration_text")]
    pub origin_timeout: Duration,
    /// Time for a connection to the server.
    #[serde(with = "duration_text")]
    pub connect_timeout: Duration,
    /// Time that running exchanges get to end when the proxy stops.
    #[serde(with = "duration_text")]
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            header_bytes: 64 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(30),
            body_bytes: 1 << 30,
            spool_bytes: 1 << 20,
            hold: Duration::from_mins(2),
            held: 1024,
            origin_timeout: Duration::from_mins(1),
            connect_timeout: Duration::from_secs(5),
            drain: Duration::from_secs(30),
        }
    }
}

/// One site: names, the server behind it, and how that sleeps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteConfig {
    /// In logs, status and file names.
    pub name: String,
    /// Host names; none: whatever no other site has.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The server: `http://10.0.0.5:8080`.
    pub origin: Origin,
    /// How the server is woken and put to sleep.
    pub power: ControllerConfig,
    /// How to tell that it is awake; default: any answer to `GET /` but 502, 503, 504.
    pub probe: Option<probe::Config>,
    /// Show browsers a page that waits (else they are held like everybody).
    #[serde(default = "yes")]
    pub waiting_page: bool,
    /// An HTML file instead of the built-in waiting page.
    pub waiting_page_file: Option<PathBuf>,
    /// Paths that browsers ask for on their own account and that wake nobody.
    #[serde(default = "default_icons")]
    pub icons: Vec<String>,
    /// Wake-ups a client may cause in a row, and per hour.
    #[serde(default = "default_wake_budget")]
    pub wakes_per_client_and_hour: u32,
    /// A wake command without an answer by then is given again.
    #[serde(default = "default_wake_timeout", with = "duration_text")]
    pub wake_timeout: Duration,
    /// Between two looks at a server believed awake or asleep; `0`: never look.
    #[serde(default = "default_watch", with = "duration_text")]
    pub watch: Duration,
    /// Who is a crawler, a scanner, a monitor.
    #[serde(default)]
    pub clients: ClassifierConfig,
    /// Instead of the file's `[scenario]`.
    pub scenario: Option<Scenario>,
}

/// `http://host:port`, nothing behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name or address, with port: for connecting and for `Host`, if the client sent none.
    pub authority: String,
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "`{text}` is not an origin: write `http://` and host and port, as in \
                 `http://10.0.0.5:8080`"
            ))
        };
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let plain = uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
        let authority = uri.authority().filter(|it| plain && !it.as_str().contains('@'));
        let authority = authority.ok_or_else(wrong)?;
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self { authority: format!("{}:{port}", authority.host()) })
    }
}

fn yes() -> bool {
    true
}

fn default_state_dir() -> PathBuf {
    PathBuf::from("/var/lib/nightwatt")
}

fn default_icons() -> Vec<String> {
    ["/favicon.ico", "/apple-touch-icon.png", "/apple-touch-icon-precomposed.png"]
        .map(str::to_owned)
        .to_vec()
}

fn default_wake_budget() -> u32 {
    20
}

fn default_wake_timeout() -> Duration {
    Duration::from_mins(2)
}

fn default_watch() -> Duration {
    Duration::from_mins(1)
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads and checks the text of a file; `name` is what errors call it.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|error| ConfigError::syntax(name, text, &error))?;
        config.check().map_err(|(key, message)| ConfigError::value(name, text, &key, message))?;
        Ok(config)
    }

    /// The path of the control socket.
    pub fn control_socket(&self) -> PathBuf {
        self.control_socket.clone().unwrap_or_else(|| self.state_dir.join("control.sock"))
    }

    /// The scenario of a site.
    pub fn scenario_of<'a>(&'a self, site: &'a SiteConfig) -> &'a Scenario {
        site.scenario.as_ref().unwrap_or(&self.scenario)
    }

    /// What types cannot say. Errors are (dotted key, what is wrong and what would be right).
    fn check(&self) -> Result<(), (String, String)> {
        if self.listen.is_empty() {
            return Err((
                "listen".into(),
                "at least one address is needed: `[\"0.0.0.0:80\"]`".into(),
            ));
        }
        if self.site.is_empty() {
            return Err(("site".into(), "at least one `[[site]]` is needed".into()));
        }
        if self.limits.header_bytes < 8192 {
            return Err(("limits.header_bytes".into(), "it must be at least 8192".into()));
        }
        self.scenario.check().map_err(|bad| (format!("scenario.{}", bad.key), bad.to_string()))?;
        let mut taken = std::collections::HashSet::new();
        for site in &self.site {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if !site.name.chars().all(plain) {
                let message = format!(
                    "`{}` names files too: use letters, digits, `-`, `_` and `.` only",
                    site.name
                );
                return Err(("site.name".into(), message));
            }
            if site.name.is_empty() || !taken.insert(format!("name {}", site.name)) {
                let message = format!("site names must be there and differ: `{}`", site.name);
                return Err(("site.name".into(), message));
            }
            if site.hosts.is_empty() && !taken.insert("hosts".into()) {
                return Err(("site.hosts".into(), "only one site can do without `hosts`".into()));
            }
            for host in &site.hosts {
                if !taken.insert(format!("host {}", host.to_ascii_lowercase())) {
                    return Err((
                        "site.hosts".into(),
                        format!("two sites claim the host `{host}`"),
                    ));
                }
            }
            let scenario = self.scenario_of(site);
            scenario
                .check()
                .map_err(|bad| (format!("site.scenario.{}", bad.key), bad.to_string()))?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests;
