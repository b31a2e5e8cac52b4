//! Energy of sections of code: which thread ran when, and what the meter saw meanwhile.
//!
//! What a thread has open at a time is a stack of sections. Each stack that occurs is a node of a
//! [`Tree`]; node 0 is that of threads which are watched and in no section. Times of nodes are CPU
//! time and add up: a CPU is in one node at a time, runs something else, or is idle.
//!
//! Between two readings of a meter, [`Shares::share`] splits what it saw:
//!
//! ```text
//! idle part   = min(idle power x time, joules)
//! a node      = (joules - idle part) x its CPU time / busy CPU time of the machine
//! others      = the rest: processes that are not watched
//! ```
//!
//! Times of nodes are read behind those of the machine. Where the reader was kept waiting in between, nodes
//! ran for longer than the machine was busy; what is too much is counted in the next slice, to which that
//! busy time belongs.
//!
//! So all parts add up to what the meter saw, whatever ran at once.

mod events;

use std::time::Duration;

use crate::quantity::{Joules, Watts};

pub use events::{CallEvent, Rates};

/// A stack of sections that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The stack without its last section; node 0 is the empty stack.
    pub parent: usize,
    /// Its last section.
    pub section: usize,
}

/// All stacks that occurred, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree(Vec<Option<Node>>);

impl Default for Tree {
    fn default() -> Self {
        Self(vec![None])
    }
}

impl Tree {
    /// Node `number` is that stack. A parent may come later than its children.
    pub fn insert(&mut self, number: usize, node: Node) {
        if number >= self.0.len() {
            self.0.resize(number + 1, None);
        }
        if number > 0 {
            self.0[number] = Some(node);
        }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there nothing but node 0?
    pub fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    /// The sections of a stack, the outermost first.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = node;
        // No stack is deeper than there are nodes: whatever was inserted, this ends.
        while let Some(Some(node)) = self.0.get(at).filter(|_| path.len() < self.0.len()) {
            path.push(node.section);
            at = node.parent;
        }
        path.reverse();
        path
    }

    /// The sum over all stacks that a section is part of, once where it is in one several times.
    pub fn inclusive<T: Copy + std::iter::Sum>(&self, section: usize, of_nodes: &[T]) -> T {
        let numbers = 0..self.0.len().min(of_nodes.len());
        let within = numbers.filter(|&node| self.path(node).contains(&section));
        within.map(|node| of_nodes[node]).sum()
    }

    /// The sum over all stacks that end in a section: what it did itself.
    pub fn exclusive<T: Copy + std::iter::Sum>(&self, section: usize, of_nodes: &[T]) -> T {
        let ends = |node: &Option<Node>| node.is_some_and(|node| node.section == section);
        self.0.iter().zip(of_nodes).filter(|(node, _)| ends(node)).map(|(_, value)| *value).sum()
    }
}

/// CPU time since the beginning, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of all CPUs that did something.
    pub busy: Duration,
    /// Of all CPUs that did nothing.
    pub idle: Duration,
    /// Of all CPUs of a virtual machine that its host did not let run; it is in neither of the others.
    pub stolen: Duration,
    /// Of each node; nodes that are not there yet have none.
    pub nodes: Vec<Duration>,
}

impl Usage {
    /// What was used since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |place: usize| earlier.nodes.get(place).copied().unwrap_or_default();
        let nodes = self.nodes.iter().enumerate();
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            nodes: nodes.map(|(place, time)| time.saturating_sub(before(place))).collect(),
        }
    }
}

/// Energy of one channel of a meter by node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shares {
    idle_power: Watts,
    nodes: Vec<Joules>,
    /// CPU time of nodes that was read with the last slice and belongs to the next.
    early: Vec<Duration>,
    others: Joules,
    idle: Joules,
    shared: Joules,
    slices: u64,
}

impl Shares {
    /// Nothing shared yet. `idle_power` is what the channel shows of the idle machine: zero where that is not
    /// known, and then the threads that run bear it.
    pub fn new(idle_power: Watts) -> Self {
        Self { idle_power: Watts(idle_power.get().max(0.0)), ..Self::default() }
    }

    /// Splits what the meter saw in `time`, in which the CPU time grew from `before` to `after`; says
    /// what a busy CPU drew above the idle machine.
    pub fn share(
        &mut self,
        joules: Joules,
        time: Duration,
        before: &Usage,
        after: &Usage,
    ) -> Watts {
        let idle = Joules((self.idle_power * time).get().min(joules.get().max(0.0)));
        let dynamic = joules - idle;
        let used = after.since(before);
        let own: Duration = used.nodes.iter().sum();
        let early: Duration = self.early.iter().sum();
        let busy = used.busy.max(own + early).as_secs_f64();
        if self.nodes.len() < used.nodes.len() {
            self.nodes.resize(used.nodes.len(), Joules::ZERO);
        }
        self.early.resize(used.nodes.len(), Duration::ZERO);
        let mut left = dynamic;
        if busy > 0.0 {
            let times = used.nodes.iter().zip(&self.early).map(|(time, early)| *time + *early);
            for (sum, time) in self.nodes.iter_mut().zip(times) {
                let part = dynamic * (time.as_secs_f64() / busy);
                *sum += part;
                left = left - part;
            }
        }
        // Only what is new: what clocks disagree in is not to pile up.
        let too_much = own.saturating_sub(used.busy).as_secs_f64();
        let share = if own.is_zero() { 0.0 } else { too_much / own.as_secs_f64() };
        self.early = used.nodes.iter().map(|time| time.mul_f64(share)).collect();
        self.others += left;
        self.idle += idle;
        self.shared += joules;
        self.slices += 1;
        if busy > 0.0 { Watts(dynamic.get() / busy) } else { Watts::ZERO }
    }

    /// Splits what the meter saw in `time` by samples of busy CPUs, each as much as another: in a node,
    /// or in none that is watched.
    pub fn share_by_samples(&mut self, joules: Joules, time: Duration, samples: &[Option<usize>]) {
        let idle = Joules((self.idle_power * time).get().min(joules.get().max(0.0)));
        let part = (joules - idle) * (1.0 / samples.len().max(1) as f64);
        for node in samples {
            match *node {
                Some(node) => {
                    if self.nodes.len() <= node {
                        self.nodes.resize(node + 1, Joules::ZERO);
                    }
                    self.nodes[node] += part;
                }
                None => self.others += part,
            }
        }
        if samples.is_empty() {
            self.others += part;
        }
        self.idle += idle;
        self.shared += joules;
        self.slices += 1;
    }

    /// What nodes have is that of others by `numbers`: by node, which it is now.
    pub(crate) fn regroup(&mut self, numbers: &[usize]) {
        let mut nodes = Vec::new();
        for (joules, &number) in self.nodes.iter().zip(numbers) {
            if nodes.len() <= number {
                nodes.resize(number + 1, Joules::ZERO);
            }
            nodes[number] += *joules;
        }
        self.nodes = nodes;
    }

    /// Of each node.
    pub fn nodes(&self) -> &[Joules] {
        &self.nodes
    }

    /// Of what is not watched, and of times in which no CPU was busy.
    pub const fn others(&self) -> Joules {
        self.others
    }

    /// Of the idle machine.
    pub const fn idle(&self) -> Joules {
        self.idle
    }

    /// All that the meter saw.
    pub const fn shared(&self) -> Joules {
        self.shared
    }

    /// Times between two readings.
    pub const fn slices(&self) -> u64 {
        self.slices
    }
}

/// Lengths in bands, sixteen to each doubling: what the probes count in the kernel. Below 16 ns each
/// band is one length; a band `b` above begins at `(16 + b % 16) << (b / 16 - 1)` ns.
pub mod bands {
    use std::time::Duration;

    /// A quantile is at most this share too high, and never too low.
    pub const RELATIVE_ERROR: f64 = 1.0 / 16.0;

    /// The band of a length.
    pub const fn band(ns: u64) -> usize {
        if ns < 16 {
            return ns as usize;
        }
        let log = ns.ilog2();
        (log as usize - 3) * 16 + ((ns >> (log - 4)) & 15) as usize
    }

    /// The longest length of a band, ns.
    pub const fn longest(band: usize) -> u64 {
        if band < 16 {
            return band as u64;
        }
        let shift = (band / 16 - 1) as u32;
        ((16 + (band % 16) as u64 + 1) << shift) - 1
    }

    /// The length that this share of all calls does not exceed; `None` where nothing was counted.
    pub fn quantile(counts: &[u64], share: f64) -> Option<Duration> {
        let all: u64 = counts.iter().sum();
        let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        counts.iter().enumerate().find_map(|(band, count)| {
            seen += count;
            (all > 0 && seen >= wanted).then(|| Duration::from_nanos(longest(band)))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(values: &[u64]) -> Vec<Duration> {
        values.iter().map(|&ms| Duration::from_millis(ms)).collect()
    }

    fn usage(busy: u64, nodes: &[u64]) -> Usage {
        Usage { busy: Duration::from_millis(busy), nodes: millis(nodes), ..Usage::default() }
    }

    /// a, a;b, b, a;b;a
    fn tree() -> Tree {
        let mut tree = Tree::default();
        for (number, parent, section) in [(1, 0, 0), (2, 1, 1), (3, 0, 1), (4, 2, 0)] {
            tree.insert(number, Node { parent, section });
        }
        tree
    }

    #[test]
    fn what_is_nested_counts_once_for_each_section_it_is_in() {
        let tree = tree();
        assert_eq!(tree.path(4), [0, 1, 0]);
        let times = millis(&[1, 10, 100, 1000, 10_000]);
        // Recursion: node 4 holds section 0 twice, and counts once.
        assert_eq!(tree.inclusive(0, &times), Duration::from_millis(10_110));
        assert_eq!(tree.inclusive(1, &times), Duration::from_millis(11_100));
        assert_eq!(tree.exclusive(0, &times), Duration::from_millis(10_010));
        assert_eq!(tree.exclusive(1, &times), Duration::from_millis(1100));
    }

    #[test]
    fn two_sections_that_run_three_to_one_share_the_dynamic_energy_so() {
        let mut shares = Shares::new(Watts(10.0));
        let before = usage(0, &[]);
        // A second at 30 W: 10 J idle, 20 J dynamic. Two CPUs, 1.6 s busy, of that 1.2 and 0.4.
        shares.share(Joules(30.0), Duration::from_secs(1), &before, &usage(2000, &[0, 1200, 400]));
        let close = |one: Joules, joules: f64| (one.get() - joules).abs() < 1e-9;
        assert!(close(shares.idle(), 10.0));
        assert!(close(shares.nodes()[1], 12.0) && close(shares.nodes()[2], 4.0));
        assert!(close(shares.others(), 4.0), "0.4 s of 2 were somebody else's");
    }

    #[test]
    fn a_reader_that_is_kept_waiting_between_two_counts_gives_nobodys_energy_away() {
        // One thread runs all the time, in node 1, and draws 10 W. At the second reading the machine's time
        // was read at 100 ms, and that of nodes at 400 ms.
        let readings = [usage(0, &[0, 0]), usage(100, &[0, 400]), usage(500, &[0, 500])];
        let mut shares = Shares::new(Watts::ZERO);
        shares.share(Joules(1.0), Duration::from_millis(100), &readings[0], &readings[1]);
        shares.share(Joules(4.0), Duration::from_millis(400), &readings[1], &readings[2]);
        let [_, node] = shares.nodes() else { panic!("{shares:?}") };
        assert!((node.get() - 5.0).abs() < 1e-9, "{shares:?}");
        assert!(shares.others().get().abs() < 1e-9, "{shares:?}");
        // What was early is counted once.
        shares.share(Joules(1.0), Duration::from_millis(100), &readings[2], &usage(600, &[0, 550]));
        assert!((shares.others().get() - 0.5).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn a_machine_that_draws_less_than_idle_leaves_nothing_to_share() {
        let mut shares = Shares::new(Watts(10.0));
        shares.share(Joules(7.0), Duration::from_secs(1), &usage(0, &[0]), &usage(500, &[500]));
        assert_eq!((shares.idle(), shares.nodes()[0]), (Joules(7.0), Joules::ZERO));
    }

    #[test]
    fn a_tree_that_holds_a_circle_has_paths_all_the_same() {
        let mut tree = Tree::default();
        tree.insert(1, Node { parent: 2, section: 0 });
        tree.insert(2, Node { parent: 1, section: 1 });
        assert!(tree.path(1).len() <= 3);
    }

    proptest! {
        #[test]
        fn whatever_runs_all_parts_add_up_to_what_the_meter_saw(
            slices in prop::collection::vec(
                (0.0..1e5_f64, 1..5000_u64, 0..9000_u64, prop::collection::vec(0..3000_u64, 0..6)), 1..50),
            idle in 0.0..50.0_f64,
        ) {
            let mut shares = Shares::new(Watts(idle));
            let (mut before, mut saw) = (Usage::default(), 0.0);
            for (joules, time, busy, nodes) in slices {
                let mut after = before.clone();
                after.busy += Duration::from_millis(busy);
                after.nodes.resize(after.nodes.len().max(nodes.len()), Duration::ZERO);
                for (sum, more) in after.nodes.iter_mut().zip(nodes) {
                    *sum += Duration::from_millis(more);
                }
                shares.share(Joules(joules), Duration::from_millis(time), &before, &after);
                saw += joules;
                before = after;
            }
            let nodes: f64 = shares.nodes().iter().map(|joules| joules.get()).sum();
            let parts = nodes + shares.others().get() + shares.idle().get();
            prop_assert!((parts - saw).abs() <= 1e-9 * saw.max(1.0), "{parts} of {saw}");
            prop_assert!(shares.nodes().iter().all(|joules| joules.get() >= 0.0));
            prop_assert!(shares.others().get() >= -1e-9 * saw.max(1.0));
        }

        #[test]
        fn a_length_lies_in_its_band_and_is_overstated_by_a_sixteenth_at_most(ns in 0..1_u64 << 44) {
            let longest = bands::longest(bands::band(ns));
            prop_assert!(longest >= ns);
            prop_assert!((longest - ns) as f64 <= ns as f64 * bands::RELATIVE_ERROR);
            prop_assert_eq!(bands::band(longest), bands::band(ns));
            prop_assert_eq!(bands::band(longest + 1), bands::band(ns) + 1);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_counted_lengths() {
        let mut counts = vec![0; 672];
        for ns in 1..=1000_u64 {
            counts[bands::band(ns * 1000)] += 1;
        }
        for (share, ns) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = bands::quantile(&counts, share).unwrap().as_nanos() as f64;
            assert!((1.0..=1.07).contains(&(found / ns)), "{share}: {found}");
        }
        assert_eq!(bands::quantile(&[0, 0], 0.5), None);
    }
}
