//! Stacks that were seen, and how often by when.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::sections::{Node, Tree, Usage};
use crate::time::Mono;

/// Numbers stacks of functions: nodes of a [`Tree`].
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    tree: Tree,
    numbers: HashMap<(usize, usize), usize>,
}

impl Stacks {
    /// The number of a stack, the outermost function first; 0 is the empty one.
    pub fn number(&mut self, functions: impl IntoIterator<Item = usize>) -> usize {
        functions.into_iter().fold(0, |parent, section| {
            let next = self.tree.len();
            let number = *self.numbers.entry((parent, section)).or_insert(next);
            if number == next {
                self.tree.insert(number, Node { parent, section });
            }
            number
        })
    }

    /// All that were numbered.
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// By function: the sum over the stacks it is in, once where it is in one several times, and over
    /// those that end in it.
    pub fn by_function<T>(&self, of_stacks: &[T]) -> HashMap<usize, (T, T)>
    where
        T: Copy + Default + std::ops::AddAssign + PartialEq,
    {
        let mut sums: HashMap<usize, (T, T)> = HashMap::new();
        for (number, value) in of_stacks.iter().enumerate().filter(|(_, it)| **it != T::default()) {
            let mut path = self.tree.path(number);
            if let Some(last) = path.last() {
                sums.entry(*last).or_default().1 += *value;
            }
            path.sort_unstable();
            path.dedup();
            for function in path {
                sums.entry(function).or_default().0 += *value;
            }
        }
        sums
    }
}

/// What one sample was of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Idle,
    Other,
    Stack(usize),
}

/// Samples of all CPUs, as CPU time: each stands for one period.
#[derive(Debug, Clone)]
pub struct Tally {
    period: Duration,
    waiting: VecDeque<(Mono, What)>,
    usage: Usage,
}

impl Tally {
    /// Nothing counted yet.
    pub fn new(period: Duration) -> Self {
        Self { period, waiting: VecDeque::new(), usage: Usage::default() }
    }

    /// An idle CPU.
    pub fn idle(&mut self, at: Mono) {
        self.waiting.push_back((at, What::Idle));
    }

    /// Somebody whom nobody watches.
    pub fn other(&mut self, at: Mono) {
        self.waiting.push_back((at, What::Other));
    }

    /// Somebody who is watched, in a stack.
    pub fn watched(&mut self, at: Mono, stack: usize) {
        self.waiting.push_back((at, What::Stack(stack)));
    }

    /// What the samples up to that moment stand for. A moment before the last that was asked for is
    /// taken for that one.
    pub fn until(&mut self, moment: Mono) -> &Usage {
        while let Some((_, what)) = self.waiting.pop_front_if(|(at, _)| *at <= moment) {
            let usage = &mut self.usage;
            match what {
                What::Idle => usage.idle += self.period,
                What::Other => usage.busy += self.period,
                What::Stack(stack) => {
                    usage.busy += self.period;
                    if usage.nodes.len() <= stack {
                        usage.nodes.resize(stack + 1, Duration::ZERO);
                    }
                    usage.nodes[stack] += self.period;
                }
            }
        }
        &self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_one_number_and_each_function_of_it_its_share() {
        let mut stacks = Stacks::default();
        // main;a;b, main;b, main;a;a
        let numbers = [vec![7, 1, 2], vec![7, 2], vec![7, 1, 1], vec![7, 2], vec![]];
        let numbers = numbers.map(|stack| stacks.number(stack));
        assert_eq!(numbers[1], numbers[3]);
        assert_eq!(numbers[4], 0);
        let mut counts = vec![0_u32; stacks.tree().len()];
        for number in numbers {
            counts[number] += 1;
        }
        let sums = stacks.by_function(&counts);
        assert_eq!((sums[&7], sums[&1], sums[&2]), ((4, 0), (2, 1), (3, 3)));
    }

    #[test]
    fn samples_count_up_to_the_moment_that_is_asked_for() {
        let at = |ms| Mono(Duration::from_millis(ms));
        let mut tally = Tally::new(Duration::from_millis(1));
        tally.watched(at(1), 2);
        tally.other(at(2));
        tally.idle(at(2));
        tally.watched(at(3), 2);
        let usage = tally.until(at(2)).clone();
        let millis = Duration::from_millis;
        assert_eq!((usage.busy, usage.idle, usage.nodes[2]), (millis(2), millis(1), millis(1)));
        // The moment before was asked for too late.
        assert_eq!(*tally.until(at(1)), usage);
        assert_eq!(tally.until(at(3)).nodes[2], millis(2));
    }
}
