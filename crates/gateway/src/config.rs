//! The configuration file: one TOML file for everything that `serve` does.
//!
//! Every table refuses keys it does not know; errors name file, line and what would be right.

mod access;
mod acme;
mod acme_dns;
mod admin;
mod cache;
mod client_certificates;
mod clients;
mod compression;
mod containers;
mod disk;
mod field_names;
mod forward_auth;
mod gate;
mod given_out;
mod holidays;
mod hosts;
mod htpasswd;
mod in_use;
mod job;
mod limits;
mod listening;
mod machine;
mod magic_packets;
mod meter;
mod mirror;
mod named_file;
mod network;
mod origin;
pub(crate) mod own;
mod path;
mod places;
mod pool;
mod redirects;
mod spellings;
mod tcp;
mod tls;
mod udp;
mod waiting_texts;
mod webhook;
mod wrong_value;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_httpcache::Rules;
use nightwatt_policy::scenario::{Scenario, Server, SlaRule};
use nightwatt_power::{ControllerConfig, probe};
use nightwatt_traffic::classifier::ClassifierConfig;
use serde::Deserialize;

pub use self::access::AccessConfig;
pub use self::acme::{AcmeConfig, Proof};
pub(crate) use self::acme::{CHALLENGE_PATH, tag};
pub use self::acme_dns::{DnsConfig, TsigKey};
pub use self::admin::AdminConfig;
pub use self::cache::{CacheConfig, Cookies, FillConfig, SiteKind};
pub use self::client_certificates::Vouchers;
pub(crate) use self::client_certificates::number_of;
use self::clients::check_clients;
pub use self::compression::CompressionConfig;
pub use self::containers::ContainersConfig;
pub use self::disk::{DiskBounds, DiskConfig, SharedCacheConfig};
#[cfg(test)]
pub(crate) use self::field_names::is_free;
pub(crate) use self::forward_auth::ADDRESS as SIGN_IN_ADDRESS;
pub use self::forward_auth::{AuthUrl, ForwardAuthConfig};
pub use self::gate::GateConfig;
pub use self::holidays::{OddEvents, read_holidays};
pub use self::htpasswd::Users;
pub use self::in_use::{InUseConfig, Preset};
pub(crate) use self::in_use::{Question, TokenField};
pub use self::job::{At, JobConfig};
pub(crate) use self::limits::SPOOL_BLOCK;
pub use self::limits::{Limits, SiteLimits};
pub use self::machine::MachineConfig;
pub(crate) use self::machine::bottom_up;
pub use self::magic_packets::{MagicPacketsConfig, PacketServer};
pub use self::meter::MeterConfig;
pub use self::mirror::{MirrorConfig, MirrorUrl};
pub use self::network::{ClientField, Network};
pub use self::origin::{Origin, OriginTls};
pub use self::path::{HeaderRules, PathConfig};
pub(crate) use self::path::{REST as REST_OF_PATH, is_hidden};
pub use self::pool::{KindConfig, PoolConfig, ServerConfig};
pub(crate) use self::spellings::decoded;
pub use self::spellings::readings;
pub(crate) use self::tcp::UNKNOWN;
pub use self::tcp::{Asleep, HeaderVersion, Keeps, TcpConfig, TcpOrigin, WakeOn};
pub use self::tls::{CertificateConfig, Hsts, TlsConfig};
pub use self::udp::{UdpConfig, UdpKeeps, UdpWakeOn};
pub use self::waiting_texts::WaitingTexts;
pub use self::webhook::{EventKind, WebhookConfig};
use self::wrong_value::{Wrong, wrong};
use crate::error::ConfigError;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses to listen on for HTTP: `["0.0.0.0:80", "[::]:80"]`.
    #[serde(default)]
    pub listen: Vec<SocketAddr>,
    /// TLS to clients; default: plain HTTP only.
    pub tls: Option<TlsConfig>,
    /// Folder of ledgers and process ids.
    #[serde(default = "default_state_dir")]
    pub state_dir: PathBuf,
    /// The local socket of `status`, `wake`, `sleep`, `stay-awake`; default: in `state_dir`.
    pub control_socket: Option<PathBuf>,
    /// Where metrics, health and the dashboard are served: `"127.0.0.1:9180"`;
    /// default: nowhere.
    pub admin: Option<AdminConfig>,
    /// Combined access log with nightwatt's own fields at the end of each line; default: none.
    pub access_log: Option<PathBuf>,
    /// Trusted proxies, whose `X-Forwarded-For` and `X-Request-Id` are believed: `["10.0.0.0/8"]`.
    #[serde(default)]
    pub trusted_proxies: Vec<Network>,
    /// The field in which these name the client: `"x-forwarded-for"` or `"forwarded"`; default: the first,
    /// and in a request without it the second.
    pub client_field: Option<ClientField>,
    /// Connections from these must begin with a PROXY protocol header (v1 or v2), which names their client:
    /// `["10.0.0.0/8"]`.
    #[serde(default)]
    pub proxy_protocol: Vec<Network>,
    /// Report in a header how each request was answered (`Nightwatt-Answer`).
    #[serde(default = "yes")]
    pub answer_header: bool,
    /// A meter of the machine that nightwatt runs on; default: none, and what it draws is modelled.
    pub meter: Option<MeterConfig>,
    /// The cache of all sites.
    #[serde(default)]
    pub cache: SharedCacheConfig,
    /// Bounds.
    #[serde(default)]
    pub limits: Limits,
    /// Server, proxy, SLA, cache and policy; each site may have its own instead.
    #[serde(default)]
    pub scenario: Scenario,
    /// The machines that servers run on.
    #[serde(default)]
    pub machine: Vec<MachineConfig>,
    /// The sites.
    #[serde(default)]
    pub site: Vec<SiteConfig>,
    /// Sites that labels of containers describe; default: none.
    pub containers: Option<ContainersConfig>,
    /// Services other than HTTP, which are passed through unchanged.
    #[serde(default)]
    pub tcp: Vec<TcpConfig>,
    /// Services of datagrams, which are passed through unchanged.
    #[serde(default)]
    pub udp: Vec<UdpConfig>,
    /// The gate, where other proxies ask whether a request may go to its server; default: none.
    pub gate: Option<GateConfig>,
    /// Magic packets in the local network that wake servers; default: they are not heard.
    pub magic_packets: Option<MagicPacketsConfig>,
    /// Commands that need a machine which sleeps.
    #[serde(default)]
    pub job: Vec<JobConfig>,
    /// Receivers of notifications when something needs a person.
    #[serde(default)]
    pub webhook: Vec<WebhookConfig>,
    /// The path of this file.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// One site: names, the server behind it, and how that sleeps.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteConfig {
    /// Name in logs, status and file names.
    pub name: String,
    /// What kind of site it is; none: nothing is assumed, and only answers that the server marks as cacheable are kept.
    pub kind: Option<SiteKind>,
    /// Host names; none: all that no other site has.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Redirect plain HTTP to the same address over TLS (308).
    #[serde(default)]
    pub redirect_to_https: bool,
    /// Exceptions: paths with these prefixes.
    #[serde(default = "tls::default_exempt")]
    pub https_exempt: Vec<String>,
    /// Tell browsers to speak TLS only; default: do not.
    pub hsts: Option<Hsts>,
    /// The server: `http://10.0.0.5:8080`; of a pool, its first one.
    #[serde(default)]
    pub origin: Origin,
    /// Several servers instead of one.
    #[serde(default)]
    pub server: Vec<ServerConfig>,
    /// How many of the servers are on.
    #[serde(default)]
    pub pool: PoolConfig,
    /// The machine that the server runs on: woken before it, and asleep only while it sleeps.
    pub on: Option<String>,
    /// How the server is woken and put to sleep; if left out, it sleeps with the machine it is `on`.
    pub power: Option<ControllerConfig>,
    /// How to tell that it is awake; default: any answer to `GET /` but 502, 503, 504.
    pub probe: Option<probe::Config>,
    /// Show browsers a waiting page (else they are held like other clients).
    #[serde(default = "yes")]
    pub waiting_page: bool,
    /// An HTML file instead of the built-in waiting page.
    pub waiting_page_file: Option<PathBuf>,
    /// The texts and the style of the waiting page.
    #[serde(default)]
    pub waiting_texts: WaitingTexts,
    /// Paths that browsers request by themselves and that wake no server.
    #[serde(default = "default_icons")]
    pub icons: Vec<String>,
    /// How to verify its server's certificate, if `origin` is `https://`; default: by the system's authorities.
    pub origin_tls: Option<OriginTls>,
    /// Wake-ups that a client may cause in a row, and per hour.
    #[serde(default = "default_wake_budget")]
    pub wakes_per_client_and_hour: u32,
    /// How long one client alone may keep the server awake per day; `0`: no limit.
    #[serde(default = "default_awake_budget", with = "duration_text")]
    pub awake_per_client_and_day: Duration,
    /// Repeat a wake command without an answer after this time.
    #[serde(default = "default_wake_timeout", with = "duration_text")]
    pub wake_timeout: Duration,
    /// A sleep command has failed if the server still answers after this time.
    #[serde(default = "default_sleep_timeout", with = "duration_text")]
    pub sleep_timeout: Duration,
    /// Time between two probes of a server believed awake; `0`: never probe.
    #[serde(default = "default_watch", with = "duration_text")]
    pub watch: Duration,
    /// The same while it sleeps; see [`SiteConfig::watch_asleep`].
    #[serde(default, deserialize_with = "cache::given")]
    pub watch_asleep: Option<Duration>,
    /// A server that was woken, but not through the proxy, was woken for use: it stays awake at least this long.
    #[serde(default = "default_grace", with = "duration_text")]
    pub grace: Duration,
    /// How long a server may still answer after its agent announced sleep.
    #[serde(default = "default_good_bye", with = "duration_text")]
    pub good_bye: Duration,
    /// Which clients are crawlers, scanners, monitors.
    #[serde(default)]
    pub clients: ClassifierConfig,
    /// Who may come in, and who may wake the server; default: all clients.
    pub access: Option<AccessConfig>,
    /// Paths that are answered in another way.
    #[serde(default)]
    pub path: Vec<PathConfig>,
    /// Probes that report use of the server that does not come through the proxy.
    #[serde(default)]
    pub in_use: Vec<InUseConfig>,
    /// Pages instead of the built-in text for errors, by status: `503 = "/etc/nightwatt/503.html"`.
    #[serde(default)]
    pub error_pages: BTreeMap<String, PathBuf>,
    /// Which of its answers are compressed on their way to clients; default: none.
    #[serde(default)]
    pub compression: CompressionConfig,
    /// Which of its answers are stored, for which clients and for how long.
    #[serde(default)]
    pub cache: CacheConfig,
    /// A copy of its public pages, from which it is answered while the server sleeps.
    #[serde(default)]
    pub mirror: MirrorConfig,
    /// A meter of the server; default: none, and what it draws is modelled.
    pub meter: Option<MeterConfig>,
    /// Instead of the file's `[scenario]`.
    pub scenario: Option<Scenario>,
    /// Instead of the file's `[limits]`.
    #[serde(default)]
    pub limits: SiteLimits,
    /// The file writes an `sla` for it.
    #[serde(skip)]
    pub(crate) has_own_sla: bool,
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

fn default_awake_budget() -> Duration {
    Duration::from_hours(12)
}

fn default_wake_timeout() -> Duration {
    Duration::from_mins(2)
}

fn default_sleep_timeout() -> Duration {
    Duration::from_mins(1)
}

fn default_grace() -> Duration {
    Duration::from_mins(5)
}

fn default_good_bye() -> Duration {
    Duration::from_secs(30)
}

fn default_watch() -> Duration {
    Duration::from_mins(1)
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::load_with(path, OddEvents::Refuse)
    }

    /// The same for a gateway that serves: the log warns of events of `holidays` that cannot be understood, since one of
    /// them must not stop it.
    pub fn load_to_serve(path: &Path) -> Result<Self, ConfigError> {
        Self::load_with(path, OddEvents::Skip)
    }

    fn load_with(path: &Path, odd: OddEvents) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let name = path.display().to_string();
        let mut config = Self::parse(&text, &name)?;
        config.file = Some(path.to_owned());
        config
            .read_other_files(odd)
            .and_then(|()| config.check_folders())
            .map_err(|it| ConfigError::value(&name, &text, &it.key, it.text))?;
        Ok(config)
    }

    /// Reads and checks the text of a file; `name` is its name in errors.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text)
            .map_err(|error| ConfigError::syntax::<Self>(name, text, &error))?;
        config.check().map_err(|it| ConfigError::value(name, text, &it.key, it.text))?;
        listening::check(&config)
            .map_err(|it| ConfigError::clash(name, text, &it.keys, it.text))?;
        config.place_acme();
        let table: toml::Table = text.parse().unwrap_or_default();
        config.containers.iter_mut().for_each(|it| it.read_table(&table));
        for (index, site) in config.site.iter_mut().enumerate() {
            site.has_own_sla = writes_sla(&table, index);
            site.name_origins();
            // The first server stands for the site as a whole.
            if let Some(first) = site.server.first() {
                site.origin = first.origin.clone();
            }
        }
        Ok(config)
    }

    /// Reads the files of holidays, users and authorities.
    fn read_other_files(&mut self, odd: OddEvents) -> Result<(), Wrong> {
        let read = read_holidays(&mut self.scenario, odd);
        read.map_err(|text| holidays::wrong(&text))?;
        for (index, site) in self.site.iter_mut().enumerate() {
            site.read_files(odd).map_err(|it| it.within(format_args!("site.{index}")))?;
        }
        self.gather_authorities();
        if let Some(tls) = &mut self.tls {
            tls.acme.as_mut().and_then(|it| it.dns.as_mut()).map_or(Ok(()), DnsConfig::read)?;
        }
        Ok(())
    }

    /// The power of a machine.
    pub fn server_of<'a>(&'a self, machine: &'a MachineConfig) -> &'a Server {
        machine.server.as_ref().unwrap_or(&self.scenario.server)
    }

    /// The scenario of a site. With `kind = "app"` it has an SLA only if the file has one: a share of the requests of a
    /// site that few people use would keep its server awake for ever.
    pub fn scenario_of<'a>(&'a self, site: &'a SiteConfig) -> Cow<'a, Scenario> {
        let scenario = site.scenario.as_ref().unwrap_or(&self.scenario);
        if site.kind != Some(SiteKind::App) || site.has_own_sla || !scenario.sla.enabled {
            return Cow::Borrowed(scenario);
        }
        let sla = SlaRule { enabled: false, ..scenario.sla.clone() };
        Cow::Owned(Scenario { sla, ..scenario.clone() })
    }

    /// Checks what types cannot express.
    fn check(&self) -> Result<(), Wrong> {
        // Without a site there is nothing to answer by HTTP; but with a gate, another proxy may serve it.
        let needs_http = !self.site.is_empty() || self.containers.is_some();
        let listens = !self.listen.is_empty() || self.tls.is_some();
        let passes = !self.tcp.is_empty() || !self.udp.is_empty() || self.magic_packets.is_some();
        if !listens && self.gate.is_none() && (needs_http || !passes) {
            return wrong("listen", "at least one address is needed: `listen = [\"0.0.0.0:80\"]`");
        }
        self.tls.as_ref().map_or(Ok(()), |tls| tls.check(&self.listen))?;
        if self.site.is_empty() && !passes && self.containers.is_none() {
            return wrong(
                "site",
                "at least one `[[site]]` is needed, or a `[[tcp]]` or `[[udp]]` on a `[[machine]]`, or \
                 `[magic_packets]` that wake one",
            );
        }
        self.limits.check()?;
        self.cache.disk.as_ref().map_or(Ok(()), DiskConfig::check)?;
        self.admin.as_ref().map_or(Ok(()), AdminConfig::check)?;
        self.meter.as_ref().map_or(Ok(()), |meter| meter.check("meter"))?;
        self.scenario.check().map_err(|bad| Wrong::from(bad).within("scenario"))?;
        let mut taken = HashSet::new();
        for (index, machine) in self.machine.iter().enumerate() {
            machine.check(&mut taken).map_err(|it| it.within(format_args!("machine.{index}")))?;
        }
        machine::check_all(&self.machine)?;
        for (index, site) in self.site.iter().enumerate() {
            site.check(&mut taken)
                .and_then(|()| site.check_tls(self))
                .and_then(|()| site.check_origin_tls())
                .and_then(|()| site.check_access(self))
                .and_then(|()| site.check_paths(self))
                .and_then(|()| site.check_in_use())
                .and_then(|()| machine::check_on(site.on.as_deref(), &self.machine))
                .and_then(|()| {
                    site.check_pool(&self.scenario_of(site).server, &self.machine, &mut taken)
                })
                .map_err(|it| it.within(format_args!("site.{index}")))?;
        }
        for (index, webhook) in self.webhook.iter().enumerate() {
            webhook.check().map_err(|it| it.within(format_args!("webhook.{index}")))?;
        }
        self.check_needs()?;
        tcp::check_all(self, &mut taken)?;
        udp::check_all(self, &mut taken)?;
        job::check_all(self, &mut taken)?;
        self.magic_packets.as_ref().map_or(Ok(()), |it| it.check(self))?;
        self.gate.as_ref().map_or(Ok(()), |gate| gate.check(self))?;
        // Last: it checks all of this again with one more site, and would be blamed for what is wrong elsewhere.
        self.check_containers(&taken)
    }
}

/// Whether the scenario of a site has an `sla`, even if it is the default.
fn writes_sla(file: &toml::Table, index: usize) -> bool {
    let site = file.get("site").and_then(|sites| sites.get(index));
    let scenario = site.and_then(|site| site.get("scenario")).or_else(|| file.get("scenario"));
    scenario.is_some_and(|scenario| scenario.get("sla").is_some())
}

/// Time between two probes of what sleeps, unless it is `given`: the same as while it is awake if the probe sends
/// nothing to it, since it is a part of this machine or another program is asked. What has no controller uses the
/// machine's.
fn watch_asleep(
    given: Option<Duration>,
    watch: Duration,
    power: Option<&ControllerConfig>,
    probe: Option<&probe::Config>,
) -> Duration {
    let asks_others = power.is_none_or(|power| !power.state_comes_from_server());
    let is_quiet = power.is_some_and(ControllerConfig::is_on_this_machine)
        || asks_others && matches!(probe, Some(probe::Config::Controller));
    given.unwrap_or(if is_quiet { watch } else { Duration::ZERO })
}

impl SiteConfig {
    /// Whether the server counts on the bill of the machine that it runs on: it does, and draws nothing by itself,
    /// unless it has a `scenario` of its own.
    pub fn is_on_machines_bill(&self) -> bool {
        self.on.is_some() && self.scenario.is_none()
    }

    /// The rules of its cache.
    pub fn cache_rules(&self, scenario: &Scenario) -> Rules {
        let mut rules = self.cache.rules(self.kind, &scenario.cache);
        if self.mirror.is_on(self.kind) {
            // What the mirror would not give any more, the cache does not either.
            self.mirror.limit(&mut rules);
        }
        rules
    }

    /// A warning about a site whose `kind` is not set. Before version 0.2 its cache kept answers that the server had
    /// not marked as cacheable; nothing for a site whose settings are explicit.
    pub fn unknown_kind(&self, scenario: &Scenario) -> Option<&'static str> {
        let is_known = self.kind.is_some() || self.cache_rules(scenario).assumes;
        (!is_known).then_some(
            "`kind` is not set: only answers that the server marks as cacheable are kept. If every visitor who is \
             not logged in sees the same pages, write `kind = \"pages\"`, else `kind = \"app\"`; \
             `nightwatt init --upgrade` proposes one",
        )
    }

    /// How to tell that its server is awake. Unless configured: any answer to `GET /` except 502, 503 and 504.
    pub fn probe_config(&self) -> probe::Config {
        self.probe.clone().unwrap_or_else(|| self.origin.probe())
    }

    /// Whether the server is a part of this machine, or only simulated.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.power.as_ref().is_some_and(ControllerConfig::is_on_this_machine)
    }

    /// Time between two probes of the server while it sleeps; zero: none. A separate machine is not probed unless its
    /// configuration says otherwise: what is sent to it may wake it.
    pub fn watch_asleep(&self) -> Duration {
        let power = self.power.as_ref();
        watch_asleep(self.watch_asleep, self.watch, power, self.probe.as_ref())
    }

    fn check(&self, taken: &mut HashSet<String>) -> Result<(), Wrong> {
        check_name(&self.name, taken)?;
        if self.server.is_empty() && self.origin.authority.is_empty() {
            let text = "`origin` is missing: where does the server answer? Write \
                        `origin = \"http://10.0.0.5:8080\"`, or a `[[site.server]]` for each of several";
            return wrong("origin", text);
        }
        if self.server.is_empty() && self.power.is_none() && self.on.is_none() {
            let text = "`power` is missing: how is the server woken and put to sleep? Write a table as \
                        `[site.power.process]` below it, or `on = \"MACHINE\"` if it sleeps with a \
                        `[[machine]]`";
            return wrong("power", text);
        }
        self.check_hosts(taken)?;
        check_waits(self.wake_timeout, self.sleep_timeout)?;
        self.waiting_texts.check()?;
        self.cache.check()?;
        self.mirror.check(self.kind)?;
        self.compression.check()?;
        self.limits.check()?;
        check_clients(&self.clients)?;
        if self.awake_per_client_and_day > Duration::from_hours(24) {
            let text = "`awake_per_client_and_day` is longer than a day: leave it out for 12h, or write 0 for no bound";
            return wrong("awake_per_client_and_day", text);
        }
        if self.kind == Some(SiteKind::App) && self.cache.ttl.is_some_and(|ttl| !ttl.is_zero()) {
            let text = "`kind = \"app\"` keeps only answers that the server marks as cacheable, and `ttl` is the \
                        lifetime of the others: leave one of the two out";
            return wrong("cache.ttl", text);
        }
        self.meter.as_ref().map_or(Ok(()), |meter| meter.check("meter"))?;
        let own = self.scenario.as_ref().map_or(Ok(()), Scenario::check);
        own.map_err(|bad| Wrong::from(bad).within("scenario"))
    }
}

/// Checks timeouts.
fn check_waits(wake_timeout: Duration, sleep_timeout: Duration) -> Result<(), Wrong> {
    for (key, time) in [("wake_timeout", wake_timeout), ("sleep_timeout", sleep_timeout)] {
        if time.is_zero() {
            return wrong(
                key,
                format!("`{key}` is 0, but it must be longer than 0; leave it out for the default"),
            );
        }
    }
    Ok(())
}

/// Names of sites and machines are also names of files, and must be unique.
fn check_name(name: &str, taken: &mut HashSet<String>) -> Result<(), Wrong> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        let text = format!("`{name}` names files too: letters, digits, `-`, `_`, `.` only");
        return wrong("name", text);
    }
    if !taken.insert(format!("name {name}")) {
        return wrong(
            "name",
            format!("two are called `{name}`: the names of sites and machines must differ"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
