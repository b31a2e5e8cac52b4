//! `[[udp]]`: datagrams that wake a server and are passed through as they are.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nightwatt_energy::duration_text;
use nightwatt_policy::datagrams::{Counts, Limits, Pace};
use nightwatt_policy::rate::Rate;
use serde::{Deserialize, Deserializer};

use super::{Config, Network, TcpOrigin, UNKNOWN, Wrong, check_name, network, wrong};

/// A service behind the gateway whose datagrams are passed through: `WireGuard`, game servers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpConfig {
    /// In logs, status and metrics.
    pub name: String,
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The `[[site]]` or `[[machine]]` on whose server it is: that is woken.
    pub on: String,
    /// Where it is: `10.0.0.5:51820`; or `:51820`, on the host of the site's server.
    pub origin: TcpOrigin,
    /// Networks whose datagrams are taken; default: all.
    pub allow: Option<Vec<Network>>,
    /// Networks whose datagrams are dropped, even if `allow` has them.
    #[serde(default)]
    pub deny: Vec<Network>,
    /// The datagrams that wake the server.
    #[serde(default)]
    pub wake_on: UdpWakeOn,
    /// With `wake_on = "wireguard"`: the public key of the server. Only clients that know it wake the server.
    #[serde(default, deserialize_with = "key")]
    pub wireguard_key: Option<[u8; 32]>,
    /// How often all clients together wake the server that it has not answered yet.
    #[serde(default = "default_strangers")]
    pub strangers: Rate,
    /// What of a session keeps the server awake.
    #[serde(default)]
    pub keep_awake: UdpKeeps,
    /// A session through which nothing that counts came for this long does not keep the server awake.
    #[serde(default = "default_quiet", with = "duration_text")]
    pub quiet: Duration,
    /// A session without datagrams for this long is forgotten.
    #[serde(default = "default_idle_timeout", with = "duration_text")]
    pub idle_timeout: Duration,
    /// Sessions at once.
    #[serde(default = "default_sessions")]
    pub sessions: usize,
    /// Sessions of one client at once.
    #[serde(default = "default_per_client")]
    pub sessions_per_client: usize,
    /// Datagrams in memory at once, of all sessions; further ones are dropped.
    #[serde(default = "default_held")]
    pub held: usize,
    /// Bytes of datagrams in memory at once, of all sessions.
    #[serde(default = "default_held_bytes")]
    pub held_bytes: usize,
}

/// The datagrams that wake the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UdpWakeOn {
    /// Any.
    #[default]
    Datagram,
    /// The first message of a `WireGuard` handshake.
    Wireguard,
}

/// What of a session keeps the server awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UdpKeeps {
    /// What the server sends.
    #[default]
    Answers,
    /// Every datagram, also of clients that the server does not answer.
    Datagrams,
}

/// Reads a key as `wg` prints it.
fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u8; 32]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let key = STANDARD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
    let wrong = || {
        serde::de::Error::custom(format!(
            "`{text}` is not a key of WireGuard: write the server's public key, as `wg show wg0 public-key` prints it"
        ))
    };
    key.map(Some).ok_or_else(wrong)
}

fn default_strangers() -> Rate {
    // Six an hour, all at once if need be.
    "6/h".parse().unwrap_or(Rate::per_minute(1, 1))
}

fn default_quiet() -> Duration {
    Duration::from_mins(5)
}

fn default_idle_timeout() -> Duration {
    Duration::from_mins(10)
}

fn default_sessions() -> usize {
    1024
}

fn default_per_client() -> usize {
    32
}

fn default_held() -> usize {
    256
}

fn default_held_bytes() -> usize {
    256 << 10
}

impl UdpConfig {
    /// Whether datagrams of this address are taken.
    pub fn lets_in(&self, client: IpAddr) -> bool {
        network::lets_in(self.allow.as_deref(), &self.deny, client)
    }

    /// For how long its sessions count, and are remembered.
    pub const fn pace(&self) -> Pace {
        let counts = match self.keep_awake {
            UdpKeeps::Answers => Counts::Answers,
            UdpKeeps::Datagrams => Counts::Datagrams,
        };
        Pace { counts, quiet: self.quiet, idle_timeout: self.idle_timeout }
    }

    /// How many sessions it may have.
    pub const fn limits(&self) -> Limits {
        Limits { sessions: self.sessions, per_client: self.sessions_per_client }
    }

    /// Datagrams of one session in memory at once: a quarter of all, but at least four.
    pub(crate) const fn held_of_one(&self) -> usize {
        let quarter = self.held / 4;
        if quarter < 4 { 4 } else { quarter }
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
            return wrong("listen", "at least one address is needed: `[\"0.0.0.0:51820\"]`");
        }
        self.check_place(config)?;
        network::check_allow(self.allow.as_deref())?;
        if self.wireguard_key.is_some() && self.wake_on != UdpWakeOn::Wireguard {
            let text =
                "`wireguard_key` checks the handshakes of WireGuard: add `wake_on = \"wireguard\"`";
            return wrong("wireguard_key", text);
        }
        for (key, time) in [("quiet", self.quiet), ("idle_timeout", self.idle_timeout)] {
            if time.is_zero() {
                return wrong(key, format!("`{key}` is 0, but it must be longer than 0"));
            }
        }
        if self.quiet > self.idle_timeout {
            let text = "`quiet` is longer than `idle_timeout`, after which a session is forgotten: raise `idle_timeout`";
            return wrong("quiet", text);
        }
        let counts = [
            ("sessions", self.sessions),
            ("sessions_per_client", self.sessions_per_client),
            ("held", self.held),
            ("held_bytes", self.held_bytes),
        ];
        for (key, value) in counts {
            if value == 0 {
                return wrong(key, format!("`{key}` is 0, but it must be at least 1"));
            }
        }
        Ok(())
    }

    /// Checks where it is.
    fn check_place(&self, config: &Config) -> Result<(), Wrong> {
        let site = self.origin.site_of(&self.on, config)?;
        if site.is_some_and(|site| !site.server.is_empty()) {
            let text = "the site has several servers, and datagrams say not which of them they belong to: put the \
                        service on the `[[machine]]` of one server";
            return wrong("on", text);
        }
        Ok(())
    }
}

/// What is wrong with the services, alone and beside each other.
pub(super) fn check_all(config: &Config, taken: &mut HashSet<String>) -> Result<(), Wrong> {
    let mut owners: HashMap<SocketAddr, &str> = HashMap::new();
    for (index, udp) in config.udp.iter().enumerate() {
        let here = |it: Wrong| it.within(format_args!("udp.{index}"));
        udp.check(config, taken).map_err(here)?;
        for address in &udp.listen {
            let other = owners.insert(*address, &udp.name).filter(|_| address.port() != 0);
            if let Some(other) = other {
                let text = format!(
                    "`{other}` listens at {address} by UDP too: take another address or port"
                );
                return wrong("listen", text).map_err(here);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<UdpConfig, String> {
        let text = format!(
            "[[machine]]\nname = \"pc\"\nprobe = \"tcp 127.0.0.1:9\"\npower.simulated = {{}}\n[[udp]]\n\
             name = \"vpn\"\nlisten = [\"127.0.0.1:0\"]\n{lines}\n"
        );
        let config = Config::parse(&text, "test.toml").map_err(|error| error.to_string())?;
        Ok(config.udp[0].clone())
    }

    const GOOD: &str = "on = \"pc\"\norigin = \"127.0.0.1:51820\"";

    #[test]
    fn a_service_on_a_machine_needs_no_site_and_takes_all_networks() {
        let udp = parse(GOOD).unwrap();
        assert_eq!((udp.sessions, udp.held, udp.held_of_one()), (1024, 256, 64));
        assert_eq!(udp.strangers.to_string(), "6/h");
        assert!(udp.lets_in("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn deny_has_the_last_word() {
        let udp =
            parse(&format!("{GOOD}\nallow = [\"10.0.0.0/8\"]\ndeny = [\"10.6.0.0/16\"]")).unwrap();
        for (client, comes_in) in [
            ("10.0.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("10.6.0.1", false),
            ("11.0.0.1", false),
            ("::1", false),
        ] {
            assert_eq!(udp.lets_in(client.parse().unwrap()), comes_in, "{client}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_to_write() {
        let key = "wake_on = \"wireguard\"\nwireguard_key = \"HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=\"";
        assert!(parse(&format!("{GOOD}\n{key}")).unwrap().wireguard_key.is_some());
        for (lines, why) in [
            (
                "on = \"mac\"\norigin = \"127.0.0.1:1\"",
                "there is no `[[site]]` or `[[machine]]` called `mac`",
            ),
            ("on = \"pc\"\norigin = \":1\"", "write host and port"),
            (&format!("{GOOD}\nallow = []"), "which no client satisfies"),
            (&format!("{GOOD}\nquiet = \"11m\""), "longer than `idle_timeout`"),
            (&format!("{GOOD}\nsessions = 0"), "must be at least 1"),
            (&format!("{GOOD}\nidle_timeout = \"0s\""), "`udp.idle_timeout` is 0"),
            (&format!("{GOOD}\nstrangers = \"0/h\""), "is not a rate"),
            (
                &format!("{GOOD}\nwake_on = \"wireguard\"\nwireguard_key = \"abc\""),
                "is not a key of WireGuard",
            ),
            (&format!("{GOOD}\n{}", key.replace("wake_on = \"wireguard\"\n", "")), "add `wake_on"),
        ] {
            let error = parse(lines).unwrap_err();
            assert!(error.contains(why), "{lines}: {error}");
        }
    }
}
