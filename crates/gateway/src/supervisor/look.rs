//! What there is to know of a server under supervision.

use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_policy::ledger::Hour;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::{Hindrance, Memory};

/// A look at a server under supervision.
#[derive(Debug, Clone)]
pub(crate) struct SupervisorStatus {
    /// Where it is.
    pub(crate) phase: Phase,
    /// For how long.
    pub(crate) in_phase: Duration,
    /// Failed wake-ups in a row.
    pub(crate) failures: u32,
    /// How long a failed server will not be tried again.
    pub(crate) blocked_for: Duration,
    /// Bill and appointments.
    pub(crate) memory: Memory,
    /// With a meter: the last hours that ended.
    pub(crate) hours: Vec<Hour>,
    /// Admitted and delayed requests in the window of the promise.
    pub(crate) sla: Option<(u64, u64)>,
    /// Exchanges under way.
    pub(crate) in_flight: u32,
    /// Those of them that are tunnels, if it is one of a pool.
    pub(crate) tunnels: u32,
    /// Requests held.
    pub(crate) held: usize,
    /// What keeps it awake.
    pub(crate) hindrance: Option<Hindrance>,
    /// Why it said last that it would not sleep.
    pub(crate) inhibited_by: Option<String>,
    /// Wake loops found since the start.
    pub(crate) wake_loops: u64,
    /// What the next wake-up is expected to take.
    pub(crate) wake_time: Duration,
    /// How long the policy has watched requests, if it learns and has seen any.
    pub(crate) learned_from: Option<Duration>,
    /// Now, on the clock of `hindrance`.
    pub(crate) now: Mono,
}
