//! What of a bill was measured.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use nightwatt_energy::quantity::Joules;

/// Energy that a meter measured, and the time that it covered, by how that time is billed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metered {
    /// Energy of the covered time.
    pub joules: Joules,
    /// How far that may be off, at 95 %. The meter errs the same way all the while, so this is the
    /// sum over all that was measured.
    pub uncertainty: Joules,
    /// Covered time in which the server was awake.
    pub on: Duration,
    /// Covered time from sleep commands to wake commands answered.
    pub off: Duration,
    /// Covered time in which it was not known where the server was.
    pub unobserved: Duration,
    /// Sleep cycles in what was measured. A cycle counts as measured, or as not, by the moment of its
    /// sleep command: where a meter falls silent in the middle of a sleep, up to the energy of one
    /// cycle is billed too little, and where it comes back, up to as much twice.
    pub cycles: u64,
}

impl Metered {
    /// Was nothing measured?
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The time that was covered.
    pub fn time(&self) -> Duration {
        self.on + self.off + self.unobserved
    }

    /// What came to it since an earlier state of the same.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            joules: self.joules - earlier.joules,
            uncertainty: self.uncertainty - earlier.uncertainty,
            on: self.on.saturating_sub(earlier.on),
            off: self.off.saturating_sub(earlier.off),
            unobserved: self.unobserved.saturating_sub(earlier.unobserved),
            cycles: self.cycles.saturating_sub(earlier.cycles),
        }
    }
}
