//! Which bytes of a stream have been seen, and which are still missing.

/// More holes than this at once are not remembered; the lowest is given up.
const MOST: usize = 512;

/// A 32-bit sequence number as the nearest place to `near` on an endless line.
pub(crate) fn unwrap(number: u32, near: i64) -> i64 {
    near + i64::from(number.wrapping_sub(near as u32).cast_signed())
}

/// Bytes that were jumped over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// When what follows it was captured, ns.
    pub(crate) opened_ns: i64,
    /// Of what follows it.
    pub(crate) order: SendOrder,
}

/// What shows in which order packets were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SendOrder {
    /// The timestamp option (RFC 7323).
    pub(crate) stamp: Option<u32>,
    /// IPv4's identification, if those of its sender grow.
    pub(crate) id: Option<u16>,
}

impl SendOrder {
    /// By timestamps, and where these are equal by identifications; `None` if neither shows it.
    pub(crate) fn is_before(self, other: Self) -> Option<bool> {
        if let (Some(own), Some(other)) = (self.stamp, other.stamp)
            && own != other
        {
            return Some(own.wrapping_sub(other).cast_signed() < 0);
        }
        let (own, other) = self.id.zip(other.id)?;
        Some(own.wrapping_sub(other).cast_signed() < 0)
    }
}

/// All of one direction, in order.
#[derive(Debug, Default)]
pub(crate) struct Holes(Vec<Hole>);

impl Holes {
    /// Something came, and what was to be before it did not. How much had to be given up for that.
    pub(crate) fn open(&mut self, hole: Hole) -> u64 {
        self.0.push(hole);
        if self.0.len() <= MOST {
            return 0;
        }
        let lost = self.0.remove(0);
        (lost.to - lost.from) as u64
    }

    /// What comes now lies in `from..to`: how many bytes of it were missing, and the first hole hit.
    pub(crate) fn fill(&mut self, from: i64, to: i64) -> (u64, Option<Hole>) {
        let start = self.0.partition_point(|hole| hole.to <= from);
        let (mut filled, mut first, mut at) = (0, None, start);
        while let Some(&hole) = self.0.get(at).filter(|hole| hole.from < to) {
            first = first.or(Some(hole));
            filled += (hole.to.min(to) - hole.from.max(from)) as u64;
            let before = (hole.from < from).then_some(Hole { to: from, ..hole });
            let after = (hole.to > to).then_some(Hole { from: to, ..hole });
            let left = before.into_iter().chain(after);
            let count = usize::from(before.is_some()) + usize::from(after.is_some());
            self.0.splice(at..=at, left);
            at += count;
        }
        (filled, first)
    }

    /// All below has come, as the receiver says: how much of it was never captured.
    pub(crate) fn acknowledged(&mut self, to: i64) -> u64 {
        let mut missed = 0;
        while let Some(hole) = self.0.first_mut().filter(|hole| hole.from < to) {
            missed += (hole.to.min(to) - hole.from) as u64;
            if hole.to > to {
                hole.from = to;
                break;
            }
            self.0.remove(0);
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(from: i64, to: i64) -> Hole {
        Hole { from, to, opened_ns: 0, order: SendOrder::default() }
    }

    #[test]
    fn numbers_go_on_after_the_largest() {
        let line = i64::from(u32::MAX) - 9;
        assert_eq!(unwrap(5, line), i64::from(u32::MAX) + 6);
        assert_eq!(unwrap(u32::MAX, 3), -1);
        assert_eq!(unwrap(7, 7), 7);
    }

    #[test]
    fn what_fills_the_middle_leaves_both_ends() {
        let mut holes = Holes::default();
        assert_eq!(holes.open(hole(10, 40)), 0);
        assert_eq!(holes.fill(20, 30), (10, Some(hole(10, 40))));
        assert_eq!(holes.0, [hole(10, 20), hole(30, 40)]);
        assert_eq!(holes.fill(0, 35).0, 15);
        assert_eq!(holes.0, [hole(35, 40)]);
        assert_eq!(holes.fill(0, 35), (0, None));
        assert_eq!(holes.acknowledged(37), 2);
        assert_eq!(holes.acknowledged(99), 3);
        assert_eq!(holes.acknowledged(99), 0);
    }

    #[test]
    fn holes_that_are_too_many_are_given_up_and_counted() {
        let mut holes = Holes::default();
        let lost: u64 = (0..600).map(|n| holes.open(hole(n * 10, n * 10 + 3))).sum();
        assert_eq!((lost, holes.0.len()), (3 * (600 - MOST as u64), MOST));
    }
}
