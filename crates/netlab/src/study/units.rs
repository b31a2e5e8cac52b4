//! Values with their units, for people. Pure.

/// Three or four digits, and the prefix that fits: `1.234 ms`.
pub(crate) fn with_prefix(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 7] =
        [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];
    if unit.is_empty() || value == 0.0 || !value.is_finite() {
        return format!("{value:.2} {unit}").trim_end().to_owned();
    }
    let fits = |(scale, _): &&(f64, &str)| value.abs() >= 0.9995 * scale;
    let (scale, prefix) = PREFIXES.iter().find(fits).unwrap_or(&PREFIXES[6]);
    let scaled = value / scale;
    let digits = match scaled.abs() {
        large if large >= 99.95 => 1,
        medium if medium >= 9.995 => 2,
        _ => 3,
    };
    format!("{scaled:.digits$} {prefix}{unit}")
}

/// In percent, where that says something.
pub(super) fn sureness(mean: f64, half: f64, unit: &str) -> String {
    if half <= mean.abs() && mean != 0.0 {
        format!(" ± {:.0} %", 100.0 * half / mean.abs())
    } else {
        format!(" ± {}", with_prefix(half, unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_prefix_that_fits() {
        for (value, unit, text) in [
            (0.012_34, "s", "12.34 ms"),
            (9.57e6, "bit/s", "9.570 Mbit/s"),
            (1.0, "s", "1.000 s"),
            (0.000_999_9, "s", "1.000 ms"),
            (-2.5e-6, "J", "-2.500 µJ"),
            (12.0, "", "12.00"),
            (0.0, "J", "0.00 J"),
        ] {
            assert_eq!(with_prefix(value, unit), text);
        }
    }

    #[test]
    fn what_is_hardly_known_is_told_in_its_own_unit() {
        assert_eq!(sureness(0.01, 0.0005, "s"), " ± 5 %");
        assert_eq!(sureness(-1e-6, 5e-6, "J"), " ± 5.000 µJ");
        assert_eq!(
            (sureness(0.0, 0.0, "J"), sureness(0.0, 0.25, "")),
            (" ± 0.00 J".to_owned(), " ± 0.25".to_owned())
        );
    }
}
