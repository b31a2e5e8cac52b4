//! What the figures of a log come to in a year, in kilowatt-hours, money and carbon dioxide.

use nightwatt_model::electricity::{EnergyByHour, Tariff, Yearly};
use nightwatt_model::quantity::Joules;
use nightwatt_model::scenario::Scenario;
use nightwatt_model::time::Mono;
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
    /// What that costs, in `currency`.
    pub saved_cost: f64,
    /// Code of ISO 4217.
    pub currency: String,
    /// What its generation emits, kg `CO2e`.
    pub saved_co2_kg: f64,
    /// Price of a kWh that this was reckoned with: the mean, where prices differ by hour.
    pub price_per_kwh: f64,
}

impl YearFigures {
    /// Nothing for less than a day.
    pub(super) fn of(scenario: &Scenario, always_on: f64, used: f64, end: Mono) -> Option<Self> {
        let yearly = Yearly::of(end.0)?;
        let factor = yearly.factor();
        let electricity = &scenario.electricity;
        let kwh = |joules: f64| Joules(joules * factor).kwh();
        let saved = Joules((always_on - used) * factor);
        let price_per_kwh = mean_price(scenario);
        Some(Self {
            factor,
            basis: yearly.to_string(),
            always_on_kwh: kwh(always_on),
            energy_kwh: kwh(used),
            saved_kwh: saved.kwh(),
            saved_cost: saved.kwh() * price_per_kwh,
            currency: electricity.currency.clone(),
            saved_co2_kg: electricity.co2_kg(saved),
            price_per_kwh,
        })
    }

    /// Whether the price is a mean over prices that differ by hour.
    pub(super) const fn is_mean(scenario: &Scenario) -> bool {
        matches!(scenario.electricity.price_per_kwh, Tariff::ByHour(_))
    }
}

/// The price of a kWh that is used evenly over the week.
fn mean_price(scenario: &Scenario) -> f64 {
    let even = EnergyByHour::from_hours_of_day(&[Joules(3.6e6 / 24.0); 24]);
    scenario.electricity.cost(&even)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_week_stands_for_a_year_in_proportion() {
        let mut scenario = Scenario::default();
        scenario.electricity.price_per_kwh = Tariff::Flat(0.5);
        scenario.electricity.co2_g_per_kwh = 100.0;
        let week = Mono(Duration::from_hours(7 * 24));
        // 7.2 MJ and 3.6 MJ: 2 kWh and 1 kWh. A year of 365.2425 days has 52.1775 weeks.
        let year = YearFigures::of(&scenario, 7.2e6, 3.6e6, week).unwrap();
        assert!((year.always_on_kwh - 104.355).abs() < 1e-9);
        assert!((year.saved_kwh - 52.1775).abs() < 1e-9);
        assert!((year.saved_cost - 26.088_75).abs() < 1e-9);
        assert!((year.saved_co2_kg - 5.217_75).abs() < 1e-9);
        let hours = Mono(Duration::from_hours(23));
        assert_eq!(YearFigures::of(&scenario, 7.2e6, 3.6e6, hours), None);
    }

    #[test]
    fn prices_by_hour_count_in_the_mean() {
        let mut scenario = Scenario::default();
        let mut prices = vec![0.1; 24];
        prices[..6].fill(0.5);
        scenario.electricity.price_per_kwh = Tariff::ByHour(prices);
        // (6 x 0.5 + 18 x 0.1) / 24.
        assert!((mean_price(&scenario) - 0.2).abs() < 1e-12);
    }
}
