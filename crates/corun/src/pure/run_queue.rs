//! Which task runs next on a CPU: Singh's rules by operations per joule, and what they lack.
//!
//! A task's priority is the operations of its last quantum over the joules that the whole machine used in it (OPJ). The
//! highest priority runs next, and a new task has the highest of all. Every n quanta, with n tasks in the queue, a
//! random one of them is promoted for one quantum (Singh 2014, sections 5.2.1 to 5.2.4).
//!
//! The lowest task of n waits n² quanta in the mean, and ln(1000) times that once in a thousand times. So there is a
//! bound, which the dissertation does not have.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use rand::{Rng, RngExt as _};

use super::ranked::RankedSet;

/// A task, by the caller's number for it.
pub type TaskId = usize;

/// The published quantum.
pub const QUANTUM: Duration = Duration::from_millis(4);

/// How tasks are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// By OPJ, with random promotion.
    Published,
    /// By OPJ over the task's own OPJ when it runs alone, with random promotion. The published rule prefers tasks with
    /// many operations a second, whether or not others slow them down.
    Relative,
    /// The published rule, and a task that has waited for this time runs next.
    Bounded(Duration),
}

/// What a task did in a quantum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantum {
    /// Operations of the task.
    pub operations: f64,
    /// Energy of the whole machine.
    pub joules: f64,
}

impl Quantum {
    /// Operations per joule.
    pub fn opj(self) -> f64 {
        self.operations / self.joules
    }
}

impl Policy {
    /// The priority that a quantum gives a task, whose OPJ is `reference` when it runs alone.
    pub fn priority(self, quantum: Quantum, reference: f64) -> f64 {
        match self {
            Self::Published | Self::Bounded(_) => quantum.opj(),
            Self::Relative => quantum.opj() / reference,
        }
    }

    /// The rules of its queue.
    pub fn rules(self) -> Rules {
        let bound = match self {
            Self::Bounded(bound) => Some(bound),
            Self::Published | Self::Relative => None,
        };
        Rules { promotes: true, bound, quantum: QUANTUM }
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Published => f.write_str("published"),
            Self::Relative => f.write_str("relative"),
            Self::Bounded(bound) => write!(f, "bounded({} ms)", bound.as_millis()),
        }
    }
}

/// The rules of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Every n quanta a random one of the n tasks is promoted.
    pub promotes: bool,
    /// A task that has waited for this time runs next.
    pub bound: Option<Duration>,
    /// The longest time that a task runs without a decision.
    pub quantum: Duration,
}

/// The tasks that wait for a CPU.
#[derive(Debug, Clone)]
pub struct RunQueue {
    rules: Rules,
    ranked: RankedSet<Entry>,
    /// By their arrival, the longest wait first.
    waiting: BTreeMap<u64, Entry>,
    arrivals: u64,
    /// Quanta since the last promotion.
    quanta: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Above all others. The published rule makes its OPJ one more than the largest; that would not be above a new
    /// task, whose OPJ is infinite.
    is_promoted: bool,
    priority: f64,
    arrival: u64,
    since: Duration,
    task: TaskId,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = self.is_promoted.cmp(&other.is_promoted);
        // Of equals, the one that has waited longer is above.
        rank.then(self.priority.total_cmp(&other.priority)).then(other.arrival.cmp(&self.arrival))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Entry {}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

/// A task that runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// Which one.
    pub task: TaskId,
    /// How long it has waited.
    pub waited: Duration,
}

impl RunQueue {
    /// An empty queue.
    pub fn new(rules: Rules) -> Self {
        let (ranked, waiting) = (RankedSet::default(), BTreeMap::new());
        Self { rules, ranked, waiting, arrivals: 0, quanta: 0 }
    }

    /// How many tasks wait.
    pub fn len(&self) -> usize {
        self.ranked.len()
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// A task waits from now on. The priority of a new one is infinite.
    pub fn add(&mut self, task: TaskId, priority: f64, now: Duration) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.put(Entry { is_promoted: false, priority, arrival, since: now, task });
    }

    /// Chooses the task that runs for the next quantum, and removes it from the queue.
    pub fn pick(&mut self, now: Duration, rng: &mut impl Rng) -> Option<Pick> {
        self.pick_by(now, |tasks| rng.random_range(0..tasks))
    }

    /// The same; `draw` gets the number of tasks when one is promoted, and returns its rank, counted from 0 for the
    /// lowest.
    pub fn pick_by(&mut self, now: Duration, draw: impl FnOnce(usize) -> usize) -> Option<Pick> {
        if self.rules.promotes && self.quanta >= self.len() {
            self.promote(draw);
            self.quanta = 0;
        }
        self.quanta += 1;
        let entry = self.overdue(now).or_else(|| self.ranked.last().copied())?;
        Some(self.take(entry, now))
    }

    /// Removes the task with the lowest priority, for another CPU that has none.
    pub fn take_lowest(&mut self, now: Duration) -> Option<Pick> {
        let entry = *self.ranked.nth(0)?;
        Some(self.take(entry, now))
    }

    /// Removes a task that no longer wants to run. `false` if it does not wait.
    pub fn remove(&mut self, task: TaskId) -> bool {
        let entry = self.waiting.values().find(|it| it.task == task).copied();
        entry.is_some_and(|entry| {
            self.waiting.remove(&entry.arrival);
            self.ranked.remove(&entry)
        })
    }

    /// The longest wait that the bound allows with this many tasks: the last of n cannot run before n - 1 others have.
    pub fn longest_wait(&self, tasks: usize) -> Option<Duration> {
        let others = self.rules.quantum * u32::try_from(tasks.saturating_sub(1)).ok()?;
        Some(self.rules.bound?.max(others) + self.rules.quantum)
    }

    /// The task that has waited longest, if it must run now. It runs so early that all behind it can follow one after
    /// the other, each for a quantum, and none of them waits for longer than the bound and one quantum.
    fn overdue(&self, now: Duration) -> Option<Entry> {
        let bound = self.rules.bound?;
        let (_, oldest) = self.waiting.first_key_value()?;
        let behind = u32::try_from(self.waiting.len() - 1).unwrap_or(u32::MAX);
        let needed = now.saturating_sub(oldest.since) + self.rules.quantum.saturating_mul(behind);
        (needed > bound).then_some(*oldest)
    }

    /// Promotes a task of a random rank, and returns the rank, from 0.
    fn promote(&mut self, draw: impl FnOnce(usize) -> usize) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let rank = draw(self.len());
        let entry = *self.ranked.nth(rank)?;
        self.ranked.remove(&entry);
        self.put(Entry { is_promoted: true, ..entry });
        Some(rank)
    }

    fn put(&mut self, entry: Entry) {
        self.ranked.insert(entry);
        self.waiting.insert(entry.arrival, entry);
    }

    fn take(&mut self, entry: Entry, now: Duration) -> Pick {
        self.ranked.remove(&entry);
        self.waiting.remove(&entry.arrival);
        Pick { task: entry.task, waited: now.saturating_sub(entry.since) }
    }
}

#[cfg(test)]
mod tests;
