//! What `nightwatt status` shows of a pool of servers.

use serde::{Deserialize, Serialize};

use super::{LedgerStatus, MeterStatus};

/// The servers of a site.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its policy.
    pub policy: String,
    /// Servers that take requests.
    pub on: u32,
    /// Servers that are being switched on.
    pub starting: u32,
    /// Requests that wait in line now.
    pub waiting: u32,
    /// Requests since the start that had to wait in line.
    pub waited: u64,
    /// Requests since the start that found neither a place nor room in line: answered with 503.
    pub refused: u64,
    /// How many times since the start a request was sent to another server because one had failed.
    pub resent: u64,
    /// Each server.
    pub servers: Vec<ServerStatus>,
}

/// One server of a pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Its kind; empty if kinds have no names.
    pub kind: String,
    /// Its state in the pool: `off`, `starting`, `on`, `draining` or `failed`.
    pub duty: String,
    /// The operator put it to sleep: it stays off until the operator wakes it.
    pub held_off: bool,
    /// Its state: `awake`, `asleep`, ...
    pub state: String,
    /// For this many seconds.
    pub state_for_s: f64,
    /// Exchanges with it under way.
    pub in_flight: u32,
    /// Those of them that are tunnels (WebSocket): they use no place.
    pub tunnels: u32,
    /// Maximum number of concurrent requests.
    pub places: u32,
    /// How many times since the start it was taken out of the pool because it failed.
    pub failed: u64,
    /// Failed wake-ups in a row.
    pub failures: u32,
    /// Seconds until it may be tried again, if it failed.
    pub retry_after_s: f64,
    /// Seconds that its next wake-up is expected to need.
    pub wake_time_s: f64,
    /// The ledger over all starts; without the proxy, which is on the site's bill.
    pub ledger: LedgerStatus,
    /// Its meter, if it has one.
    pub meters: Vec<MeterStatus>,
}

impl ServerStatus {
    /// Every name of a server's state in its pool.
    pub(crate) const DUTIES: [&'static str; 5] = ["off", "starting", "on", "draining", "failed"];
}
