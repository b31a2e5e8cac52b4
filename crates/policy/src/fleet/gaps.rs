//! How long a server that is not needed stays on: learned, for each level of demand apart.
//!
//! The n-th server is needed again after a gap. Switching it off after a time-out t costs its idle
//! power x min(gap, t), and a cycle where the gap is longer: the ski-rental problem. The break-even
//! time is never worse than twice the optimum, whatever comes (A. R. Karlin et al., "Competitive
//! snoopy caching", Algorithmica 3, 1988); what the past of the level would have made best of a row
//! of time-outs is better where the future is like the past. Demand by levels: T. Lu, M. Chen,
//! L. L. H. Andrew, "Simple and effective dynamic provisioning for power-proportional data centers",
//! IEEE TPDS 24(6), 2013.

use serde::{Deserialize, Serialize};

/// Time-outs on trial.
const TRIALS: usize = 21;
/// A level forgets: each gap counts this much less than the next one.
const KEPT: f32 = 0.99;
/// Gaps of all levels count as this many of a level that has seen none.
const SHARED: f32 = 2.0;

/// More than any cost: a gap costs 33 at most, and all before it a hundred times as much.
const MOST: f32 = 1e4;

/// Time-outs in break-even times: powers of the root of two, from 1/32 to 32.
fn trial(index: usize) -> f32 {
    2.0_f32.powf(0.5 * (index as f32 - 10.0))
}

/// What each time-out would have cost, in break-even times of idling.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Costs {
    of: [f32; TRIALS],
    gaps: f32,
}

impl Costs {
    /// Can this have come of gaps?
    pub(super) fn is_sound(&self) -> bool {
        self.of.iter().chain([&self.gaps]).all(|it| (0.0..MOST).contains(it))
    }

    fn add(&mut self, gap: f32) {
        for (index, cost) in self.of.iter_mut().enumerate() {
            let out = trial(index);
            *cost = *cost * KEPT + if gap <= out { gap } else { out + 1.0 };
        }
        self.gaps = self.gaps * KEPT + 1.0;
    }
}

#[derive(Debug, Clone, Copy)]
struct Level {
    /// Since when it is not needed.
    since: u64,
    break_even: f64,
    time_out: u64,
    /// What a start saves, since the server draws nothing meanwhile, as a share of the cycle's cost.
    start_saves: f64,
    costs: Costs,
}

/// Gaps of each level, in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Gaps {
    levels: Vec<Level>,
    all: Costs,
}

impl Gaps {
    /// Levels 1, 2, ... with these break-even times (infinite where switching off never pays) and
    /// times to start, in nanoseconds.
    pub(super) fn new(levels: impl Iterator<Item = (f64, f64)>) -> Self {
        let level = |(break_even, start): (f64, f64)| Level {
            since: 0,
            break_even,
            // Saturates: never.
            time_out: break_even as u64,
            start_saves: if break_even > 0.0 { (start / break_even).min(1.0) } else { 0.0 },
            costs: Costs::default(),
        };
        Self { levels: levels.map(level).collect(), all: Costs::default() }
    }

    /// From now on the level is not needed.
    #[inline]
    pub(super) fn begins(&mut self, level: u32, at: u64) {
        if let Some(level) = self.levels.get_mut(level as usize - 1) {
            level.since = at;
        }
    }

    /// The level is needed again. Gaps that no time-out on trial would have used teach nothing.
    #[inline]
    pub(super) fn ends(&mut self, level: u32, at: u64) {
        if let Some(it) = self.levels.get(level as usize - 1) {
            let gap = at.saturating_sub(it.since) as f64;
            if gap > it.break_even * f64::from(trial(0)) && it.break_even > 0.0 {
                self.learn(level, gap / it.break_even);
            }
        }
    }

    #[cold]
    fn learn(&mut self, level: u32, gap: f64) {
        self.all.add(gap as f32);
        let level = &mut self.levels[level as usize - 1];
        level.costs.add(gap as f32);
        level.time_out = best(level, &self.all);
    }

    /// When the server of this level, not needed since it began to be so, is to go off.
    ///
    /// Whom a start makes wait counts in full with a `tolerance` of 0, and not at all with 1: then what
    /// it saves makes the cycle cheaper, and the time-out shorter by as much.
    #[inline]
    pub(super) fn due(&self, level: u32, tolerance: f64) -> u64 {
        let level = &self.levels[level as usize - 1];
        let time_out = level.time_out as f64 * (1.0 - tolerance * level.start_saves);
        level.since.saturating_add(time_out as u64)
    }

    /// What was learned.
    pub(super) fn lessons(&self) -> (Vec<Costs>, Costs) {
        (self.levels.iter().map(|level| level.costs).collect(), self.all)
    }

    /// Goes on with it.
    pub(super) fn resume(&mut self, levels: &[Costs], all: Costs) {
        self.all = all;
        for (level, costs) in self.levels.iter_mut().zip(levels) {
            level.costs = *costs;
        }
        for level in &mut self.levels {
            level.time_out = best(level, &all);
        }
    }
}

/// The time-out that would have cost least; the break-even time among equals.
fn best(level: &Level, all: &Costs) -> u64 {
    let shared = if all.gaps > 0.0 { SHARED / all.gaps } else { 0.0 };
    let cost = |index: &usize| level.costs.of[*index] + shared * all.of[*index];
    let middle = TRIALS / 2;
    let by_distance = |index: &usize| index.abs_diff(middle);
    let best = (0..TRIALS)
        .min_by(|a, b| cost(a).total_cmp(&cost(b)).then(by_distance(a).cmp(&by_distance(b))))
        .unwrap_or(middle);
    (level.break_even * f64::from(trial(best))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// One level with a break-even time of 10 s, after gaps of this many seconds.
    fn time_out_after(gaps: &[u64]) -> f64 {
        let mut learned = Gaps::new([(10e9, 5e9)].into_iter());
        let mut now = 0;
        for gap in gaps {
            learned.begins(1, now);
            now += gap * SECOND;
            learned.ends(1, now);
        }
        learned.begins(1, now);
        (learned.due(1, 0.0) - now) as f64 / 1e9
    }

    #[test]
    fn who_knows_nothing_waits_for_the_break_even_time() {
        assert!((time_out_after(&[]) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn who_may_let_people_wait_counts_what_a_start_saves() {
        // 10 s to break even, of which 5 s of starting are none of idling.
        let gaps = Gaps::new([(10e9, 5e9), (10e9, 60e9)].into_iter());
        assert_eq!([0.0, 0.5, 1.0].map(|it| gaps.due(1, it) / SECOND), [10, 7, 5]);
        assert_eq!(gaps.due(2, 1.0), 0);
    }

    #[test]
    fn gaps_that_are_all_short_are_waited_out_and_long_ones_slept_through() {
        // 17 s is above the break-even time, so going off at once would be cheaper still: but a
        // gap of 5 s is cheaper to wait out.
        assert!(time_out_after(&[5; 20]) > 5.0);
        assert!(time_out_after(&[3000; 20]) < 1.0);
        // Mostly a few seconds, or else an hour: just above the few seconds.
        let mixed = time_out_after(&[4, 4, 4, 3600, 4, 4, 4, 3600, 4, 4, 4, 3600]);
        assert!((4.0..8.0).contains(&mixed), "{mixed}");
    }

    #[test]
    fn where_switching_is_free_nobody_waits_and_where_off_saves_nothing_nobody_goes() {
        let mut gaps = Gaps::new([(0.0, 1.0), (f64::INFINITY, 1.0)].into_iter());
        gaps.begins(1, 5);
        gaps.begins(2, 5);
        gaps.ends(1, SECOND);
        gaps.begins(1, SECOND);
        assert_eq!((gaps.due(1, 0.5), gaps.due(2, 0.5)), (SECOND, u64::MAX));
    }
}
