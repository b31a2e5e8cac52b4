//! The result as a page, and as tables.

mod times;

use std::collections::BTreeSet;

use nightwatt_report::{
    Axis, Block, Cell, Chart, Column, Document, Kind, Note, Origin, Scale, Section, Series, Table,
    Text,
};

use super::figures::FIGURES;
use super::result::{CellReport, Report};

/// A figure that is shown as bars.
struct Bars {
    figure: &'static str,
    title: &'static str,
    unit: &'static str,
    /// How many of the unit make the unit of the figure.
    scale: f64,
}

const BARS: [Bars; 6] = [
    Bars { figure: "lifetime", title: "Lifetime", unit: "ms", scale: 1e3 },
    Bars { figure: "sender_cpu", title: "CPU time of the sender", unit: "µs", scale: 1e6 },
    Bars { figure: "receiver_cpu", title: "CPU time of the receiver", unit: "µs", scale: 1e6 },
    Bars {
        figure: "active", title: "CPU time of the machine beyond idle", unit: "µs", scale: 1e6
    },
    Bars { figure: "wake_ups", title: "Wake-ups beyond idle", unit: "", scale: 1.0 },
    Bars {
        figure: "energy_per_segment",
        title: "Energy of a segment beyond idle",
        unit: "µJ",
        scale: 1e6,
    },
];

/// A chart has the cells with these segments and this congestion control.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    segments: u64,
    congestion: String,
}

impl Report {
    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("What a TCP connection costs");
        let kind = if self.energy_is_modelled { "modelled" } else { "measured" };
        document.subtitle = Text::from(format!(
            "Each figure is of one connection; energy is {kind} by {}; whiskers are 95 % intervals",
            self.energy_source
        ));
        document.generated = generated;
        let mut sections = Vec::new();
        for bars in &BARS {
            let charts: Vec<Block> = self
                .loads()
                .iter()
                .filter_map(|load| self.bars(bars, load).map(Block::from))
                .collect();
            if !charts.is_empty() {
                sections.push(Section::new(bars.title, charts));
            }
        }
        sections.extend(self.times());
        sections.push(Section::new("Links", vec![self.links().into()]));
        sections.push(Section::new("Every figure", vec![self.all_figures().into()]));
        let origin = if self.energy_is_modelled { Origin::Modelled } else { Origin::Measured };
        let notes = self.notes.iter().map(|note| Note::new(origin, note.as_str()).into());
        sections.push(Section::new("Notes", notes.collect()));
        document.sections = sections;
        document
    }

    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![("links", self.links()), ("figures", self.all_figures())]
    }

    fn cells(&self) -> impl Iterator<Item = (&str, &CellReport)> {
        self.scenarios
            .iter()
            .flat_map(|it| it.cells.iter().map(move |cell| (it.scenario.name.as_str(), cell)))
    }

    /// Links over which something was run.
    fn names(&self) -> Vec<String> {
        let run = self.scenarios.iter().filter(|it| !it.cells.is_empty());
        run.map(|it| it.scenario.name.clone()).collect()
    }

    /// Segments and congestion controls: a chart for each.
    fn loads(&self) -> BTreeSet<Load> {
        let load = |cell: &super::Cell| Load {
            segments: cell.segments,
            congestion: cell.congestion.clone(),
        };
        self.cells().map(|(_, it)| load(&it.cell)).collect()
    }

    fn bars(&self, bars: &Bars, load: &Load) -> Option<Chart> {
        let Bars { figure, title, unit, scale } = *bars;
        let Load { segments, congestion } = load;
        let scenarios = self.names();
        let is_of =
            |it: &CellReport| it.cell.segments == *segments && it.cell.congestion == *congestion;
        let at_once: BTreeSet<u32> =
            self.cells().filter(|(_, it)| is_of(it)).map(|(_, it)| it.cell.connections).collect();
        let x = Axis::new("scenario", "", Scale::Category(scenarios.clone()));
        let y = Axis::new(title, unit, Scale::FromZero);
        let heading = format!("{title}: {segments} segments, {congestion}");
        let mut chart = Chart::new(heading, x, y)
            .description("By link, a bar for each number of connections at once.");
        let mut is_empty = true;
        for connections in at_once {
            let mut series = Series::new(format!("{connections} at once"), Kind::Bar);
            for (scenario, cell) in self.cells() {
                let place = scenarios.iter().position(|it| it == scenario);
                let found = cell.figures.get(figure).zip(place);
                let Some((it, place)) =
                    found.filter(|_| is_of(cell) && cell.cell.connections == connections)
                else {
                    continue;
                };
                let interval =
                    it.half_width.map(|half| (scale * (it.mean - half), scale * (it.mean + half)));
                series = series.between(place as f64, scale * it.mean, interval);
                is_empty = false;
            }
            chart = chart.series(series);
        }
        (!is_empty).then_some(chart)
    }

    fn links(&self) -> Table {
        let mut table = Table::new(
            "Links: wanted and found",
            vec![
                Column::text("scenario"),
                Column::text("emulated"),
                Column::number("wanted", "Mbit/s"),
                Column::number("there", "Mbit/s"),
                Column::number("back", "Mbit/s"),
                Column::number("extra delay", "ms"),
                Column::number("round trip", "ms"),
                Column::number("wanted loss", "%"),
                Column::number("loss there", "%"),
                Column::number("loss back", "%"),
                Column::text("loss known within 5 %"),
                Column::text("verdict"),
            ],
        );
        for it in &self.scenarios {
            let [there, back] = it.link.directions;
            let verdict = match (&it.link.complaints[..], it.link.is_accepted) {
                ([], _) => "as it should be".to_owned(),
                (found, true) => format!("accepted all the same: {}", found.join("; ")),
                (found, false) => format!("refused: {}", found.join("; ")),
            };
            table = table.row(vec![
                it.scenario.name.as_str().into(),
                it.emulation.text().into(),
                Cell::number(it.scenario.bits_per_second / 1e6, 2),
                Cell::number(there.rate / 1e6, 3),
                Cell::number(back.rate / 1e6, 3),
                Cell::number(1e3 * it.scenario.delay.as_secs_f64(), 2),
                Cell::number(1e3 * it.link.round_trip, 3),
                Cell::number(100.0 * it.scenario.loss, 3),
                Cell::number(100.0 * there.loss.share(), 3),
                Cell::number(100.0 * back.loss.share(), 3),
                if there.loss_is_known && back.loss_is_known { "yes" } else { "no" }.into(),
                verdict.into(),
            ]);
        }
        table
    }

    fn all_figures(&self) -> Table {
        let mut columns = vec![
            Column::text("scenario"),
            Column::number("connections", ""),
            Column::number("segments", ""),
            Column::text("congestion control"),
            Column::number("runs", ""),
            Column::number("length of a run", "s"),
        ];
        for figure in FIGURES {
            let unit = if figure.unit == "1" { "" } else { figure.unit };
            columns.push(Column::number(figure.name, unit));
            columns.push(Column::number(format!("{} ±", figure.name), unit));
        }
        let mut table = Table::new("Means, and half of their 95 % intervals", columns);
        for (scenario, it) in self.cells() {
            let mut cells: Vec<Cell> = vec![
                scenario.into(),
                Cell::count(it.cell.connections.into()),
                Cell::count(it.cell.segments),
                it.cell.congestion.as_str().into(),
                Cell::count(it.runs.len() as u64),
                Cell::number(it.run_s, 3),
            ];
            for figure in FIGURES {
                let found = it.figures.get(figure.name);
                let number = |value: f64| Cell::number(value, 7);
                cells.push(found.map_or(Cell::Empty, |it| number(it.mean)));
                cells.push(found.and_then(|it| it.half_width).map_or(Cell::Empty, number));
            }
            table = table.row(cells);
        }
        table
    }
}
