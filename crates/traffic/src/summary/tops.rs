//! The most frequent texts.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

/// Longest text that is kept, in bytes; longer ones are cut there and count as one.
const LONGEST: usize = 512;

/// Counts texts, the most frequent ones at least.
///
/// Up to `capacity` different texts all counts are exact, and merging is associative and
/// commutative. Beyond it the rarest go, after Misra and Gries (1982): every count is then too low
/// by at most [`Tops::error`], which is at most the sum of all counts / (capacity + 1), merged or
/// not (Agarwal et al., "Mergeable summaries", 2012); which texts are left then depends on order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tops {
    capacity: usize,
    counts: HashMap<Box<str>, u64, RandomState>,
    error: u64,
}

impl PartialEq for Tops {
    fn eq(&self, other: &Self) -> bool {
        (self.capacity, self.error) == (other.capacity, other.error) && self.counts == other.counts
    }
}

impl Tops {
    /// Keeps up to twice this many texts while counting, and this many after a merge.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, counts: HashMap::default(), error: 0 }
    }

    /// Counts a text this many times.
    pub fn add(&mut self, text: &str, times: u64) {
        if times == 0 {
            return;
        }
        let mut end = text.len().min(LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        if let Some(count) = self.counts.get_mut(text) {
            *count += times;
            return;
        }
        self.counts.insert(text.into(), times);
        // Cutting costs a pass over all, so it is done for many at once.
        if self.counts.len() > 2 * self.capacity {
            self.cut();
        }
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        self.error += other.error;
        for (text, &times) in &other.counts {
            self.add(text, times);
        }
    }

    /// How much too low a count may be; 0 where all texts have had room.
    pub const fn error(&self) -> u64 {
        self.error
    }

    /// All texts that are kept, most frequent first; of equal counts, by text.
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> =
            self.counts.iter().map(|(text, &count)| (&**text, count)).collect();
        all.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        all
    }

    pub(crate) fn clear(&mut self) {
        self.counts.clear();
        self.error = 0;
    }

    /// Takes the count of the first text that has no room from all, and drops what is then nothing.
    fn cut(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let (_, &mut first_without_room, _) =
            counts.select_nth_unstable_by(self.capacity, |one, other| other.cmp(one));
        self.error += first_without_room;
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(first_without_room);
            *count > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_while_there_is_room() {
        let mut tops = Tops::new(4);
        for text in ["a", "b", "a", "c", "a", "b"] {
            tops.add(text, 1);
        }
        assert_eq!(tops.sorted(), [("a", 3), ("b", 2), ("c", 1)]);
        assert_eq!(tops.error(), 0);
    }

    #[test]
    fn frequent_texts_stay_among_any_number_of_rare_ones() {
        let mut tops = Tops::new(100);
        for n in 0..100_000_u64 {
            tops.add(&format!("rare {n}"), 1);
            if n % 10 == 0 {
                tops.add("frequent", 1);
            }
            assert!(tops.counts.len() <= 200);
        }
        let (text, count) = tops.sorted()[0];
        assert_eq!(text, "frequent");
        assert!(count <= 10_000 && count + tops.error() >= 10_000, "{count} {}", tops.error());
        assert!(tops.error() <= 110_000 / 101, "{}", tops.error());
    }
}
