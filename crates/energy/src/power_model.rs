//! Power of a machine without a meter: from what it is, and what it does.
//!
//! Two ways lead to a curve of power over utilisation. [`Typical`] takes it from a description of the
//! machine ([`Machine`]) and what is published of its kind; [`Fitted`] from readings of a meter that
//! was there for a while. To either comes what disks and wake-ups add.
//!
//! Every figure is an [`Estimate`] with a 95 % interval, and every energy made of them is
//! [`Provenance::Modelled`]. How the curves are found, and how well they hold on machines that were
//! left out, is in `docs/power-model.md`.
//!
//! **Errors do not average out.** What the model gets wrong of a machine it gets wrong all day: a
//! supply less efficient than its kind's is so every second. So the bounds are summed over time just
//! as the estimates are (errors wholly correlated), and an hour is no better known than a second.

#[rustfmt::skip]
mod coefficients;
mod cpu_year;
mod fitted;
mod machine;
pub mod regression;
mod typical;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::fitted::{FEWEST_READINGS, FitError, Fitted, Point};
pub use self::machine::{Machine, MachineClass};
pub use self::typical::Typical;
use crate::energy::{Energy, Provenance};
use crate::quantity::{Joules, Watts};

/// Loads at which SPECpower measures: idle, 10, 20, ... 100 %.
pub const LOADS: usize = 11;

/// What a disk draws more when busy than when it spins idle, W: typically, and at most.
///
/// Data sheets of 3.5 inch disks give 2 to 4 W between idle and seeking, those of NVMe drives up to
/// about 6 W; the 2.5 inch disk measured at codinghorror.com ("How Much Power Does My Laptop Really
/// Use?") added 3 W.
const BUSY_DISK: [f64; 2] = [2.0, 6.0];
/// Energy of one wake-up of an idle thread, J: typically, and at most.
///
/// An idle state pays off after its target residency, so entering and leaving it costs about that
/// time x the power it saves. Linux's `drivers/idle/intel_idle.c` gives 0.6 ms for C6 of Xeon
/// Scalable; that a core saves in the order of 0.1 to 1 W by it is a judgement.
const WAKE_UP: [f64; 2] = [2e-4, 1e-3];
/// Most disks that are counted, and most wake-ups per second: more than any machine has.
const MOST_DISKS: f64 = 1000.0;
const MOST_WAKE_UPS: f64 = 1e8;

/// What a machine is doing, as means over a short while.
///
/// Memory in use is not in it: DRAM is refreshed whether used or not, and what its traffic costs
/// comes with the utilisation that makes the traffic. Memory installed is in [`Machine`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// Mean busy share of all hardware threads, 0 ..= 1.
    pub utilisation: f64,
    /// Sum over the disks of the share of time that each was busy: 1.5 for one always and one half
    /// the time.
    pub disks_busy: f64,
    /// Times per second that a thread left idle, summed over the threads.
    pub wake_ups: f64,
}

impl Activity {
    /// Threads that are busy for these shares of the time, 0 ..= 1. Shares that are no numbers (of a
    /// thread that went offline, say) are left out.
    pub fn of_threads(busy: &[f64]) -> Self {
        let known = busy.iter().filter(|share| share.is_finite());
        let (sum, count) = known
            .fold((0.0, 0_u32), |(sum, count), share| (sum + share.clamp(0.0, 1.0), count + 1));
        let utilisation = if count == 0 { 0.0 } else { sum / f64::from(count) };
        Self { utilisation, ..Self::default() }
    }
}

/// A power with its 95 % interval, which lies as it was found: not the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure: as likely too high as too low.
    pub watts: Watts,
    /// Lower end of the interval.
    pub low: Watts,
    /// Upper end of the interval.
    pub high: Watts,
}

impl Estimate {
    /// Expanded uncertainty at 95 %: the interval of `watts` ± this covers the whole one from `low`
    /// to `high`.
    pub fn uncertainty(&self) -> Watts {
        (self.high - self.watts).max(self.watts - self.low)
    }

    /// Some share of the way to another, 0 ..= 1.
    fn towards(&self, other: &Self, share: f64) -> Self {
        let between = |from: Watts, to: Watts| from + (to - from) * share;
        Self {
            watts: between(self.watts, other.watts),
            low: between(self.low, other.low),
            high: between(self.high, other.high),
        }
    }
}

/// A machine's power as a function of what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerModel {
    /// What such machines typically draw.
    Typical(Box<Typical>),
    /// Fitted to readings of this machine.
    Fitted(Fitted),
}

impl PowerModel {
    /// The model of a machine that was never metered.
    pub fn typical(machine: &Machine) -> Self {
        Self::Typical(Box::new(Typical::of(machine)))
    }

    /// Power while the machine does this.
    ///
    /// What is no number counts as nothing done; what is out of range, as its nearest end. Wake-ups
    /// are bounded: a machine that does nothing but wake up draws no more than a busy one.
    pub fn power(&self, activity: &Activity) -> Estimate {
        let utilisation = within(activity.utilisation, 1.0);
        let [cpu, full] = [utilisation, 1.0].map(|utilisation| match self {
            Self::Typical(typical) => typical.at(utilisation),
            Self::Fitted(fitted) => fitted.at(utilisation),
        });
        let disks = within(activity.disks_busy, MOST_DISKS);
        let wake_ups = within(activity.wake_ups, MOST_WAKE_UPS);
        // What was fitted was fitted to readings in which they were.
        let wake_up = if matches!(self, Self::Fitted(_)) { [0.0; 2] } else { WAKE_UP };
        let with = |cpu: Watts, full: Watts, kind: usize| {
            let awake = (cpu.get() + wake_ups * wake_up[kind]).min(full.max(cpu).get());
            Watts(awake + disks * BUSY_DISK[kind])
        };
        Estimate {
            watts: with(cpu.watts, full.watts, 0),
            low: cpu.low,
            high: with(cpu.high, full.high, 1),
        }
    }

    /// Energy over stretches of time, each with what was done in it.
    ///
    /// Errors are taken as wholly correlated over time: the uncertainty is the sum of those of the
    /// stretches, not the root of the sum of their squares.
    pub fn energy(&self, stretches: impl IntoIterator<Item = (Activity, Duration)>) -> Energy {
        let sums = stretches.into_iter().map(|(activity, time)| {
            let Estimate { watts, low, high } = self.power(&activity);
            [watts * time, low * time, high * time]
        });
        let [joules, low, high] = sums.fold([Joules::ZERO; 3], |sums, stretch| {
            [sums[0] + stretch[0], sums[1] + stretch[1], sums[2] + stretch[2]]
        });
        let uncertainty = (high - joules).max(joules - low);
        Energy { joules, uncertainty, provenance: self.provenance() }
    }

    /// The origin of its figures.
    pub fn provenance(&self) -> Provenance {
        let model = match self {
            Self::Typical(typical) => {
                format!("typical {}: {}", typical.class().name(), typical.basis())
            }
            Self::Fitted(fitted) => format!("power curve fitted to {}", fitted.source()),
        };
        Provenance::Modelled { model }
    }
}

/// A figure from 0 to `most`; what is no number is 0.
fn within(figure: f64, most: f64) -> f64 {
    if figure.is_nan() { 0.0 } else { figure.clamp(0.0, most) }
}

#[cfg(test)]
mod tests;
