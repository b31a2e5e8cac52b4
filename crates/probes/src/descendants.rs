//! CPU time of all that a thread starts, wherever their cgroup is and whichever process waits for them.

use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};

use crate::error::ProbeError;
use crate::loaded::{Aligned, Loaded, half_word, refused, same_process_numbers, word};

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/descendants.bpf.o")));

/// Where the number of the thread stands in the sums.
const SPAWNER: usize = 32;

/// Probes in place. They are taken out when this is dropped, and by the kernel if we are killed.
pub struct DescendantProbe {
    loaded: Loaded,
}

/// What they used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescendantTimes {
    /// Of threads that have ended: on a CPU.
    pub ran: Duration,
    /// Of that in programs and in the kernel, as the kernel divides it by its ticks: the two may be less, or more.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
    /// Processes for which there was no room.
    pub lost: u64,
    /// Processes that have not ended. What they use is not in here.
    pub running: Vec<u32>,
}

impl DescendantProbe {
    /// From here on all that this thread starts is counted, and what that starts.
    pub fn start() -> Result<Self, ProbeError> {
        same_process_numbers()?;
        let mut loaded = Loaded::load("descendants", PROGRAM, |_| Ok(()))?;
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let cannot = || refused("count what a thread starts");
        let zero = 0_u32.to_ne_bytes();
        let mut sums = Self::sums(&loaded)?;
        if let Some(spawner) = sums.get_mut(SPAWNER..SPAWNER + 4) {
            spawner.copy_from_slice(&thread.to_ne_bytes());
        }
        let set = loaded.map("descenda.bss").update(&zero, &sums, MapFlags::ANY);
        set.map_err(cannot())?;
        loaded.attach(&["on_switch", "on_exit", "on_fork"], "count what a thread starts")?;
        Ok(Self { loaded })
    }

    fn sums(loaded: &Loaded) -> Result<Vec<u8>, ProbeError> {
        let cannot = refused("tell what a thread's children used");
        let sums = loaded.map("descenda.bss").lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        Ok(sums.map_err(cannot)?.unwrap_or_default())
    }

    /// What they used so far.
    pub fn used(&self) -> Result<DescendantTimes, ProbeError> {
        let sums = Self::sums(&self.loaded)?;
        let time = |number| Duration::from_nanos(word(&sums, number));
        Ok(DescendantTimes {
            ran: time(0),
            user: time(1),
            system: time(2),
            lost: word(&sums, 3),
            running: self.loaded.map("members").keys().map(|key| half_word(&key, 0)).collect(),
        })
    }
}
