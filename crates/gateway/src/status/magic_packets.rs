//! Magic packets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What was heard, with `[magic_packets]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MagicPacketsStatus {
    /// The addresses where they are heard now.
    pub listen: Vec<String>,
    /// Datagrams since the start, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Why nothing is heard at other addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
