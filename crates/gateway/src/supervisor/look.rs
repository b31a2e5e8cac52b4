//! The status of a server under supervision.

use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_policy::hours::HoursEnd;
use nightwatt_policy::ledger::Hour;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::{AwakeHoursReport, Memory, SleepBlocker};
use nightwatt_policy::sla::SlaUse;

use super::Supervisor;

/// The status of a server under supervision.
#[derive(Debug, Clone)]
pub(crate) struct SupervisorStatus {
    /// Its phase.
    pub(crate) phase: Phase,
    /// For how long.
    pub(crate) in_phase: Duration,
    /// Failed wake-ups in a row.
    pub(crate) failures: u32,
    /// For how long a failed server is not tried again.
    pub(crate) blocked_for: Duration,
    /// Bill and appointments.
    pub(crate) memory: Memory,
    /// With a meter: the last hours that ended.
    pub(crate) hours: Vec<Hour>,
    /// How much of its SLA is used.
    pub(crate) sla: SlaUse,
    /// Exchanges under way.
    pub(crate) in_flight: u32,
    /// Those of them that are tunnels, if it is one of a pool.
    pub(crate) tunnels: u32,
    /// Those of them that have no client: they renew copies.
    pub(crate) background: u32,
    /// Requests held.
    pub(crate) held: usize,
    /// What keeps it awake.
    pub(crate) sleep_blocker: Option<SleepBlocker>,
    /// Where the hours stand in which it is to be awake.
    pub(crate) awake_hours: AwakeHoursReport,
    /// When the hours end in which it is not put to sleep, if it is in such.
    pub(crate) never_sleep_end: Option<HoursEnd>,
    /// Its last reason for not sleeping.
    pub(crate) inhibited_by: Option<String>,
    /// Why the last wake-up failed.
    pub(crate) failure: Option<String>,
    /// Wake loops found since the start.
    pub(crate) wake_loops: u64,
    /// How long the next wake-up is expected to last.
    pub(crate) wake_time: Duration,
    /// How long the policy has watched requests, if it learns and has seen any.
    pub(crate) learned_from: Option<Duration>,
    /// Now, on the clock of `sleep_blocker`.
    pub(crate) now: Mono,
}

impl Supervisor {
    /// The whole status.
    pub(crate) fn status(&self) -> SupervisorStatus {
        let now = self.clock.now();
        let mut managed = self.lock();
        managed.book(now, false);
        let hours = managed.meters.hours();
        let (inhibited_by, failure) = (managed.inhibited_by.clone(), managed.failure.clone());
        let (tunnels, background) = (managed.tunnels, managed.background);
        let server = &mut managed.manager;
        SupervisorStatus {
            hours,
            inhibited_by,
            failure,
            phase: server.phase(),
            in_phase: now.mono.since(server.lifecycle().since()),
            failures: server.lifecycle().failures(),
            blocked_for: server.lifecycle().blocked_until().since(now.mono),
            memory: server.memory(now),
            sla: server.sla_use(now),
            in_flight: server.in_flight(),
            tunnels,
            background,
            held: server.held(),
            sleep_blocker: server.kept_awake_by(now),
            awake_hours: server.awake_hours_report(now),
            never_sleep_end: server.never_sleep_end(now),
            wake_loops: server.wake_loops(),
            wake_time: server.expected_wake_time(),
            learned_from: server.lessons(now).map(|lessons| lessons.watched()),
            now: now.mono,
        }
    }
}
