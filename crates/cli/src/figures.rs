//! Formats figures for people.

use std::time::Duration;

pub(crate) use nightwatt_energy::display::bytes;
use nightwatt_energy::duration_text;
use nightwatt_energy::energy::{Energy, Provenance};
use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::figures::with_half_width;
use nightwatt_report::grouped;

/// Groups thousands: `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    grouped(n as f64, 0)
}

/// `1 request`, `2 requests`.
pub(crate) fn counted(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A time in its two largest units: `350ms`, `4.1s`, `3m20s`, `2d3h`.
pub(crate) fn time(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return match time.as_millis() {
            0 => "0s".to_owned(),
            millis => format!("{millis}ms"),
        };
    }
    if time < Duration::from_mins(1) {
        let text = format!("{:.1}s", time.as_secs_f64());
        return text.replace(".0s", "s");
    }
    let coarse = if time < Duration::from_hours(1) {
        1
    } else if time < Duration::from_hours(24) {
        60
    } else {
        3600
    };
    duration_text::format(Duration::from_secs(time.as_secs() / coarse * coarse))
}

/// Formats seconds; a value that is not a valid duration counts as 0.
pub(crate) fn seconds(seconds: f64) -> String {
    time(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A share as `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What is saved against a server that is always on: `12.3 %`, or how much more is used.
pub(crate) fn saving(share: f64) -> String {
    if share < -0.0005 {
        return format!("none: uses {} more than a server that is always on", percent(-share));
    }
    percent(share.max(0.0))
}

/// A part of a whole: `3 of 40 visits (7.5 %)`.
pub(crate) fn part(some: u64, all: u64, of: &str) -> String {
    let share = if all == 0 { String::new() } else { format!(" ({})", percent(ratio(some, all))) };
    format!("{} of {}{share}", count(some), counted(all, of))
}

/// One count divided by another; 0 if the other is 0.
pub(crate) fn ratio(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}

/// Joules in a watt-hour.
const WH: f64 = JOULES_PER_KWH / 1000.0;

/// An amount of energy with its uncertainty, in a suitable unit: `1.234 ± 0.062 kWh`.
pub(crate) fn energy(energy: &Energy) -> String {
    let [text] = energies([energy]);
    text
}

/// Amounts of energy that stand beside each other: all in the unit that suits the largest.
pub(crate) fn energies<const N: usize>(all: [&Energy; N]) -> [String; N] {
    let largest = all.iter().map(|it| it.joules.get().abs()).fold(0.0, f64::max);
    let (unit, name, digits) = match largest {
        many if many >= 0.1 * JOULES_PER_KWH => (JOULES_PER_KWH, "kWh", 3),
        some if some >= WH => (WH, "Wh", 2),
        _ => (1.0, "J", 1),
    };
    all.map(|it| {
        let (figure, margin) = (it.joules.get() / unit, it.uncertainty.get() / unit);
        match with_half_width(figure, margin) {
            Some([figure, margin]) => format!("{figure} ± {margin} {name}"),
            None => format!("{figure:.digits$} ± {margin:.digits$} {name}"),
        }
    })
}

/// Where a figure comes from: `modelled by power states of the scenario`.
pub(crate) fn provenance(provenance: &Provenance) -> String {
    match provenance {
        Provenance::Measured { meter } => format!("measured by {meter}"),
        Provenance::Modelled { model } => format!("modelled by {model}"),
        Provenance::Mixed { meter, model, measured_share } => {
            format!(
                "{} measured by {meter}, the rest modelled by {model}",
                percent(*measured_share)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::quantity::Joules;

    use super::*;

    #[test]
    fn times_are_told_with_what_matters_of_them() {
        let told = |millis| time(Duration::from_millis(millis));
        assert_eq!(told(0), "0s");
        assert_eq!(told(350), "350ms");
        assert_eq!(told(4094), "4.1s");
        assert_eq!(told(5000), "5s");
        assert_eq!(told(200_500), "3m20s");
        assert_eq!(told(3_600_000), "1h");
        assert_eq!(told(1000 * (2 * 86_400 + 3 * 3600 + 59 * 60)), "2d3h");
    }

    #[test]
    fn counts_are_told_in_thousands_and_parts_as_shares() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(123), "123");
        assert_eq!(part(3, 40, "visit"), "3 of 40 visits (7.5 %)");
        assert_eq!(part(0, 0, "visit"), "0 of 0 visits");
        assert_eq!(part(1, 1, "visit"), "1 of 1 visit (100.0 %)");
    }

    #[test]
    fn energy_is_told_in_the_unit_that_suits() {
        let told = |joules| energy(&Energy::modelled(Joules(joules), 0.05, "m"));
        assert_eq!(told(3.6e6), "1.000 ± 0.050 kWh");
        assert_eq!(told(43.3 * 600.0), "7.22 ± 0.36 Wh");
        assert_eq!(told(43.3 * 60.0), "2600 ± 130 J");
        assert_eq!(told(43.3), "43.3 ± 2.2 J");
    }

    #[test]
    fn energies_beside_each_other_have_one_unit() {
        let of = |joules| Energy::modelled(Joules(joules), 0.05, "m");
        let told = energies([&of(36.0), &of(7200.0)]);
        assert_eq!(told, ["0.01000 ± 0.00050 Wh", "2.00 ± 0.10 Wh"]);
    }
}
