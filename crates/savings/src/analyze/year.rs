//! What the figures of a log come to in a year, in kilowatt-hours, money and carbon dioxide.

use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::Mono;
use nightwatt_policy::electricity::Yearly;
use nightwatt_policy::scenario::Scenario;
use serde::Serialize;

/// What the scenario's policy comes to in a year.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct YearFigures {
    /// What figures of the log were multiplied with.
    pub factor: f64,
    /// From how much, and how well that stands for a year.
    pub basis: String,
    /// A server always on, without a proxy, kWh.
    pub always_on_kwh: f64,
    /// Server and proxy with the policy, kWh.
    pub energy_kwh: f64,
    /// The difference, kWh. Below 0 where the proxy uses more than sleeping saves.
    pub saved_kwh: f64,
    /// What that costs, each hour at its price, in `currency`. May be below 0 where energy is saved:
    /// in cheap hours, while the proxy uses some in dear ones.
    pub saved_cost: f64,
    /// Code of ISO 4217.
    pub currency: String,
    /// What its generation emits, kg `CO2e`.
    pub saved_co2_kg: f64,
    /// What a kWh of the server always on costs: the price, or the mean of all hours of the log where
    /// prices differ by hour.
    pub price_per_kwh: f64,
}

/// Energy of a log, and what it costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) joules: f64,
    pub(super) bill: f64,
}

impl YearFigures {
    /// Nothing for less than a day.
    pub(super) fn of(scenario: &Scenario, always_on: Used, used: Used, end: Mono) -> Option<Self> {
        let yearly = Yearly::of(end.0)?;
        let factor = yearly.factor();
        let electricity = &scenario.electricity;
        let kwh = |joules: f64| Joules(joules * factor).kwh();
        let saved = Joules((always_on.joules - used.joules) * factor);
        let mean = always_on.bill / Joules(always_on.joules).kwh();
        Some(Self {
            factor,
            basis: yearly.to_string(),
            always_on_kwh: kwh(always_on.joules),
            energy_kwh: kwh(used.joules),
            saved_kwh: saved.kwh(),
            saved_cost: (always_on.bill - used.bill) * factor,
            currency: electricity.currency.clone(),
            saved_co2_kg: electricity.co2_kg(saved),
            price_per_kwh: electricity.price_per_kwh.flat().unwrap_or(mean),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nightwatt_policy::electricity::Tariff;

    use super::*;

    #[test]
    fn a_week_stands_for_a_year_in_proportion() {
        let mut scenario = Scenario::default();
        let cheap_nights = (0..24).map(|hour| if hour < 8 { 0.2 } else { 0.5 }).collect();
        scenario.electricity.price_per_kwh = Tariff::ByHour(cheap_nights);
        scenario.electricity.co2_g_per_kwh = 100.0;
        let week = Mono(Duration::from_hours(7 * 24));
        // 7.2 MJ and 3.6 MJ: 2 kWh of which one is used at night, and 1 kWh by day. A year of
        // 365.2425 days has 52.1775 weeks.
        let always_on = Used { joules: 7.2e6, bill: 0.7 };
        let used = Used { joules: 3.6e6, bill: 0.5 };
        let year = YearFigures::of(&scenario, always_on, used, week).unwrap();
        assert!((year.always_on_kwh - 104.355).abs() < 1e-9);
        assert!((year.saved_kwh - 52.1775).abs() < 1e-9);
        assert!((year.saved_cost - 10.4355).abs() < 1e-9, "at the price of the night");
        assert!((year.price_per_kwh - 0.35).abs() < 1e-9);
        assert!((year.saved_co2_kg - 5.217_75).abs() < 1e-9);
        let hours = Mono(Duration::from_hours(23));
        assert_eq!(YearFigures::of(&scenario, always_on, used, hours), None);
    }
}
