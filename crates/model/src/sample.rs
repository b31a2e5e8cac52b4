//! From readings of a meter to energy: the one place where power is integrated.
//!
//! * **Counters**: the difference of two readings ([`crate::counter`]), which covers the time between.
//! * **Power at a moment**: the trapezoid between two readings, `(P1 + P2) / 2 x (t2 - t1)`.
//! * **Mean power over a time**: `mean x time`, never a trapezoid: the mean is the integral already.
//!
//! Where nothing is known (the meter stalled, a counter was reset, the host slept) there is a gap: it
//! adds no energy, and its time is not covered.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counter::{Counted, Counter, CounterSpec, Loss};
use crate::quantity::{Joules, Watts};
use crate::time::Mono;

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

/// A mean over a time is taken to reach back to the reading before it if that is no further away
/// than this many times its time: meters that report one mean after the other do so a little late.
const MEANS_TOUCH: f64 = 1.5;

/// Energy of one channel in a window of time, reading by reading.
#[derive(Debug, Clone)]
pub struct Track {
    spec: TrackSpec,
    counter: Option<Counter>,
    /// Nothing outside of it counts.
    window: (Mono, Mono),
    last: Option<(Mono, Watts)>,
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
    /// Readings left out: no numbers, or no later than the last.
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
            window: (begins, Mono::NEVER),
            last: None,
            joules: Sum::default(),
            totals: Totals::default(),
        }
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
        if let Some((last, _)) = self.last.filter(|_| ends != Mono::NEVER) {
            self.note_gap(last, ends, Gap::Stalled);
        }
    }

    /// What is known begins anew with the next reading: the host was suspended, say.
    pub fn interrupt(&mut self, at: Mono, why: Gap) {
        if let Some((last, _)) = self.last.take() {
            self.note_gap(last, at, why);
        }
        if let Some(counter) = &mut self.counter {
            counter.forget();
        }
    }

    /// Takes a reading.
    pub fn add(&mut self, at: Mono, reading: Reading) -> Piece {
        if self.is_late(at) || !power(reading).get().is_finite() {
            self.totals.ignored += 1;
            return Piece::Ignored;
        }
        let piece = match reading {
            Reading::Counter(value) => self.count(at, value),
            Reading::Power(watts) => self.trapezoid(at, watts),
            Reading::MeanPower { watts, over } => self.mean(at, watts, over),
        };
        self.book(at, reading, piece)
    }

    /// Takes a reading that was integrated when it was recorded: `known` is what it added then, and
    /// adds now, as far as it lies in the window. So a recording that is played has the energy, the
    /// coverage and the gaps of its source, whatever caused them.
    pub fn replay(&mut self, at: Mono, reading: Reading, known: Piece) -> Piece {
        let is_late = self.is_late(at) || known == Piece::Ignored;
        if is_late || !power(reading).get().is_finite() {
            self.totals.ignored += 1;
            return Piece::Ignored;
        }
        if let (Reading::Counter(value), Some(counter)) = (reading, &mut self.counter) {
            counter.read(at, value);
        }
        let piece = match known {
            Piece::Covers { joules, time } => self.again(at, reading, joules, time),
            Piece::Begins => {
                // What began anew while it was recorded had been interrupted.
                if let Some((last, _)) = self.last {
                    self.note_gap(last, at, Gap::Suspended);
                }
                Piece::Begins
            }
            Piece::Gap(_) | Piece::Ignored => known,
        };
        self.book(at, reading, piece)
    }

    fn is_late(&self, at: Mono) -> bool {
        self.last.is_some_and(|(last, _)| at <= last)
    }

    /// Adds a piece to the totals.
    fn book(&mut self, at: Mono, reading: Reading, piece: Piece) -> Piece {
        let watts = power(reading);
        self.totals.readings += 1;
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
            (Counted::Counts(counts), Some((last, _))) => {
                let mean = Joules(counts as f64 * spec.joules_per_count) / at.since(last);
                self.covers((last, mean), (at, mean))
            }
            (Counted::First | Counted::Counts(_), _) => Piece::Begins,
        }
    }

    fn trapezoid(&self, at: Mono, watts: Watts) -> Piece {
        match self.last {
            None => Piece::Begins,
            Some((last, _)) if at.since(last) > self.spec.longest_gap => Piece::Gap(Gap::Stalled),
            Some(last) => self.covers(last, (at, watts)),
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
        self.covers((from, watts), (at, watts))
    }

    /// Energy of a straight line of power between two moments, as far as they lie in the window.
    fn covers(&self, (from, first): (Mono, Watts), (to, last): (Mono, Watts)) -> Piece {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POWER: TrackSpec = TrackSpec { counter: None, longest_gap: Duration::from_secs(10) };

    fn ms(millis: u64) -> Mono {
        Mono(Duration::from_millis(millis))
    }

    fn power(at: u64, watts: f64) -> (Mono, Reading) {
        (ms(at), Reading::Power(Watts(watts)))
    }

    fn mean(at: u64, watts: f64, over: u64) -> (Mono, Reading) {
        (ms(at), Reading::MeanPower { watts: Watts(watts), over: Duration::from_millis(over) })
    }

    fn totals(spec: TrackSpec, readings: &[(Mono, Reading)]) -> Totals {
        let mut track = Track::new(spec, Mono::ZERO);
        for &(at, reading) in readings {
            track.add(at, reading);
        }
        track.totals()
    }

    fn close(joules: Joules, expected: f64) {
        assert!((joules.get() - expected).abs() <= 1e-9 * expected.abs(), "{joules} {expected}");
    }

    #[test]
    fn trapezoids_over_uneven_times_are_what_numpy_says() {
        // np.trapezoid([40, 44, 43, 80, 60.5], [0, 1, 1.25, 3, 3.004])
        let readings = [
            power(0, 40.0),
            power(1000, 44.0),
            power(1250, 43.0),
            power(3000, 80.0),
            power(3004, 60.5),
        ];
        let totals = totals(POWER, &readings);
        close(totals.joules, 42.0 + 10.875 + 107.625 + 0.281);
        assert_eq!((totals.covered, totals.gaps), (Duration::from_millis(3004), 0));
        let (least, most) = totals.span.unwrap();
        assert_eq!((least, most), (Watts(40.0), Watts(80.0)));
    }

    #[test]
    fn a_stalled_meter_leaves_a_gap_and_no_energy() {
        let totals = totals(
            POWER,
            &[power(0, 40.0), power(1000, 40.0), power(61_000, 40.0), power(62_000, 40.0)],
        );
        close(totals.joules, 80.0);
        assert_eq!(totals.covered, Duration::from_secs(2));
        assert_eq!((totals.gaps, totals.gap_time), (1, Duration::from_mins(1)));
        assert_eq!(totals.last_gap, Some(Gap::Stalled));
    }

    #[test]
    fn means_are_no_trapezoids() {
        // A load that alternates between 10 and 50 W each second: trapezoids of the means say 30 W
        // in any second, and are wrong by 20 J over an odd number of them.
        let totals = totals(
            POWER,
            &[mean(1000, 10.0, 1000), mean(2000, 50.0, 1000), mean(3000, 10.0, 1000)],
        );
        close(totals.joules, 70.0);
        assert_eq!(totals.covered, Duration::from_secs(3));
    }

    #[test]
    fn means_that_come_a_little_late_or_early_touch_and_a_missing_one_is_a_gap() {
        let totals = totals(
            POWER,
            &[
                mean(1000, 10.0, 1000),
                mean(2100, 20.0, 1000),
                mean(3000, 30.0, 1000),
                mean(5000, 40.0, 1000),
            ],
        );
        close(totals.joules, 10.0 + 22.0 + 27.0 + 40.0);
        assert_eq!(totals.covered, Duration::from_secs(4));
        assert_eq!((totals.gaps, totals.gap_time), (1, Duration::from_secs(1)));
    }

    #[test]
    fn a_mean_does_not_reach_back_before_the_beginning() {
        let mut track = Track::new(POWER, ms(700));
        track
            .add(ms(1000), Reading::MeanPower { watts: Watts(10.0), over: Duration::from_secs(1) });
        close(track.totals().joules, 3.0);
        assert_eq!(track.totals().covered, Duration::from_millis(300));
    }

    #[test]
    fn only_what_lies_in_the_window_counts_however_it_was_measured() {
        // From 1.25 to 2.5 s of a power that rises by 10 W a second from 10 W: 12.5 to 35 W.
        let window = |readings: [(Mono, Reading); 2], spec: TrackSpec| {
            let mut track = Track::new(spec, ms(1250));
            track.end(ms(2500));
            for (at, reading) in readings {
                track.add(at, reading);
            }
            assert_eq!(track.totals().covered, Duration::from_millis(1250));
            track.totals().joules
        };
        close(
            window([power(1000, 10.0), power(3000, 30.0)], POWER),
            12.5 * 1.25 + 12.5 * 1.25 / 2.0,
        );
        // 40 J in the two seconds, evenly.
        close(window([mean(1000, 99.0, 1000), mean(3000, 20.0, 2000)], POWER), 25.0);
        let counter = CounterSpec { joules_per_count: 0.1, range: None, most: Watts(1000.0) };
        let spec = TrackSpec { counter: Some(counter), ..POWER };
        let counts = [(ms(1000), Reading::Counter(7)), (ms(3000), Reading::Counter(407))];
        close(window(counts, spec), 25.0);
    }

    #[test]
    fn what_is_no_number_or_out_of_order_is_left_out() {
        let totals = totals(
            POWER,
            &[
                power(0, 40.0),
                power(500, f64::NAN),
                power(500, f64::INFINITY),
                power(1000, 44.0),
                power(900, 1e9),
            ],
        );
        close(totals.joules, 42.0);
        assert_eq!((totals.readings, totals.ignored, totals.gaps), (2, 3, 0));
    }

    #[test]
    fn a_meter_that_falls_silent_before_the_end_leaves_a_gap() {
        let mut track = Track::new(POWER, Mono::ZERO);
        track.add(ms(0), Reading::Power(Watts(5.0)));
        track.add(ms(1000), Reading::Power(Watts(5.0)));
        track.end(ms(9000));
        track.close();
        let totals = track.totals();
        assert_eq!((totals.gaps, totals.gap_time), (1, Duration::from_secs(8)));
        // One that spoke after the end has none.
        track.add(ms(9500), Reading::Power(Watts(5.0)));
        track.close();
        assert_eq!(track.totals().gaps, 1);
    }

    #[test]
    fn a_suspended_host_makes_a_gap_even_where_the_counter_went_on() {
        let counter = CounterSpec { joules_per_count: 1e-6, range: None, most: Watts(1000.0) };
        let mut track = Track::new(TrackSpec { counter: Some(counter), ..POWER }, Mono::ZERO);
        track.add(ms(0), Reading::Counter(5_000_000));
        track.add(ms(1000), Reading::Counter(6_000_000));
        track.interrupt(ms(1500), Gap::Suspended);
        assert_eq!(track.add(ms(1600), Reading::Counter(3)), Piece::Begins);
        track.add(ms(2600), Reading::Counter(2_000_003));
        let totals = track.totals();
        close(totals.joules, 3.0);
        assert_eq!((totals.gaps, totals.last_gap), (1, Some(Gap::Suspended)));
        assert_eq!(totals.covered, Duration::from_secs(2));
    }

    #[test]
    fn a_year_of_microjoules_adds_up() {
        let mut sum = Sum::default();
        sum.add(1e9);
        let plain = (0..10_000_000).fold(1e9, |plain, _| {
            sum.add(1e-6);
            plain + 1e-6
        });
        assert!((sum.value() - 1_000_000_010.0).abs() < 1e-6, "{}", sum.value());
        assert!((plain - 1_000_000_010.0_f64).abs() > 0.1, "or the test is none: {plain}");
    }

    proptest! {
        /// Time is either covered or in a gap, and energy is mean power times covered time.
        #[test]
        fn no_time_is_lost_or_counted_twice(
            steps in proptest::collection::vec((1_u64..30_000, 0.0_f64..500.0, any::<bool>()), 2..80),
        ) {
            let mut track = Track::new(POWER, Mono::ZERO);
            let (mut at, mut first) = (0, None);
            for &(step, watts, is_mean) in &steps {
                at += step;
                let (at, reading) = if is_mean { mean(at, watts, 1000) } else { power(at, watts) };
                let piece = track.add(at, reading);
                let covered = if let Piece::Covers { time, .. } = piece { time } else { Duration::ZERO };
                first.get_or_insert_with(|| at - covered);
            }
            let totals = track.totals();
            let all = ms(at).since(first.unwrap());
            prop_assert_eq!(totals.covered + totals.gap_time, all);
            let (least, most) = totals.span.unwrap_or_default();
            let time = totals.covered.as_secs_f64();
            prop_assert!(totals.joules.get() >= least.get() * time * (1.0 - 1e-9));
            prop_assert!(totals.joules.get() <= most.get() * time * (1.0 + 1e-9));
        }
    }
}
