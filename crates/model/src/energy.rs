//! Energy with its origin, and the power states of a server that can sleep.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{Joules, Watts};

/// Where a figure comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Provenance {
    /// A meter said so.
    Measured {
        /// Which meter and channel.
        meter: String,
    },
    /// A model said so.
    Modelled {
        /// Which model, and where its parameters come from.
        model: String,
    },
}

/// An amount of energy that says where it comes from and how sure it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The figure, in joules.
    pub joules: Joules,
    /// Expanded uncertainty at 95 %, in joules: the truth lies within `joules` ± this.
    pub uncertainty: Joules,
    /// Its origin.
    pub provenance: Provenance,
}

impl Energy {
    /// A modelled figure whose parameters are known within `relative` (0.1 = 10 %, at 95 %).
    pub fn modelled(joules: Joules, relative: f64, model: impl Into<String>) -> Self {
        let provenance = Provenance::Modelled { model: model.into() };
        Self { joules, uncertainty: Joules((joules.get() * relative).abs()), provenance }
    }
}

/// What a server draws awake and asleep, and what a sleep costs.
///
/// `switch` is the energy of one whole sleep cycle (one sleep and the wake-up that ends it) beyond
/// `off` x the time from the sleep command to the wake command answered. It is charged once per
/// cycle, and `on` is not charged again for falling asleep or waking.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PowerStates {
    /// Awake.
    pub on: Watts,
    /// Asleep.
    pub off: Watts,
    /// Of one sleep cycle.
    pub switch: Joules,
    /// From the wake command to the first answer.
    pub wake_time: Duration,
    /// From the sleep command until it can be woken.
    pub sleep_time: Duration,
}

impl PowerStates {
    /// How long a sleep must last to save anything: `switch / (on - off)`.
    ///
    /// [`Duration::MAX`] for a server that draws no less asleep than awake.
    pub fn break_even(&self) -> Duration {
        let saved = self.on - self.off;
        if saved.get() > 0.0 { self.switch / saved } else { Duration::MAX }
    }

    /// Energy used with these times and this many sleep cycles.
    pub fn energy(&self, on: Duration, off: Duration, cycles: u64) -> Joules {
        self.on * on + self.off * off + self.switch * cycles as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn msi() -> PowerStates {
        PowerStates {
            on: Watts(43.3),
            off: Watts(1.6),
            switch: Joules(170.7),
            wake_time: Duration::from_secs(5),
            sleep_time: Duration::from_secs(5),
        }
    }

    #[test]
    fn the_published_server_breaks_even_after_4_09_seconds() {
        // Claim O1: 170.7 J / (43.3 W - 1.6 W).
        let seconds = msi().break_even().as_secs_f64();
        assert!((seconds - 4.09).abs() < 0.005, "{seconds}");
    }

    #[test]
    fn sleeping_for_the_break_even_time_saves_nothing() {
        let states = msi();
        let slept = states.energy(Duration::ZERO, states.break_even(), 1);
        let stayed = states.energy(states.break_even(), Duration::ZERO, 0);
        assert!((slept - stayed).get().abs() < 1e-6);
    }

    #[test]
    fn a_server_that_saves_nothing_asleep_never_breaks_even() {
        let useless = PowerStates { off: Watts(43.3), ..msi() };
        assert_eq!(useless.break_even(), Duration::MAX);
    }
}
