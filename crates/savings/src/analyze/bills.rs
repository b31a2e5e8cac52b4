//! What the energy of a log costs, each hour at its price.

use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::Mono;
use nightwatt_policy::electricity::{Electricity, EnergyByHour};
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::Plan;

use super::year::Used;
use super::zones::Zones;

/// Whether a bill needs the energy of each hour.
pub(super) fn by_hour(scenario: &Scenario) -> bool {
    scenario.electricity.price_per_kwh.flat().is_none()
}

/// What bills are drawn up with.
pub(super) struct Bills<'a> {
    electricity: &'a Electricity,
    /// Of a server that never sleeps, and with the proxy; where prices differ by hour.
    always_on: Option<(EnergyByHour, EnergyByHour)>,
}

impl<'a> Bills<'a> {
    /// For a log of this span.
    pub(super) fn of(scenario: &'a Scenario, zones: &Zones, end: Mono) -> Self {
        let always_on = by_hour(scenario).then(|| {
            let mut server = EnergyByHour::default();
            zones.spread(Mono::ZERO, end, scenario.power_states().on, &mut server);
            let mut both = server.clone();
            zones.spread(Mono::ZERO, end, scenario.proxy_power(), &mut both);
            (server, both)
        });
        Self { electricity: &scenario.electricity, always_on }
    }

    /// Energy and bill of a server that never sleeps, without a proxy, for this many joules.
    pub(super) fn always_on(&self, joules: f64) -> Used {
        let by_hour = self.always_on.as_ref().map(|(server, _)| self.electricity.cost(server));
        Used { joules, bill: by_hour.unwrap_or_else(|| self.flat(joules)) }
    }

    /// The bill of server and proxy for this many joules, if `saved` is what sleeping saved at the server.
    pub(super) fn of_both(&self, joules: f64, saved: Option<&EnergyByHour>) -> f64 {
        match (&self.always_on, saved) {
            (Some((_, both)), Some(saved)) => self.electricity.cost(&both.less(saved)),
            _ => self.flat(joules),
        }
    }

    fn flat(&self, joules: f64) -> f64 {
        Joules(joules).kwh() * self.electricity.price_per_kwh.at(0)
    }
}

/// What a plan saves by `end`, hour by hour.
pub(super) fn planned(plan: &Plan, states: &PowerStates, zones: &Zones, end: Mono) -> EnergyByHour {
    let mut saved = EnergyByHour::default();
    for sleep in &plan.sleeps {
        zones.spread(sleep.from, sleep.until.min(end), states.on - states.off, &mut saved);
        saved.add(zones.hour_of_week(sleep.from), -states.switch);
    }
    saved
}
