//! The agent's configuration: one TOML file.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_host::ConfigError;
use serde::{Deserialize, Deserializer};

use crate::Error;
use crate::protocol::{AGENT_PORT, NEWS_PORT};

/// Default path of the configuration file.
pub const DEFAULT_FILE: &str = "/etc/nightwatt/agent.toml";

/// The whole file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses of this machine at which proxies reach it; the default port is [`AGENT_PORT`].
    #[serde(deserialize_with = "addresses")]
    pub listen: Vec<SocketAddr>,
    /// Where the record of states is kept.
    #[serde(default = "state_dir")]
    pub state_dir: PathBuf,
    /// Who may give orders.
    pub proxy: Vec<Proxy>,
    /// How the machine is put to sleep.
    #[serde(default)]
    pub sleep: Sleep,
    /// When it wakes by itself.
    #[serde(default)]
    pub alarm: Alarm,
    /// What keeps it awake.
    #[serde(default)]
    pub inhibit: Inhibit,
    /// How to see that its service answers.
    #[serde(default)]
    pub ready: Option<Ready>,
}

fn state_dir() -> PathBuf {
    PathBuf::from("/var/lib/nightwatt-agent")
}

/// `[[proxy]]`: one that may give orders.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// For the log.
    #[serde(default = "proxy_name")]
    pub name: String,
    /// The file of the key that it shares with this machine.
    pub key: PathBuf,
    /// Address at which it hears announcements; the default port is [`NEWS_PORT`].
    #[serde(default, deserialize_with = "maybe_news_address")]
    pub announce: Option<SocketAddr>,
}

fn proxy_name() -> String {
    "proxy".to_owned()
}

/// `[sleep]`: how the machine is put to sleep.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sleep {
    /// Suspend to memory, hibernate, power off, or a command.
    pub how: SleepMethod,
    /// What `how = "command"` runs, by the shell.
    pub command: Option<String>,
    /// What goes into `/sys/power/mem_sleep` before: `deep` or `s2idle`.
    pub mem_sleep: Option<String>,
    /// The machine must be asleep within this time; otherwise the order has failed, and the proxies hear
    /// that the machine is up. Default: 30 s, 2 min for hibernation, 5 min for power off.
    #[serde(deserialize_with = "maybe_duration")]
    pub within: Option<Duration>,
}

impl Default for Sleep {
    fn default() -> Self {
        Self { how: SleepMethod::Suspend, command: None, mem_sleep: None, within: None }
    }
}

impl Sleep {
    /// See `within`.
    pub fn time_allowed(&self) -> Duration {
        self.within.unwrap_or(match self.how {
            SleepMethod::Suspend | SleepMethod::Command => Duration::from_secs(30),
            SleepMethod::Hibernate => Duration::from_mins(2),
            SleepMethod::PowerOff => Duration::from_mins(5),
        })
    }
}

/// To wake more often is no sleep.
const LEAST_DEAD_MAN: Duration = Duration::from_secs(10);

/// What the kernel knows of (`Documentation/admin-guide/pm/sleep-states.rst`).
const MEM_SLEEP: [&str; 3] = ["s2idle", "shallow", "deep"];

/// Ways to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SleepMethod {
    /// To memory.
    Suspend,
    /// To disk.
    Hibernate,
    /// Off: only something like Wake-on-LAN turns it on again.
    PowerOff,
    /// By a command of one's own.
    Command,
}

/// Timers that distributions ship and that may run late: systemd runs the persistent ones after the next
/// wake-up, and the others have nothing to do on a machine that slept. Without this list a fresh Debian
/// wakes several times a day.
pub const HOUSEKEEPING: [&str; 17] = [
    "apt-daily*",
    "apt-daily-upgrade*",
    "man-db*",
    "dpkg-db-backup*",
    "logrotate*",
    "e2scrub*",
    "fstrim*",
    "systemd-tmpfiles-*",
    "phpsessionclean*",
    "sysstat-*",
    "motd-news*",
    "update-notifier-*",
    "fwupd-*",
    "anacron*",
    "ua-*",
    "apport-*",
    "exim4-base*",
];

/// `[alarm]`: when the machine wakes by itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Alarm {
    /// Never asleep longer than this: a proxy that is dead must not mean a site that is dead. Zero: off.
    #[serde(with = "duration_text")]
    pub dead_man: Duration,
    /// After such a wake-up the agent waits this long for a proxy before it records that there is no proxy.
    #[serde(with = "duration_text")]
    pub grace: Duration,
    /// The machine wakes this long before the next timer or cron job.
    #[serde(with = "duration_text")]
    pub lead: Duration,
    /// When the alarm has woken the machine for a timer or cron job, it stays awake this long after the due time.
    #[serde(with = "duration_text")]
    pub stay: Duration,
    /// Names of systemd timers that it wakes for; `*` stands for anything.
    pub timers: Vec<String>,
    /// Names of systemd timers that it does not wake for; default: [`HOUSEKEEPING`].
    pub timers_ignore: Vec<String>,
    /// Wakes for cron jobs.
    pub cron: bool,
    /// Cron jobs whose command matches one of these do not wake it.
    pub cron_ignore: Vec<String>,
    /// The clock that rings.
    pub rtc: String,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            dead_man: Duration::from_hours(24),
            grace: Duration::from_mins(10),
            lead: Duration::from_mins(2),
            stay: Duration::from_mins(30),
            timers: vec!["*".to_owned()],
            timers_ignore: HOUSEKEEPING.map(str::to_owned).to_vec(),
            cron: true,
            cron_ignore: Vec::new(),
            rtc: "rtc0".to_owned(),
        }
    }
}

/// `[inhibit]`: what keeps the machine awake. What has no default is not looked at if it is not set.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Inhibit {
    /// A user is logged in.
    pub users: bool,
    /// A client is connected to sshd, on these ports. Empty: not checked.
    pub ssh_ports: Vec<u16>,
    /// Inhibitors of systemd (`systemd-inhibit`) that block sleep or shutdown.
    pub systemd: bool,
    /// A timer or cron job is due within this time. Zero: not looked at.
    #[serde(with = "duration_text")]
    pub timers_within: Duration,
    /// The load average of the last minute is above.
    pub load: Option<f64>,
    /// The share of all processors that are busy is above: 0.1 is 10 %.
    pub cpu: Option<f64>,
    /// The share of a GPU that is busy is above: 0.1 is 10 %.
    pub gpu: Option<f64>,
    /// Bytes per second through network interfaces are above.
    pub network: Option<f64>,
    /// Only these interfaces count; all but the loopback if empty.
    pub network_interfaces: Vec<String>,
    /// Bytes per second from and to disks are above.
    pub disk: Option<f64>,
    /// Processes of these names run; `*` stands for anything.
    pub processes: Vec<String>,
    /// A client is connected to one of these TCP ports.
    pub ports: Vec<u16>,
    /// Connections to `ports` from these addresses do not count: the proxy's, monitors'.
    pub ports_except: Vec<IpAddr>,
    /// iCalendar files whose events keep the machine awake.
    pub calendars: Vec<PathBuf>,
    /// A program and its arguments. Exit status 0: the machine may sleep.
    pub script: Vec<String>,
    /// Timeout of the script: if it runs longer, the machine stays awake.
    #[serde(with = "duration_text")]
    pub script_timeout: Duration,
}

impl Default for Inhibit {
    fn default() -> Self {
        Self {
            users: true,
            ssh_ports: vec![22],
            systemd: true,
            timers_within: Duration::from_mins(10),
            load: None,
            cpu: None,
            gpu: None,
            network: None,
            network_interfaces: Vec::new(),
            disk: None,
            processes: Vec::new(),
            ports: Vec::new(),
            ports_except: Vec::new(),
            calendars: Vec::new(),
            script: Vec::new(),
            script_timeout: Duration::from_secs(10),
        }
    }
}

/// `[ready]`: when the service answers after a wake-up. One of the two.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// It accepts a connection.
    #[serde(default)]
    pub tcp: Option<SocketAddr>,
    /// A shell command ends with status 0.
    #[serde(default)]
    pub command: Option<String>,
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::ConfigFile { path: path.to_owned(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a text; `name` is how errors call it.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        let config: Self = toml::from_str(text).map_err(|error| {
            match ConfigError::syntax::<Self>(name, text, &error) {
                ConfigError::Invalid { place, message, excerpt } => {
                    Error::Config { name: place, message: message + &excerpt }
                }
                other @ ConfigError::Unreadable { .. } => {
                    Error::Config { name: name.to_owned(), message: other.to_string() }
                }
            }
        })?;
        config.check().map_err(|message| Error::Config { name: name.to_owned(), message })?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let Self { sleep, ready, inhibit, .. } = self;
        if self.listen.is_empty() {
            return Err("`listen` needs an address of this machine, as [\"10.0.0.2\"]".to_owned());
        }
        if self.proxy.is_empty() {
            return Err("at least one `[[proxy]]` with its `key` is needed".to_owned());
        }
        self.check_announcements()?;
        if sleep.within.is_some_and(|within| within.is_zero()) {
            return Err("`sleep.within` is more than 0: falling asleep takes time".to_owned());
        }
        if let Some(kind) = sleep.mem_sleep.as_deref().filter(|kind| !MEM_SLEEP.contains(kind)) {
            return Err(format!(
                "`sleep.mem_sleep` is one of {}, not `{kind}`",
                MEM_SLEEP.join(", ")
            ));
        }
        let dead_man = self.alarm.dead_man;
        if !dead_man.is_zero() && dead_man < LEAST_DEAD_MAN {
            return Err("`alarm.dead_man` is 10 s or more, as \"24h\"; \"0\" is never".to_owned());
        }
        if (sleep.how == SleepMethod::Command) != sleep.command.is_some() {
            return Err(
                "`sleep.command` goes with `how = \"command\"`, and that with it".to_owned()
            );
        }
        let is_rtc = |name: &str| {
            name.strip_prefix("rtc").is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
            })
        };
        if !is_rtc(&self.alarm.rtc) {
            return Err(format!("`alarm.rtc` is a name as rtc0, not `{}`", self.alarm.rtc));
        }
        if ready.as_ref().is_some_and(|ready| ready.tcp.is_some() == ready.command.is_some()) {
            return Err("`[ready]` is either `tcp` or `command`".to_owned());
        }
        let limits = [
            ("load", inhibit.load),
            ("cpu", inhibit.cpu),
            ("gpu", inhibit.gpu),
            ("network", inhibit.network),
            ("disk", inhibit.disk),
        ];
        for (name, limit) in limits {
            if limit.is_some_and(|limit| !(limit.is_finite() && limit >= 0.0)) {
                return Err(format!("`inhibit.{name}` is a number from 0 on"));
            }
        }
        for (key, share, of) in
            [("cpu", inhibit.cpu, "all processors"), ("gpu", inhibit.gpu, "a GPU")]
        {
            if share.is_some_and(|share| share > 1.0) {
                return Err(format!("`inhibit.{key}` is a share of {of}: 0.1 is 10 %"));
            }
        }
        if !inhibit.ports_except.is_empty() && inhibit.ports.is_empty() {
            return Err(
                "`inhibit.ports_except` is for connections to `ports`: name some".to_owned()
            );
        }
        Ok(())
    }

    fn check_announcements(&self) -> Result<(), String> {
        for proxy in &self.proxy {
            let Some(announce) = proxy.announce else { continue };
            let name = &proxy.name;
            if announce.ip().is_unspecified() {
                return Err(format!(
                    "`announce` of `{name}` is {}: write the proxy's own address",
                    announce.ip()
                ));
            }
            if !self.listen.iter().any(|ours| ours.is_ipv4() == announce.is_ipv4()) {
                return Err(format!(
                    "`announce` of `{name}` is {}, and none of `listen` can send there: one is IPv4, the \
                     other IPv6",
                    announce.ip()
                ));
            }
        }
        Ok(())
    }
}

/// An address with a port, or without for the usual one.
pub fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>().ok();
    let address = with_port.or_else(|| Some(SocketAddr::new(text.parse().ok()?, port)));
    address.ok_or_else(|| {
        format!("`{text}` is no address, with or without a port, as 10.0.0.2:{port} is; names are not looked up")
    })
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let read = |text: &String| address(text, AGENT_PORT).map_err(serde::de::Error::custom);
    texts.iter().map(read).collect()
}

fn maybe_news_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    address(&text, NEWS_PORT).map(Some).map_err(serde::de::Error::custom)
}

fn maybe_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration_text::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_with_what_would() {
        let said = |listen: &str, proxy: &str, more: &str| {
            let text =
                format!("listen = [\"{listen}\"]\n[[proxy]]\nkey = \"k\"\n{proxy}\n{more}\n");
            Config::parse(&text, "agent.toml").err().map(|error| error.to_string())
        };
        assert_eq!(said("10.0.0.2", "announce = \"10.0.0.1\"", ""), None);
        let refused = [
            ("10.0.0.2", "announce = \"0.0.0.0\"", "", "the proxy's own address"),
            ("10.0.0.2", "announce = \"fd00::1\"", "", "the other IPv6"),
            ("10.0.0.2", "", "[sleep]\nwithin = \"0\"", "more than 0"),
            ("10.0.0.2", "", "[sleep]\nmem_sleep = \"Deep\"", "s2idle, shallow, deep"),
            ("10.0.0.2", "", "[alarm]\ndead_man = \"1s\"", "10 s or more"),
        ];
        for (listen, proxy, more, wanted) in refused {
            let said = said(listen, proxy, more).unwrap();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
