//! Counts, amounts and spans as people write them.

use nightwatt_report::grouped;

/// A count with its noun, whose plural ends in s.
pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count as f64, 0), if count == 1 { "" } else { "s" })
}

/// With the digits that matter: `1,234`, `56.7`, `0.12`.
pub(super) fn amount(value: f64) -> String {
    grouped(
        value,
        if value.abs() >= 100.0 {
            0
        } else if value.abs() >= 1.0 {
            1
        } else {
            2
        },
    )
}

/// An amount of money: `57`, `5.69`; in whole units where it follows from watts that are `assumed`.
pub(super) fn money(value: f64, assumed: bool) -> String {
    grouped(value, digits_of_money(value, assumed))
}

/// Digits of that amount behind the point.
pub(super) const fn digits_of_money(value: f64, assumed: bool) -> usize {
    if assumed || value.abs() >= 10.0 { 0 } else { 2 }
}

/// A span: `28.7 days`, `3.5 hours`, `12 seconds`.
pub(super) fn days_text(span_s: f64) -> String {
    match span_s {
        days if days >= 86_400.0 => format!("{:.1} days", days / 86_400.0),
        hours if hours >= 3600.0 => format!("{:.1} hours", hours / 3600.0),
        minutes if minutes >= 60.0 => format!("{:.1} minutes", minutes / 60.0),
        second if (0.5..1.5).contains(&second) => "1 second".to_owned(),
        seconds => format!("{seconds:.0} seconds"),
    }
}
