//! A log of power readings, and its exact integral over any stretch of time.
//!
//! The same readings mean different courses of power between them: a meter that reads at an instant
//! is joined by straight lines (trapezoidal rule), one that reports means over the interval that
//! ends with the reading holds each mean over it. Where two readings lie too far apart there is a
//! gap, over which nothing is known and nothing is integrated.

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerReading {
    /// When it was taken; of a mean, the end of its interval.
    pub time: Mono,
    /// The power.
    pub power: Watts,
}

/// What a reading says of the time before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// Readings are of an instant; in between power runs straight.
    Instants,
    /// Readings are means over the time since the reading before; the first has no such time.
    Means,
}

/// Why readings are not a valid log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PowerLogError {
    /// Readings must be in order.
    #[error("reading {reading} is not later than the one before; sort the log by time")]
    NotAscending {
        /// Counted from 0.
        reading: usize,
    },
    /// NaN or infinite.
    #[error("reading {reading} has no finite power; leave it out, which makes a gap")]
    NotFinite {
        /// Counted from 0.
        reading: usize,
    },
}

/// Readings in order of time, with sums that make every integral a matter of two look-ups.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerLog {
    readings: Vec<PowerReading>,
    interpolation: Interpolation,
    /// Per reading: energy from the first to it, gaps left out.
    energy: Vec<f64>,
    /// Indices of the readings that follow a gap.
    gaps: Vec<usize>,
}

impl PowerLog {
    /// Takes readings; two further apart than `longest` have a gap between them.
    pub fn new(
        readings: Vec<PowerReading>,
        interpolation: Interpolation,
        longest: Duration,
    ) -> Result<Self, PowerLogError> {
        Self::with_gaps(readings, interpolation, longest, &[])
    }

    /// The same, with gaps before further readings, by their indices in ascending order: a meter that
    /// was reset, a host that slept.
    pub fn with_gaps(
        readings: Vec<PowerReading>,
        interpolation: Interpolation,
        longest: Duration,
        broken: &[usize],
    ) -> Result<Self, PowerLogError> {
        let (mut energy, mut gaps) = (Vec::with_capacity(readings.len()), Vec::new());
        let mut sum = 0.0;
        for (index, reading) in readings.iter().enumerate() {
            if !reading.power.get().is_finite() {
                return Err(PowerLogError::NotFinite { reading: index });
            }
            if let Some(before) = index.checked_sub(1).map(|before| readings[before]) {
                if reading.time <= before.time {
                    return Err(PowerLogError::NotAscending { reading: index });
                }
                let time = reading.time.since(before.time);
                if time > longest || broken.binary_search(&index).is_ok() {
                    gaps.push(index);
                } else {
                    let mean = match interpolation {
                        Interpolation::Instants => 0.5 * (before.power + reading.power).get(),
                        Interpolation::Means => reading.power.get(),
                    };
                    sum += mean * time.as_secs_f64();
                }
            }
            energy.push(sum);
        }
        Ok(Self { readings, interpolation, energy, gaps })
    }

    /// The readings.
    pub fn readings(&self) -> &[PowerReading] {
        &self.readings
    }

    /// What the readings say of the time between them.
    pub const fn interpolation(&self) -> Interpolation {
        self.interpolation
    }

    /// Number of gaps.
    pub const fn gaps(&self) -> usize {
        self.gaps.len()
    }

    /// Whether a gap lies between two readings, by index.
    fn is_broken(&self, before: usize, after: usize) -> bool {
        self.gaps.partition_point(|&gap| gap <= before)
            < self.gaps.partition_point(|&gap| gap <= after)
    }

    /// The readings from `from` (included) to `to` (not included).
    pub fn between(&self, from: Mono, to: Mono) -> &[PowerReading] {
        let start = self.index_at(from);
        &self.readings[start..self.index_at(to).max(start)]
    }

    /// Power at a moment; nothing outside of the log and in gaps.
    pub fn at(&self, time: Mono) -> Option<Watts> {
        let after = self.index_at(time);
        let reading = self.readings.get(after)?;
        if reading.time == time && (self.interpolation == Interpolation::Instants || after == 0) {
            return Some(reading.power);
        }
        let before = after.checked_sub(1)?;
        if self.is_broken(before, after) {
            return None;
        }
        let earlier = self.readings[before];
        Some(match self.interpolation {
            Interpolation::Means => reading.power,
            Interpolation::Instants => {
                let share = time.since(earlier.time).as_secs_f64()
                    / reading.time.since(earlier.time).as_secs_f64();
                earlier.power + (reading.power - earlier.power) * share
            }
        })
    }

    /// Energy from `from` to `to`; nothing when the log does not cover all of it without a gap.
    pub fn energy(&self, from: Mono, to: Mono) -> Option<Joules> {
        if from > to {
            return None;
        }
        let (first, last) = (self.index_at(from), self.index_at(to));
        // A gap behind `from` and before the reading after it counts.
        let known_from =
            if self.readings.get(first)?.time == from { first } else { first.checked_sub(1)? };
        if last >= self.readings.len() || self.is_broken(known_from, last) {
            return None;
        }
        Some(Joules(self.until(to)? - self.until(from)?))
    }

    /// Energy from the first reading to `time`, gaps left out.
    fn until(&self, time: Mono) -> Option<f64> {
        let after = self.index_at(time);
        let reading = self.readings.get(after)?;
        if reading.time == time {
            return Some(self.energy[after]);
        }
        let missing = reading.time.since(time).as_secs_f64();
        let mean = match self.interpolation {
            Interpolation::Means => reading.power.get(),
            Interpolation::Instants => 0.5 * (self.at(time)? + reading.power).get(),
        };
        Some(self.energy[after] - mean * missing)
    }

    /// Index of the first reading at `time` or later.
    fn index_at(&self, time: Mono) -> usize {
        self.readings.partition_point(|reading| reading.time < time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Mono {
        Mono(Duration::from_secs_f64(seconds))
    }

    fn log(points: &[(f64, f64)], interpolation: Interpolation) -> PowerLog {
        let reading =
            |&(time, power): &(f64, f64)| PowerReading { time: at(time), power: Watts(power) };
        let readings = points.iter().map(reading).collect();
        PowerLog::new(readings, interpolation, Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn a_ramp_integrates_to_its_triangle_at_any_cut() {
        // P = 2 t, sampled unevenly: from a to b it is b^2 - a^2.
        let log = log(&[(0.0, 0.0), (1.0, 2.0), (4.0, 8.0), (5.5, 11.0)], Interpolation::Instants);
        for (a, b) in [(0.0, 5.5), (0.25, 0.75), (0.5, 4.5), (1.0, 4.0), (2.0, 2.0)] {
            let energy = log.energy(at(a), at(b)).unwrap().get();
            assert!((energy - (b * b - a * a)).abs() < 1e-9, "{a} {b}: {energy}");
        }
        assert_eq!(log.at(at(2.0)), Some(Watts(4.0)));
    }

    #[test]
    fn means_hold_over_the_time_before_them() {
        // 5 W over the first second, 1 W over the next three.
        let log = log(&[(0.0, 99.0), (1.0, 5.0), (4.0, 1.0)], Interpolation::Means);
        assert_eq!(log.energy(at(0.0), at(4.0)), Some(Joules(8.0)));
        assert_eq!(log.energy(at(0.5), at(2.0)), Some(Joules(3.5)));
        assert_eq!(log.at(at(0.5)), Some(Watts(5.0)));
        assert_eq!(log.at(at(1.0)), Some(Watts(5.0)));
    }

    #[test]
    fn nothing_is_said_of_gaps_nor_beyond_the_ends() {
        let points = [(0.0, 1.0), (5.0, 1.0), (20.0, 1.0), (25.0, 1.0)];
        for interpolation in [Interpolation::Instants, Interpolation::Means] {
            let log = log(&points, interpolation);
            assert_eq!(log.gaps(), 1);
            assert_eq!(log.energy(at(0.0), at(5.0)), Some(Joules(5.0)));
            assert_eq!(log.energy(at(20.0), at(25.0)), Some(Joules(5.0)));
            for (a, b) in
                [(0.0, 25.0), (4.0, 6.0), (5.0, 20.0), (6.0, 7.0), (6.0, 21.0), (24.0, 26.0)]
            {
                assert_eq!(log.energy(at(a), at(b)), None, "{a} {b}");
            }
            assert_eq!(log.at(at(10.0)), None);
            assert_eq!(log.at(at(26.0)), None);
        }
    }

    #[test]
    fn a_reading_that_nothing_is_known_before_is_behind_a_gap_however_close() {
        let reading = |time: f64, power: f64| PowerReading { time: at(time), power: Watts(power) };
        let readings = (0..5).map(|second| reading(f64::from(second), 7.0)).collect();
        let log =
            PowerLog::with_gaps(readings, Interpolation::Means, Duration::from_secs(10), &[2]);
        let log = log.unwrap();
        assert_eq!(log.energy(at(0.0), at(1.0)), Some(Joules(7.0)));
        assert_eq!(log.energy(at(2.0), at(4.0)), Some(Joules(14.0)));
        assert_eq!((log.energy(at(1.0), at(2.0)), log.at(at(1.5)), log.gaps()), (None, None, 1));
    }

    #[test]
    fn readings_out_of_order_and_without_a_figure_are_refused() {
        let reading = |time: f64, power: f64| PowerReading { time: at(time), power: Watts(power) };
        let new = |readings| PowerLog::new(readings, Interpolation::Instants, Duration::MAX);
        let twice = new(vec![reading(1.0, 1.0), reading(1.0, 1.0)]);
        assert_eq!(twice, Err(PowerLogError::NotAscending { reading: 1 }));
        let nan = new(vec![reading(0.0, 1.0), reading(1.0, f64::NAN)]);
        assert_eq!(nan, Err(PowerLogError::NotFinite { reading: 1 }));
        assert_eq!(new(Vec::new()).unwrap().energy(at(0.0), at(0.0)), None);
    }

    proptest::proptest! {
        /// Against the plain sum over the pieces between readings, each cut to what is asked for.
        #[test]
        fn energy_is_the_sum_of_its_pieces(
            steps in proptest::collection::vec((1..9000_u64, -50.0..200.0_f64), 2..30),
            cuts in (0.0..1.0_f64, 0.0..1.0_f64),
            means in proptest::bool::ANY,
        ) {
            let mut time = 0.0;
            let points: Vec<(f64, f64)> = steps
                .iter()
                .map(|&(millis, power)| {
                    time += millis as f64 / 1000.0;
                    (time, power)
                })
                .collect();
            let interpolation = if means { Interpolation::Means } else { Interpolation::Instants };
            let log = log(&points, interpolation);
            let (first, last) = (points[0].0, points[points.len() - 1].0);
            // Whole milliseconds, so that both sides cut at the same place.
            let cut = |share: f64| ((first + share * (last - first)) * 1000.0).round() / 1000.0;
            let (from, to) = (cut(cuts.0.min(cuts.1)), cut(cuts.0.max(cuts.1)));
            let mut sum = 0.0;
            for pair in points.windows(2) {
                let ((t0, p0), (t1, p1)) = (pair[0], pair[1]);
                let (a, b) = (t0.max(from), t1.min(to));
                if a < b {
                    let power = |t: f64| if means { p1 } else { p0 + (p1 - p0) * (t - t0) / (t1 - t0) };
                    sum += 0.5 * (power(a) + power(b)) * (b - a);
                }
            }
            let found = log.energy(at(from), at(to)).unwrap().get();
            proptest::prop_assert!((found - sum).abs() < 1e-6, "{found} {sum}");
        }
    }
}
