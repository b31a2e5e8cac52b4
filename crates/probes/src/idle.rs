//! How often CPUs come back from rest, by the tracepoint `power:cpu_idle`: beside the counters of cpuidle, and
//! where a kernel has none of these.

use libbpf_rs::{MapCore, MapFlags};

use crate::error::ProbeError;
use crate::loaded::{Aligned, Loaded, refused, word};

static PROGRAM: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/idle.bpf.o")));

/// Idle states that are told apart. Linux has ten at most (`CPUIDLE_STATE_MAX`).
const STATES: usize = 16;

/// A probe in place. It is taken out when this is dropped, and by the kernel if we are killed.
pub struct IdleProbe {
    loaded: Loaded,
}

impl IdleProbe {
    /// From here on it counts, on all CPUs.
    pub fn start() -> Result<Self, ProbeError> {
        let mut loaded = Loaded::load("idle", PROGRAM, |_| Ok(()))?;
        loaded.attach(&["on_idle"], "count how often CPUs come back from rest")?;
        Ok(Self { loaded })
    }

    /// How often all CPUs together have left each idle state, by its number as in
    /// `/sys/devices/system/cpu/cpu0/cpuidle/state0`. A kernel without such states rests in number 1.
    pub fn left(&self) -> Result<Vec<u64>, ProbeError> {
        let told = || refused("tell how often CPUs came back from rest");
        let key = 0_u32.to_ne_bytes();
        let of_cpus = self.loaded.map("idle").lookup_percpu(&key, MapFlags::ANY).map_err(told())?;
        let of_cpus = of_cpus.unwrap_or_default();
        let sum = |state: usize| of_cpus.iter().map(|cpu| word(cpu, state)).sum();
        Ok((0..STATES).map(sum).collect())
    }
}
