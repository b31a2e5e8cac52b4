//! All that a command started, wherever their cgroup is and whichever process waits for them: containers and scopes.

#[cfg(feature = "bpf")]
use std::time::Duration;

use nightwatt_meters::Host;

use super::cpu_time::CpuTime;
#[cfg(feature = "bpf")]
use crate::counters::Process;

/// Counts from its start on, if this kernel and user can.
pub(super) struct Descendants {
    #[cfg(feature = "bpf")]
    probe: nightwatt_probes::DescendantProbe,
}

impl Descendants {
    /// Counts what this thread starts.
    #[cfg(feature = "bpf")]
    pub(super) fn start() -> Option<Self> {
        let probe = nightwatt_probes::DescendantProbe::start();
        probe
            .inspect_err(|error| tracing::debug!("descendants are not counted: {error}"))
            .ok()
            .map(|probe| Self { probe })
    }

    /// Without eBPF nothing is counted.
    #[cfg(not(feature = "bpf"))]
    pub(super) const fn start() -> Option<Self> {
        None
    }

    /// CPU time of all of them, and of those that still run.
    #[cfg(feature = "bpf")]
    pub(super) fn used(&self, host: &Host) -> Option<CpuTime> {
        let used = self.probe.used().ok().filter(|used| used.lost == 0)?;
        let running = used.running.iter().filter_map(|pid| Process::read(host, *pid).ok());
        let running = Duration::from_nanos(running.map(|process| process.cpu_ns).sum());
        Some(CpuTime::divided(used.ran + running, [used.user, used.system]))
    }

    /// Without eBPF nothing is counted.
    #[cfg(not(feature = "bpf"))]
    #[expect(clippy::unused_self, reason = "as the one that counts")]
    pub(super) const fn used(&self, _host: &Host) -> Option<CpuTime> {
        None
    }
}
