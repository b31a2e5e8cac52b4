//! Instructions by the processors' counters (PMU), where there are some and we may use them.

use std::io;

use nightwatt_meters::{Host, machine};
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use serde::Serialize;

/// Instructions of the command, and of all that ran meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Instructions {
    /// Of the command and all that it started, its start included.
    pub command: u64,
    /// Of the machine; null if the kernel does not let us count those of others.
    pub machine: Option<u64>,
}

/// Counters that count from when they are made.
#[derive(Debug)]
pub(super) struct InstructionCounters {
    command: Counter,
    machine: Option<Vec<Counter>>,
}

impl InstructionCounters {
    /// Counts what this thread does and starts from now on. `None` without a PMU, as in most virtual
    /// machines, or if `kernel.perf_event_paranoid` forbids it.
    pub(super) fn start() -> Option<Self> {
        Self::of(&Hardware::INSTRUCTIONS)
    }

    fn of(event: &(impl Event + Clone)) -> Option<Self> {
        let mut command = everywhere(event).observe_self().any_cpu().inherit(true).build().ok()?;
        let cpus = machine::cpus(&Host::default());
        let of_cpu = |cpu: &usize| everywhere(event).any_pid().one_cpu(*cpu).build();
        let machine: io::Result<Vec<Counter>> = cpus.iter().map(of_cpu).collect();
        let mut machine = machine.ok().filter(|counters| !counters.is_empty());
        for counter in machine.iter_mut().flatten() {
            counter.enable().ok()?;
        }
        command.enable().ok()?;
        Some(Self { command, machine })
    }

    /// What was counted.
    pub(super) fn read(mut self) -> Option<Instructions> {
        let command = self.command.read().ok()?;
        let machine = self
            .machine
            .and_then(|counters| counters.into_iter().map(|mut counter| counter.read().ok()).sum());
        Some(Instructions { command, machine })
    }
}

/// In programs, in the kernel and beneath it.
fn everywhere<'a>(event: &(impl Event + Clone)) -> Builder<'a> {
    let mut builder = Builder::new(event.clone());
    builder.include_kernel().include_hv();
    builder
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use perf_event::events::Software;

    use super::*;

    /// Not every machine has a PMU. Page faults are counted by the same calls of the kernel.
    #[test]
    fn what_children_do_is_counted_and_is_part_of_what_the_machine_does() {
        let Some(counters) = InstructionCounters::of(&Software::PAGE_FAULTS) else {
            eprintln!("skipped: perf_event_open is not allowed here (kernel.perf_event_paranoid)");
            return;
        };
        assert!(Command::new("sh").args(["-c", "ls / >/dev/null; ls /"]).output().is_ok());
        let one = counters.read().unwrap();
        // A dynamically linked program faults in a hundred pages and more before its first line.
        assert!(one.command > 100, "{one:?}");
        let Some(machine) = one.machine else {
            eprintln!("skipped: the rest of the machine may not be counted here");
            return;
        };
        assert!(machine >= one.command, "{one:?}");
        let counters = InstructionCounters::of(&Software::PAGE_FAULTS).unwrap();
        let nothing = counters.read().unwrap();
        assert!(nothing.command < one.command, "{nothing:?}");
    }
}
