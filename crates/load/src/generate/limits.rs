//! What this machine allows, before the start; and what the client used of it, after.

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::Plan;
use crate::error::Error;

/// Descriptors kept for everything else: outputs, the threads' own, meters.
const KEPT: u64 = 64;

/// Connections if the user sets no number.
const USUAL: usize = 1024;

/// How long CPU time is looked at for the busiest moment.
const MOMENT: Duration = Duration::from_secs(1);

/// Connections if the user sets no number: 1024, or what the system allows.
pub(super) fn usual_connections() -> usize {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    usize::try_from(hard.saturating_sub(KEPT)).map_or(USUAL, |room| USUAL.min(room.max(1)))
}

/// Makes room for the plan's connections; gives how many descriptors may be open.
pub(super) fn prepare(plan: &Plan) -> Result<u64, Error> {
    let needed = plan.connections as u64 + KEPT;
    let limit = getrlimit(Resource::Nofile);
    let ports = local_ports(&std::fs::read_to_string(PORTS).unwrap_or_default());
    if let Some(ports) = ports.filter(|ports| plan.connections as u64 > *ports) {
        return Err(Error::Ports { wanted: plan.connections, ports });
    }
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return Ok(current);
    }
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let refused = || Error::Descriptors { wanted: plan.connections, needed, allowed: hard };
    if hard < needed {
        return Err(refused());
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| refused())?;
    Ok(needed)
}

const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Ports that connections to one address may come from: `32768 60999`.
fn local_ports(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    Some((last + 1).saturating_sub(first))
}

/// What a thread used of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cpu {
    /// Share of the time in which it ran.
    pub(super) share: f64,
    /// The same of its busiest second.
    pub(super) busiest: f64,
}

/// Watches the calling thread.
#[derive(Debug)]
pub(super) struct CpuWatch {
    begin: CpuTime,
    moment: CpuTime,
    busiest: f64,
}

impl CpuWatch {
    pub(super) fn begin() -> Self {
        let now = CpuTime::now();
        Self { begin: now, moment: now, busiest: 0.0 }
    }

    /// Now and then; it asks for the CPU time once a second.
    pub(super) fn look(&mut self) {
        if monotonic().since(self.moment.at) >= MOMENT {
            let now = CpuTime::now();
            self.busiest = self.busiest.max(now.share_since(self.moment));
            self.moment = now;
        }
    }

    pub(super) fn end(&self) -> Cpu {
        let share = CpuTime::now().share_since(self.begin);
        Cpu { share, busiest: self.busiest.max(share) }
    }
}

/// CPU time of the calling thread at a moment.
#[derive(Debug, Clone, Copy)]
struct CpuTime {
    at: Mono,
    used: Duration,
}

impl CpuTime {
    fn now() -> Self {
        Self { at: monotonic(), used: thread_time() }
    }

    /// Share of the time since then in which the thread ran.
    fn share_since(self, then: Self) -> f64 {
        let time = self.at.since(then.at).as_secs_f64();
        if time > 0.0 { self.used.saturating_sub(then.used).as_secs_f64() / time } else { 0.0 }
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_ports_is_read_as_the_kernel_writes_it() {
        assert_eq!(local_ports("32768\t60999\n"), Some(28_232));
        assert_eq!(local_ports(""), None);
    }

    #[test]
    fn a_thread_that_does_nothing_but_count_uses_its_processor() {
        let before = CpuTime::now();
        let mut sum = 0_u64;
        while thread_time().saturating_sub(before.used) < Duration::from_millis(5) {
            sum = sum.wrapping_add(std::hint::black_box(sum));
        }
        let share = CpuTime::now().share_since(before);
        // Other processes may take the processor away, but no thread uses more than one.
        assert!(share > 0.0 && share < 1.1, "{share}");
    }
}
