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
    /// Datagrams from clients since the start that were forwarded, each counted once.
    pub received: u64,
    /// How often the first datagrams of a session were sent again to a service that had just woken.
    #[serde(default)]
    pub resent: u64,
    /// Look-ups of the service's name since the start.
    #[serde(default)]
    pub look_ups: u64,
    /// Of these, look-ups that found no address.
    #[serde(default)]
    pub look_ups_failed: u64,
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
