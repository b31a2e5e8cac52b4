//! What is counted while a command runs: its CPU time, its instructions, and what others use meanwhile.

use std::time::Duration;

use nightwatt_meters::Host;
use nightwatt_meters::machine::others::{self, Processes};

use super::cgroup::Cgroup;
use super::cpu_time::{self, CountedBy, CpuTime, Used};
use super::descendants::Descendants;
use super::instructions::InstructionCounters;

/// Probes that count so much more CPU time than the command's cgroup have seen what went into another.
const SURELY_MORE: f64 = 0.01;
const A_LITTLE: Duration = Duration::from_millis(5);

/// All that counts.
pub(super) struct Counting {
    cgroup: Option<Cgroup>,
    counters: Option<InstructionCounters>,
    /// Of the machine before.
    busy: Option<Duration>,
    beyond: Option<Beyond>,
}

/// What a cgroup does not show.
struct Beyond {
    descendants: Option<Descendants>,
    processes: Processes,
}

impl Counting {
    /// Counts from here on what this thread starts. `beyond`: also what leaves the command's cgroup, and what other
    /// processes use.
    pub(super) fn start(beyond: bool) -> Self {
        let cgroup = Cgroup::make();
        let beyond = beyond.then(|| Beyond {
            descendants: Descendants::start(),
            processes: Processes::read(&Host::default()),
        });
        let counters = InstructionCounters::start();
        Self { cgroup, counters, busy: cpu_time::machine(), beyond }
    }

    /// Starts something in the command's cgroup.
    pub(super) fn around<T>(&self, start: impl FnOnce() -> T) -> T {
        match &self.cgroup {
            Some(cgroup) => cgroup.around(start),
            None => start(),
        }
    }

    /// What was used; `of_tree` by the processes that were waited for.
    pub(super) fn finish(self, of_tree: CpuTime) -> Used {
        let machine = cpu_time::machine();
        let of_group = self.cgroup.as_ref().and_then(Cgroup::used);
        // A group that counts less than the processes that were waited for has missed some: they went into
        // another. The two are counted by different clocks, so a little less is no less.
        let of_group = of_group.filter(|group| group.all() * 20 > of_tree.all() * 19);
        let (time, by) = match of_group {
            Some(time) => (time, CountedBy::Cgroup),
            None => (of_tree, CountedBy::ProcessTree),
        };
        let host = Host::default();
        // Containers and scopes have cgroups of their own.
        let descendants = self.beyond.as_ref().and_then(|beyond| beyond.descendants.as_ref());
        let least = time.all().mul_f64(1.0 + SURELY_MORE) + A_LITTLE;
        let escaped = descendants.and_then(|it| it.used(&host)).filter(|all| all.all() > least);
        let mut used = Used {
            time: escaped.unwrap_or(time),
            by: escaped.map_or(by, |_| CountedBy::Descendants),
            left_running: self.cgroup.as_ref().map_or(0, Cgroup::processes),
            instructions: self.counters.and_then(InstructionCounters::read),
            machine: machine.zip(self.busy).map(|(after, before)| after.saturating_sub(before)),
            others: Vec::new(),
        };
        if let Some(beyond) = &self.beyond {
            let others = Processes::read(&host).since(&beyond.processes, std::process::id());
            used.others = others::with_ended(others, used.beside().unwrap_or_default());
        }
        used
    }
}
