//! The result as a report, and as tables.

use std::collections::BTreeSet;

use nightwatt_report::{
    Axis, Block, Chart, Document, Note, Origin, Scale, Section, Series, SeriesKind, Table, Text,
};

use super::result::{ChangeReport, ComparedFigure, Effect, HelpsReport, LinkHelps, SHOWN};
use crate::study::page::{Energy, notes_section};
use crate::study::units::with_prefix;

impl HelpsReport {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new()).to_text()
    }

    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("What helps a TCP connection");
        document.subtitle = Text::from(
            "What each change takes off a connection, in percent, by pairs of runs with and without it; \
             whiskers are 95 % intervals, each of its bar alone",
        );
        document.generated = generated;
        let energy = Energy {
            source: &self.energy_source,
            is_modelled: self.energy_is_modelled,
            wake_joules: self.wake_joules,
        };
        let terms = format!(
            "change: with it, against without it, in pairs of runs; {:.0} % and less count as no difference; \
             intervals hold 95 % each although figures said when to stop; verdicts go by p-values that are \
             adjusted (Holm) for all changes and loads of a link, figure by figure",
            100.0 * self.margin
        );
        let terms = Note::new(Origin::Counted, terms).into();
        document.sections(self.links.iter().map(LinkHelps::section)).sections([
            Section::of_table("What cannot be tried here", self.refusals()),
            Section::new("Every figure", vec![self.effects().into()]).detail(),
            Section::new("How to read this", energy.note().into_iter().chain([terms]).collect()),
            notes_section(&self.notes),
        ])
    }

    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![("effects", self.effects()), ("refused", self.refusals())]
    }

    fn effects(&self) -> Table {
        let rows = self.links.iter().flat_map(|link| {
            link.changes.iter().flat_map(move |it| effects(it).map(move |found| (link, it, found)))
        });
        let known = |value: Option<f64>| value.filter(|it| it.is_finite());
        Table::of("With each change, against without it", rows)
            .text("scenario", |it| it.0.scenario.name.as_str())
            .text("change", |it| it.1.change.as_str())
            .count("connections", |it| it.1.cell.connections)
            .count("segments", |it| it.1.cell.segments)
            .text("congestion control", |it| it.1.cell.congestion.as_str())
            .text("figure", |it| it.2.0.name)
            .text("unit", |it| it.2.0.unit)
            .count("pairs", |it| it.2.1.pairs)
            .number("without", "", 7, |it| known(it.2.1.without))
            .number("with", "", 7, |it| known(it.2.1.with))
            .number("change", "%", 2, |it| known(it.2.1.percent))
            .number("from", "%", 2, |it| known(it.2.1.low))
            .number("to", "%", 2, |it| known(it.2.1.high))
            .number("p, adjusted", "", 5, |it| known(it.2.1.p_adjusted))
            .text("verdict", |it| it.2.1.verdict.to_string())
            .into()
    }

    fn refusals(&self) -> Table {
        let rows = self.links.iter().flat_map(|link| {
            link.refused.iter().flat_map(move |it| it.refusals.iter().map(move |no| (link, it, no)))
        });
        Table::of("Refused", rows)
            .text("scenario", |it| it.0.scenario.name.as_str())
            .text("change", |it| it.1.change.as_str())
            .text("end", |it| it.2.end.as_str())
            .text("what", |it| it.2.what.as_str())
            .text("why", |it| it.2.why.as_str())
            .into()
    }
}

/// Figures of a change that are known.
fn effects(change: &ChangeReport) -> impl Iterator<Item = (&'static ComparedFigure, &Effect)> {
    SHOWN.iter().filter_map(|figure| Some((figure, change.figures.get(figure.name)?)))
}

impl LinkHelps {
    /// What the link is, a table for each load, and charts.
    fn section(&self) -> Section {
        let mut text = self.emulation.text();
        if let Some(found) = &self.link {
            let [there, back] = found.directions.map(|it| it.rate / 1e6);
            let round_trip = 1e3 * found.round_trip;
            text = format!("{text}: found {there:.4} and {back:.4} Mbit/s, {round_trip:.3} ms");
            if !found.complaints.is_empty() {
                text = format!("{text}; {}", found.verdict());
            }
        }
        let mut blocks = vec![Text::from(text).into()];
        for changes in self.changes.chunk_by(|a, b| a.cell == b.cell) {
            blocks.push(main_effects(changes).into());
            for change in changes.iter().filter(|it| it.figures.is_empty()) {
                let why = if change.failures.is_empty() { "not run" } else { "no run succeeded" };
                blocks.push(Text::from(format!("{}: {why}", change.change)).into());
            }
        }
        blocks.extend(SHOWN.iter().filter_map(|it| self.savings(it).map(Block::from)));
        Section::new(format!("Scenario {}: {}", self.scenario.name, self.scenario.text()), blocks)
    }

    /// Bars of what is saved: upwards is less with the change.
    fn savings(&self, figure: &ComparedFigure) -> Option<Chart> {
        let mut changes: Vec<String> = Vec::new();
        for it in &self.changes {
            if !changes.contains(&it.change) {
                changes.push(it.change.clone());
            }
        }
        let loads: BTreeSet<(u64, u32, &str)> = self
            .changes
            .iter()
            .map(|it| (it.cell.segments, it.cell.connections, it.cell.congestion.as_str()))
            .collect();
        let x = Axis::new("change", "", Scale::Category(changes.clone()));
        let y = Axis::new("saved", "%", Scale::FromZero);
        let mut chart = Chart::new(format!("Saved by it: {}", figure.title), x, y).description(
            "What a change takes off a connection, in percent of what it is without; below zero it costs \
             more with it.",
        );
        let mut is_empty = true;
        for load in loads {
            let (segments, connections, congestion) = load;
            let name = format!("{connections} x {segments} segments, {congestion}");
            let mut series = Series::new(name, SeriesKind::Bar);
            for it in &self.changes {
                let own = (it.cell.segments, it.cell.connections, it.cell.congestion.as_str());
                let place = changes.iter().position(|name| *name == it.change);
                let effect = it.figures.get(figure.name).filter(|_| own == load);
                let Some((percent, place)) = effect.and_then(|it| it.percent).zip(place) else {
                    continue;
                };
                let ends = effect.and_then(|it| it.low.zip(it.high));
                let whiskers = ends
                    .filter(|(low, high)| low.is_finite() && high.is_finite())
                    .map(|(low, high)| (-high, -low));
                // A bar whose figure is hardly known says nothing, and hides all others.
                let Some(whiskers) = whiskers.filter(|it| it.1 - it.0 < WIDEST) else { continue };
                series = series.between(place as f64, -percent, Some(whiskers));
                is_empty = false;
            }
            chart = chart.series(series);
        }
        (!is_empty).then_some(chart)
    }
}

/// The main figures of changes under one load.
fn main_effects(changes: &[ChangeReport]) -> Table {
    let rows =
        changes.iter().flat_map(|change| effects(change).map(move |it| (change, it.0, it.1)));
    let value = |it: Option<f64>, unit| it.map_or("–".to_owned(), |it| with_prefix(it, unit));
    Table::of(changes[0].cell.text(), rows.filter(|it| it.1.is_main))
        .text("change", |it| it.0.change.as_str())
        .count("pairs", |it| it.2.pairs)
        .detail()
        .text("of a connection", |it| it.1.title)
        .written("without", "", |it| value(it.2.without, it.1.unit))
        .detail()
        .written("with", "", |it| value(it.2.with, it.1.unit))
        .detail()
        .written("change", "%", |it| {
            it.2.percent.map_or("–".to_owned(), |it| format!("{it:+.1}"))
        })
        .written("95 %", "%", |it| match (it.2.low, it.2.high) {
            (Some(low), Some(high)) if high.is_finite() => format!("{low:+.1} to {high:+.1}"),
            (Some(low), _) => format!("{low:+.1} and more"),
            _ => "–".to_owned(),
        })
        .text("verdict", |it| it.2.verdict.to_string())
        .into()
}

/// What is known no better than that has no bar, in percent.
const WIDEST: f64 = 400.0;
