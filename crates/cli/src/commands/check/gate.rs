//! Explains the gate.

use nightwatt_gateway::Config;
use nightwatt_gateway::config::GateConfig;
use serde_json::{Value, json};

use crate::figures::time;

/// Where the gate is, and for how long a decision to let a client through holds.
pub(super) fn words(config: &Config, gate: &GateConfig) -> String {
    let listen: Vec<String> = gate.listen.iter().map(ToString::to_string).collect();
    format!(
        "{} (for other proxies; holds {} at most, what it lets through counts {} after its last byte)",
        listen.join(", "),
        time(gate.hold.unwrap_or(config.limits.hold)),
        time(gate.quiet),
    )
}

pub(super) fn as_json(config: &Config, gate: &GateConfig) -> Value {
    json!({
        "listen": gate.listen,
        "hold_s": gate.hold.unwrap_or(config.limits.hold).as_secs_f64(),
        "quiet_s": gate.quiet.as_secs_f64(),
    })
}
