//! From readings of a meter to energy: the one place where power is integrated.
//!
//! * **Counters**: the difference of two readings ([`crate::wrapping_counter`]), which covers the time between. Many
//!   counters go in steps (an accelerator's every 100 ms, a plug's every watt hour). While one shows what it
//!   showed before, nothing is added: the next step covers the time since the last.
//! * **Power at a moment**: the trapezoid between two readings, `(P1 + P2) / 2 x (t2 - t1)`.
//! * **Mean power over a time**: `mean x time`, never a trapezoid: the mean is the integral already.
//!
//! Where nothing is known (the meter stalled, a counter was reset, the host slept) there is a gap: it
//! adds no energy, and its time is not covered.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{Joules, Watts};
use crate::time::Mono;
use crate::wrapping_counter::{Counted, Counter, CounterSpec, Loss};

/// One reading of a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// What an energy counter shows, in its counts.
    Counter(u64),
    /// Power at this moment.
    Power(Watts),
    /// Mean power over the time before this moment.
    MeanPower {
        /// The mean.
        watts: Watts,
        /// Over that time.
        over: Duration,
    },
}

/// Why nothing is known of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// The meter said nothing for too long.
    Stalled,
    /// Its counter was read too late, and may have wrapped more than once.
    Wrapped,
    /// Its counter was reset.
    Reset,
    /// The host was suspended.
    Suspended,
}

/// What a reading adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Piece {
    /// Nothing yet, or nothing that lies in the window.
    Begins,
    /// Energy of the time before it.
    Covers {
        /// So much.
        joules: Joules,
        /// In that time, which ends with the reading.
        time: Duration,
    },
    /// A counter shows what it showed before: the energy of this time comes with its next step.
    Holds,
    /// Nothing is known of the time since the last reading.
    Gap(Gap),
    /// The reading is no later than the last one, or no number: it is left out.
    Ignored,
}

/// How one channel is to be integrated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackSpec {
    /// For channels that count.
    pub counter: Option<CounterSpec>,
    /// Two readings of power further apart have a gap between them.
    pub longest_gap: Duration,
}

/// Beyond a power station no reading is believed: a device that says so is broken, and one such
/// figure would bury all others.
const LARGEST: Watts = Watts(1e9);

/// A mean over a time is taken to reach back to the reading before it if that is no further away
/// than this many times its time: meters that report one mean after the other do so a little late.
pub const MEANS_TOUCH: f64 = 1.5;

/// A counter that goes in steps draws nothing when it holds for this many of its steps.
const STEPS: u32 = 4;

/// A counter without a step so far draws nothing when it holds for this time and this many readings.
const UNSEEN: (Duration, u32) = (Duration::from_secs(10), 10);

/// At the end, a counter without a step drew nothing if it was seen to hold for this time.
const STILL: Duration = Duration::from_secs(1);

/// How a counter goes that holds at times.
#[derive(Debug, Clone, Copy, Default)]
struct Steps {
    /// The time between the last two of its steps.
    apart: Option<Duration>,
    /// When it was seen to hold last, and how often since the last step.
    holds: Option<(Mono, u32)>,
}

impl Steps {
    /// Whether a counter that has not moved for `time` may still be between two steps.
    fn may_hold(&self, time: Duration) -> bool {
        let holds = self.holds.map_or(0, |(_, times)| times);
        match self.apart {
            Some(apart) => time <= apart * STEPS,
            None => time < UNSEEN.0 || holds < UNSEEN.1,
        }
    }

    const fn hold(&mut self, at: Mono) {
        let times = if let Some((_, times)) = self.holds { times } else { 0 };
        self.holds = Some((at, times.saturating_add(1)));
    }
}

/// Energy of one channel in a window of time, reading by reading.
#[derive(Debug, Clone)]
pub struct Track {
    spec: TrackSpec,
    counter: Option<Counter>,
    /// Nothing less is believed.
    least: Watts,
    /// Nothing outside of it counts.
    window: (Mono, Mono),
    /// The end of what is known.
    last: Option<(Mono, Watts)>,
    steps: Steps,
    /// When the last reading was that does not count any more, and why.
    interrupted: Option<(Mono, Gap)>,
    joules: Sum,
    totals: Totals,
}

/// The power that a reading tells; of a counter nothing.
const fn power(reading: Reading) -> Watts {
    match reading {
        Reading::Counter(_) => Watts::ZERO,
        Reading::Power(watts) | Reading::MeanPower { watts, .. } => watts,
    }
}

/// What a track has come to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Energy of the covered time.
    pub joules: Joules,
    /// Time of which the energy is known.
    pub covered: Duration,
    /// Readings taken.
    pub readings: u64,
    /// Readings left out: no numbers, none that can be true, or no later than the last.
    pub ignored: u64,
    /// Times of which nothing is known, between two readings.
    pub gaps: u64,
    /// Their sum.
    pub gap_time: Duration,
    /// Why the last of them came about.
    pub last_gap: Option<Gap>,
    /// Least and most power: of the readings where they are of a moment, else of the covered
    /// stretches. `None` before the first.
    pub span: Option<(Watts, Watts)>,
}

impl Totals {
    /// Mean power of the covered time.
    pub fn mean_power(&self) -> Option<Watts> {
        (!self.covered.is_zero()).then(|| self.joules / self.covered)
    }
}

impl Track {
    /// Counts from `begins` on. Of what a reading says of the time before, nothing counts.
    pub fn new(spec: TrackSpec, begins: Mono) -> Self {
        Self {
            spec,
            counter: spec.counter.map(Counter::new),
            least: -LARGEST,
            window: (begins, Mono::NEVER),
            last: None,
            steps: Steps::default(),
            interrupted: None,
            joules: Sum::default(),
            totals: Totals::default(),
        }
    }

    /// Leaves out readings of less power than this: a whole machine does not draw less than nothing.
    #[must_use]
    pub const fn at_least(self, least: Watts) -> Self {
        Self { least, ..self }
    }

    /// What it has come to so far.
    pub fn totals(&self) -> Totals {
        Totals { joules: Joules(self.joules.value()), ..self.totals }
    }

    /// Counts from here on, and forgets what was counted before.
    pub fn begin(&mut self, begins: Mono) {
        self.window.0 = begins;
        self.joules = Sum::default();
        self.totals = Totals::default();
    }

    /// Counts to `ends`: of what later readings say, the part before it counts.
    pub const fn end(&mut self, ends: Mono) {
        self.window.1 = ends;
    }

    /// It is over: what was not said up to the end of the window is a gap.
    pub fn close(&mut self) {
        let (_, ends) = self.window;
        // What came after the last step is less than one: it is neither covered nor a gap.
        if let (Some((held, _)), Some((last, _))) = (self.steps.holds.take(), self.last) {
            let time = held.min(ends).since(last.max(self.window.0));
            if self.steps.apart.is_none() && time >= STILL {
                self.totals.covered += time;
                self.note_power(Watts::ZERO);
            }
            self.last = Some((held, Watts::ZERO));
        }
        let open = match (self.last, self.interrupted) {
            (Some((last, _)), _) => Some((last, Gap::Stalled)),
            (None, interrupted) => interrupted,
        };
        if let Some((last, why)) = open.filter(|_| ends != Mono::NEVER) {
            self.note_gap(last, ends, why);
        }
    }

    /// Starts again with the next reading: the host was suspended, say.
    pub fn interrupt(&mut self, why: Gap) {
        if let Some((last, _)) = self.last.take() {
            self.interrupted = Some((last, why));
        }
        self.steps.holds = None;
        if let Some(counter) = &mut self.counter {
            counter.forget();
        }
    }

    /// Takes a reading.
    pub fn add(&mut self, at: Mono, reading: Reading) -> Piece {
        if self.is_late(at) || !self.is_plausible(reading) {
            self.totals.ignored += 1;
            return Piece::Ignored;
        }
        let piece = match reading {
            Reading::Counter(value) => self.count(at, value),
            Reading::Power(watts) => self.trapezoid(at, watts),
            Reading::MeanPower { watts, over } => self.mean(at, watts, over),
        };
        let piece = match (piece, self.interrupted.take()) {
            (Piece::Begins, Some((last, why))) => {
                self.note_gap(last, at, why);
                Piece::Gap(why)
            }
            (Piece::Covers { time, .. }, Some((last, why))) => {
                self.note_gap(last, at - time, why);
                piece
            }
            (piece, _) => piece,
        };
        self.book(at, reading, piece)
    }

    /// Takes a reading that was integrated when it was recorded: `known` is what it added then, and
    /// adds now, as far as it lies in the window. So a recording that is played has the energy, the
    /// coverage and the gaps of its source, whatever caused them.
    pub fn replay(&mut self, at: Mono, reading: Reading, known: Piece) -> Piece {
        let is_late = self.is_late(at) || known == Piece::Ignored;
        if is_late || !self.is_plausible(reading) {
            self.totals.ignored += 1;
            return Piece::Ignored;
        }
        let counted = match (reading, &mut self.counter) {
            (Reading::Counter(value), Some(counter)) => Some(counter.read(at, value)),
            _ => None,
        };
        let piece = match known {
            Piece::Begins if counted == Some(Counted::Counts(0)) => Piece::Holds,
            Piece::Begins if counted.is_some() => Piece::Begins,
            Piece::Covers { joules, time } => self.again(at, reading, joules, time),
            Piece::Begins => {
                // A counter that started again while it was recorded had been interrupted.
                if let Some((last, _)) = self.last {
                    self.note_gap(last, at, Gap::Suspended);
                }
                Piece::Begins
            }
            Piece::Gap(_) | Piece::Ignored | Piece::Holds => known,
        };
        self.book(at, reading, piece)
    }

    /// Could the meter have said so?
    fn is_plausible(&self, reading: Reading) -> bool {
        let watts = power(reading);
        self.least <= watts && watts <= LARGEST
    }

    fn is_late(&self, at: Mono) -> bool {
        let held = self.steps.holds.map(|(held, _)| held);
        held.or(self.last.map(|(last, _)| last)).is_some_and(|last| at <= last)
    }

    /// Adds a piece to the totals.
    fn book(&mut self, at: Mono, reading: Reading, piece: Piece) -> Piece {
        let watts = power(reading);
        self.totals.readings += 1;
        if piece == Piece::Holds {
            self.steps.hold(at);
            return piece;
        }
        self.steps.holds = None;
        match (piece, self.last) {
            (Piece::Covers { joules, time }, _) => {
                self.joules.add(joules.get());
                self.totals.covered += time;
                match (reading, self.last) {
                    (Reading::Power(_), Some((_, before))) => {
                        self.note_power(before);
                        self.note_power(watts);
                    }
                    _ => self.note_power(joules / time),
                }
            }
            (Piece::Gap(why), Some((last, _))) => self.note_gap(last, at, why),
            _ => {}
        }
        self.last = Some((at, watts));
        piece
    }

    /// A piece that is known, cut to the window: power is even within it.
    fn again(&mut self, at: Mono, reading: Reading, joules: Joules, time: Duration) -> Piece {
        let since = self.last.map(|(last, _)| last);
        let from = match (since, reading) {
            // A mean that leaves a hole before it.
            (Some(last), Reading::MeanPower { over, .. })
                if at.since(last) > over.mul_f64(MEANS_TOUCH) =>
            {
                last.max(at - over)
            }
            (Some(last), _) => last,
            (None, _) => at - time,
        };
        if let Some(last) = since.filter(|last| *last < from) {
            self.note_gap(last, from, Gap::Stalled);
        }
        let (start, end) = (from.max(self.window.0), (from + time).min(self.window.1));
        let inside = end.since(start);
        if inside.is_zero() {
            Piece::Begins
        } else if inside >= time {
            Piece::Covers { joules, time }
        } else {
            let share = inside.as_secs_f64() / time.as_secs_f64();
            Piece::Covers { joules: Joules(joules.get() * share), time: inside }
        }
    }

    fn count(&mut self, at: Mono, value: u64) -> Piece {
        // A channel without a counter has no counts: its driver is wrong, and nothing is known.
        let (Some(counter), Some(spec)) = (&mut self.counter, self.spec.counter) else {
            return Piece::Gap(Gap::Reset);
        };
        match (counter.read(at, value), self.last) {
            (Counted::Lost(Loss::Ambiguous), _) => Piece::Gap(Gap::Wrapped),
            (Counted::Lost(Loss::Reset), _) => Piece::Gap(Gap::Reset),
            (Counted::Counts(0), Some((last, _))) if self.steps.may_hold(at.since(last)) => {
                Piece::Holds
            }
            // The first step that is seen of a counter that holds began before the first reading.
            (Counted::Counts(1..), Some((last, _)))
                if self.steps.apart.is_none() && self.steps.holds.is_some() =>
            {
                self.steps.apart = Some(at.since(last));
                Piece::Begins
            }
            (Counted::Counts(counts), Some((last, _))) => {
                if counts > 0 {
                    self.steps.apart = Some(at.since(last));
                }
                let mean = Joules(counts as f64 * spec.joules_per_count) / at.since(last);
                self.covers(last, mean, at, mean)
            }
            (Counted::First | Counted::Counts(_), _) => Piece::Begins,
        }
    }

    fn trapezoid(&self, at: Mono, watts: Watts) -> Piece {
        match self.last {
            None => Piece::Begins,
            Some((last, _)) if at.since(last) > self.spec.longest_gap => Piece::Gap(Gap::Stalled),
            Some((last, before)) => self.covers(last, before, at, watts),
        }
    }

    fn mean(&mut self, at: Mono, watts: Watts, over: Duration) -> Piece {
        let since = self.last.map(|(last, _)| last);
        let from = match since {
            Some(last) if at.since(last) <= over.mul_f64(MEANS_TOUCH) => last,
            Some(last) => last.max(at - over),
            None => at - over,
        };
        if let Some(last) = since.filter(|last| *last < from) {
            self.note_gap(last, from, Gap::Stalled);
        }
        self.covers(from, watts, at, watts)
    }

    /// Energy of a straight line of power between two moments, as far as they lie in the window.
    fn covers(&self, from: Mono, first: Watts, to: Mono, last: Watts) -> Piece {
        let (start, end) = (from.max(self.window.0), to.min(self.window.1));
        let time = end.since(start);
        if time.is_zero() {
            return Piece::Begins;
        }
        let power_at = |moment: Mono| {
            let share = moment.since(from).as_secs_f64() / to.since(from).as_secs_f64();
            first.get() + (last.get() - first.get()) * share
        };
        Piece::Covers { joules: Watts(f64::midpoint(power_at(start), power_at(end))) * time, time }
    }

    fn note_gap(&mut self, from: Mono, to: Mono, why: Gap) {
        let time = to.min(self.window.1).since(from.max(self.window.0));
        if !time.is_zero() {
            self.totals.gaps += 1;
            self.totals.gap_time += time;
            self.totals.last_gap = Some(why);
        }
    }

    fn note_power(&mut self, watts: Watts) {
        let (least, most) = self.totals.span.unwrap_or((watts, watts));
        let least = if watts < least { watts } else { least };
        self.totals.span = Some((least, most.max(watts)));
    }
}

/// A sum that loses nothing to rounding worth speaking of (Neumaier, 1974): years of readings of
/// microjoules are summed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        self.lost += if self.sum.abs() >= term.abs() {
            (self.sum - sum) + term
        } else {
            (term - sum) + self.sum
        };
        self.sum = sum;
    }

    /// The sum.
    pub fn value(self) -> f64 {
        self.sum + self.lost
    }
}

#[cfg(test)]
mod tests;
