//! Aligns the samples of a DAQ log with the clock of the machine, through toggles of a line.
//!
//! The generator toggles a line about once a second, at intervals that a seed makes irregular
//! ([`SyncPlan`]), and records a time stamp with each toggle. One channel of the DAQ records the
//! line ([`find_edges`]). The pattern of intervals says which edge belongs to which stamp
//! (`matching`), whatever the offset between the two and whichever toggles either side has missed.
//! Each pair pins a position in the log to a time (`pins`); a pin that its neighbours contradict is
//! thrown out. Samples between two pins are interpolated. Those before the first and after the last
//! pin, and between pins too far apart, are unsynchronised: no time is claimed for them.
//!
//! The level at the start of the log is no toggle, and consumes no stamp.
//!
//! What this cannot see: a delay that is the same for every toggle, between the line and its stamp
//! (beyond what [`SyncRule::bias`] allows for); and that the DAQ has lost a sample or two, which looks like its own sampling.

mod drift;
mod edges;
mod matching;
mod pins;
mod plan;

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

pub use self::drift::Drift;
pub use self::edges::{Edge, EdgeDetector, Hysteresis, LevelHistogram, LevelRange, find_edges};
pub use self::plan::SyncPlan;
use nightwatt_energy::time::Mono;

/// What is known of clock and line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SyncRule {
    /// Nominal sample rate of the DAQ, in Hz.
    pub rate: f64,
    /// How far its true rate may be off, in parts per million.
    pub drift_ppm: f64,
    /// By how much the drift may change in a minute or so, in parts per million. It decides over
    /// how long a time without toggles samples may be interpolated.
    pub wander_ppm: f64,
    /// A stamp that is later or earlier than this against its neighbours is taken as missing.
    pub jitter: Duration,
    /// By how much all stamps may be late or early together, which their neighbours cannot tell: half
    /// the time that driving the line took, the rise time of the line. It counts against the sample
    /// that is promised.
    pub bias: Duration,
}

impl SyncRule {
    /// For a DAQ with an ordinary quartz: within 500 ppm, changing by 10 ppm; stamps within 5 ms of
    /// their neighbours, and not late together.
    pub const fn new(rate: f64) -> Self {
        let (jitter, bias) = (Duration::from_millis(5), Duration::ZERO);
        Self { rate, drift_ppm: 500.0, wander_ppm: 10.0, jitter, bias }
    }

    /// Between two pins, a drift that changes by `wander` half-way bends the line by at most a
    /// quarter of `wander x span`: a quarter of a sample is allowed for that.
    fn longest_span(&self) -> f64 {
        1.0 / (self.wander_ppm * 1e-6 * self.rate)
    }
}

/// Why samples could not be synchronised.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SyncError {
    /// The channel has no two levels.
    #[error(
        "the sync channel does not toggle: it stays within {span} of its unit; check the wiring, \
         the channel number, and that the generator ran while the DAQ did"
    )]
    Flat {
        /// Largest less smallest level.
        span: f64,
    },
    /// A rate, a drift or a jitter that is not above zero.
    #[error(
        "the sample rate, drift, wander and jitter must be above zero; give the DAQ's rate in Hz"
    )]
    BadRule,
    /// Edges not in order.
    #[error("edge {edge} does not lie behind the one before; take the edges of one log, in order")]
    EdgesNotAscending {
        /// Counted from 0.
        edge: usize,
    },
    /// Stamps not in order.
    #[error(
        "time stamp {stamp} is not later than the one before; use one recording of the generator"
    )]
    StampsNotAscending {
        /// Counted from 0.
        stamp: usize,
    },
    /// The intervals are too much alike.
    #[error(
        "the toggles come at intervals too regular to tell them apart; generate the signal with \
         `nightwatt calibrate sync generate`, whose intervals are irregular"
    )]
    TooRegular,
    /// Too few toggles on one side.
    #[error(
        "{edges} edges and {stamps} time stamps are too few: {needed} of each are needed for a sure \
         match; record for longer"
    )]
    TooFew {
        /// Edges in the log.
        edges: usize,
        /// Stamps.
        stamps: usize,
        /// Toggles in a row that make chance unlikely.
        needed: usize,
    },
    /// The patterns do not agree anywhere.
    #[error(
        "no stretch of the log matches the time stamps; check that log and stamps are of the same \
         run, and that the sample rate is {rate} Hz within {drift_ppm} ppm"
    )]
    NoMatch {
        /// Nominal rate, in Hz.
        rate: f64,
        /// Allowed drift.
        drift_ppm: f64,
    },
}

/// A position in the log at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pin {
    /// Position in samples: `n` is where sample `n` was taken; toggles fall between samples.
    pub position: f64,
    /// The generator's time stamp.
    pub time: Mono,
}

/// A synchronised stretch between two pins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Span {
    /// Its first pin.
    pub from: Pin,
    /// Its last pin.
    pub to: Pin,
    /// By how much the DAQ sampled faster than its nominal rate, in parts per million. Over one
    /// second at 1 kHz a pin that is off by half a sample already makes 500 ppm.
    pub drift_ppm: f64,
}

impl Span {
    /// When the sample at a position was taken that does not lie behind the span.
    fn place(&self, position: f64) -> Placement {
        let share = (position - self.from.position) / (self.to.position - self.from.position);
        if share < 0.0 {
            return Placement::Unsynchronised;
        }
        let time = self.to.time.since(self.from.time).mul_f64(share);
        Placement::At(self.from.time + time)
    }
}

/// What went wrong with a toggle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Fault {
    /// The generator toggled, the DAQ has no edge.
    Missed {
        /// When.
        time: Mono,
    },
    /// The DAQ has an edge close to another one: a glitch.
    Doubled {
        /// Where, in samples.
        position: f64,
    },
    /// The DAQ has an edge that stands alone, and no stamp was recorded.
    NoStamp {
        /// Where, in samples.
        position: f64,
    },
    /// Edge and stamp belong together, but their neighbours contradict them: the stamp was taken
    /// late, or the edge is uncertain. They pin nothing.
    Contradicted {
        /// The stamp.
        time: Mono,
        /// How far the edge lies behind where its neighbours expect it, in samples.
        behind: f64,
    },
    /// Edge and stamp agree, but next to them nothing does: they may do so by chance. They pin nothing.
    Unconfirmed {
        /// The stamp.
        time: Mono,
    },
    /// Two pins between which the DAQ lost samples, or the clock was stepped: between them nothing
    /// is synchronised.
    Step {
        /// The earlier pin.
        time: Mono,
        /// Samples more than expected.
        samples: f64,
    },
}

/// When a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// At this time, within one sample.
    At(Mono),
    /// Not known.
    Unsynchronised,
}

/// A log aligned with a clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alignment {
    /// What is synchronised, in order, without overlap.
    pub spans: Vec<Span>,
    /// Toggles that did not serve, in order of kind, then time.
    pub faults: Vec<Fault>,
    /// How far toggles scatter about their neighbours, in samples (median of standard deviations):
    /// 0.29 where the DAQ's own sampling is all. Beyond 0.6 nothing is claimed: the stamps are too
    /// coarse for so fast a DAQ.
    pub scatter: f64,
}

impl Alignment {
    /// When sample `sample` was taken.
    pub fn place(&self, sample: u64) -> Placement {
        let position = sample as f64;
        let index = self.spans.partition_point(|span| span.to.position < position);
        self.spans.get(index).map_or(Placement::Unsynchronised, |span| span.place(position))
    }

    /// When each of these samples was taken: quicker than asking one by one.
    pub fn placements(&self, samples: Range<u64>) -> impl Iterator<Item = Placement> + '_ {
        let mut spans = self.spans.iter().peekable();
        samples.map(move |sample| {
            let position = sample as f64;
            while spans.next_if(|span| span.to.position < position).is_some() {}
            spans.peek().map_or(Placement::Unsynchronised, |span| span.place(position))
        })
    }

    /// How many toggles pin a sample.
    pub fn pins(&self) -> usize {
        let joined = self.spans.windows(2).filter(|pair| pair[0].to == pair[1].from).count();
        2 * self.spans.len() - joined
    }

    /// How many samples are synchronised.
    pub fn synchronised(&self) -> f64 {
        self.spans.iter().map(|span| span.to.position - span.from.position).sum()
    }
}

/// Aligns the edges of a log with the time stamps of the generator.
///
/// Linear in edges and stamps, but for sorting.
pub fn align(edges: &[Edge], stamps: &[Mono], rule: &SyncRule) -> Result<Alignment, SyncError> {
    check(edges, stamps, rule)?;
    let origin = stamps.first().copied().unwrap_or_default();
    let toggles = Toggles {
        positions: edges.iter().map(|edge| edge.position).collect(),
        times: stamps.iter().map(|stamp| stamp.since(origin).as_secs_f64()).collect(),
    };
    let runs = matching::runs(&toggles, rule)?;
    let mut alignment = Alignment { spans: Vec::new(), faults: Vec::new(), scatter: f64::NAN };
    let mut scatters = Vec::new();
    let mut used = Used { edges: vec![false; edges.len()], stamps: vec![false; stamps.len()] };
    for run in &runs {
        let pinned = pins::pin(run, &toggles, rule);
        for pin in &pinned {
            (used.edges[pin.edge], used.stamps[pin.stamp]) = (true, true);
        }
        scatters.extend(pinned.iter().map(|pin| pin.scatter).filter(|scatter| scatter.is_finite()));
        alignment.connect(&pinned, &toggles, stamps, rule);
    }
    alignment.scatter = median(scatters);
    used.report(&toggles, stamps, &mut alignment);
    Ok(alignment)
}

fn check(edges: &[Edge], stamps: &[Mono], rule: &SyncRule) -> Result<(), SyncError> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    let figures = [rule.rate, rule.drift_ppm, rule.wander_ppm];
    if !figures.into_iter().all(usable) || rule.jitter.is_zero() || rule.drift_ppm > 1e4 {
        return Err(SyncError::BadRule);
    }
    // Written so that one that is not a number is not in order.
    let ordered = |pair: &[Edge]| pair[0].position < pair[1].position;
    if let Some(pair) = edges.windows(2).position(|pair| !ordered(pair)) {
        return Err(SyncError::EdgesNotAscending { edge: pair + 1 });
    }
    if let Some(pair) = stamps.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(SyncError::StampsNotAscending { stamp: pair + 1 });
    }
    Ok(())
}

/// The upper of the two middle values where there are two; `NaN` of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Both sides of the signal, as plain numbers.
struct Toggles {
    /// Of edges, in samples.
    positions: Vec<f64>,
    /// Of stamps, in seconds from the first.
    times: Vec<f64>,
}

/// Which edges and stamps have found each other.
struct Used {
    edges: Vec<bool>,
    stamps: Vec<bool>,
}

impl Used {
    /// Names those that did not, as far as the log is matched.
    fn report(&self, toggles: &Toggles, stamps: &[Mono], alignment: &mut Alignment) {
        let inside = |used: &[bool]| {
            let first = used.iter().position(|&used| used).unwrap_or(used.len());
            let last = used.iter().rposition(|&used| used).unwrap_or(first);
            let unused: Vec<usize> = (first..last).filter(|&index| !used[index]).collect();
            unused
        };
        for stamp in inside(&self.stamps) {
            alignment.faults.push(Fault::Missed { time: stamps[stamp] });
        }
        // A toggle that has no stamp stands about as far from its neighbours as toggles do.
        let intervals = toggles.positions.windows(2).map(|pair| pair[1] - pair[0]);
        let close = 0.25 * median(intervals.collect());
        for edge in inside(&self.edges) {
            let position = toggles.positions[edge];
            let near = |other: usize| (toggles.positions[other] - position).abs() < close;
            alignment.faults.push(if near(edge - 1) || near(edge + 1) {
                Fault::Doubled { position }
            } else {
                Fault::NoStamp { position }
            });
        }
    }
}

impl Alignment {
    /// Makes spans of the good pins of one run.
    fn connect(
        &mut self,
        pinned: &[pins::Pinned],
        toggles: &Toggles,
        stamps: &[Mono],
        rule: &SyncRule,
    ) {
        // Of the whole run: a line near a step leans towards it.
        let rate = median(pinned.iter().map(|pin| pin.rate).collect());
        let mut before: Option<Pin> = None;
        for pin in pinned {
            let time = stamps[pin.stamp];
            if pin.unconfirmed {
                self.faults.push(Fault::Unconfirmed { time });
                continue;
            }
            if !pin.good {
                self.faults.push(Fault::Contradicted { time, behind: pin.behind });
                continue;
            }
            let pin = Pin { position: toggles.positions[pin.edge], time };
            if let Some(before) = before.replace(pin) {
                self.push_span(before, pin, rate, rule);
            }
        }
    }

    fn push_span(&mut self, from: Pin, to: Pin, rate: f64, rule: &SyncRule) {
        let seconds = to.time.since(from.time).as_secs_f64();
        let samples = to.position - from.position;
        if seconds > rule.longest_span() {
            return;
        }
        // The sampling of both pins makes one sample at most, stamps a little more; the rest is a
        // step between them.
        let surplus = samples - rate * seconds;
        if surplus.abs() > 1.2 + rule.wander_ppm * 1e-6 * rule.rate * seconds {
            self.faults.push(Fault::Step { time: from.time, samples: surplus });
            return;
        }
        let drift_ppm = (samples / (seconds * rule.rate) - 1.0) * 1e6;
        self.spans.push(Span { from, to, drift_ppm });
    }
}

#[cfg(test)]
mod acceptance;
#[cfg(test)]
mod tests;
