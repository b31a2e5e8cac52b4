//! `[magic_packets]`: magic packets of other machines in the local network, which wake a server through the proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_policy::rate::Rate;
use nightwatt_power::wol;
use serde::Deserialize;

use super::{Config, Network, Wrong, wrong};

/// Which magic packets are heard.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MagicPacketsConfig {
    /// Addresses to listen on, by UDP.
    #[serde(default = "default_listen")]
    pub listen: Vec<SocketAddr>,
    /// Networks whose packets are heard.
    #[serde(default = "local_networks")]
    pub from: Vec<Network>,
    /// How often they wake one server.
    #[serde(default = "default_wakes")]
    pub wakes: Rate,
    /// A server that they wake stays awake for this time at least.
    #[serde(default = "default_stay_awake", with = "duration_text")]
    pub stay_awake: Duration,
}

/// A server that magic packets wake.
#[derive(Debug, Clone, Copy)]
pub struct PacketServer<'a> {
    /// The name of the site or machine.
    pub name: &'a str,
    /// Its cards.
    pub wol: &'a wol::Config,
}

/// The usual ports: discard and echo.
fn default_listen() -> Vec<SocketAddr> {
    [9, 7].map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)).to_vec()
}

/// Private and link-local networks.
fn local_networks() -> Vec<Network> {
    let all = [
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "fc00::/7",
        "fe80::/10",
    ];
    all.iter().filter_map(|network| network.parse().ok()).collect()
}

fn default_wakes() -> Rate {
    "12/h".parse().unwrap_or(Rate::per_minute(1, 1))
}

fn default_stay_awake() -> Duration {
    Duration::from_mins(5)
}

impl MagicPacketsConfig {
    /// Whether packets of this address are heard.
    pub fn hears(&self, source: IpAddr) -> bool {
        self.from.iter().any(|network| network.contains(source))
    }

    pub(super) fn check(&self, config: &Config) -> Result<(), Wrong> {
        if self.listen.is_empty() {
            return wrong(
                "magic_packets.listen",
                "at least one address is needed: `[\"0.0.0.0:9\"]`",
            );
        }
        if self.from.is_empty() {
            let text = "`from` is empty, so that no packet is heard: leave it out for the private networks";
            return wrong("magic_packets.from", text);
        }
        for (index, address) in self.listen.iter().enumerate().filter(|(_, it)| it.port() != 0) {
            let other = config.udp.iter().find(|udp| udp.listen.contains(address));
            if let Some(other) = other {
                let text = format!(
                    "`{}` listens at {address} by UDP too: take another address or port",
                    other.name
                );
                return wrong(format!("magic_packets.listen.{index}"), text);
            }
        }
        if config.packet_servers().next().is_none() {
            let text = "no `[[site]]` or `[[machine]]` is woken by Wake-on-LAN, so that no card's address is known: \
                        write `power.wake.wol` for one, or leave this table out";
            return wrong("magic_packets", text);
        }
        Ok(())
    }
}

impl Config {
    /// The sites and machines that are woken by Wake-on-LAN. (Of a pool, the policy decides how many servers are on.)
    pub fn packet_servers(&self) -> impl Iterator<Item = PacketServer<'_>> {
        let machines = self.machine.iter().map(|it| (&it.name, Some(&it.power)));
        let sites = self.site.iter().map(|it| (&it.name, it.power.as_ref()));
        machines.chain(sites).filter_map(|(name, power)| {
            let wol = power.and_then(|power| power.wol())?;
            Some(PacketServer { name, wol })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: &str = "[[machine]]\nname = \"box\"\nprobe = \"tcp 10.0.0.5:22\"\npower.wake.wol.mac = \
                       \"52:54:00:12:34:56\"\npower.sleep.ssh = { host = \"box\", sleep = \"true\" }\n";

    fn parse(table: &str, machine: &str) -> Result<Config, String> {
        let site = "[[site]]\nname = \"a\"\norigin = \"http://10.0.0.6\"\npower.simulated = {}\n";
        let text =
            format!("listen = [\"127.0.0.1:80\"]\n[magic_packets]\n{table}\n{machine}{site}");
        Config::parse(&text, "x").map_err(|error| error.to_string())
    }

    #[test]
    fn packets_of_private_networks_are_heard_at_both_usual_ports() {
        let config = parse("", BOX).unwrap();
        let it = config.magic_packets.clone().unwrap();
        assert_eq!(it.listen.iter().map(SocketAddr::port).collect::<Vec<_>>(), [9, 7]);
        for (source, is_heard) in [
            ("192.168.1.7", true),
            ("::ffff:10.1.2.3", true),
            ("fe80::1", true),
            ("172.32.0.1", false),
            ("203.0.113.9", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(it.hears(source.parse().unwrap()), is_heard, "{source}");
        }
        let names: Vec<&str> = config.packet_servers().map(|it| it.name).collect();
        assert_eq!(names, ["box"]);
    }

    #[test]
    fn packets_that_wake_a_machine_need_no_site_and_no_address_for_http() {
        let parse = |text: &str| Config::parse(text, "x").map_err(|error| error.to_string());
        let config = parse(&format!("[magic_packets]\n{BOX}")).unwrap();
        assert_eq!((config.listen.len(), config.site.len()), (0, 0));
        assert_eq!(config.packet_servers().count(), 1);
        let error = parse("[magic_packets]\n").unwrap_err();
        assert!(error.contains("no card's address is known"), "{error}");
        // A site is answered for by HTTP, whatever wakes its server.
        let site = BOX.replace("[[machine]]", "[[site]]\norigin = \"http://10.0.0.5\"");
        let error = parse(&format!("[magic_packets]\n{site}")).unwrap_err();
        assert!(error.contains("`listen = [\"0.0.0.0:80\"]`"), "{error}");
        let error = parse(BOX).unwrap_err();
        assert!(error.contains("at least one address is needed"), "{error}");
    }

    #[test]
    fn a_table_that_can_wake_nothing_is_refused() {
        for (table, machine, why) in [
            ("", "", "no `[[site]]` or `[[machine]]` is woken by Wake-on-LAN"),
            ("from = []", BOX, "no packet is heard"),
            ("listen = []", BOX, "at least one address"),
            ("wakes = \"often\"", BOX, "is not a rate"),
        ] {
            let error = parse(table, machine).unwrap_err();
            assert!(error.contains(why), "{table}: {error}");
        }
    }
}
