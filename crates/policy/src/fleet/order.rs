//! Servers in the order of their use: which takes the next request, which is switched next.

/// No server, no rank.
const NONE: u32 = u32::MAX;

/// A set of small numbers that knows its least and its greatest: words of 64 bits, and above them
/// words that say which of those are not empty. Every step takes as many words as there are layers,
/// three up to 262,144 numbers.
#[derive(Debug, Clone)]
struct BitTree {
    /// The numbers themselves.
    leaves: Vec<u64>,
    /// What says which words are not empty, from the leaves up; nothing above a single word.
    layers: Vec<Vec<u64>>,
}

impl BitTree {
    fn new(size: usize) -> Self {
        let mut words = size.max(1).div_ceil(64);
        let leaves = vec![0; words];
        let mut layers = Vec::new();
        while words > 1 {
            words = words.div_ceil(64);
            layers.push(vec![0; words]);
        }
        Self { leaves, layers }
    }

    #[inline]
    fn set(&mut self, number: u32) {
        let mut at = number as usize;
        let word = &mut self.leaves[at / 64];
        let mut was_empty = *word == 0;
        *word |= 1 << (at % 64);
        for layer in &mut self.layers {
            if !was_empty {
                break;
            }
            at /= 64;
            let word = &mut layer[at / 64];
            was_empty = *word == 0;
            *word |= 1 << (at % 64);
        }
    }

    #[inline]
    fn clear(&mut self, number: u32) {
        let mut at = number as usize;
        let word = &mut self.leaves[at / 64];
        *word &= !(1 << (at % 64));
        let mut is_empty = *word == 0;
        for layer in &mut self.layers {
            if !is_empty {
                break;
            }
            at /= 64;
            let word = &mut layer[at / 64];
            *word &= !(1 << (at % 64));
            is_empty = *word == 0;
        }
    }

    fn has(&self, number: u32) -> bool {
        self.leaves[number as usize / 64] >> (number % 64) & 1 == 1
    }

    #[inline]
    fn find(&self, bit: impl Fn(u64) -> u32) -> Option<u32> {
        let mut at = 0;
        for layer in self.layers.iter().rev() {
            let word = layer[at];
            if word == 0 {
                return None;
            }
            at = at * 64 + bit(word) as usize;
        }
        let word = self.leaves[at];
        (word != 0).then(|| at as u32 * 64 + bit(word))
    }

    #[inline]
    fn first(&self) -> Option<u32> {
        self.find(u64::trailing_zeros)
    }

    fn last(&self) -> Option<u32> {
        self.find(u64::ilog2)
    }
}

/// The ranks of one kind of server.
#[derive(Debug, Clone, Copy)]
struct Region {
    start: u32,
    end: u32,
    /// The kind's first server.
    server: u32,
    /// Where the next one enters, if ranks rotate.
    next: u32,
}

/// At which end servers enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Before all others of their kind.
    Front,
    /// After them.
    Back,
}

/// Ranks for servers, by kind and within a kind by number or by when they entered; with sets of those
/// that have some property now.
#[derive(Debug, Clone)]
pub(super) struct Ranks<const SETS: usize> {
    sets: [BitTree; SETS],
    server_at: Vec<u32>,
    rank_of: Vec<u32>,
    /// By kind.
    regions: Vec<Region>,
    /// Where servers enter; by their number if nowhere.
    rotates: Option<End>,
}

impl<const SETS: usize> Ranks<SETS> {
    /// For kinds with this many servers each; `preferred` names the kinds, best first.
    pub(super) fn new(counts: &[u32], preferred: &[usize], rotates: Option<End>) -> Self {
        let mut regions = vec![Region { start: 0, end: 0, server: 0, next: 0 }; counts.len()];
        let mut server = 0;
        for (region, count) in regions.iter_mut().zip(counts) {
            region.server = server;
            server += count;
        }
        let mut start = 0;
        for &kind in preferred {
            // With four times the room, a server that enters rarely makes others move.
            let room = if rotates.is_some() { 4 * counts[kind] } else { counts[kind] };
            let region = &mut regions[kind];
            (region.start, region.end) = (start, start + room);
            region.next = if rotates == Some(End::Front) { region.end } else { region.start };
            start += room;
        }
        Self {
            sets: std::array::from_fn(|_| BitTree::new(start as usize)),
            server_at: vec![NONE; start as usize],
            rank_of: vec![NONE; server as usize],
            regions,
            rotates,
        }
    }

    /// A server gets a rank.
    pub(super) fn enter(&mut self, server: u32, kind: usize) {
        let region = self.regions[kind];
        let rank = match self.rotates {
            None => region.start + server - region.server,
            Some(End::Front) => {
                if region.next == region.start {
                    self.compact(kind, (region.start..region.end).rev());
                }
                self.regions[kind].next -= 1;
                self.regions[kind].next
            }
            Some(End::Back) => {
                if region.next == region.end {
                    self.compact(kind, region.start..region.end);
                }
                self.regions[kind].next += 1;
                self.regions[kind].next - 1
            }
        };
        self.server_at[rank as usize] = server;
        self.rank_of[server as usize] = rank;
    }

    /// Moves servers together, to where `ranks` begin: all that have room only after three times as
    /// many have entered as there are.
    fn compact(&mut self, kind: usize, ranks: impl Iterator<Item = u32> + Clone) {
        let mut to = ranks.clone();
        let mut last = None;
        for rank in ranks {
            let server = self.server_at[rank as usize];
            if server == NONE {
                continue;
            }
            // There are no more servers than ranks.
            let Some(to) = to.next() else { break };
            last = Some(to);
            if to == rank {
                continue;
            }
            self.server_at[rank as usize] = NONE;
            self.server_at[to as usize] = server;
            self.rank_of[server as usize] = to;
            for set in &mut self.sets {
                if set.has(rank) {
                    set.clear(rank);
                    set.set(to);
                }
            }
        }
        let region = &mut self.regions[kind];
        region.next = match (self.rotates, last) {
            (Some(End::Front), None) => region.end,
            (Some(End::Front), Some(last)) => last,
            (_, None) => region.start,
            (_, Some(last)) => last + 1,
        };
    }

    /// A server loses its rank and its properties.
    pub(super) fn leave(&mut self, server: u32) {
        let rank = std::mem::replace(&mut self.rank_of[server as usize], NONE);
        if rank != NONE {
            self.server_at[rank as usize] = NONE;
            for set in &mut self.sets {
                set.clear(rank);
            }
        }
    }

    /// Says whether a server with a rank has the property of `set`.
    #[inline]
    pub(super) fn mark(&mut self, set: usize, server: u32, has: bool) {
        let rank = self.rank_of[server as usize];
        if has {
            self.sets[set].set(rank);
        } else {
            self.sets[set].clear(rank);
        }
    }

    /// The first server with the property.
    #[inline]
    pub(super) fn first(&self, set: usize) -> Option<u32> {
        self.sets[set].first().map(|rank| self.server_at[rank as usize])
    }

    /// The last server with the property.
    pub(super) fn last(&self, set: usize) -> Option<u32> {
        self.sets[set].last().map(|rank| self.server_at[rank as usize])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bit_tree_is_a_sorted_set(
            size in 1_u32..9000, steps in proptest::collection::vec((any::<u32>(), any::<bool>()), 0..300),
        ) {
            let mut tree = BitTree::new(size as usize);
            let mut set = std::collections::BTreeSet::new();
            for (number, add) in steps {
                let number = number % size;
                if add {
                    tree.set(number);
                    set.insert(number);
                } else {
                    tree.clear(number);
                    set.remove(&number);
                }
                prop_assert_eq!(tree.has(number), add);
                prop_assert_eq!(tree.first(), set.first().copied());
                prop_assert_eq!(tree.last(), set.last().copied());
            }
        }

        /// A list per kind, in which servers move by hand.
        #[test]
        fn ranks_are_the_order_of_entering(
            counts in proptest::collection::vec(1_u32..5, 1..4),
            steps in proptest::collection::vec(any::<u32>(), 0..400),
            rotates in prop_oneof![Just(None), Just(Some(End::Front)), Just(Some(End::Back))],
        ) {
            let preferred: Vec<usize> = (0..counts.len()).rev().collect();
            let mut ranks = Ranks::<1>::new(&counts, &preferred, rotates);
            let kinds: Vec<usize> =
                counts.iter().enumerate().flat_map(|(kind, n)| vec![kind; *n as usize]).collect();
            let mut lists: Vec<Vec<u32>> = vec![Vec::new(); counts.len()];
            for step in steps {
                let server = step % kinds.len() as u32;
                let kind = kinds[server as usize];
                let list = &mut lists[kind];
                if let Some(at) = list.iter().position(|it| *it == server) {
                    list.remove(at);
                    ranks.leave(server);
                } else {
                    ranks.enter(server, kind);
                    ranks.mark(0, server, true);
                    match rotates {
                        None => {
                            list.push(server);
                            list.sort_unstable();
                        }
                        Some(End::Front) => list.insert(0, server),
                        Some(End::Back) => list.push(server),
                    }
                }
                let mut all = preferred.iter().flat_map(|kind| &lists[*kind]);
                prop_assert_eq!(ranks.first(0), all.clone().next().copied());
                prop_assert_eq!(ranks.last(0), all.next_back().copied());
            }
        }
    }
}
