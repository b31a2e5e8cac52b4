//! The tables for people.

use std::fmt::Write;

use super::captured::CaptureBooks;
use super::result::{CellReport, Report, ScenarioReport};
use super::units::with_prefix;
use crate::check::Direction;

impl Report {
    /// A table for each link, and what to think of them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for scenario in &self.scenarios {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "{}", scenario.text());
        }
        let kind = if self.energy_is_modelled { "modelled" } else { "measured" };
        if !self.energy_source.is_empty() {
            let _ = write!(
                text,
                "energy is {kind} by {}, beyond that of the idle machine",
                self.energy_source
            );
            if let Some(joules) = self.wake_joules {
                let _ = write!(text, ", and {} for each wake-up", with_prefix(joules, "J"));
            }
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

/// How a figure is shown.
#[derive(Clone, Copy)]
enum Shown {
    /// With its interval.
    Sure(&'static str),
    /// Without.
    Bare(&'static str),
    Percent,
}

/// Columns that say what was run are before these. Of each end that is a machine of its own, only where
/// both are.
const COLUMNS: [(&str, &str, Shown, bool); 18] = [
    ("lifetime", "lifetime", Shown::Sure("s"), false),
    ("sender CPU", "sender_cpu", Shown::Sure("s"), false),
    ("receiver CPU", "receiver_cpu", Shown::Sure("s"), false),
    ("sender active", "sender_active", Shown::Sure("s"), true),
    ("receiver active", "receiver_active", Shown::Sure("s"), true),
    ("sender wake-ups", "sender_wake_ups", Shown::Sure(""), true),
    ("receiver wake-ups", "receiver_wake_ups", Shown::Sure(""), true),
    ("sender traced", "sender_traced_wake_ups", Shown::Sure(""), true),
    ("receiver traced", "receiver_traced_wake_ups", Shown::Sure(""), true),
    ("sender interrupts", "sender_interrupts", Shown::Sure(""), true),
    ("receiver interrupts", "receiver_interrupts", Shown::Sure(""), true),
    ("active CPU", "active", Shown::Sure("s"), false),
    ("wake-ups", "wake_ups", Shown::Sure(""), false),
    ("traced", "traced_wake_ups", Shown::Sure(""), false),
    ("energy", "energy", Shown::Sure("J"), false),
    ("rate", "rate", Shown::Bare("bit/s"), false),
    ("round trip", "round_trip", Shown::Bare("s"), false),
    ("lost", "loss", Shown::Percent, false),
];

/// The last.
const AGAIN: (&str, &str, Shown, bool) = ("sent again", "retransmitted", Shown::Percent, false);

impl ScenarioReport {
    fn text(&self) -> String {
        let (found, wanted) = (&self.link, &self.scenario);
        let [there, back] = found.directions;
        let loss = |of: &Direction| {
            let (low, high) = (100.0 * of.loss_interval.0, 100.0 * of.loss_interval.1);
            let share = 100.0 * of.loss.share();
            if of.loss_is_known {
                format!("{share:.3} %")
            } else {
                format!("{share:.3} % ({low:.3} to {high:.3} %, not known within 5 %)")
            }
        };
        let mut text = format!(
            "scenario {}: {} ({})\n  the link was found to have {:.4} and {:.4} Mbit/s, {:.3} ms, {} and {} lost",
            wanted.name,
            wanted.text(),
            self.emulation.text(),
            there.rate / 1e6,
            back.rate / 1e6,
            1e3 * found.round_trip,
            loss(&there),
            loss(&back),
        );
        if !found.complaints.is_empty() {
            let what =
                if found.is_accepted { "ACCEPTED, though not as it should be" } else { "REFUSED" };
            let _ = write!(text, "\n  {what}: {}", found.complaints.join("; "));
        }
        text.push('\n');
        if self.cells.is_empty() {
            return text;
        }
        let is_shown = |(_, figure, _, is_of_side): &(&str, &str, Shown, bool)| {
            !is_of_side || self.cells.iter().any(|cell| cell.figures.contains_key(figure))
        };
        let columns: Vec<_> = COLUMNS.into_iter().chain([AGAIN]).filter(is_shown).collect();
        let names = ["conns", "segments", "control", "runs"].into_iter();
        let names = names.chain(columns.iter().map(|(title, ..)| *title)).map(str::to_owned);
        let mut rows = vec![names.collect::<Vec<String>>()];
        let shown: Vec<_> = columns.iter().map(|(_, figure, how, _)| (*figure, *how)).collect();
        rows.extend(self.cells.iter().map(|cell| cell.row(&shown)));
        table(&mut text, &rows);
        for cell in &self.cells {
            if let Some(times) = &cell.kernel_time {
                let _ = writeln!(text, "  {}: {}", cell.cell.text(), times.text());
                if let Some(energy) = times.energy_text() {
                    let _ = writeln!(
                        text,
                        "    energy of a connection, by what CPUs did beyond idle: {energy}"
                    );
                }
            }
            let captures = cell.runs.iter().filter_map(|run| run.capture.as_ref());
            if let Some(said) = CaptureBooks::text(captures) {
                let _ = writeln!(text, "  {}: {said}", cell.cell.text());
            }
        }
        text
    }
}

impl CellReport {
    fn row(&self, columns: &[(&str, Shown)]) -> Vec<String> {
        let mut row = vec![
            self.cell.connections.to_string(),
            self.cell.segments.to_string(),
            self.cell.congestion.clone(),
            self.runs.len().to_string(),
        ];
        row.extend(columns.iter().map(|(name, how)| match (self.figures.get(name), how) {
            (None, _) => "-".to_owned(),
            (Some(it), Shown::Sure(unit)) => {
                let half = it.half_width.map(|half| sureness(it.mean, half, unit));
                format!("{}{}", with_prefix(it.mean, unit), half.unwrap_or_default())
            }
            (Some(it), Shown::Bare(unit)) => with_prefix(it.mean, unit),
            (Some(it), Shown::Percent) => format!("{:.3} %", 100.0 * it.mean),
        }));
        row
    }
}

/// In percent, where that says something.
fn sureness(mean: f64, half: f64, unit: &str) -> String {
    if half <= mean.abs() && mean != 0.0 {
        format!(" ± {:.0} %", 100.0 * half / mean.abs())
    } else {
        format!(" ± {}", with_prefix(half, unit))
    }
}

/// Columns as wide as they need be, numbers to the right.
pub(crate) fn table(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        text.push(' ');
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, " {cell:>width$}");
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
