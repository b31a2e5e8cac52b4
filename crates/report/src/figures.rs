//! Numbers as people read them.

/// A number with this many digits behind the point, and groups of three before it: `-1,234,567.5`.
/// What is no number is a dash.
pub fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::with_capacity(text.len() + text.len() / 3 + 1);
    // Not "-0.0": a sign before nothing asks the reader what is less than nothing.
    if value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        out.push('−');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A value with the digits that its half-width leaves sure: down to the half-width's first digit, or its second if the
/// first is 1 or 2. At least one digit stays. Without a half-width above 0, as
/// [`significant`].
pub fn rounded(value: f64, half_width: Option<f64>) -> String {
    let Some(half_width) = half_width.filter(|it| it.is_finite() && *it > 0.0) else {
        return significant(value);
    };
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let exponent = |value: f64| value.abs().log10().floor() as i32;
    let digit = exponent(half_width)
        - i32::from(half_width / 10_f64.powi(exponent(half_width)) < 2.999_999);
    let last = digit.min(exponent(value));
    if last > 0 {
        let step = 10_f64.powi(last);
        return format!("{:.0}", (value / step).round() * step);
    }
    format!("{value:.*}", usize::try_from(-last).unwrap_or(0))
}

/// A value and its half-width, both down to the second digit of the half-width (JCGM 100:2008, 7.2.6). Nothing if the
/// half-width is not known: then no digit is known to be beyond it.
pub fn with_half_width(value: f64, half_width: f64) -> Option<[String; 2]> {
    if !value.is_finite() || !half_width.is_finite() || half_width <= 0.0 {
        return None;
    }
    let last = half_width.log10().floor() as i32 - 1;
    let step = 10_f64.powi(last);
    let shown = |it: f64| {
        if last > 0 {
            format!("{:.0}", (it / step).round() * step)
        } else {
            format!("{it:.*}", usize::try_from(-last).unwrap_or(0))
        }
    };
    Some([shown(value), shown(half_width)])
}

/// A number with four digits that count.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if (-4..9).contains(&magnitude) {
        let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
        format!("{value:.decimals$}")
    } else {
        format!("{value:.3e}")
    }
}

/// How far a figure may be off, as a share of it: `± 3.0 %`, `± 0.03 %`, or beyond all of it as a factor.
pub fn accuracy(share: f64) -> String {
    if share < 0.001 {
        format!("± {} %", rounded(100.0 * share, Some(100.0 * share)))
    } else if share < 1.0 {
        format!("± {:.1} %", 100.0 * share)
    } else {
        format!("within a factor of {:.0}", 1.0 + share)
    }
}

#[cfg(test)]
mod tests {
    use super::{accuracy, grouped, rounded, significant, with_half_width};

    /// By hand, from JCGM 100:2008, 7.2.6: digits beyond the uncertainty say nothing.
    #[test]
    fn no_digit_is_beyond_its_uncertainty() {
        for (value, half_width, text) in [
            (3.4982, 20.615, "3"),
            (3.4982, 60.0, "3"),
            (162.43, 8.1, "162"),
            (0.8281, 0.0213, "0.828"),
            (0.8281, 0.0413, "0.83"),
            (1234.5, 80.0, "1230"),
            (1234.5, 1.2, "1234.5"),
            (1.0e-5, 5.9e-5, "0.00001"),
            (-9.96, 0.5, "-10.0"),
        ] {
            assert_eq!(rounded(value, Some(half_width)), text, "{value} ± {half_width}");
        }
        assert_eq!(rounded(12.3456, None), "12.35");
        assert_eq!(rounded(0.0, Some(1.0)), "0");
    }

    /// The first is the guide's own example: 100.021 47(35) g.
    #[test]
    fn a_half_width_keeps_two_digits_and_so_does_its_value() {
        for (value, half_width, text) in [
            (100.021_471_2, 0.000_351, Some(["100.02147", "0.00035"])),
            (3137.1, 156.9, Some(["3140", "160"])),
            (1.0392, 0.0520, Some(["1.039", "0.052"])),
            (0.0, 5.0, Some(["0.0", "5.0"])),
            (12.0, 0.0, None),
            (12.0, f64::NAN, None),
        ] {
            let wanted = text.map(|it| it.map(str::to_owned));
            assert_eq!(with_half_width(value, half_width), wanted, "{value} ± {half_width}");
        }
    }

    #[test]
    fn what_may_be_off_by_all_of_it_is_off_by_a_factor() {
        assert_eq!(accuracy(0.0304), "± 3.0 %");
        assert_eq!(accuracy(5.89), "within a factor of 7");
    }

    #[test]
    fn digits_come_in_groups_of_three() {
        for (value, decimals, text) in [
            (0.0, 0, "0"),
            (999.0, 0, "999"),
            (1000.0, 0, "1,000"),
            (-1_234_567.25, 1, "−1,234,567.2"),
            (999_999.96, 1, "1,000,000.0"),
            (-0.04, 1, "0.0"),
            (f64::NAN, 2, "–"),
            (f64::INFINITY, 2, "–"),
        ] {
            assert_eq!(grouped(value, decimals), text);
        }
    }

    #[test]
    fn numbers_keep_four_digits_that_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234_56, "0.001235"),
            (1.0, "1.000"),
            (43.25, "43.25"),
            (123_456.0, "123456"),
            (1e-9, "1.000e-9"),
            (-2.5, "-2.500"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
