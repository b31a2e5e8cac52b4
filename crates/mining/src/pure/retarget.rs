//! The rule by which the difficulty follows the network.

use num_bigint::BigUint;
use serde::{Deserialize, Serialize};

use super::{CompactBits, Exact, MiningError};

/// The target is adjusted after this many blocks, in proportion to the time that they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retarget {
    /// Blocks that share a target.
    pub blocks: u32,
    /// Pauses between blocks that are timed. Bitcoin times from the first block of an epoch to its
    /// last, which are 2015 of the 2016 that it holds against two weeks: an error of the first version
    /// that can no longer be undone.
    pub intervals: u32,
    /// By how much a target may change at most, up or down.
    pub clamp: u32,
    /// The easiest target that there may be.
    pub limit: CompactBits,
    /// Target time between two blocks, s.
    pub block_time_s: u32,
}

/// The time that a change of the target says its epoch took, s.
#[derive(Debug, Clone, PartialEq)]
pub enum ImpliedSpan {
    /// Between these; compact bits are cut, so that a target stands for a span of times.
    Between(Exact, Exact),
    /// So little that the change was bounded: not above this.
    AtMost(Exact),
    /// So much that the change was bounded: not below this.
    AtLeast(Exact),
    /// The target is the easiest one: the span was not below this.
    Easiest(Exact),
}

impl Retarget {
    /// Can it be?
    pub fn check(&self) -> Result<(), MiningError> {
        self.limit.target()?;
        if [self.blocks, self.intervals, self.clamp, self.block_time_s].contains(&0) {
            return Err(MiningError::Rules(
                "a retarget rule needs `blocks`, `intervals`, `clamp` and a block time above 0"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// What `blocks` blocks are to take, s: two weeks for Bitcoin.
    pub fn timespan(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_time_s)
    }

    /// The pause between blocks on which the rule settles, s: a little above what it is to be, for the
    /// time of `intervals` pauses is held against that of `blocks`.
    pub fn settles_at(&self) -> Exact {
        Exact::whole(self.timespan()) / Exact::whole(self.intervals)
    }

    /// The target after an epoch that began with a block of time `first` and ended with one of time
    /// `last`: seconds since 1970, as their headers have them (which need not rise).
    pub fn next(
        &self,
        bits: CompactBits,
        first: i64,
        last: i64,
    ) -> Result<CompactBits, MiningError> {
        self.check()?;
        let span = last.saturating_sub(first);
        let (timespan, clamp) = (self.timespan(), u64::from(self.clamp));
        let most = timespan.saturating_mul(clamp);
        let span = u64::try_from(span).unwrap_or(0).clamp(timespan / clamp, most);
        let next = bits.target()?.number() * BigUint::from(span) / BigUint::from(timespan);
        let limit = self.limit.target()?;
        if next > *limit.number() {
            return Ok(limit.compact());
        }
        if next == BigUint::ZERO {
            return Err(MiningError::Zero(CompactBits(0)));
        }
        Ok(super::Target::of(next).compact())
    }

    /// How long the epoch before a change of the target took, by this rule.
    pub fn implied_span(
        &self,
        before: CompactBits,
        after: CompactBits,
    ) -> Result<ImpliedSpan, MiningError> {
        self.check()?;
        let (old, new) = (before.target()?, after.target()?);
        let timespan = self.timespan();
        let span = |number: &BigUint| {
            Exact::whole(number * BigUint::from(timespan)) / Exact::whole(old.number().clone())
        };
        let (least, most) = (span(new.number()), span(new.next_compact().number()));
        let clamp = u64::from(self.clamp);
        let (shortest, longest) = (timespan / clamp, timespan.saturating_mul(clamp));
        Ok(if after == self.limit {
            ImpliedSpan::Easiest(least)
        } else if self.next(before, 0, i64::try_from(shortest).unwrap_or(0))? == after {
            ImpliedSpan::AtMost(most)
        } else if self.next(before, 0, i64::try_from(longest).unwrap_or(i64::MAX))? == after {
            ImpliedSpan::AtLeast(least)
        } else {
            ImpliedSpan::Between(least, most)
        })
    }
}
