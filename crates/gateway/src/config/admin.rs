//! `admin`: the address of metrics, health and the dashboard, and its authorisation for orders.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Wrong, wrong};
use crate::authority::Authority;

/// An address, or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens: `"127.0.0.1:9180"`.
    pub listen: SocketAddr,
    /// A file whose first line is the password for orders from the dashboard; default: orders are disabled.
    pub password_file: Option<PathBuf>,
    /// Names by which browsers may request the dashboard, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// Whether the file has the table.
    pub is_table: bool,
}

impl AdminConfig {
    /// The key that the address has in the file.
    pub(crate) const fn key(&self) -> &'static str {
        if self.is_table { "admin.listen" } else { "admin" }
    }
}

impl From<SocketAddr> for AdminConfig {
    fn from(listen: SocketAddr) -> Self {
        Self { listen, password_file: None, hosts: Vec::new(), is_table: false }
    }
}

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    listen: SocketAddr,
    password_file: Option<PathBuf>,
    #[serde(default)]
    hosts: Vec<String>,
}

impl<'de> Deserialize<'de> for AdminConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AddressOrTable)
    }
}

struct AddressOrTable;

impl<'de> Visitor<'de> for AddressOrTable {
    type Value = AdminConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address as `\"127.0.0.1:9180\"`, or a table with `listen`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<AdminConfig, E> {
        let address = text.parse::<SocketAddr>();
        address
            .map(AdminConfig::from)
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AdminConfig, A::Error> {
        let table = Table::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let Table { listen, password_file, hosts } = table;
        Ok(AdminConfig { listen, password_file, hosts, is_table: true })
    }
}

impl AdminConfig {
    /// Whether a browser may use this `Host`. Addresses are always allowed: only names can be pointed here by a third
    /// party (DNS rebinding).
    pub(crate) fn is_ours(&self, host: &str) -> bool {
        let Some(Authority { host, .. }) = Authority::parse(host) else { return false };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let local = |name: &str| name.eq_ignore_ascii_case("localhost");
        bare.parse::<IpAddr>().is_ok()
            || local(host)
            || host.rsplit_once('.').is_some_and(|(_, last)| local(last))
            || self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host))
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        for host in &self.hosts {
            if Authority::parse(host).is_none_or(|it| it.host != host) {
                let text = format!(
                    "`{host}` is not a host name: write it without scheme, port and path, as in \
                     `nightwatt.lan`"
                );
                return wrong("admin.hosts", text);
            }
        }
        Ok(())
    }
}
