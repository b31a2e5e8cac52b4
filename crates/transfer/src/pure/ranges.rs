//! Sets of ranges of numbers.

use std::collections::BTreeMap;

/// Ranges that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds the numbers from `start` up to, and without, `end`.
    pub fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        while let Some((&before, &until)) = self.0.range(..=end).next_back() {
            if until < start {
                break;
            }
            self.0.remove(&before);
            start = start.min(before);
            end = end.max(until);
        }
        self.0.insert(start, end);
    }

    /// Whether all numbers from `start` up to `end` are in the set.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.0.range(..=start).next_back().is_some_and(|(_, until)| *until >= end)
    }

    /// The first part of `start` up to `end` that is not in the set.
    pub fn gap(&self, start: u64, end: u64) -> Option<[u64; 2]> {
        let mut from = start;
        if let Some((_, until)) = self.0.range(..=start).next_back() {
            from = from.max(*until);
        }
        if from >= end {
            return None;
        }
        let until = self.0.range(from..).next().map_or(end, |(next, _)| end.min(*next));
        Some([from, until])
    }

    /// How many of the numbers from `start` up to `end` are in the set.
    pub fn within(&self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let first = self.0.range(..=start).next_back().map_or(start, |(from, _)| *from);
        let parts = self.0.range(first..end);
        parts.map(|(from, until)| end.min(*until).saturating_sub(start.max(*from))).sum()
    }

    /// Start and end of each range, in order.
    pub fn iter(&self) -> impl Iterator<Item = [u64; 2]> + '_ {
        self.0.iter().map(|(start, end)| [*start, *end])
    }

    /// How many ranges there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many numbers are in the set.
    pub fn total(&self) -> u64 {
        self.iter().map(|[start, end]| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_numbers(
            added in proptest::collection::vec((0_u64..60, 0_u64..12), 0..20),
            asked in (0_u64..70, 0_u64..20),
        ) {
            let mut ranges = Ranges::default();
            let mut numbers = [false; 100];
            for (start, length) in added {
                ranges.add(start, start + length);
                numbers[start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(ranges.total(), numbers.iter().filter(|has| **has).count() as u64);
            let list: Vec<[u64; 2]> = ranges.iter().collect();
            prop_assert_eq!(list.len(), ranges.count());
            prop_assert!(list.windows(2).all(|two| two[0][1] < two[1][0]));
            let (start, end) = (asked.0, asked.0 + asked.1);
            let within = &numbers[start as usize..end as usize];
            prop_assert_eq!(ranges.covers(start, end), within.iter().all(|has| *has));
            let count = within.iter().filter(|has| **has).count() as u64;
            prop_assert_eq!(ranges.within(start, end), count);
            let first = within.iter().position(|has| !has).map(|at| start + at as u64);
            let gap = ranges.gap(start, end);
            prop_assert_eq!(gap.map(|gap| gap[0]), first);
            if let Some([from, until]) = gap {
                prop_assert!(numbers[from as usize..until as usize].iter().all(|has| !has));
                prop_assert!(until == end || numbers[until as usize]);
            }
        }
    }
}
