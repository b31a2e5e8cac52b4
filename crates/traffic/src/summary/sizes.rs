//! How large answers are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A histogram whose bins grow by a quarter of each power of two, so a value is known to 25 % at
/// worst; 0 to 7 bytes have a bin each. At most 252 bins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sizes {
    /// Sum of all sizes, in bytes.
    pub total: u64,
    /// Answers by bin; [`Sizes::bounds`] says which sizes a bin holds.
    pub bins: BTreeMap<u8, u64>,
}

impl Sizes {
    /// Counts an answer of this many bytes.
    pub fn add(&mut self, bytes: u64) {
        self.add_many(bin(bytes), 1, bytes);
    }

    /// Counts answers of one bin, and their bytes.
    pub(crate) fn add_many(&mut self, bin: u8, answers: u64, bytes: u64) {
        *self.bins.entry(bin).or_default() += answers;
        self.total = self.total.saturating_add(bytes);
    }

    /// Adds another's answers.
    pub fn merge(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        for (&bin, answers) in &other.bins {
            *self.bins.entry(bin).or_default() += answers;
        }
    }

    /// The smallest and the largest size in a bin.
    pub fn bounds(bin: u8) -> (u64, u64) {
        let first = |bin: u16| match (u32::from(bin) / 4, u64::from(bin % 4)) {
            (0 | 1, _) => u64::from(bin),
            (octave, quarter) if octave < 63 => (4 + quarter) << (octave - 1),
            _ => u64::MAX,
        };
        let (from, next) = (first(bin.into()), first(u16::from(bin) + 1));
        (from, if next == u64::MAX { next } else { next - 1 })
    }

    /// The size that a share of answers, 0 ..= 1, does not exceed: the upper bound of its bin.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.bins.values().sum();
        let rank = (share.clamp(0.0, 1.0) * all as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.bins.iter().find_map(|(&bin, answers)| {
            seen += answers;
            (seen >= rank).then(|| Self::bounds(bin).1)
        })
    }
}

/// The bin of a size: two bits behind the leading one.
pub(crate) const fn bin(bytes: u64) -> u8 {
    if bytes < 8 {
        return bytes as u8;
    }
    let top = bytes.ilog2();
    ((top - 1) * 4 + ((bytes >> (top - 2)) & 3) as u32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_lies_within_the_bounds_of_its_bin() {
        let powers = (0..64).map(|power| 1u64 << power);
        for size in
            powers.flat_map(|size| [size - 1, size, size + 1, size + size / 3]).chain([u64::MAX])
        {
            let (from, to) = Sizes::bounds(bin(size));
            assert!((from..=to).contains(&size), "{size}: {from} to {to}");
            assert!(to - from <= from / 4, "{from} to {to}");
        }
        assert_eq!(Sizes::bounds(bin(1000)), (896, 1023));
    }

    #[test]
    fn bins_follow_each_other_without_a_gap() {
        for bin in 0..=250 {
            assert_eq!(Sizes::bounds(bin).1 + 1, Sizes::bounds(bin + 1).0, "{bin}");
        }
    }

    #[test]
    fn quantiles_are_within_a_quarter() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.quantile(0.5), None);
        for size in 1..=10_000 {
            sizes.add(size);
        }
        assert_eq!(sizes.total, 50_005_000);
        let median = sizes.quantile(0.5).unwrap();
        assert!((5_000..6_250).contains(&median), "{median}");
        assert!(sizes.quantile(1.0).unwrap() >= 10_000);
    }
}
