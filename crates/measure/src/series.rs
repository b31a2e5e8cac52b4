//! What a channel said, as a log of power.

pub(crate) mod live;

use std::time::Duration;

use crate::pure::power_log::{Interpolation, PowerLog, PowerLogError, PowerReading};
use nightwatt_energy::integration::{MEANS_TOUCH, Piece, Reading};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_meters::Channel;

/// Readings kept of a meter: half an hour of a thousand a second, and 64 MB.
const MOST: usize = 1 << 21;

/// Readings of one channel, of which counters have become means.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) channel: Channel,
    readings: Vec<PowerReading>,
    /// Nothing is known of the time before these.
    broken: Vec<usize>,
    /// A counter was read, and nothing is known of the time before.
    begins: Option<Mono>,
    means: bool,
    /// Readings beyond those that are kept.
    pub(crate) dropped: u64,
}

impl Series {
    /// With room for as many readings as are expected.
    pub(crate) fn new(channel: Channel, expected: usize) -> Self {
        let readings = Vec::with_capacity(expected.min(MOST));
        Self { channel, readings, broken: Vec::new(), begins: None, means: false, dropped: 0 }
    }

    /// Takes a reading and what it added to the energy.
    pub(crate) fn take(&mut self, at: Mono, reading: Reading, piece: Piece) {
        if let Piece::Ignored | Piece::Holds = piece {
            return;
        }
        if self.readings.len() + 2 > MOST {
            self.dropped += 1;
            return;
        }
        match (reading, piece) {
            (Reading::Power(watts), Piece::Covers { .. }) => self.push(at, watts),
            (Reading::Power(watts), _) => self.begin(at, watts),
            (Reading::MeanPower { watts, over }, _) => {
                let reach = over.mul_f64(MEANS_TOUCH);
                let touches = self.readings.last().is_some_and(|it| at.since(it.time) <= reach);
                self.means = true;
                if !touches {
                    self.begin(at - over, watts);
                }
                self.push(at, watts);
            }
            (Reading::Counter(_), Piece::Covers { joules, time }) => {
                let mean = joules / time;
                self.means = true;
                if let Some(begins) = self.begins.take() {
                    self.begin(begins, mean);
                }
                self.push(at, mean);
            }
            (Reading::Counter(_), _) => self.begins = Some(at),
        }
    }

    fn begin(&mut self, time: Mono, power: Watts) {
        self.broken.push(self.readings.len());
        self.push(time, power);
    }

    fn push(&mut self, time: Mono, power: Watts) {
        self.readings.push(PowerReading { time, power });
    }

    pub(crate) const fn len(&self) -> usize {
        self.readings.len()
    }

    /// First and last reading.
    pub(crate) fn span(&self) -> Option<(Mono, Mono)> {
        Some((self.readings.first()?.time, self.readings.last()?.time))
    }

    /// Mean time between two readings.
    pub(crate) fn spacing(&self) -> Option<Duration> {
        let (first, last) = self.span()?;
        let steps = u32::try_from(self.readings.len() - 1).ok().filter(|steps| *steps > 0)?;
        Some(last.since(first) / steps)
    }

    /// Times of which nothing is known.
    pub(crate) fn gaps(&self) -> usize {
        self.broken.len().saturating_sub(1)
    }

    /// Readings in order, and whether nothing is known of the time before each.
    pub(crate) fn readings(&self) -> impl Iterator<Item = (PowerReading, bool)> {
        let is_broken = |index: usize| self.broken.binary_search(&index).is_ok();
        self.readings.iter().enumerate().map(move |(index, it)| (*it, is_broken(index)))
    }

    /// Are they means over the time before them?
    pub(crate) const fn are_means(&self) -> bool {
        self.means
    }

    /// As a log, with `later` added to its times.
    pub(crate) fn log(mut self, later: Duration) -> Result<PowerLog, PowerLogError> {
        for reading in &mut self.readings {
            reading.time = reading.time + later;
        }
        let interpolation = if self.means { Interpolation::Means } else { Interpolation::Instants };
        PowerLog::with_gaps(self.readings, interpolation, Duration::MAX, &self.broken)
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::quantity::Joules;
    use nightwatt_meters::{Accuracy, Scope};

    use super::*;

    fn series() -> Series {
        Series::new(Channel::power("c", Scope::Wall, Accuracy::relative(0.01)), 0)
    }

    fn at(millis: u64) -> Mono {
        Mono(Duration::from_millis(millis))
    }

    fn covers(joules: f64, millis: u64) -> Piece {
        Piece::Covers { joules: Joules(joules), time: Duration::from_millis(millis) }
    }

    #[test]
    fn counters_become_means_between_their_readings_and_a_reset_a_gap() {
        let mut series = series();
        for (millis, piece) in [
            (1000, Piece::Begins),
            (2000, covers(5.0, 1000)),
            (4000, covers(14.0, 2000)),
            (5000, Piece::Gap(nightwatt_energy::integration::Gap::Reset)),
            (6000, covers(9.0, 1000)),
        ] {
            series.take(at(millis), Reading::Counter(0), piece);
        }
        assert_eq!((series.len(), series.gaps()), (5, 1));
        let log = series.log(Duration::ZERO).unwrap();
        assert_eq!(log.energy(at(1000), at(4000)), Some(Joules(19.0)));
        assert_eq!(log.energy(at(5000), at(6000)), Some(Joules(9.0)));
        assert_eq!((log.energy(at(4000), at(5000)), log.at(at(3000))), (None, Some(Watts(7.0))));
    }

    #[test]
    fn a_mean_stands_for_its_own_time_and_what_is_missing_is_a_gap() {
        let mut series = series();
        let over = Duration::from_secs(1);
        for (millis, watts) in [(1000, 10.0), (2100, 20.0), (5000, 30.0)] {
            let reading = Reading::MeanPower { watts: Watts(watts), over };
            series.take(at(millis), reading, covers(watts, 1000));
        }
        let log = series.log(Duration::from_secs(1)).unwrap();
        assert_eq!(log.energy(at(1000), at(3100)), Some(Joules(10.0 + 22.0)));
        assert_eq!(log.energy(at(5000), at(6000)), Some(Joules(30.0)));
        assert_eq!(log.energy(at(3100), at(5000)), None);
    }

    #[test]
    fn moments_are_joined_unless_there_is_a_gap() {
        let mut series = series();
        let stalled = Piece::Gap(nightwatt_energy::integration::Gap::Stalled);
        for (millis, watts, piece) in [
            (0, 10.0, Piece::Begins),
            (1000, 20.0, covers(15.0, 1000)),
            (1000, 99.0, Piece::Ignored),
            (9000, 20.0, stalled),
            (10_000, 30.0, covers(25.0, 1000)),
        ] {
            series.take(at(millis), Reading::Power(Watts(watts)), piece);
        }
        let log = series.log(Duration::ZERO).unwrap();
        assert_eq!((log.at(at(500)), log.at(at(5000))), (Some(Watts(15.0)), None));
    }
}
