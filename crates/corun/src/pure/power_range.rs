//! The two ends of what a power model allows for a machine.
//!
//! A ratio of two modelled energies follows from how the idle power compares with the power of full load. Both are
//! known within a range, so a ratio is known as well as it is the same at both ends of these.

use nightwatt_energy::power_model::{Activity, Estimate, PowerModel};
use serde::Serialize;

/// A figure at both ends of a model's range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtEnds {
    /// With the lowest idle power and the highest power at full load.
    pub low_idle: f64,
    /// With the highest idle power and the lowest power at full load.
    pub high_idle: f64,
}

/// Powers of a machine that does nothing, and of one that does all it can.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerRange {
    idle: Estimate,
    full: Estimate,
}

impl PowerRange {
    /// That of a model.
    pub fn of(model: &PowerModel) -> Self {
        let at = |utilisation| model.power(&Activity { utilisation, ..Activity::default() });
        Self { idle: at(0.0), full: at(1.0) }
    }

    /// What the model would have said at both ends of its range, where it said this power: the share of the way from
    /// idle to full load stays as it is.
    pub fn at_ends(&self, watts: f64) -> AtEnds {
        let (idle, full) = (self.idle.watts.get(), self.full.watts.get());
        let share = if full > idle { ((watts - idle) / (full - idle)).max(0.0) } else { 0.0 };
        // No load lowers the power.
        let between = |idle: f64, full: f64| idle + share * (full - idle).max(0.0);
        AtEnds {
            low_idle: between(self.idle.low.get(), self.full.high.get()),
            high_idle: between(self.idle.high.get(), self.full.low.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::quantity::Watts;

    use super::*;

    fn estimate([low, watts, high]: [f64; 3]) -> Estimate {
        Estimate { watts: Watts(watts), low: Watts(low), high: Watts(high) }
    }

    fn assert_near(found: [f64; 2], expected: [f64; 2]) {
        let is_near = |place: usize| (found[place] - expected[place]).abs() < 1e-9;
        assert!(is_near(0) && is_near(1), "{found:?}, not {expected:?}");
    }

    #[test]
    fn a_power_keeps_its_place_between_idle_and_full_load() {
        let range = PowerRange {
            idle: estimate([20.0, 50.0, 100.0]),
            full: estimate([120.0, 150.0, 300.0]),
        };
        let ends = |watts| {
            let AtEnds { low_idle, high_idle } = range.at_ends(watts);
            [low_idle, high_idle]
        };
        assert_near(ends(50.0), [20.0, 100.0]);
        // Half of the way.
        assert_near(ends(100.0), [160.0, 110.0]);
        assert_near(ends(150.0), [300.0, 120.0]);
        // Less than idle is not known.
        assert_near(ends(10.0), [20.0, 100.0]);
    }

    #[test]
    fn where_idle_may_draw_more_than_full_load_power_does_not_depend_on_the_load() {
        let range = PowerRange {
            idle: estimate([10.0, 50.0, 350.0]),
            full: estimate([30.0, 150.0, 600.0]),
        };
        let high_idle = |watts| range.at_ends(watts).high_idle;
        assert_near([high_idle(50.0), high_idle(150.0)], [350.0, 350.0]);
        assert_near([high_idle(100.0), high_idle(75.0)], [350.0, 350.0]);
    }
}
