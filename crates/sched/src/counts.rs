//! What the scheduler counted.

use serde::Serialize;

use crate::error::Error;
use crate::kernel::{Loaded, word};

/// Sums over all CPUs; the layout of `struct cpu` in `sched.bpf.c`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Decisions: which task has the next quantum.
    pub(crate) decisions: u64,
    pub(crate) promotions: u64,
    /// Decisions for a task that had waited for the bound.
    pub(crate) overdue: u64,
    /// Tasks that a CPU without tasks took from another one.
    pub(crate) moved: u64,
    /// Decisions for a task that had left the queue meanwhile.
    pub(crate) missed: u64,
    /// The longest wait of a task for its quantum, in quanta of its CPU.
    pub(crate) longest_wait_quanta: u64,
    /// The most tasks that wanted to run on one CPU.
    pub(crate) most_tasks: u64,
    /// Lines of the trace that had no room.
    pub(crate) lost_events: u64,
}

impl Counts {
    pub(crate) fn read(loaded: &Loaded, cpus: usize) -> Result<Self, Error> {
        let mut all = Self::default();
        for cpu in 0..cpus as u32 {
            all.add(&loaded.element("cpus", cpu)?);
        }
        Ok(all)
    }

    fn add(&mut self, cpu: &[u8]) {
        // 0: the number of the quantum; 1: quanta since the last promotion; 2: arrivals; 9: events.
        self.decisions += word(cpu, 3);
        self.promotions += word(cpu, 4);
        self.overdue += word(cpu, 5);
        self.moved += word(cpu, 6);
        self.missed += word(cpu, 7);
        self.longest_wait_quanta = self.longest_wait_quanta.max(word(cpu, 8));
        self.lost_events += word(cpu, 10);
        self.most_tasks = self.most_tasks.max(word(cpu, 11));
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "{} decisions, {} promotions, {} for the bound; at most {} tasks on a CPU, the longest wait {} quanta; {} \
             tasks moved between CPUs",
            self.decisions,
            self.promotions,
            self.overdue,
            self.most_tasks,
            self.longest_wait_quanta,
            self.moved
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_cpus_and_the_longest_is_the_longest_of_all() {
        let cpu = |words: [u64; 12]| words.map(u64::to_ne_bytes).concat();
        let mut counts = Counts::default();
        counts.add(&cpu([9, 9, 9, 10, 1, 2, 3, 0, 7, 50, 0, 4]));
        counts.add(&cpu([9, 9, 9, 20, 1, 0, 0, 1, 5, 50, 2, 8]));
        let expected = Counts {
            decisions: 30,
            promotions: 2,
            overdue: 2,
            moved: 3,
            missed: 1,
            longest_wait_quanta: 7,
            most_tasks: 8,
            lost_events: 2,
        };
        assert_eq!(counts, expected);
        assert!(counts.text().contains("the longest wait 7 quanta"));
    }
}
