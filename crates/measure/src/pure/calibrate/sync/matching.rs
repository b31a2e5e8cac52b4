//! Finds which edge belongs to which time stamp, by the pattern of intervals.
//!
//! A stretch is found by trying pairs of equal intervals as a beginning and walking on from them; it is
//! accepted when so many toggles agree that chance is out of the question. It is then followed both ways
//! for as long as toggles keep agreeing; missing and surplus ones are stepped over. Where the track is lost
//! (the DAQ lost a block of samples), the search begins again behind it.

use super::{SyncError, SyncRule, Toggles};

/// The probability that is out of the question.
const CHANCE: f64 = 1e-6;
/// Toggles in a row that agree with none: the track is lost.
const LOST: usize = 8;
/// A toggle is compared with this many matched before it, because any one of them may be wrong.
const MEMORY: usize = 3;
/// Steps that a beginning may take for each pair it finds: stepping over toggles gives chance more
/// tries.
const STEPS_PER_PAIR: usize = 3;
/// Steps of the search, per toggle: beyond them the rest stays unmatched rather than unanswered.
const STEPS_PER_TOGGLE: usize = 2000;

/// After this many stamps in a row without an edge, a new stretch begins.
const BREAK: usize = 3;

/// Edge and stamp that belong together, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) edge: usize,
    pub(super) stamp: usize,
}

/// A stretch of pairs; both indices rise from pair to pair, and from run to run.
pub(super) struct Run {
    pub(super) pairs: Vec<Pair>,
    /// The track was lost before its first pair: both sides have toggles there that do not agree.
    pub(super) lost_before: bool,
    /// Likewise behind its last pair.
    pub(super) lost_after: bool,
}

impl Run {
    /// Walking on where the track is lost, a pair or two agree by chance. Those that stand apart, and
    /// are too few to be sure, are left out.
    fn trim(pairs: &mut Vec<Pair>, needed: usize) {
        let breaks = |pair: &[Pair]| pair[1].stamp.abs_diff(pair[0].stamp) > BREAK;
        while let Some(last) = pairs.windows(2).rposition(breaks)
            && pairs.len() - (last + 1) < needed
        {
            pairs.truncate(last + 1);
        }
    }
}

/// All stretches, in order.
pub(super) fn runs(toggles: &Toggles, rule: &SyncRule) -> Result<Vec<Run>, SyncError> {
    let (edges, stamps) = (toggles.positions.len(), toggles.times.len());
    let few = |needed| SyncError::TooFew { edges, stamps, needed };
    if edges < 2 || stamps < 2 {
        return Err(few(4));
    }
    let mut search = Search::new(toggles, rule)?;
    if edges.min(stamps) < search.needed {
        return Err(few(search.needed));
    }
    let mut found: Vec<Run> = Vec::new();
    let mut from = Pair { edge: 0, stamp: 0 };
    while let Some(seed) = search.seed(from) {
        let mut pairs = search.track.walk(seed, Direction::Backward, from, usize::MAX).0;
        Run::trim(&mut pairs, search.needed);
        pairs.reverse();
        pairs.pop();
        let mut forward = search.track.walk(seed, Direction::Forward, from, usize::MAX).0;
        Run::trim(&mut forward, search.needed);
        pairs.append(&mut forward);
        // A run holds the seed at least.
        let (first, last) = (pairs[0], pairs[pairs.len() - 1]);
        from = Pair { edge: last.edge + 1, stamp: last.stamp + 1 };
        let run = Run {
            pairs,
            lost_before: first.edge > 0 && first.stamp > 0,
            lost_after: from.edge < edges && from.stamp < stamps,
        };
        match found.last_mut() {
            Some(before) if search.track.is_same(before, &run) => {
                before.pairs.extend(run.pairs);
                before.lost_after = run.lost_after;
            }
            _ => found.push(run),
        }
    }
    if found.is_empty() {
        return Err(SyncError::NoMatch { rate: rule.rate, drift_ppm: rule.drift_ppm });
    }
    Ok(found)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// The next index, if it lies in `from .. end`.
    fn step(self, index: usize, from: usize, end: usize) -> Option<usize> {
        match self {
            Self::Forward => (index + 1 < end).then_some(index + 1),
            Self::Backward => (index > from).then(|| index - 1),
        }
    }
}

/// How times compare.
struct Track<'a> {
    toggles: &'a Toggles,
    rate: f64,
    drift: f64,
    tolerance: f64,
}

impl Track<'_> {
    /// By how many seconds a stamp comes later after a matched pair than its edge does, and how much
    /// of that may be.
    fn late(&self, since: Pair, pair: Pair) -> (f64, f64) {
        let times = &self.toggles.times;
        let stamps = (times[pair.stamp] - times[since.stamp]).abs();
        let positions = &self.toggles.positions;
        let edges = (positions[pair.edge] - positions[since.edge]).abs() / self.rate;
        (stamps - edges, self.tolerance + self.drift * edges)
    }

    /// Whether two runs are one: nothing was lost between them, but too many toggles in a row were
    /// missed or surplus.
    fn is_same(&self, run: &Run, next: &Run) -> bool {
        let (Some(&last), Some(&first)) = (run.pairs.last(), next.pairs.first()) else {
            return false;
        };
        let (late, allowed) = self.late(last, first);
        late.abs() <= allowed && allowed <= 2.0 * self.tolerance
    }

    /// Follows matched toggles from `seed` until the track is lost, `enough` are matched, or either
    /// side ends. Returns the pairs, the seed first, and how many steps it took.
    fn walk(
        &self,
        seed: Pair,
        direction: Direction,
        from: Pair,
        enough: usize,
    ) -> (Vec<Pair>, usize) {
        let (edges, stamps) = (self.toggles.positions.len(), self.toggles.times.len());
        let next_edge = |pair: Pair| direction.step(pair.edge, from.edge, edges);
        let next_stamp = |pair: Pair| direction.step(pair.stamp, from.stamp, stamps);
        let next = |pair: Pair| {
            let (edge, stamp) = next_edge(pair).zip(next_stamp(pair))?;
            Some(Pair { edge, stamp })
        };
        let mut pairs = vec![seed];
        let (mut lost, mut steps) = (0, 0);
        let mut at = next(seed);
        while let Some(pair) = at
            && lost < LOST
            && pairs.len() < enough
        {
            steps += 1;
            let recent = &pairs[pairs.len().saturating_sub(MEMORY)..];
            let agrees = |&since: &Pair| {
                let (late, allowed) = self.late(since, pair);
                late.abs() <= allowed
            };
            at = if recent.iter().any(agrees) {
                pairs.push(pair);
                lost = 0;
                next(pair)
            } else {
                lost += 1;
                // Who comes first has no partner.
                if self.late(pairs[pairs.len() - 1], pair).0 > 0.0 {
                    next_edge(pair).map(|edge| Pair { edge, ..pair })
                } else {
                    next_stamp(pair).map(|stamp| Pair { stamp, ..pair })
                }
            };
        }
        (pairs, steps)
    }
}

/// Looks for beginnings of runs.
struct Search<'a> {
    track: Track<'a>,
    /// Time between a stamp and the next, with the index of the former, ascending.
    intervals: Vec<(f64, usize)>,
    /// Toggles in a row that make chance unlikely.
    needed: usize,
    steps_left: usize,
}

impl<'a> Search<'a> {
    fn new(toggles: &'a Toggles, rule: &SyncRule) -> Result<Self, SyncError> {
        let (edges, stamps) = (toggles.positions.len(), toggles.times.len());
        let mut intervals: Vec<(f64, usize)> = toggles
            .times
            .windows(2)
            .enumerate()
            .map(|(index, pair)| (pair[1] - pair[0], index))
            .collect();
        intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Between the tenths at either end, so that pauses do not count as irregular.
        let tenth = intervals.len() / 10;
        let spread = intervals[intervals.len() - 1 - tenth].0 - intervals[tenth].0;
        let tolerance = rule.jitter.as_secs_f64() + 1.5 / rule.rate;
        // That a wrong edge agrees: the window's share of the spread, as often as one may try.
        let by_chance = STEPS_PER_PAIR as f64 * 2.0 * tolerance / spread;
        if by_chance.is_nan() || by_chance > 0.5 {
            return Err(SyncError::TooRegular);
        }
        let pairs = edges as f64 * stamps as f64;
        let needed = ((pairs / CHANCE).ln() / (1.0 / by_chance).ln()).ceil() as usize + 1;
        let drift = rule.drift_ppm * 1e-6;
        let track = Track { toggles, rate: rule.rate, drift, tolerance };
        Ok(Self { track, intervals, needed, steps_left: STEPS_PER_TOGGLE * (edges + stamps) })
    }

    /// The first edge at or behind `from` that begins a stretch, with its stamp.
    fn seed(&mut self, from: Pair) -> Option<Pair> {
        let positions = &self.track.toggles.positions;
        for edge in from.edge..positions.len().saturating_sub(1) {
            let interval = (positions[edge + 1] - positions[edge]) / self.track.rate;
            let allowed = self.track.tolerance + self.track.drift * interval;
            let start = self.intervals.partition_point(|pair| pair.0 < interval - allowed);
            for &(other, stamp) in &self.intervals[start..] {
                if other > interval + allowed || self.steps_left == 0 {
                    break;
                }
                if stamp < from.stamp {
                    continue;
                }
                let seed = Pair { edge, stamp };
                let (pairs, steps) = self.track.walk(seed, Direction::Forward, from, self.needed);
                self.steps_left = self.steps_left.saturating_sub(steps + 1);
                if pairs.len() >= self.needed && steps <= STEPS_PER_PAIR * pairs.len() {
                    return Some(seed);
                }
            }
        }
        None
    }
}
