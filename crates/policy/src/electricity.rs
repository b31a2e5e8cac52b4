//! What electricity costs and what its generation emits: prices flat, by hour of the day or by
//! hour of the week, and the rule by which the figures of a log stand for a year.
//!
//! # Where the defaults come from
//!
//! * **Price: 0.29 EUR/kWh.** The mean price for households in the EU, taxes included, was
//!   0.2872 EUR/kWh in the first half of 2025 (Eurostat, `nrg_pc_204`, *Electricity price
//!   statistics*, data of October 2025). Countries range from 0.10 (Hungary) to 0.38 (Germany),
//!   and firms paid 0.19 in the mean: operators who know their contract configure its price.
//! * **Emissions: 210 g CO2e/kWh**, derived, not quoted: the EEA's indicator *Greenhouse gas
//!   emission intensity of electricity generation* has 510 g CO2e/kWh for the EU of 1990 and says
//!   that 2023 was 58 % below 1990; 510 x 0.42 = 214. Emissions of generation only: neither losses
//!   in the grid nor the making of the power stations are in it.

use std::fmt;
use std::time::Duration;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bad_value::BadValue;
use nightwatt_energy::duration_text;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Now;

/// Hours of a local week.
pub const HOURS_OF_WEEK: usize = 168;
const HOURS_OF_DAY: usize = 24;
const HOUR: Duration = Duration::from_hours(1);
const WEEK: Duration = Duration::from_hours(HOURS_OF_WEEK as u64);

/// What a kilowatt-hour costs and emits where the server stands. See the module for where the
/// defaults come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Electricity {
    /// What one kWh costs, in `currency`.
    pub price_per_kwh: Tariff,
    /// Code of ISO 4217, as shown to people: `EUR`. Nothing is converted.
    pub currency: String,
    /// Emissions of generation, g CO2e/kWh.
    pub co2_g_per_kwh: f64,
}

impl Default for Electricity {
    fn default() -> Self {
        Self { price_per_kwh: Tariff::Flat(0.29), currency: "EUR".to_owned(), co2_g_per_kwh: 210.0 }
    }
}

/// A price per kWh that may depend on the hour. In TOML a number, or a list of 24 or 168.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Tariff {
    /// The same at any time.
    Flat(f64),
    /// By hour: 24 values for the hours of the local day, from 00:00; or 168 for those of the
    /// local week, from Monday 00:00. A price may be below 0 where consumption is paid for.
    ByHour(Vec<f64>),
}

impl Tariff {
    /// Price per kWh in this hour of the local week (0 is Monday 00:00 to 01:00; hours beyond 167 wrap
    /// around).
    pub fn at(&self, hour_of_week: usize) -> f64 {
        match self {
            Self::Flat(price) => *price,
            // 24 divides 168: the remainder is the hour of the day where there are 24 prices.
            Self::ByHour(prices) => {
                prices.get(hour_of_week % prices.len().max(1)).copied().unwrap_or(0.0)
            }
        }
    }

    /// The mean price over its hours.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Flat(price) => *price,
            Self::ByHour(prices) => prices.iter().sum::<f64>() / prices.len().max(1) as f64,
        }
    }

    /// The price, where it is the same at any hour.
    pub fn flat(&self) -> Option<f64> {
        match self {
            Self::Flat(price) => Some(*price),
            Self::ByHour(prices) => {
                let first = *prices.first()?;
                prices.iter().all(|price| price.total_cmp(&first).is_eq()).then_some(first)
            }
        }
    }
}

impl fmt::Display for Tariff {
    /// `0.29`, or `0.19 to 0.35 by hour of the day`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flat(price) => write!(f, "{price}"),
            Self::ByHour(prices) => {
                let least = prices.iter().copied().fold(f64::INFINITY, f64::min);
                let most = prices.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let over = if prices.len() == HOURS_OF_DAY { "day" } else { "week" };
                write!(f, "{least} to {most} by hour of the {over}")
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tariff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TariffVisitor)
    }
}

struct TariffVisitor;

impl<'de> Visitor<'de> for TariffVisitor {
    type Value = Tariff;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a price per kWh, or a list of them: 24 for the hours of the local day, or 168 for \
             those of the local week from Monday",
        )
    }

    fn visit_f64<E: de::Error>(self, price: f64) -> Result<Tariff, E> {
        Ok(Tariff::Flat(price))
    }

    fn visit_i64<E: de::Error>(self, price: i64) -> Result<Tariff, E> {
        Ok(Tariff::Flat(price as f64))
    }

    fn visit_u64<E: de::Error>(self, price: u64) -> Result<Tariff, E> {
        Ok(Tariff::Flat(price as f64))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tariff, A::Error> {
        let mut prices = Vec::new();
        while let Some(price) = seq.next_element::<f64>()? {
            if prices.len() == HOURS_OF_WEEK {
                return Err(de::Error::invalid_length(HOURS_OF_WEEK + 1, &self));
            }
            prices.push(price);
        }
        if prices.len() != HOURS_OF_DAY && prices.len() != HOURS_OF_WEEK {
            return Err(de::Error::invalid_length(prices.len(), &self));
        }
        Ok(Tariff::ByHour(prices))
    }
}

impl Electricity {
    /// Checks that every figure can be true.
    pub fn check(&self) -> Result<(), BadValue> {
        let key = "electricity.price_per_kwh";
        let bad = |value: f64, rule| Err(BadValue { key, value: value.to_string(), rule });
        match &self.price_per_kwh {
            Tariff::Flat(price) if !(0.0..=1e5).contains(price) => {
                return bad(*price, "a price must be a number from 0 to 100,000");
            }
            Tariff::ByHour(prices) => {
                if let Some(price) = prices.iter().find(|price| !(-1e5..=1e5).contains(*price)) {
                    return bad(*price, "a price must be a number from -100,000 to 100,000");
                }
                if prices.len() != HOURS_OF_DAY && prices.len() != HOURS_OF_WEEK {
                    let value = format!("{} prices", prices.len());
                    let rule = "there must be 24, for the hours of the day, or 168, for those of \
                                the week from Monday";
                    return Err(BadValue { key, value, rule });
                }
            }
            Tariff::Flat(_) => {}
        }
        let code = self.currency.as_bytes();
        if code.len() != 3 || !code.iter().all(u8::is_ascii_uppercase) {
            let value = format!("{:?}", self.currency);
            let rule = "it must be a code of three capital letters (ISO 4217): EUR, USD, JPY";
            return Err(BadValue { key: "electricity.currency", value, rule });
        }
        if !(0.0..=1e4).contains(&self.co2_g_per_kwh) {
            let value = self.co2_g_per_kwh.to_string();
            let rule = "it must be grams of CO2e per kWh, a number from 0 to 10,000";
            return Err(BadValue { key: "electricity.co2_g_per_kwh", value, rule });
        }
        Ok(())
    }

    /// What this energy costs, in `currency`: that of each hour at its price. Below 0 where more was
    /// saved than used.
    pub fn cost(&self, energy: &EnergyByHour) -> f64 {
        if let Some(price) = self.price_per_kwh.flat() {
            return energy.total().kwh() * price;
        }
        let cells = energy.0.iter().enumerate();
        cells.map(|(hour, joules)| joules.kwh() * self.price_per_kwh.at(hour)).sum()
    }

    /// What the generation of this energy emitted, in kg of CO2 equivalents.
    pub fn co2_kg(&self, energy: Joules) -> f64 {
        energy.kwh() * self.co2_g_per_kwh / 1000.0
    }
}

/// Energy by hour of the local week: as fine as a tariff gets, and of the same size however long
/// the log is.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyByHour(Box<[Joules; HOURS_OF_WEEK]>);

impl Default for EnergyByHour {
    fn default() -> Self {
        Self(Box::new([Joules::ZERO; HOURS_OF_WEEK]))
    }
}

impl EnergyByHour {
    /// Adds what was used in an hour of the local week, as `Now::hour_of_week` counts them.
    pub fn add(&mut self, hour_of_week: usize, energy: Joules) {
        self.0[hour_of_week % HOURS_OF_WEEK] += energy;
    }

    /// Adds a stretch of constant power that begins at `from`, hour by hour; local time keeps the
    /// offset that it has then. Takes as long for years as for a week.
    pub fn add_stretch(&mut self, from: Now, time: Duration, power: Watts) {
        let weeks = (time.as_secs() / WEEK.as_secs()) as u32;
        if weeks > 0 {
            let each = power * (HOUR * weeks);
            self.0.iter_mut().for_each(|cell| *cell += each);
        }
        let mut left = time.saturating_sub(WEEK * weeks);
        let mut hour = from.hour_of_week() as usize;
        let local = from.wall.0 + i64::from(from.utc_offset) * 1000;
        let passed = local.rem_euclid(HOUR.as_millis() as i64) as u64;
        let mut room = HOUR.saturating_sub(Duration::from_millis(passed));
        while !left.is_zero() {
            let part = left.min(room);
            self.add(hour, power * part);
            left -= part;
            room = HOUR;
            hour += 1;
        }
    }

    /// What was used in each hour of the local week, from Monday midnight on.
    pub fn joules(&self) -> impl Iterator<Item = Joules> {
        self.0.iter().copied()
    }

    /// All of it.
    pub fn total(&self) -> Joules {
        self.0.iter().copied().sum()
    }

    /// Adds other energy, hour by hour.
    pub fn merge(&mut self, other: &Self) {
        for (cell, more) in self.0.iter_mut().zip(other.0.iter()) {
            *cell += *more;
        }
    }

    /// This less `other`, hour by hour: what was saved.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        for (cell, taken) in rest.0.iter_mut().zip(other.0.iter()) {
            *cell = *cell - *taken;
        }
        rest
    }
}

/// Mean year of the Gregorian calendar.
pub const YEAR: Duration = Duration::from_secs(31_556_952);

/// How figures of a span stand for a year: in proportion, if the span has at least one whole day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yearly {
    span: Duration,
}

/// How well a span stands for a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Footing {
    /// From a day to a week: some days of the week are missing.
    Days,
    /// From a week to a year: whole weeks, but not all seasons.
    Weeks,
    /// A year or more.
    Year,
}

impl Yearly {
    /// For figures of `span`, the time that was watched. Nothing for less than a day, since day and
    /// night differ.
    pub fn of(span: Duration) -> Option<Self> {
        (span >= Duration::from_hours(24)).then_some(Self { span })
    }

    /// What a figure of the span is multiplied with: a year over the span.
    pub fn factor(&self) -> f64 {
        YEAR.as_secs_f64() / self.span.as_secs_f64()
    }

    /// How well the span stands for a year.
    pub fn footing(&self) -> Footing {
        match self.span {
            span if span >= Duration::from_hours(365 * 24) => Footing::Year,
            span if span >= Duration::from_hours(7 * 24) => Footing::Weeks,
            _ => Footing::Days,
        }
    }
}

impl fmt::Display for Yearly {
    /// What has to stand beside every yearly figure: `extrapolated from 28d; seasons not seen`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = Duration::from_hours(self.span.as_secs() / 3600);
        let span = duration_text::format(hours);
        match self.footing() {
            Footing::Days => {
                write!(f, "extrapolated from {span}, less than a week: take it as a rough guess")
            }
            Footing::Weeks => write!(f, "extrapolated from {span}; not all seasons were seen"),
            Footing::Year => write!(f, "the mean year of {span}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nightwatt_energy::time::{Mono, Wall};
    use proptest::prelude::*;

    const KWH: Joules = Joules(3.6e6);

    fn electricity(text: &str) -> Result<Electricity, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn a_flat_price_is_paid_at_any_hour() {
        let mut used = EnergyByHour::default();
        used.add(0, KWH);
        used.add(167, KWH * 2.0);
        // 3 kWh at 0.29 EUR and 210 g.
        let electricity = Electricity::default();
        assert!((electricity.cost(&used) - 0.87).abs() < 1e-12);
        assert!((electricity.co2_kg(used.total()) - 0.63).abs() < 1e-12);
    }

    #[test]
    fn a_night_tariff_is_paid_by_the_hour_of_the_day() {
        // 10 from midnight to 6, else 30 (no currency has such a price per kWh: yen would).
        let list: Vec<&str> = (0..24).map(|hour| if hour < 6 { "10" } else { "30" }).collect();
        let text = format!("currency = \"JPY\"\nprice_per_kwh = [{}]", list.join(", "));
        let tariff = electricity(&text).unwrap();
        assert_eq!(tariff.check(), Ok(()));
        let mut used = EnergyByHour::default();
        used.add(5, KWH); // Monday 05:00: 10
        used.add(6, KWH); // Monday 06:00: 30
        used.add(6 * 24 + 1, KWH); // Sunday 01:00: 10
        assert!((tariff.cost(&used) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_weekend_tariff_is_paid_by_the_hour_of_the_week() {
        let mut prices = vec![0.3; 168];
        prices[5 * 24..].fill(-0.1);
        let tariff = Electricity { price_per_kwh: Tariff::ByHour(prices), ..Default::default() };
        assert_eq!(tariff.check(), Ok(()), "a price by hour may lie below 0");
        let mut used = EnergyByHour::default();
        used.add(5 * 24 - 1, KWH); // Friday 23:00: 0.3
        used.add(5 * 24, KWH); // Saturday 00:00: -0.1
        used.add(5 * 24 + 168, KWH); // the next one
        assert!((tariff.cost(&used) - 0.1).abs() < 1e-12);
        assert_eq!(tariff.price_per_kwh.to_string(), "-0.1 to 0.3 by hour of the week");
    }

    fn at(wall_s: i64, utc_offset: i32) -> Now {
        Now { mono: Mono::ZERO, wall: Wall::from_secs(wall_s), utc_offset }
    }

    #[test]
    fn a_stretch_falls_into_the_hours_of_local_time() {
        // 2024-03-04 was a Monday. 08:40 UTC is 09:40 an hour east: 20 min, an hour, 10 min of 6 W.
        let monday = 1_709_510_400;
        let mut used = EnergyByHour::default();
        used.add_stretch(at(monday + 31_200, 3600), Duration::from_mins(90), Watts(6.0));
        let cells: Vec<(usize, f64)> =
            used.0.iter().map(|cell| cell.get()).enumerate().filter(|cell| cell.1 != 0.0).collect();
        assert_eq!(cells, [(9, 7200.0), (10, 21_600.0), (11, 3600.0)]);
        // The night to Monday, from Sunday 23:30 on: a new week starts.
        let mut night = EnergyByHour::default();
        night.add_stretch(at(monday - 1800, 0), Duration::from_hours(1), Watts(1.0));
        assert_eq!((night.0[167], night.0[0]), (Joules(1800.0), Joules(1800.0)));
    }

    #[test]
    fn of_two_years_every_hour_of_the_week_has_its_share() {
        // 104 weeks and 2 hours, from Thursday 1970-01-01 00:00 on.
        let mut used = EnergyByHour::default();
        used.add_stretch(at(0, 0), Duration::from_hours(104 * 168 + 2), Watts(1.0));
        for (hour, cell) in used.0.iter().enumerate() {
            let times = if (72..74).contains(&hour) { 105.0 } else { 104.0 };
            assert!((cell.get() - times * 3600.0).abs() < 1e-6, "{hour}: {cell}");
        }
    }

    #[test]
    fn what_is_used_in_cheap_hours_only_pays_the_cheap_price() {
        let prices = (0..24).map(|hour| if hour < 6 { 0.1 } else { 0.5 }).collect();
        let night = Electricity { price_per_kwh: Tariff::ByHour(prices), ..Default::default() };
        let mut used = EnergyByHour::default();
        // A kilowatt from midnight to 6, on nine days: 54 kWh.
        for day in 0..9 {
            used.add_stretch(at(day * 86_400, 0), Duration::from_hours(6), Watts(1000.0));
        }
        assert!((night.cost(&used) - 5.4).abs() < 1e-9);
    }

    #[test]
    fn a_year_is_told_from_a_day_or_more_and_says_from_how_much() {
        assert_eq!(Yearly::of(Duration::from_hours(23)), None);
        let day = Yearly::of(Duration::from_hours(24)).unwrap();
        assert!((day.factor() - 365.2425).abs() < 1e-9);
        assert_eq!(day.footing(), Footing::Days);
        let month = Yearly::of(Duration::from_hours(28 * 24)).unwrap();
        // 1 kWh in 28 days is 13.044375 kWh in 365.2425.
        assert!(((KWH * month.factor()).kwh() - 13.044_375).abs() < 1e-9);
        assert_eq!(month.to_string(), "extrapolated from 28d; not all seasons were seen");
        let years = Yearly::of(Duration::from_hours(730 * 24)).unwrap();
        assert_eq!(years.footing(), Footing::Year);
        assert!((years.factor() - 0.500_332).abs() < 1e-6);
    }

    #[test]
    fn what_cannot_be_a_tariff_is_refused_with_what_could() {
        for text in ["price_per_kwh = [0.1, 0.2]", "price_per_kwh = []", "price_per_kwh = \"dear\""]
        {
            let error = electricity(text).unwrap_err().to_string();
            assert!(error.contains("24 for the hours of the local day"), "{error}");
        }
        for (text, key) in [
            ("price_per_kwh = -0.1", "electricity.price_per_kwh"),
            ("price_per_kwh = nan", "electricity.price_per_kwh"),
            ("currency = \"€\"", "electricity.currency"),
            ("currency = \"</script>\"", "electricity.currency"),
            ("co2_g_per_kwh = -1", "electricity.co2_g_per_kwh"),
            ("co2_g_per_kwh = inf", "electricity.co2_g_per_kwh"),
        ] {
            assert_eq!(electricity(text).unwrap().check().unwrap_err().key, key, "{text}");
        }
        let short =
            Electricity { price_per_kwh: Tariff::ByHour(vec![1.0; 25]), ..Default::default() };
        assert!(short.check().unwrap_err().to_string().contains("25 prices"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for prices in [Tariff::Flat(1.0), Tariff::ByHour(vec![0.25; 24])] {
            let electricity = Electricity { price_per_kwh: prices, ..Default::default() };
            let text = toml::to_string(&electricity).unwrap();
            assert_eq!(self::electricity(&text).unwrap(), electricity);
            let json = serde_json::to_string(&electricity).unwrap();
            assert_eq!(serde_json::from_str::<Electricity>(&json).unwrap(), electricity);
        }
    }

    proptest! {
        #[test]
        fn a_tariff_that_is_the_same_at_every_hour_is_a_flat_one(
            cells in proptest::collection::vec((0_usize..168, -1e9..1e9), 0..50),
            price in 0.0..10.0,
        ) {
            let mut used = EnergyByHour::default();
            for (hour, joules) in cells {
                used.add(hour, Joules(joules));
            }
            let at = |tariff| Electricity { price_per_kwh: tariff, ..Default::default() }.cost(&used);
            let flat = at(Tariff::Flat(price));
            prop_assert!((flat - used.total().kwh() * price).abs() < 1e-6);
            for hours in [24, 168] {
                let list = at(Tariff::ByHour(vec![price; hours]));
                prop_assert_eq!(list.to_bits(), flat.to_bits());
            }
            prop_assert!(used.less(&used).total() == Joules::ZERO);
        }

        #[test]
        fn the_hours_of_a_stretch_add_up_to_it_and_cutting_it_changes_no_hour(
            from in -1_000_000_000_000_i64..4_000_000_000_000,
            utc_offset in -86_340_i32..86_340,
            (first, second) in (0_u64..2_000_000_000_000, 0_u64..2_000_000_000_000),
        ) {
            let from = Now { mono: Mono::ZERO, wall: Wall(from), utc_offset };
            let (first, second) = (Duration::from_millis(first), Duration::from_millis(second));
            let power = Watts(43.3);
            let mut whole = EnergyByHour::default();
            whole.add_stretch(from, first + second, power);
            let expected = power * (first + second);
            prop_assert!((whole.total() / expected.max(Joules(1e-9)) - 1.0).abs() < 1e-9
                || expected == Joules::ZERO);
            let mut cut = EnergyByHour::default();
            cut.add_stretch(from, first, power);
            cut.add_stretch(Now { wall: from.wall + first, ..from }, second, power);
            for (one, other) in whole.0.iter().zip(cut.0.iter()) {
                prop_assert!((*one - *other).get().abs() <= 1e-9 * expected.get());
            }
        }
    }
}
