//! A history by height against the rules: each difficulty from its compact bits, and each change from
//! the time that its epoch took.

use crate::pure::{Coin, CompactBits, Difficulty, Exact, ImpliedSpan, Retarget};
use serde::Serialize;

use super::Error;
use super::history::Moment;

/// How far the last block of an epoch may lie before the first of the next, as their headers have it,
/// s. Blocks are ten minutes apart in the mean and two hours in the worst case that was looked for; and
/// times of headers need not rise.
const UNDER_S: f64 = 7200.0;
/// How far it may lie after it, s.
const OVER_S: f64 = 1200.0;

/// The result of checking a history against a coin's rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleCheck {
    /// Epochs in the file.
    pub epochs: usize,
    /// Difficulties that follow from their bits to the last digit shown.
    pub difficulties: usize,
    /// Those that do not: height, as shown, ours.
    pub wrong_difficulties: Vec<(u64, String, String)>,
    /// Rewards that follow from their heights.
    pub rewards: usize,
    /// Heights of those that do not.
    pub wrong_rewards: Vec<u64>,
    /// Changes of the target whose epoch took as long as they say, but for the time from its last block
    /// to the first of the next, which the file does not have.
    pub within: usize,
    /// Those that do not.
    pub outside: Vec<RuleViolation>,
    /// Heights at which a change was bounded by the rule.
    pub bounded: Vec<u64>,
    /// Heights at which the target stayed, or became, the easiest one.
    pub easiest: Vec<u64>,
    /// Heights at which nothing can be said, since times were estimated.
    pub untimed: Vec<u64>,
    /// By how much the times of first blocks exceed those that the changes imply, s: the least.
    pub least_excess_s: Option<f64>,
    /// The most.
    pub most_excess_s: Option<f64>,
}

/// An epoch whose end contradicts the rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleViolation {
    /// Height at which the new target began.
    pub height: u64,
    /// What the change says that its epoch took, s.
    pub implied_s: f64,
    /// From its first block to the first of the next, s.
    pub between_first_blocks_s: i64,
}

/// Checks epochs against the rules of their coin; nothing where they have no bits or no such rules.
pub(super) fn check(epochs: &[Moment], coin: &Coin) -> Result<Option<RuleCheck>, Error> {
    let Some(retarget) = &coin.retarget else { return Ok(None) };
    if coin.difficulty != Difficulty::Target || epochs.iter().all(|epoch| epoch.bits.is_none()) {
        return Ok(None);
    }
    let mut check = RuleCheck {
        epochs: epochs.len(),
        difficulties: 0,
        wrong_difficulties: Vec::new(),
        rewards: 0,
        wrong_rewards: Vec::new(),
        within: 0,
        outside: Vec::new(),
        bounded: Vec::new(),
        easiest: Vec::new(),
        untimed: Vec::new(),
        least_excess_s: None,
        most_excess_s: None,
    };
    for epoch in epochs {
        check.figures(epoch, coin)?;
    }
    for pair in epochs.windows(2) {
        let (Some(old), Some(new)) = (pair[0].bits, pair[1].bits) else { continue };
        let (Some(first), Some(next)) = (pair[0].height, pair[1].height) else { continue };
        if pair.iter().any(|epoch| epoch.is_estimated) {
            check.untimed.push(next);
        } else if next - first == u64::from(retarget.blocks) {
            check.change(retarget, old, new, next, pair[1].time - pair[0].time)?;
        }
    }
    Ok(Some(check))
}

impl RuleCheck {
    /// Did everything follow?
    pub fn holds(&self) -> bool {
        self.wrong_difficulties.is_empty()
            && self.wrong_rewards.is_empty()
            && self.outside.is_empty()
    }

    fn figures(&mut self, epoch: &Moment, coin: &Coin) -> Result<(), Error> {
        let height = epoch.height.unwrap_or_default();
        if let (Some(bits), Some(shown)) = (epoch.bits, &epoch.shown) {
            let ours = coin.difficulty_of(bits)?;
            if agrees(&ours, shown) {
                self.difficulties += 1;
            } else {
                self.wrong_difficulties.push((height, shown.clone(), ours.to_f64().to_string()));
            }
        }
        if let (Some(theirs), Some(ours)) = (epoch.reward, coin.rewards.at(height)) {
            if (ours - theirs).abs() < 1e-9 {
                self.rewards += 1;
            } else {
                self.wrong_rewards.push(height);
            }
        }
        Ok(())
    }

    fn change(
        &mut self,
        retarget: &Retarget,
        old: CompactBits,
        new: CompactBits,
        height: u64,
        between: i64,
    ) -> Result<(), Error> {
        let (least, most) = match retarget.implied_span(old, new)? {
            ImpliedSpan::Between(least, most) => (least.to_f64(), most.to_f64()),
            ImpliedSpan::AtMost(_) | ImpliedSpan::AtLeast(_) => {
                self.bounded.push(height);
                return Ok(());
            }
            ImpliedSpan::Easiest(_) => {
                self.easiest.push(height);
                return Ok(());
            }
        };
        let difference = between as f64;
        // Compact bits stand for a span of times: some of it has to be right.
        if most > difference - UNDER_S && least <= difference + OVER_S {
            self.within += 1;
        } else {
            let outside =
                RuleViolation { height, implied_s: least, between_first_blocks_s: between };
            self.outside.push(outside);
        }
        let excess = difference - least;
        self.least_excess_s = Some(self.least_excess_s.map_or(excess, |it| it.min(excess)));
        self.most_excess_s = Some(self.most_excess_s.map_or(excess, |it| it.max(excess)));
        Ok(())
    }
}

/// To the last digit shown: of the number itself, or of the `f64` next to it, whose shortest digits most
/// files have.
fn agrees(ours: &Exact, shown: &str) -> bool {
    let places = shown.split_once('.').map_or(0, |(_, behind)| behind.len());
    let is_same = shown.parse::<f64>().is_ok_and(|it| it.to_bits() == ours.to_f64().to_bits());
    is_same || ours.decimal(places) == shown
}
