//! `[[tcp]]`: what is not HTTP and is passed through as it is.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_policy::passage::KeepAwake;
use serde::Deserialize;

use super::{Config, Network, SiteConfig, Wrong, cache, check_name, network, wrong};
use crate::authority::{Authority, is_name};

/// The name of what is no service: of connections that were refused before it was known which one they want.
pub(crate) const UNKNOWN: &str = "unknown";

/// A service behind the gateway whose bytes are passed through: SSH, Git, media, TLS that ends at the
/// server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// In logs, status and metrics.
    pub name: String,
    /// Addresses to listen on. Several services may share one if TLS tells them apart: see `sni`.
    pub listen: Vec<SocketAddr>,
    /// The `[[site]]` or `[[machine]]` on whose server it is: that is woken.
    pub on: String,
    /// Where it is: `10.0.0.5:22`; or `:22`, on the host of the site's server, whichever that is.
    pub origin: TcpOrigin,
    /// Networks whose connections are taken; default: all.
    pub allow: Option<Vec<Network>>,
    /// Networks whose connections are closed at once, even if `allow` has them.
    #[serde(default)]
    pub deny: Vec<Network>,
    /// Names in TLS that are for this service: `git.example.org`, `*.example.org`. None: whatever no
    /// other service at that address has.
    #[serde(default)]
    pub sni: Vec<String>,
    /// What of a connection wakes the server.
    #[serde(default)]
    pub wake_on: WakeOn,
    /// With `wake_on = "minecraft"`: what lists of servers show while the server sleeps.
    #[serde(default = "default_motd")]
    pub motd: String,
    /// What of a connection keeps the server awake; default: `bytes`, but at a pool `connection`.
    pub keep_awake: Option<Keeps>,
    /// A connection through which nothing came for this long does not keep the server awake (`bytes`).
    #[serde(default = "default_quiet", with = "duration_text")]
    pub quiet: Duration,
    /// What becomes of a connection whose server sleeps.
    #[serde(default)]
    pub asleep: Asleep,
    /// A connection through which nothing came for this long is closed; default: `limits.tunnel_idle`.
    #[serde(default, deserialize_with = "cache::given")]
    pub idle_timeout: Option<Duration>,
    /// Connections held at once for the server to wake; further ones are closed.
    #[serde(default = "default_held")]
    pub held: usize,
    /// Bytes of a held connection that are kept in memory; the rest waits in the client's connection.
    #[serde(default = "default_held_bytes")]
    pub held_bytes: usize,
    /// Tell the service whose connection it is, by a PROXY protocol header of this version.
    pub send_proxy_protocol: Option<HeaderVersion>,
}

/// What of a connection wakes its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WakeOn {
    /// That it is made: for services that speak first.
    #[default]
    Connect,
    /// The first byte of its client: a port scan connects and says nothing.
    FirstByte,
    /// A `ClientHello` of TLS.
    Tls,
    /// The version of an SSH client.
    Ssh,
    /// A connection request of RDP.
    Rdp,
    /// A player who logs in to Minecraft; lists of servers are answered without waking it.
    Minecraft,
}

/// What of a connection keeps its server awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeps {
    /// That it is open.
    Connection,
    /// What moves through it.
    Bytes,
}

/// What becomes of a connection whose server sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asleep {
    /// It is reset at both ends, so that both know.
    #[default]
    Reset,
    /// It stays open: a server that is suspended to memory still has its end. A byte of the client wakes
    /// it.
    Keep,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpOrigin {
    /// Name or address; none: that of the site's server.
    pub host: Option<String>,
    /// Port.
    pub port: u16,
}

impl TcpOrigin {
    /// The site on whose server a service is, or nothing if that is a machine. An error if neither has the name `on`.
    pub(super) fn site_of<'a>(
        &self,
        on: &str,
        config: &'a Config,
    ) -> Result<Option<&'a SiteConfig>, Wrong> {
        let site = config.site.iter().find(|site| site.name == on);
        let is_machine = config.machine.iter().any(|machine| machine.name == on);
        if site.is_none() && !is_machine {
            let text = format!(
                "there is no `[[site]]` or `[[machine]]` called `{on}`: on whose server is it?"
            );
            return Err(Wrong::new("on", text));
        }
        if is_machine && self.host.is_none() {
            let text = "a machine has no origin whose host could be meant: write host and port";
            return Err(Wrong::new("origin", text));
        }
        Ok(site)
    }
}

impl<'de> Deserialize<'de> for TcpOrigin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (host, port) = match text.strip_prefix(':') {
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (None, port.parse().ok())
            }
            _ => {
                let named = Authority::parse(&text);
                (named.map(|it| it.host.to_owned()), named.and_then(|it| it.port))
            }
        };
        match port.filter(|port| *port > 0) {
            Some(port) => Ok(Self { host, port }),
            None => Err(serde::de::Error::custom(format!(
                "`{text}` is not where a service can be: write host and port, as in `10.0.0.5:22`, or \
                 `:22` for the host of the site's server"
            ))),
        }
    }
}

impl TcpOrigin {
    /// Host and port; `authority` is that of the site's server.
    pub(crate) fn at(&self, authority: &str) -> String {
        let host = self.host.as_deref();
        let host = host.or_else(|| Authority::parse(authority).map(|it| it.host));
        format!("{}:{}", host.unwrap_or_default(), self.port)
    }
}

fn default_quiet() -> Duration {
    Duration::from_mins(5)
}

fn default_motd() -> String {
    "Asleep: join to wake it".to_owned()
}

/// No text for lists of servers is longer.
const LONGEST_MOTD: usize = 1024;

fn default_held() -> usize {
    128
}

fn default_held_bytes() -> usize {
    64 << 10
}

impl TcpConfig {
    /// Whether connections of this address are taken.
    pub fn lets_in(&self, client: IpAddr) -> bool {
        network::lets_in(self.allow.as_deref(), &self.deny, client)
    }

    /// What of its connections keeps the server awake; a pool's server is not put to sleep under one.
    pub fn keeps(&self, is_pool: bool) -> KeepAwake {
        match self.keep_awake {
            Some(Keeps::Connection) => KeepAwake::Connection,
            None if is_pool => KeepAwake::Connection,
            Some(Keeps::Bytes) | None => KeepAwake::Bytes { quiet: self.quiet },
        }
    }

    fn check(&self, config: &Config, taken: &mut HashSet<String>) -> Result<(), Wrong> {
        check_name(&self.name, taken)?;
        if self.name == UNKNOWN {
            let text = format!(
                "`{UNKNOWN}` is the name of connections that are for no service: take another"
            );
            return wrong("name", text);
        }
        if self.listen.is_empty() {
            return wrong("listen", "at least one address is needed: `[\"0.0.0.0:22\"]`");
        }
        if !self.sni.is_empty()
            && !matches!(self.wake_on, WakeOn::Connect | WakeOn::FirstByte | WakeOn::Tls)
        {
            let text = "`sni` is for connections that begin with TLS, and those of `wake_on` begin with something else: \
                        leave out one of the two";
            return wrong("sni", text);
        }
        let site = self.origin.site_of(&self.on, config)?;
        network::check_allow(self.allow.as_deref())?;
        self.check_motd()?;
        site.map_or(Ok(()), |site| self.check_pool(site))?;
        for (key, time) in [("quiet", Some(self.quiet)), ("idle_timeout", self.idle_timeout)] {
            if time.is_some_and(|time| time.is_zero()) {
                return wrong(key, format!("`{key}` is 0, but it must be longer than 0"));
            }
        }
        for (key, value) in [("held", self.held), ("held_bytes", self.held_bytes)] {
            if value == 0 {
                return wrong(key, format!("`{key}` is 0, but it must be at least 1"));
            }
        }
        for name in &self.sni {
            let bare = name.strip_prefix("*.").unwrap_or(name);
            if !is_name(bare) {
                let text = format!(
                    "`{name}` is not a name that TLS can ask for: write `git.example.org`, or \
                     `*.example.org` for all names one step below"
                );
                return wrong("sni", text);
            }
        }
        Ok(())
    }

    fn check_motd(&self) -> Result<(), Wrong> {
        if self.motd.len() > LONGEST_MOTD {
            return wrong("motd", "`motd` is longer than 1024 bytes");
        }
        if self.wake_on != WakeOn::Minecraft && self.motd != default_motd() {
            let text = "`motd` has no effect without `wake_on = \"minecraft\"`: add that, or leave out `motd`";
            return wrong("motd", text);
        }
        Ok(())
    }

    /// A pool gives each connection to one of its servers.
    fn check_pool(&self, site: &SiteConfig) -> Result<(), Wrong> {
        if site.server.is_empty() {
            return Ok(());
        }
        if self.origin.host.is_some() {
            let text = "the site has several servers: write the port alone, as in `:22`; the host is that \
                        of the server that has a place";
            return wrong("origin", text);
        }
        if self.keep_awake == Some(Keeps::Bytes) || self.asleep == Asleep::Keep {
            let text = "the site has several servers, and a connection belongs to one of them, which \
                        stays awake as long as that is open: leave out `keep_awake = \"bytes\"` and \
                        `asleep = \"keep\"`";
            return wrong("keep_awake", text);
        }
        Ok(())
    }
}

/// What is wrong with the services, alone and beside each other.
pub(super) fn check_all(config: &Config, taken: &mut HashSet<String>) -> Result<(), Wrong> {
    // Who has a name at an address; the empty one stands for all other names.
    let mut owners: HashMap<(SocketAddr, String), &str> = HashMap::new();
    for (index, tcp) in config.tcp.iter().enumerate() {
        let here = |it: Wrong| it.within(format_args!("tcp.{index}"));
        tcp.check(config, taken).map_err(here)?;
        let mut names: Vec<String> = tcp.sni.iter().map(|it| it.to_ascii_lowercase()).collect();
        if names.is_empty() {
            names.push(String::new());
        }
        for address in &tcp.listen {
            for name in &names {
                let Some(other) = owners.insert((*address, name.clone()), &tcp.name) else {
                    continue;
                };
                let text = if name.is_empty() {
                    format!(
                        "`{other}` listens at {address} too: only one of those that share an address \
                         can do without `sni`"
                    )
                } else {
                    format!(
                        "`{name}` at {address} is claimed twice, by `{other}` before: it can belong to one only"
                    )
                };
                return wrong(if name.is_empty() { "listen" } else { "sni" }, text).map_err(here);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<TcpConfig, String> {
        let text = format!(
            "[[machine]]\nname = \"pc\"\nprobe = \"tcp 127.0.0.1:9\"\npower.simulated = {{}}\n[[tcp]]\n\
             name = \"ssh\"\nlisten = [\"127.0.0.1:0\"]\non = \"pc\"\norigin = \"127.0.0.1:22\"\n{lines}\n"
        );
        let config = Config::parse(&text, "test.toml").map_err(|error| error.to_string())?;
        Ok(config.tcp[0].clone())
    }

    #[test]
    fn without_networks_all_clients_are_let_in() {
        let tcp = parse("").unwrap();
        assert_eq!((&tcp.allow, tcp.deny.len()), (&None, 0));
        for client in ["192.0.2.1", "::1"] {
            assert!(tcp.lets_in(client.parse().unwrap()), "{client}");
        }
    }

    #[test]
    fn deny_has_the_last_word() {
        let lines = "allow = [\"10.0.0.0/8\", \"fd00::/8\"]\ndeny = [\"10.6.0.0/16\"]";
        let tcp = parse(lines).unwrap();
        for (client, comes_in) in [
            ("10.0.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("10.6.0.1", false),
            ("::ffff:10.6.0.1", false),
            ("11.0.0.1", false),
            ("fd00::1", true),
            ("::1", false),
        ] {
            assert_eq!(tcp.lets_in(client.parse().unwrap()), comes_in, "{client}");
        }
        let tcp = parse("deny = [\"10.6.0.0/16\"]").unwrap();
        assert!(tcp.lets_in("192.0.2.1".parse().unwrap()), "only `deny` restricts");
        assert!(!tcp.lets_in("10.6.0.1".parse().unwrap()));
    }

    #[test]
    fn networks_that_shut_all_out_or_cannot_be_read_are_refused_with_their_line() {
        for (lines, why) in [
            ("allow = []", "`tcp.allow` is empty, which no client satisfies"),
            ("allow = [\"10.0.0.0/33\"]", "is not a network"),
            ("deny = [\"example.org\"]", "is not a network"),
        ] {
            let error = parse(lines).unwrap_err();
            assert!(error.starts_with("test.toml:10:") && error.contains(why), "{lines}: {error}");
        }
    }
}
