//! A service of datagrams on the page.

use std::collections::BTreeMap;
use std::fmt::Write;

use nightwatt_gateway::status::{MagicPacketsStatus, UdpStatus};

use super::row;
use crate::figures::{bytes, count, counted};

/// What it does now, and what became of its sessions and datagrams.
pub(super) fn rows(text: &mut String, it: &UdpStatus) {
    let now = counted(it.sessions, "session");
    let active = format!("{} of them keep it awake", count(it.active));
    let held = match it.held {
        0 => String::new(),
        some => format!(", {} held until it is awake", count(some)),
    };
    let _ = writeln!(text, "{}: {now}, {active}{held} (udp on {})", it.name, it.on);
    row(text, "listens on", &it.listen.join(", "));
    let waited = match it.waited {
        0 => String::new(),
        some => format!("; {} had to wait", count(some)),
    };
    row(text, "since start", &format!("{}{waited}", ended(&it.outcomes, "ended")));
    if it.received + it.sent > 0 {
        let (from, to) = (counted(it.received, "datagram"), counted(it.sent, "datagram"));
        let (read, written) = (bytes(it.received_bytes), bytes(it.sent_bytes));
        let again = match it.resent {
            0 => String::new(),
            some => format!("; {} sent again to a service that started", count(some)),
        };
        let passed = format!("{from} ({read}) from clients, {to} ({written}) to them{again}");
        row(text, "passed", &passed);
    }
    if it.look_ups > 0 {
        let failed = match it.look_ups_failed {
            0 => String::new(),
            some => format!(", {} of which found no address", count(some)),
        };
        row(text, "look-ups", &format!("{}{failed}", count(it.look_ups)));
    }
    if !it.dropped.is_empty() {
        row(text, "dropped", &ended(&it.dropped, "datagrams"));
    }
}

/// What was heard of magic packets.
pub(super) fn magic_packets_rows(text: &mut String, it: &MagicPacketsStatus) {
    let _ = writeln!(text, "magic packets: {}", ended(&it.outcomes, "heard"));
    let listen = if it.listen.is_empty() { "no address".to_owned() } else { it.listen.join(", ") };
    row(text, "heard on", &listen);
    if let Some(problem) = &it.problem {
        row(text, "careful", problem);
    }
}

/// The sum, and its parts.
fn ended(parts: &BTreeMap<String, u64>, what: &str) -> String {
    let all: u64 = parts.values().sum();
    let each: Vec<String> = parts.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
    let colon = if each.is_empty() { "" } else { ": " };
    format!("{} {what}{colon}{}", count(all), each.join(", "))
}
