//! Readings of one channel on their way to a [`PowerLog`].

use std::time::Duration;

use crate::pure::power_log::{Interpolation, PowerLog, PowerLogError, PowerReading};
use nightwatt_energy::integration::{Piece, Reading};
use nightwatt_energy::time::Mono;

/// Readings of power further apart than this many intervals have a gap between them.
const GAP_AFTER: f64 = 2.5;

/// Of means, one that is missing is a gap already: the next says nothing of its time.
const GAP_AFTER_MEANS: f64 = 1.9;

/// Readings in order.
#[derive(Debug, Clone)]
pub struct Readings {
    interval: Duration,
    interpolation: Interpolation,
    taken: Vec<PowerReading>,
    /// The longest time that a step of a counter covers.
    longest_step: Duration,
}

impl Readings {
    /// An empty list, for a meter that is read at this interval.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            interpolation: Interpolation::Instants,
            taken: Vec::new(),
            longest_step: Duration::ZERO,
        }
    }

    /// Takes a reading. Of a counter, `piece` is what it adds, without which it says nothing. What is
    /// no later than the reading before is left out.
    pub fn take(&mut self, time: Mono, reading: Reading, piece: Option<Piece>) {
        let power = match (reading, piece) {
            (Reading::Power(watts), _) => watts,
            (Reading::MeanPower { watts, .. }, _) => {
                self.interpolation = Interpolation::Means;
                watts
            }
            (Reading::Counter(_), Some(Piece::Covers { joules, time })) => {
                self.interpolation = Interpolation::Means;
                self.longest_step = self.longest_step.max(time);
                joules / time
            }
            (Reading::Counter(_), _) => return,
        };
        let later = self.taken.last().is_none_or(|last| time > last.time);
        if later && power.get().is_finite() {
            self.taken.push(PowerReading { time, power });
        }
    }

    /// Leaves out what lies before this.
    pub fn begin(&mut self, begin: Mono) {
        self.taken.retain(|reading| reading.time >= begin);
    }

    /// The log.
    pub fn log(self) -> Result<PowerLog, PowerLogError> {
        let gap_after = match self.interpolation {
            Interpolation::Instants => GAP_AFTER,
            Interpolation::Means => GAP_AFTER_MEANS,
        };
        let longest = self.interval.mul_f64(gap_after).max(Duration::from_millis(20));
        let longest = longest.max(self.longest_step);
        PowerLog::new(self.taken, self.interpolation, longest)
    }
}
