//! Explains a service of datagrams.

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{UdpConfig, UdpKeeps, UdpWakeOn};
use serde_json::{Value, json};

use super::{row, services};
use crate::figures::{bytes, counted, time};

/// Rows about where the service is, who wakes its server, and what keeps that awake.
pub(super) fn rows(text: &mut String, config: &Config, udp: &UdpConfig) {
    let listen: Vec<String> = udp.listen.iter().map(ToString::to_string).collect();
    row(text, "listens on", &listen.join(", "));
    row(text, "origin", &services::origin(&udp.origin, &udp.on));
    row(text, "clients", &services::clients(udp.allow.as_deref(), &udp.deny));
    row(text, "wakes", &services::wakes(config, &udp.on));
    row(text, "wakes on", wakes_on(udp));
    row(text, "strangers", &format!("wake it {} at most, all together", udp.strangers));
    row(text, "keeps awake", &keeps(udp));
    row(text, "forgotten", &format!("{} after a session's last datagram", time(udp.idle_timeout)));
    let (all, one) = (counted(udp.sessions as u64, "session"), udp.sessions_per_client);
    row(text, "at once", &format!("{all}, {one} of one client"));
    let held = counted(udp.held as u64, "datagram");
    let wait = time(config.limits.hold);
    let held = format!(
        "{held}, {} at most, while it wakes; for {wait} at most",
        bytes(udp.held_bytes as u64)
    );
    row(text, "held", &held);
}

fn keeps(udp: &UdpConfig) -> String {
    let quiet = time(udp.quiet);
    match udp.keep_awake {
        UdpKeeps::Answers => format!("until the service has sent nothing to a client for {quiet}"),
        UdpKeeps::Datagrams => format!("until nothing has come through a session for {quiet}"),
    }
}

const fn wakes_on(udp: &UdpConfig) -> &'static str {
    match (udp.wake_on, udp.wireguard_key) {
        (UdpWakeOn::Datagram, _) => "any datagram",
        (UdpWakeOn::Wireguard, None) => "the first message of a WireGuard handshake",
        (UdpWakeOn::Wireguard, Some(_)) => {
            "the first message of a WireGuard handshake of a client that knows the server's public key"
        }
    }
}

/// The same as JSON.
pub(super) fn as_json(config: &Config, udp: &UdpConfig) -> Value {
    json!({
        "name": udp.name,
        "listen": udp.listen,
        "on": udp.on,
        "origin": services::origin(&udp.origin, &udp.on),
        "clients": services::clients(udp.allow.as_deref(), &udp.deny),
        "wakes_on": wakes_on(udp),
        "strangers": udp.strangers,
        "keeps_awake": keeps(udp),
        "idle_timeout_s": udp.idle_timeout.as_secs_f64(),
        "sessions": udp.sessions,
        "sessions_per_client": udp.sessions_per_client,
        "held": udp.held,
        "held_bytes": udp.held_bytes,
        "hold_s": config.limits.hold.as_secs_f64(),
    })
}
