//! Transitions from idle to active by the kernel's tracepoint `power:cpu_idle`, beside the counters of cpuidle.

use std::collections::BTreeMap;

use nightwatt_meters::Host;

use crate::counters::{CounterError, Machine, POLL};

/// Counts on this machine, if it can.
pub struct IdleTrace {
    #[cfg(feature = "bpf")]
    probe: Option<nightwatt_probes::IdleProbe>,
    /// Names of idle states, by their numbers.
    names: BTreeMap<usize, String>,
    /// Why it cannot.
    pub refused: Option<String>,
}

impl IdleTrace {
    /// Starts counting wake-ups by their tracepoint.
    #[cfg(feature = "bpf")]
    pub fn start(host: &Host) -> Self {
        let (probe, refused) = match nightwatt_probes::IdleProbe::start() {
            Ok(probe) => (Some(probe), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { probe, names: names(host), refused }
    }

    /// Counts no wake-ups: that needs eBPF, and so the feature `bpf`.
    #[cfg(not(feature = "bpf"))]
    pub fn start(host: &Host) -> Self {
        let refused = "this binary was built without the feature `bpf`".to_owned();
        Self { names: names(host), refused: Some(refused) }
    }

    /// What the machine has counted so far, this with it.
    pub fn read(&self, host: &Host) -> Result<Machine, CounterError> {
        let traced_wake_ups = self.left().map(|left| self.wake_ups(&left));
        Ok(Machine { traced_wake_ups, ..Machine::read(host)? })
    }

    /// How many times each state was left.
    #[cfg(feature = "bpf")]
    fn left(&self) -> Option<Vec<u64>> {
        self.probe.as_ref()?.left().ok()
    }

    /// Nothing is counted without eBPF.
    #[cfg(not(feature = "bpf"))]
    #[expect(clippy::unused_self, reason = "as the one that counts")]
    fn left(&self) -> Option<Vec<u64>> {
        None
    }

    /// From rest: who polls does not.
    fn wake_ups(&self, left: &[u64]) -> u64 {
        let rests = |state: &usize| self.names.get(state).is_none_or(|name| name != POLL);
        left.iter().enumerate().filter(|(state, _)| rests(state)).map(|(_, count)| count).sum()
    }
}

fn names(host: &Host) -> BTreeMap<usize, String> {
    let states = host.list("/sys/devices/system/cpu/cpu0/cpuidle").unwrap_or_default();
    let named = states.iter().filter_map(|state| {
        let number = state.file_name()?.to_str()?.strip_prefix("state")?.parse().ok()?;
        let name = std::fs::read_to_string(state.join("name")).ok()?;
        Some((number, name.trim().to_owned()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_polls_does_not_rest_and_states_without_a_name_do() {
        let folder = tempfile::tempdir().unwrap();
        for (state, name) in [("state0", "POLL\n"), ("state1", "C1\n")] {
            let at = folder.path().join("sys/devices/system/cpu/cpu0/cpuidle").join(state);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("name"), name).unwrap();
        }
        let mut trace = IdleTrace::start(&Host::at(folder.path()));
        assert_eq!(trace.wake_ups(&[100, 7, 5]), 12);
        trace.names.clear();
        assert_eq!(trace.wake_ups(&[100, 7, 5]), 112, "no idle states, so none of them polls");
    }
}
