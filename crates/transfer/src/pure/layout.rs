//! The address space: all files one behind the other.

/// Where each entry's contents are. Entries without contents have a place of no length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// The end of each entry.
    ends: Vec<u64>,
}

/// A part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The entry's place in the manifest.
    pub entry: usize,
    /// Where in the entry it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

impl Layout {
    /// Adds an entry with contents of this length. False if the space would be longer than there are numbers.
    #[must_use]
    pub fn push(&mut self, bytes: u64) -> bool {
        let end = self.bytes().checked_add(bytes);
        self.ends.extend(end);
        end.is_some()
    }

    /// Length of the space.
    pub fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.ends.len()
    }

    /// Start and end of an entry.
    pub fn range(&self, entry: usize) -> [u64; 2] {
        let start = entry.checked_sub(1).map_or(0, |before| self.ends[before]);
        [start, self.ends[entry]]
    }

    /// The parts of entries that are from `start` up to `end`.
    pub fn slices(&self, start: u64, end: u64) -> impl Iterator<Item = Slice> + '_ {
        let first = self.ends.partition_point(|it| *it <= start);
        let entries = (first..self.ends.len()).map(|entry| (entry, self.range(entry)));
        let within = entries.take_while(move |(_, range)| range[0] < end);
        within.filter_map(move |(entry, range)| {
            let (from, until) = (range[0].max(start), range[1].min(end));
            (from < until).then(|| Slice { entry, offset: from - range[0], bytes: until - from })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_ends_of_files() {
        let mut layout = Layout::default();
        for bytes in [0, 10, 0, 5, 100] {
            assert!(layout.push(bytes));
        }
        let slices = |start, end| -> Vec<[u64; 3]> {
            layout.slices(start, end).map(|it| [it.entry as u64, it.offset, it.bytes]).collect()
        };
        assert_eq!(slices(0, 115), [[1, 0, 10], [3, 0, 5], [4, 0, 100]]);
        assert_eq!(slices(9, 16), [[1, 9, 1], [3, 0, 5], [4, 0, 1]]);
        assert_eq!(slices(10, 12), [[3, 0, 2]]);
        assert_eq!(slices(115, 200), [[0; 3]; 0]);
        assert_eq!(slices(5, 5), [[0; 3]; 0]);
        assert_eq!((layout.range(0), layout.range(4), layout.entries()), ([0, 0], [15, 115], 5));
        assert!(!layout.push(u64::MAX));
    }
}
