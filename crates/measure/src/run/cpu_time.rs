//! What the command used of the processors, and by whom that was counted.

use std::time::Duration;

use nightwatt_meters::Host;
use serde::Serialize;

use super::instructions::Instructions;
use nightwatt_meters::machine::others::Other;

/// Time of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CpuTime {
    /// In programs.
    pub(super) user: Duration,
    /// In the kernel for them.
    pub(super) system: Duration,
}

impl CpuTime {
    pub(super) fn all(self) -> Duration {
        self.user + self.system
    }

    /// All of a time, in the ratio of these in programs and in the kernel.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "only eBPF counts so"))]
    pub(super) fn divided(all: Duration, [user, system]: [Duration; 2]) -> Self {
        let sum = (user + system).as_secs_f64();
        let share = if sum > 0.0 { user.as_secs_f64() / sum } else { 1.0 };
        let user = all.mul_f64(share.clamp(0.0, 1.0));
        Self { user, system: all.saturating_sub(user) }
    }
}

/// Who counted the CPU time of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// Its cgroup: all that it started, whatever became of that.
    Cgroup,
    /// Probes: all that it started, also what went into other cgroups, as containers do.
    Descendants,
    /// The kernel, of the command and of those children that were waited for.
    ProcessTree,
}

/// What a command used.
#[derive(Debug, Clone)]
pub(crate) struct Used {
    pub(super) time: CpuTime,
    pub(super) by: CountedBy,
    /// Processes of it that still ran when it ended.
    pub(super) left_running: usize,
    /// Instructions of it and of the machine meanwhile, where a PMU counts them.
    pub(super) instructions: Option<Instructions>,
    /// Time that the machine was busy meanwhile, over all its CPUs; `None` where the kernel does not
    /// say.
    pub(super) machine: Option<Duration>,
    /// Other processes that used CPU time meanwhile, the busiest first.
    pub(super) others: Vec<Other>,
}

impl Used {
    /// CPU time of the machine beside the command.
    pub(super) fn beside(&self) -> Option<Duration> {
        self.machine.map(|machine| machine.saturating_sub(self.time.all()))
    }
}

/// Time that the machine's CPUs were busy since boot.
pub(super) fn machine() -> Option<Duration> {
    nightwatt_meters::machine::busy(&Host::default())
}
