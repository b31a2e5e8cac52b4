//! The tables for people.

use std::fmt::Write;

use super::result::{ChangeReport, Effect, HelpsReport, LinkHelps, SHOWN};
use crate::study::text::table;
use crate::study::units::with_prefix;

impl HelpsReport {
    /// A table for each link, and what to think of them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for link in &self.links {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "{}", link.text());
        }
        let margin = 100.0 * self.margin;
        let _ = writeln!(
            text,
            "change: with it, against without it, in pairs of runs; {margin:.0} % and less count as no \
             difference; intervals hold 95 % each although figures said when to stop; verdicts go by \
             p-values that are adjusted (Holm) for all changes and loads of a link, figure by figure"
        );
        if !self.energy_source.is_empty() {
            let kind = if self.energy_is_modelled { "modelled" } else { "measured" };
            let source = &self.energy_source;
            let _ = write!(text, "energy is {kind} by {source}, beyond that of the idle machine");
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

const HEAD: [&str; 8] =
    ["change", "pairs", "of a connection", "without", "with", "change", "95 %", "verdict"];

impl LinkHelps {
    fn text(&self) -> String {
        let mut text = format!(
            "scenario {}: {} ({})",
            self.scenario.name,
            self.scenario.text(),
            self.emulation.text()
        );
        if let Some(found) = &self.link {
            let [there, back] = found.directions.map(|it| it.rate / 1e6);
            let round_trip = 1e3 * found.round_trip;
            let _ = write!(
                text,
                "\n  the link was found to have {there:.4} and {back:.4} Mbit/s, {round_trip:.3} ms"
            );
            if !found.complaints.is_empty() {
                let what = if found.is_accepted { "ACCEPTED, though" } else { "REFUSED," };
                let _ =
                    write!(text, "\n  {what} not as it should be: {}", found.complaints.join("; "));
            }
        }
        text.push('\n');
        let mut cell = None;
        let mut rows: Vec<Vec<String>> = Vec::new();
        for change in &self.changes {
            if cell != Some(&change.cell) {
                flush(&mut text, &mut rows);
                let _ = writeln!(text, "  {}", change.cell.text());
                rows.push(HEAD.map(str::to_owned).to_vec());
                cell = Some(&change.cell);
            }
            rows.extend(change.rows());
        }
        flush(&mut text, &mut rows);
        for refused in &self.refused {
            for no in &refused.refusals {
                let _ = writeln!(
                    text,
                    "  {} cannot be tried: {}: {} is refused: {}",
                    refused.change, no.end, no.what, no.why
                );
            }
        }
        text
    }
}

fn flush(text: &mut String, rows: &mut Vec<Vec<String>>) {
    if !rows.is_empty() {
        table(text, rows);
        rows.clear();
    }
}

impl ChangeReport {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for figure in SHOWN.iter().filter(|it| it.is_main) {
            let Some(effect) = self.figures.get(figure.name) else { continue };
            let (change, pairs) = if rows.is_empty() {
                (self.change.clone(), effect.pairs.to_string())
            } else {
                (String::new(), String::new())
            };
            let value =
                |it: Option<f64>| it.map_or("-".to_owned(), |it| with_prefix(it, figure.unit));
            let percent = effect.percent.map_or("-".to_owned(), |it| format!("{it:+.1} %"));
            rows.push(vec![
                change,
                pairs,
                figure.title.to_owned(),
                value(effect.without),
                value(effect.with),
                percent,
                effect.interval_text(),
                effect.verdict.to_string(),
            ]);
        }
        if rows.is_empty() {
            let why = if self.failures.is_empty() { "not run" } else { "no run succeeded" };
            rows.push(vec![self.change.clone(), "0".to_owned(), why.to_owned()]);
        }
        rows
    }
}

impl Effect {
    /// In percent, from and to.
    pub(super) fn interval_text(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) if high.is_finite() => format!("{low:+.1} to {high:+.1}"),
            (Some(low), _) => format!("{low:+.1} and more"),
            _ => "-".to_owned(),
        }
    }
}
