//! What a server draws awake and asleep, and when a sleep pays.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{Joules, Watts};

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
