//! Stacks that were seen.

use std::collections::HashMap;

use crate::sections::{Node, Tree};

/// Stacks that may be numbered: some 30 MB.
const MOST: usize = 1 << 18;

/// Numbers stacks of functions: nodes of a [`Tree`].
#[derive(Debug, Clone)]
pub struct Stacks {
    tree: Tree,
    numbers: HashMap<(usize, usize), usize>,
    most: usize,
    is_full: bool,
}

impl Default for Stacks {
    fn default() -> Self {
        Self { tree: Tree::default(), numbers: HashMap::new(), most: MOST, is_full: false }
    }
}

impl Stacks {
    /// The number of a stack, the outermost function first; 0 is the empty one. Where there is no room
    /// for one more it is that of the part of it which is known.
    pub fn number(&mut self, functions: impl IntoIterator<Item = usize>) -> usize {
        let mut parent = 0;
        for section in functions {
            let next = self.tree.len();
            parent = match self.numbers.get(&(parent, section)) {
                Some(known) => *known,
                None if next >= self.most => {
                    self.is_full = true;
                    return parent;
                }
                None => {
                    self.numbers.insert((parent, section), next);
                    self.tree.insert(next, Node { parent, section });
                    next
                }
            };
        }
        parent
    }

    /// The same stacks, with functions that are one by `of` (by function: which one it is), and which number each of
    /// the old ones has now.
    pub fn regrouped(&self, of: &[usize]) -> (Self, Vec<usize>) {
        let mut stacks = Self { most: self.most, is_full: self.is_full, ..Self::default() };
        let one = |function: usize| of.get(function).copied().unwrap_or(function);
        let numbers = (0..self.tree.len())
            .map(|old| stacks.number(self.tree.path(old).into_iter().map(one)))
            .collect();
        (stacks, numbers)
    }

    /// Were there more stacks than there is room for?
    pub const fn is_full(&self) -> bool {
        self.is_full
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
    fn functions_that_prove_to_be_one_are_one() {
        let mut stacks = Stacks::default();
        let numbers = [vec![7, 1], vec![7, 2], vec![7, 2, 1]].map(|stack| stacks.number(stack));
        // 2 is 1.
        let (one, now) = stacks.regrouped(&[0, 1, 1]);
        assert_eq!(now[numbers[0]], now[numbers[1]]);
        let mut counts = vec![0_u32; one.tree().len()];
        for number in numbers {
            counts[now[number]] += 1;
        }
        let sums = one.by_function(&counts);
        assert_eq!((sums[&7], sums[&1], now[0]), ((3, 0), (3, 3), 0));
    }

    #[test]
    fn beyond_the_most_that_there_may_be_stacks_are_told_by_what_they_begin_with() {
        let mut stacks = Stacks { most: 3, ..Stacks::default() };
        assert_eq!(stacks.number([7, 1]), 2);
        assert_eq!((stacks.number([7, 2]), stacks.is_full()), (1, true));
        assert_eq!((stacks.number([7, 1, 5]), stacks.number([8])), (2, 0));
        assert_eq!(stacks.tree().len(), 3);
    }
}
