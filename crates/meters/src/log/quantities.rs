//! Quantities and their units in the names of columns, for tables of other things than power over time.

use super::cells::{ColumnKind, TIME_UNITS, kind, unit, words};

/// What the figures of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Watts.
    Power,
    /// Joules.
    Energy,
    /// Seconds.
    Time,
    /// Bytes.
    Size,
    /// A share of 1.
    Share,
    /// Without a unit.
    Count,
}

const ENERGY_UNITS: [(&[&str], f64); 8] = [
    (&["j", "joule", "joules", "ws"], 1.0),
    (&["kj", "kilojoule", "kilojoules"], 1e3),
    (&["mj", "millijoule", "millijoules"], 1e-3),
    (&["uj", "\u{b5}j", "\u{3bc}j", "microjoule", "microjoules"], 1e-6),
    (&["megajoule", "megajoules"], 1e6),
    (&["wh"], 3600.0),
    (&["kwh"], 3.6e6),
    (&["mwh"], 3.6),
];

const SIZE_UNITS: [(&[&str], f64); 7] = [
    (&["b", "byte", "bytes"], 1.0),
    (&["kb", "kilobytes"], 1e3),
    (&["mb", "megabytes"], 1e6),
    (&["gb", "gigabytes"], 1e9),
    (&["kib"], 1024.0),
    (&["mib"], 1_048_576.0),
    (&["gib"], 1_073_741_824.0),
];

impl Quantity {
    /// What 1 is in a column of this name, in the quantity's own unit; none where the name does not say a
    /// unit of it.
    pub fn unit_in(self, name: &str) -> Option<f64> {
        let words = words(name);
        let last = words.last().copied().unwrap_or_default();
        let lower = last.to_lowercase();
        match self {
            Self::Power => match kind(name) {
                ColumnKind::Power(watts) => Some(watts),
                _ => None,
            },
            Self::Energy if last == "MJ" => Some(1e6),
            Self::Energy if last == "MWh" => Some(3.6e9),
            Self::Energy => unit(&ENERGY_UNITS, &lower),
            Self::Time => unit(&TIME_UNITS, &lower).map(|nanos| nanos as f64 / 1e9),
            Self::Size => unit(&SIZE_UNITS, &lower),
            Self::Share if name.contains('%') => Some(0.01),
            Self::Share => matches!(&*lower, "percent" | "pct" | "prozent").then_some(0.01),
            Self::Count => None,
        }
    }
}

/// Whether one of the words of a name, without case, is among these.
pub fn has_word(name: &str, of: &[&str]) -> bool {
    words(name).iter().any(|word| of.contains(&word.to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_from_names() {
        for (quantity, name, expected) in [
            (Quantity::Power, "power_kW", Some(1e3)),
            (Quantity::Power, "mW", Some(1e-3)),
            (Quantity::Power, "busy", None),
            (Quantity::Energy, "joules", Some(1.0)),
            (Quantity::Energy, "energy_kJ", Some(1e3)),
            (Quantity::Energy, "mJ", Some(1e-3)),
            (Quantity::Energy, "MJ", Some(1e6)),
            (Quantity::Energy, "Energie [Wh]", Some(3600.0)),
            (Quantity::Energy, "energy", None),
            (Quantity::Time, "on_ms", Some(1e-3)),
            (Quantity::Time, "off_min", Some(60.0)),
            (Quantity::Size, "size_KiB", Some(1024.0)),
            (Quantity::Share, "busy_percent", Some(0.01)),
            (Quantity::Share, "load [%]", Some(0.01)),
            (Quantity::Share, "busy", None),
        ] {
            assert_eq!(quantity.unit_in(name), expected, "{name}");
        }
    }
}
