//! Which pairs can be trusted: a straight line through the neighbours, robust against some that
//! cannot.
//!
//! A pair is off by up to half a sample, because the DAQ sees a toggle at its next sample, and by
//! however late the stamp was taken. The line through 16 pairs on either side knows better where
//! the edge belongs. Slope: median of the slopes between pairs half a window apart (H. Theil, *A
//! rank-invariant method of linear and polynomial regression analysis*, 1950, the incomplete
//! method); then ordinary least squares through those that lie close to it.

use super::matching::{Pair, Run};
use super::{SyncRule, Toggles};

/// Pairs on either side.
const NEIGHBOURS: usize = 16;
/// Pairs of a window.
const WINDOW: usize = 2 * NEIGHBOURS + 1;
/// Fewer pairs than this give no line worth the name.
const FEWEST: usize = 6;
/// Where pairs scatter about their line by more than this many samples (standard deviation), none
/// is good: the line itself is then too uncertain, and the closest pairs are close by chance.
const COARSE: f64 = 0.6;
/// A pin is good when its distance from the line, and how far the line itself may be off, stay within
/// this many samples together. Less than 1, to leave room for what the clock does between pins.
const GOOD: f64 = 0.95;
/// Standard errors of the line that count as how far it may be off: of the pairs of a day, chance
/// makes a few that are off by four.
const SURE: f64 = 4.0;
/// In this many seconds the drift changes by no more than [`SyncRule::wander_ppm`].
const WANDER_TIME: f64 = 60.0;
/// Where the track was lost, this many good pins in a row may be coincidence.
const BY_CHANCE: usize = 3;
/// Edges on either side of a matched one among which the nearest to the line is taken.
const CANDIDATES: usize = 3;

/// A pair, and what its neighbours say of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pinned {
    pub(super) edge: usize,
    pub(super) stamp: usize,
    /// How far the edge lies behind the line, in samples.
    pub(super) behind: f64,
    /// Slope of the line, in samples per second.
    pub(super) rate: f64,
    /// Standard deviation of pairs about the line, in samples.
    pub(super) scatter: f64,
    pub(super) good: bool,
    /// It would be good if it were not so near to where the track was lost.
    pub(super) unconfirmed: bool,
}

/// Judges every pair of a run.
pub(super) fn pin(whole: &Run, toggles: &Toggles, rule: &SyncRule) -> Vec<Pinned> {
    let mut run = whole.pairs.clone();
    choose_nearest(&mut run, toggles, rule);
    let mut scratch = Scratch::default();
    let good = GOOD - rule.bias.as_secs_f64() * rule.rate;
    let mut pinned: Vec<Pinned> = (0..run.len())
        .map(|index| {
            let Pair { edge, stamp } = run[index];
            let line = scratch.line(&run, index, toggles, rule);
            let Some(line) = line else {
                let (behind, rate, scatter) = (f64::NAN, rule.rate, f64::NAN);
                let (good, unconfirmed) = (false, false);
                return Pinned { edge, stamp, behind, rate, scatter, good, unconfirmed };
            };
            let close = line.at_zero.abs() + SURE * line.error + line.bend <= good;
            Pinned {
                edge,
                stamp,
                behind: -line.at_zero,
                rate: rule.rate + line.slope,
                scatter: line.scatter,
                good: close && line.scatter <= COARSE,
                unconfirmed: false,
            }
        })
        .collect();
    // A window may scatter little by chance, a whole run does not.
    let mut scatters: Vec<f64> =
        pinned.iter().map(|pin| pin.scatter).filter(|scatter| scatter.is_finite()).collect();
    if scatters.is_empty() || median(&mut scatters) > COARSE {
        for pin in &mut pinned {
            pin.good = false;
        }
    }
    if whole.lost_before {
        doubt(pinned.iter_mut());
    }
    if whole.lost_after {
        doubt(pinned.iter_mut().rev());
    }
    pinned
}

/// Takes back the first good pins: that a wrong pair lies within a sample of the line has a chance of
/// about one in a hundred, and a lost track gives it several tries.
fn doubt<'a>(pinned: impl Iterator<Item = &'a mut Pinned>) {
    for pin in pinned.filter(|pin| pin.good).take(BY_CHANCE) {
        (pin.good, pin.unconfirmed) = (false, true);
    }
}

/// Where a glitch has put several edges near one stamp, takes the one nearest to the line.
fn choose_nearest(run: &mut [Pair], toggles: &Toggles, rule: &SyncRule) {
    let mut scratch = Scratch::default();
    let before = run.to_vec();
    for (index, &Pair { edge, .. }) in before.iter().enumerate() {
        let Some(line) = scratch.line(&before, index, toggles, rule) else { continue };
        let expected = toggles.positions[edge] + line.at_zero;
        // Edges stay in order, and no stamp takes the edge of another one.
        let first = if index == 0 { 0 } else { run[index - 1].edge + 1 };
        let end = before.get(index + 1).map_or(toggles.positions.len(), |next| next.edge);
        let near = first.max(edge.saturating_sub(CANDIDATES))..end.min(edge + CANDIDATES + 1);
        let distance = |edge: &usize| (toggles.positions[*edge] - expected).abs();
        let nearest = near.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        run[index].edge = nearest.unwrap_or(edge);
    }
}

/// A line through the neighbours of a pair, seen from that pair.
struct Line {
    /// Where it expects the edge, in samples from where the edge is.
    at_zero: f64,
    /// Samples per second beyond the nominal rate.
    slope: f64,
    /// Standard error of `at_zero`.
    error: f64,
    /// How far a clock that changes its rate may put the line off, in samples.
    bend: f64,
    /// Standard deviation of the pairs that it goes through.
    scatter: f64,
}

/// Buffers, since a day has 86,400 windows.
#[derive(Default)]
struct Scratch {
    points: Vec<(f64, f64)>,
    values: Vec<f64>,
}

impl Scratch {
    fn line(
        &mut self,
        run: &[Pair],
        index: usize,
        toggles: &Toggles,
        rule: &SyncRule,
    ) -> Option<Line> {
        let Pair { edge, stamp } = run[index];
        let (position, time) = (toggles.positions[edge], toggles.times[stamp]);
        // At the ends of a run the window keeps its width, and lies to one side.
        let first = index.saturating_sub(NEIGHBOURS).min(run.len().saturating_sub(WINDOW));
        let window = &run[first..(first + WINDOW).min(run.len())];
        self.points.clear();
        self.points.extend(window.iter().map(|&Pair { edge, stamp }| {
            let seconds = toggles.times[stamp] - time;
            (seconds, toggles.positions[edge] - position - rule.rate * seconds)
        }));
        if self.points.len() < FEWEST {
            return None;
        }
        let slope = self.theil_slope();
        let level = self.median(|(x, y)| y - slope * x);
        let spread = self.median(|(x, y)| (y - slope * x - level).abs());
        // 1.4826 x median absolute deviation estimates the standard deviation of normal noise; the half
        // sample of the DAQ is no reason to exclude a point.
        let near = (3.0 * 1.4826 * spread).max(0.6);
        self.points.retain(|(x, y)| (y - slope * x - level).abs() <= near);
        // A rate that changes bends the line: half the change per second times seconds squared.
        let change = rule.wander_ppm * 1e-6 * rule.rate / WANDER_TIME;
        if self.points.len() < FEWEST { None } else { least_squares(&self.points, change) }
    }

    fn theil_slope(&mut self) -> f64 {
        let half = self.points.len() / 2;
        let pairs = self.points.iter().zip(&self.points[self.points.len() - half..]);
        self.values.clear();
        self.values.extend(pairs.map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)));
        median(&mut self.values)
    }

    fn median(&mut self, of: impl Fn((f64, f64)) -> f64) -> f64 {
        self.values.clear();
        self.values.extend(self.points.iter().map(|&point| of(point)));
        median(&mut self.values)
    }
}

/// The upper of the two middle values where there are two; there is at least one.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// A line by least squares, and its standard error at zero (Draper and Smith, 1.4), for a clock whose
/// rate changes by `change` samples per second each second at most.
fn least_squares(points: &[(f64, f64)], change: f64) -> Option<Line> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sxx: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    let squares: f64 =
        points.iter().map(|point| (point.1 - y - slope * (point.0 - x)).powi(2)).sum();
    let variance = squares / (count - 2.0);
    let error = (variance * (1.0 / count + x * x / sxx)).sqrt();
    // Of a parabola, at zero, the line through it is off by the mean of its values at most.
    let bend = 0.5 * change * (sxx / count + x * x);
    Some(Line { at_zero: y - slope * x, slope, error, bend, scatter: variance.sqrt() })
}
