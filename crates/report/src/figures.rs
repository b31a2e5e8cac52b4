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

#[cfg(test)]
mod tests {
    use super::grouped;

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
}
