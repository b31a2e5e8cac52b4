//! `[gate]`: where other proxies ask whether a request may go to its server.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nightwatt_energy::duration_text;
use serde::Deserialize;

use super::{Config, Network, Wrong, cache, wrong};

/// The gate for requests that another proxy takes to the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Addresses to listen on: `["127.0.0.1:9181"]`.
    pub listen: Vec<SocketAddr>,
    /// Who may ask, and is believed in what it says of its clients; default: this machine.
    #[serde(default = "this_machine")]
    pub from: Vec<Network>,
    /// A request that was let through counts as being with the server for this long, since its end
    /// is not known; and connections of this machine to the server on which something moved within it count.
    #[serde(default = "default_quiet", with = "duration_text")]
    pub quiet: Duration,
    /// How long a request is held for a server to wake; default: `limits.hold`.
    #[serde(default, deserialize_with = "cache::given")]
    pub hold: Option<Duration>,
}

fn this_machine() -> Vec<Network> {
    ["127.0.0.0/8", "::1"].iter().filter_map(|network| network.parse().ok()).collect()
}

fn default_quiet() -> Duration {
    Duration::from_mins(1)
}

impl GateConfig {
    /// May this one ask?
    pub(crate) fn knows(&self, peer: IpAddr) -> bool {
        self.from.iter().any(|network| network.contains(peer))
    }

    pub(super) fn check(&self, config: &Config) -> Result<(), Wrong> {
        if self.listen.is_empty() {
            return wrong(
                "gate.listen",
                "at least one address is needed: `listen = [\"127.0.0.1:9181\"]`",
            );
        }
        if config.site.is_empty() {
            return wrong("gate.listen", "the gate is for sites, and there is no `[[site]]`");
        }
        if self.from.is_empty() {
            let text = "it is empty, so the gate refuses everything: name the proxies, as in \
                        `from = [\"10.0.0.2\"]`, or leave it out for this machine";
            return wrong("gate.from", text);
        }
        for (key, time) in [("gate.quiet", Some(self.quiet)), ("gate.hold", self.hold)] {
            if time.is_some_and(|time| time.is_zero()) {
                return wrong(key, format!("`{key}` is 0, but it must be longer than 0"));
            }
        }
        Ok(())
    }
}
