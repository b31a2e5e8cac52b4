//! What meters have said of time that is not settled yet.

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;

/// How long the ledger waits for a meter's energy of a time; then that time is modelled, for good. Longer
/// than the checkpoint of meters that count by themselves (a minute), and short enough for an hour without a
/// meter to be marked as such.
pub const READING_TIMEOUT: Duration = Duration::from_mins(15);

/// No meter that says more than this is believed: it is more than any one machine can draw.
const MOST: Watts = Watts(100_000.0);

/// Measures kept at once; beyond it, the oldest is forgotten and its time modelled.
const MOST_MEASURES: usize = 4096;

/// Energy of a time, as a meter said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// The time begins.
    pub from: Mono,
    /// It ends.
    pub to: Mono,
    /// Energy.
    pub joules: Joules,
    /// How far that may be off, at 95 %.
    pub uncertainty: Joules,
}

impl Measure {
    /// Two parts, before and after a moment in it; energy is taken as spread evenly.
    fn split(self, at: Mono) -> (Self, Self) {
        let share = at.since(self.from).as_secs_f64() / self.to.since(self.from).as_secs_f64();
        let (joules, uncertainty) = (self.joules * share, self.uncertainty * share);
        let before = Self { to: at, joules, uncertainty, ..self };
        let after = Self {
            from: at,
            joules: self.joules - joules,
            uncertainty: self.uncertainty - uncertainty,
            ..self
        };
        (before, after)
    }

    /// Is it what a meter of one machine may say?
    fn is_plausible(&self) -> bool {
        let time = self.to.since(self.from);
        !time.is_zero()
            && time <= READING_TIMEOUT
            && self.joules.get() >= 0.0
            && self.joules <= MOST * time
            && self.uncertainty.get() >= 0.0
            && self.uncertainty.get().is_finite()
    }
}

/// Measures in order of time; none overlaps another.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    measures: VecDeque<Measure>,
    reaches: Mono,
}

impl Pending {
    /// Up to when the meter has spoken.
    pub(super) const fn reaches(&self) -> Mono {
        self.reaches
    }

    /// Takes a measure, less what of it lies before what was said already, or before `settled`. One
    /// that makes no sense is left out.
    pub(super) fn add(&mut self, measure: Measure, settled: Mono) {
        let known = self.reaches.max(settled);
        if !measure.is_plausible() || measure.to <= known {
            return;
        }
        let new = if measure.from < known { measure.split(known).1 } else { measure };
        self.reaches = new.to;
        if self.measures.len() >= MOST_MEASURES {
            self.measures.pop_front();
        }
        self.measures.push_back(new);
    }

    /// The first measure, as far as it lies before `to`.
    pub(super) fn next_until(&mut self, to: Mono) -> Option<Measure> {
        let first = self.measures.front_mut().filter(|first| first.from < to)?;
        if first.to <= to {
            return self.measures.pop_front();
        }
        let (before, after) = first.split(to);
        *first = after;
        Some(before)
    }
}
