//! The result as a page, and as tables.

use std::collections::BTreeSet;

use nightwatt_report::{
    Axis, Block, Cell, Chart, Column, Document, Kind, Note, Origin, Scale, Section, Series, Table,
    Text,
};

use super::result::{HelpsReport, LinkHelps, SHOWN, Shown};

impl HelpsReport {
    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("What helps a TCP connection");
        let kind = if self.energy_is_modelled { "modelled" } else { "measured" };
        document.subtitle = Text::from(format!(
            "What each change takes off a connection, in percent, by pairs of runs with and without it; \
             energy is {kind} by {}; whiskers are 95 % intervals, each of its bar alone",
            self.energy_source
        ));
        document.generated = generated;
        let mut sections = Vec::new();
        for link in &self.links {
            let charts: Vec<Block> =
                SHOWN.iter().filter_map(|it| link.savings(it).map(Block::from)).collect();
            if !charts.is_empty() {
                let (name, text) = (&link.scenario.name, link.scenario.text());
                sections.push(Section::new(format!("Scenario {name}: {text}"), charts));
            }
        }
        sections.push(Section::new("Every figure", vec![self.effects().into()]));
        if self.links.iter().any(|it| !it.refused.is_empty()) {
            sections.push(Section::new("What cannot be tried here", vec![self.refusals().into()]));
        }
        let origin = if self.energy_is_modelled { Origin::Modelled } else { Origin::Measured };
        let notes = self.notes.iter().map(|note| Note::new(origin, note.as_str()).into());
        sections.push(Section::new("Notes", notes.collect()));
        document.sections = sections;
        document
    }

    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![("effects", self.effects()), ("refused", self.refusals())]
    }

    fn effects(&self) -> Table {
        let columns = vec![
            Column::text("scenario"),
            Column::text("change"),
            Column::number("connections", ""),
            Column::number("segments", ""),
            Column::text("congestion control"),
            Column::text("figure"),
            Column::text("unit"),
            Column::number("pairs", ""),
            Column::number("without", ""),
            Column::number("with", ""),
            Column::number("change", "%"),
            Column::number("from", "%"),
            Column::number("to", "%"),
            Column::number("p, adjusted", ""),
            Column::text("verdict"),
        ];
        let mut table = Table::new("With each change, against without it", columns);
        for link in &self.links {
            for it in &link.changes {
                for figure in SHOWN {
                    let Some(effect) = it.figures.get(figure.name) else { continue };
                    let number = |value: Option<f64>, digits| {
                        let value = value.filter(|it| it.is_finite());
                        value.map_or(Cell::Empty, |it| Cell::number(it, digits))
                    };
                    table = table.row(vec![
                        link.scenario.name.as_str().into(),
                        it.change.as_str().into(),
                        Cell::count(it.cell.connections.into()),
                        Cell::count(it.cell.segments),
                        it.cell.congestion.as_str().into(),
                        figure.name.into(),
                        figure.unit.into(),
                        Cell::count(effect.pairs),
                        number(effect.without, 7),
                        number(effect.with, 7),
                        number(effect.percent, 2),
                        number(effect.low, 2),
                        number(effect.high, 2),
                        number(effect.p_adjusted, 5),
                        effect.verdict.to_string().into(),
                    ]);
                }
            }
        }
        table
    }

    fn refusals(&self) -> Table {
        let columns = ["scenario", "change", "end", "what", "why"].map(Column::text).to_vec();
        let mut table = Table::new("Refused", columns);
        for link in &self.links {
            for refused in &link.refused {
                for no in &refused.refusals {
                    table = table.row(vec![
                        link.scenario.name.as_str().into(),
                        refused.change.as_str().into(),
                        no.end.as_str().into(),
                        no.what.as_str().into(),
                        no.why.as_str().into(),
                    ]);
                }
            }
        }
        table
    }
}

impl LinkHelps {
    /// Bars of what is saved: upwards is less with the change.
    fn savings(&self, figure: &Shown) -> Option<Chart> {
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
            let mut series = Series::new(name, Kind::Bar);
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

/// What is known no better than that has no bar, in percent.
const WIDEST: f64 = 400.0;
