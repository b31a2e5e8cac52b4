//! Services of datagrams.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A service of `[[udp]]`, whose datagrams are passed through.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpStatus {
    /// Its name.
    pub name: String,
    /// The site or machine that it runs on.
    pub on: String,
    /// The addresses where it listens.
    pub listen: Vec<String>,
    /// Sessions now.
    pub sessions: u64,
    /// Of these, sessions that keep the server awake.
    pub active: u64,
    /// Of these, sessions that wait for the server to wake.
    pub held: u64,
    /// Sessions since the start that had to wait.
    pub waited: u64,
    /// Datagrams from clients since the start that were forwarded.
    pub received: u64,
    /// Datagrams to clients since the start.
    pub sent: u64,
    /// Bytes from clients since the start.
    pub received_bytes: u64,
    /// Bytes to clients since the start.
    pub sent_bytes: u64,
    /// Datagrams since the start that were dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Sessions since the start that have ended, by outcome.
    pub outcomes: BTreeMap<String, u64>,
}
