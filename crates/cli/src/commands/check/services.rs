//! Explains a service that is passed through.

use std::time::Duration;

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{
    Asleep, DnsConfig, MagicPacketsConfig, Network, PacketServer, TcpConfig, TcpOrigin, WakeOn,
};
use nightwatt_policy::passage::KeepAwake;
use serde_json::{Value, json};

use super::{access, row};
use crate::figures::{counted, time};

/// Rows about where the service is, and when it keeps its server awake.
pub(super) fn rows(text: &mut String, config: &Config, tcp: &TcpConfig) {
    let listen: Vec<String> = tcp.listen.iter().map(ToString::to_string).collect();
    row(text, "listens on", &listen.join(", "));
    let shares = config.tcp.iter().any(|it| {
        it.name != tcp.name && it.listen.iter().any(|address| tcp.listen.contains(address))
    });
    match tcp.sni.as_slice() {
        [] if shares => row(text, "names", "whatever no other service there has"),
        [] => {}
        names => row(text, "names", &format!("{}, as TLS asks for them", names.join(", "))),
    }
    row(text, "origin", &origin(&tcp.origin, &tcp.on));
    row(text, "clients", &clients(tcp.allow.as_deref(), &tcp.deny));
    row(text, "wakes", &wakes(config, &tcp.on));
    if let Some(by) = wakes_by(tcp) {
        row(text, "wakes on", by);
    }
    row(text, "keeps awake", &keeps(config, tcp));
    if !is_at_pool(config, tcp) {
        row(text, "asleep", asleep(tcp));
    }
    row(text, "closed", &format!("{} after the last byte", time(closed(config, tcp))));
    let held = counted(held(config, tcp) as u64, "connection");
    let wait = time(config.limits.hold);
    let why = if tcp.held > config.limits.held {
        format!(" (`limits.held`, which requests share; `held` is {})", tcp.held)
    } else {
        String::new()
    };
    row(text, "held", &format!("{held} at once while it wakes{why}, for {wait} at most"));
}

/// How many connections are held at once: requests and connections to a server share a limit.
fn held(config: &Config, tcp: &TcpConfig) -> usize {
    tcp.held.min(config.limits.held)
}

/// How long a connection without a byte stays open.
fn closed(config: &Config, tcp: &TcpConfig) -> Duration {
    tcp.idle_timeout.unwrap_or(config.limits.tunnel_idle)
}

fn is_at_pool(config: &Config, tcp: &TcpConfig) -> bool {
    config.site.iter().any(|site| site.name == tcp.on && !site.server.is_empty())
}

const fn wakes_by(tcp: &TcpConfig) -> Option<&'static str> {
    match tcp.wake_on {
        WakeOn::Connect => None,
        WakeOn::FirstByte => Some("the first byte of a client"),
        WakeOn::Tls => Some("a ClientHello of TLS, and nothing else"),
        WakeOn::Ssh => Some("the version of an SSH client, and nothing else"),
        WakeOn::Rdp => Some("a connection request of RDP, and nothing else"),
        WakeOn::Minecraft => Some("a player who joins; lists of servers get an answer from here"),
    }
}

/// Where a service on this site or machine is.
pub(super) fn origin(origin: &TcpOrigin, on: &str) -> String {
    match &origin.host {
        Some(host) => format!("{host}:{}", origin.port),
        None => format!("port {} of the server of {on}", origin.port),
    }
}

/// Whose connections or datagrams a service takes.
pub(super) fn clients(allow: Option<&[Network]>, deny: &[Network]) -> String {
    let allow = allow.map_or_else(|| "all".to_owned(), access::list);
    if deny.is_empty() { allow } else { format!("{allow}, but not {}", access::list(deny)) }
}

/// What a service on this site or machine wakes.
pub(super) fn wakes(config: &Config, on: &str) -> String {
    let is_machine = config.machine.iter().any(|machine| machine.name == on);
    format!("the {} {on}", if is_machine { "machine" } else { "server of the site" })
}

fn keeps(config: &Config, tcp: &TcpConfig) -> String {
    match tcp.keeps(is_at_pool(config, tcp)) {
        KeepAwake::Connection => "as long as a connection is open".to_owned(),
        KeepAwake::Bytes { quiet } => {
            format!("until nothing has come through a connection for {}", time(quiet))
        }
    }
}

fn asleep(tcp: &TcpConfig) -> &'static str {
    match tcp.asleep {
        Asleep::Reset => "connections are reset as the server begins to fall asleep",
        Asleep::Keep => "connections stay open, and wake the server with the client's next byte",
    }
}

/// How it is proved by DNS that names are ours.
pub(super) fn dns_words(dns: &DnsConfig) -> String {
    match (&dns.server, &dns.hook) {
        (Some(server), _) => {
            let key = dns.key.as_ref().map_or("", |key| &key.name);
            format!("records in DNS, by updates at {server} with the key {key}")
        }
        (None, hook) => {
            format!("records in DNS, by {}", hook.as_deref().unwrap_or_default().join(" "))
        }
    }
}

/// The same as JSON: the name of the key, never its secret.
pub(super) fn dns_as_json(dns: &DnsConfig) -> Value {
    json!({
        "server": dns.server,
        "key": dns.key.as_ref().map(|key| &key.name),
        "hook": dns.hook,
    })
}

/// The same as JSON.
pub(super) fn as_json(config: &Config, tcp: &TcpConfig) -> Value {
    json!({
        "name": tcp.name,
        "listen": tcp.listen,
        "on": tcp.on,
        "origin": origin(&tcp.origin, &tcp.on),
        "clients": clients(tcp.allow.as_deref(), &tcp.deny),
        "sni": tcp.sni,
        "wakes_on": wakes_by(tcp).unwrap_or("any connection"),
        "keeps_awake": keeps(config, tcp),
        "asleep": (!is_at_pool(config, tcp)).then(|| asleep(tcp)),
        "idle_timeout_s": closed(config, tcp).as_secs_f64(),
        "held": held(config, tcp),
        "hold_s": config.limits.hold.as_secs_f64(),
    })
}

/// Where magic packets of other machines are heard, and which servers they wake.
pub(super) fn magic_packets_words(config: &Config, it: &MagicPacketsConfig) -> String {
    let listen: Vec<String> = it.listen.iter().map(ToString::to_string).collect();
    let from: Vec<String> = it.from.iter().map(ToString::to_string).collect();
    let server = |server: PacketServer<'_>| {
        let cards: Vec<String> = server.wol.mac.iter().map(ToString::to_string).collect();
        format!("{} ({})", server.name, cards.join(", "))
    };
    let servers: Vec<String> = config.packet_servers().map(server).collect();
    format!(
        "heard on {} from {}; they wake {}, each {} at most, for {} at least",
        listen.join(", "),
        from.join(", "),
        servers.join(", "),
        it.wakes,
        time(it.stay_awake)
    )
}
