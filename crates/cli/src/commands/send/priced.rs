//! Watts of this machine, and the joules that follow from them or from a meter.

use std::time::Duration;

use nightwatt_energy::energy::Energy;
use nightwatt_energy::power_model::{Activity, PowerModel};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_meters::machine::{cpus, describe};
use nightwatt_meters::sampler::Measured;
use nightwatt_meters::{Channel, Host};
use nightwatt_transfer::pure::bill::Prices;
use nightwatt_transfer::send::{Doubt, Report};

/// What is known of the network card: 1000BASE-T takes about half a watt more when it sends.
const NIC_WATTS: Watts = Watts(0.5);
/// How far a modelled figure may be off, if the user gives the watts.
const GIVEN: f64 = 0.15;
/// Share of the time that a meter must cover to count.
const COVERED: f64 = 0.9;

/// Watts to choose by, and how sure they are.
pub(crate) struct Priced {
    pub(crate) prices: Prices,
    doubt: Doubt,
    model: String,
}

impl Priced {
    /// Of this machine; the user may know better.
    pub(crate) fn of(idle_watts: Option<f64>, core_watts: Option<f64>) -> Self {
        let host = Host::default();
        let model = PowerModel::typical(&describe(&host));
        let at = |utilisation| model.power(&Activity { utilisation, ..Activity::default() });
        let (idle, full) = (at(0.0), at(1.0));
        let cores = cpus(&host).len().max(1) as f64;
        let dynamic = full.watts - idle.watts;
        let base = idle_watts.map_or(idle.watts, Watts);
        let cpu = core_watts.map_or(dynamic * (1.0 / cores), Watts);
        let given = |watts: Option<f64>, modelled: f64| watts.map_or(modelled, |_| GIVEN);
        let doubt = Doubt {
            base: given(idle_watts, idle.uncertainty() / idle.watts),
            cpu: given(core_watts, full.uncertainty() / dynamic),
        };
        let whose = |watts: Option<f64>| if watts.is_some() { "given" } else { "of such machines" };
        let model = format!(
            "{base:.1} idle ({}), {cpu:.1} for a busy core ({}), {NIC_WATTS:.1} for the network card",
            whose(idle_watts),
            whose(core_watts)
        );
        let prices = Prices { base, cpu, nic: NIC_WATTS, nic_byte: 0.0, receiver: Watts::ZERO };
        Self { prices, doubt, model }
    }

    /// How far the watts of a busy core may be off, as a share of them.
    pub(crate) fn core_doubt(&self) -> f64 {
        self.doubt.cpu
    }

    /// What sending cost by the model.
    pub(crate) fn energy(&self, report: &Report, seconds: f64) -> Energy {
        let joules = report.modelled(&self.prices, seconds);
        let doubt = report.doubt(&self.prices, seconds, self.doubt);
        Energy::modelled(Joules(joules), doubt, self.model.clone())
    }
}

/// Energy of the whole machine by the first meter that covers it; nothing if none does, or only for a part of the time.
pub(crate) fn metered(measured: &[Measured], seconds: f64) -> Option<Energy> {
    let of = |measured: &Measured, channel: &Channel, place: usize| {
        let totals = &measured.totals[place];
        let share = totals.covered.as_secs_f64() / seconds;
        if channel.is_modelled || !channel.scope.is_whole() || share < COVERED {
            return None;
        }
        let joules = totals.joules * (1.0 / share);
        let uncertainty = channel.accuracy.of(joules, Duration::from_secs_f64(seconds));
        Some(Energy::measured(joules, uncertainty, format!("{}/{}", measured.meter, channel.name)))
    };
    measured.iter().find_map(|measured| {
        let mut channels = measured.channels.iter().enumerate();
        channels.find_map(|(place, channel)| of(measured, channel, place))
    })
}
