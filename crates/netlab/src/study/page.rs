//! The result as a report, and as tables.

mod times;

use std::collections::BTreeSet;

use nightwatt_report::{
    Axis, Block, Chart, Document, Note, Origin, Scale, Section, Series, SeriesKind, Table, Text,
};

use super::captured::CaptureComparison;
use super::figures::FIGURES;
use super::result::{CellReport, Report, ScenarioReport};
use super::units::{sureness, with_prefix};
use crate::check::Direction;

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

/// How a figure is shown.
#[derive(Clone, Copy)]
enum Shown {
    /// With its interval.
    Sure(&'static str),
    /// Without.
    Bare(&'static str),
    Percent,
}

/// Figures of a load. Of each end that is a machine of its own, only where
/// both are.
const SHOWN: [(&str, &str, Shown, bool); 19] = [
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
    ("sent again", "retransmitted", Shown::Percent, false),
];

/// A chart has the cells with these segments and this congestion control.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    segments: u64,
    congestion: String,
}

impl Report {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new()).to_text()
    }

    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("What a TCP connection costs");
        document.subtitle =
            Text::from("Each figure is of one connection; whiskers are 95 % intervals");
        document.generated = generated;
        let energy = Energy {
            source: &self.energy_source,
            is_modelled: self.energy_is_modelled,
            wake_joules: self.wake_joules,
        };
        document
            .sections(self.scenarios.iter().map(ScenarioReport::section))
            .sections([Section::new("Energy", energy.note().into_iter().collect())])
            .sections(BARS.iter().map(|bars| {
                let loads = self.loads();
                Section::of_charts(bars.title, loads.iter().filter_map(|it| self.bars(bars, it)))
            }))
            .sections(self.times())
            .sections([
                Section::new("Links", vec![self.links().into()]).detail(),
                Section::new("Every figure", vec![self.all_figures().into()]).detail(),
                notes_section(&self.notes),
            ])
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
            let mut series = Series::new(format!("{connections} at once"), SeriesKind::Bar);
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
        let yes = |is: bool| if is { "yes" } else { "no" };
        Table::of("Links: wanted and found", &self.scenarios)
            .text("scenario", |it| it.scenario.name.as_str())
            .text("emulated", |it| it.emulation.text())
            .number("wanted", "Mbit/s", 2, |it| it.scenario.bits_per_second / 1e6)
            .number("there", "Mbit/s", 3, |it| it.link.directions[0].rate / 1e6)
            .number("back", "Mbit/s", 3, |it| it.link.directions[1].rate / 1e6)
            .number("extra delay", "ms", 2, |it| 1e3 * it.scenario.delay.as_secs_f64())
            .number("round trip", "ms", 3, |it| 1e3 * it.link.round_trip)
            .number("wanted loss", "%", 3, |it| 100.0 * it.scenario.loss)
            .number("loss there", "%", 3, |it| 100.0 * it.link.directions[0].loss.share())
            .number("loss back", "%", 3, |it| 100.0 * it.link.directions[1].loss.share())
            .text("loss known within 5 %", |it| {
                yes(it.link.directions.iter().all(|it| it.loss_is_known))
            })
            .text("verdict", |it| it.link.verdict())
            .into()
    }

    fn all_figures(&self) -> Table {
        let mut table = Table::of("Means, and half of their 95 % intervals", self.cells())
            .text("scenario", |it| it.0)
            .count("connections", |it| it.1.cell.connections)
            .count("segments", |it| it.1.cell.segments)
            .text("congestion control", |it| it.1.cell.congestion.as_str())
            .count("runs", |it| it.1.runs.len())
            .number("length of a run", "s", 3, |it| it.1.run_s);
        for figure in FIGURES {
            let unit = if figure.unit == "1" { "" } else { figure.unit };
            let found = |it: &CellReport| it.figures.get(figure.name).copied();
            table = table.number(figure.name, unit, 7, |it| found(it.1).map(|it| it.mean)).number(
                format!("{} ±", figure.name),
                unit,
                7,
                |it| found(it.1).and_then(|it| it.half_width),
            );
        }
        table.into()
    }
}

/// Where the energy of a study is from.
pub(crate) struct Energy<'a> {
    pub(crate) source: &'a str,
    pub(crate) is_modelled: bool,
    /// What is added for each wake-up.
    pub(crate) wake_joules: Option<f64>,
}

impl Energy<'_> {
    pub(crate) fn note(&self) -> Option<Block> {
        let origin = if self.is_modelled { Origin::Modelled } else { Origin::Measured };
        let added =
            self.wake_joules.map(|it| format!(", and {} for each wake-up", with_prefix(it, "J")));
        let added = added.unwrap_or_default();
        let text = format!("energy, by {}, beyond that of the idle machine{added}", self.source);
        (!self.source.is_empty()).then(|| Note::new(origin, text).into())
    }
}

pub(crate) fn notes_section(notes: &[String]) -> Section {
    let notes: Vec<Text> = notes.iter().map(|note| Text::marked(note)).collect();
    let list = (!notes.is_empty()).then_some(Block::List(notes));
    Section::new("Notes", list.into_iter().collect())
}

impl ScenarioReport {
    fn section(&self) -> Section {
        let mut blocks = vec![Text::from(self.found()).into()];
        if !self.cells.is_empty() {
            blocks.push(self.figures().into());
        }
        for cell in &self.cells {
            let load = cell.cell.text();
            let mut add = |text: String| blocks.push(Text::from(format!("{load}: {text}")).into());
            if let Some(times) = &cell.kernel_time {
                add(times.text());
                times.energy_text().into_iter().for_each(|energy| {
                    add(format!("energy of a connection, by what CPUs did beyond idle: {energy}"));
                });
            }
            let captures = cell.runs.iter().filter_map(|run| run.capture.as_ref());
            CaptureComparison::text(captures).into_iter().for_each(add);
        }
        let wanted = &self.scenario;
        Section::new(format!("Scenario {}: {}", wanted.name, wanted.text()), blocks)
    }

    /// What the link was found to be.
    fn found(&self) -> String {
        let found = &self.link;
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
        let verdict = if found.complaints.is_empty() {
            String::new()
        } else {
            format!("; {}", found.verdict())
        };
        format!(
            "{}: found {:.4} and {:.4} Mbit/s, {:.3} ms, {} and {} lost{verdict}",
            self.emulation.text(),
            there.rate / 1e6,
            back.rate / 1e6,
            1e3 * found.round_trip,
            loss(&there),
            loss(&back),
        )
    }

    /// A row for each figure, a column for each load.
    fn figures(&self) -> Table {
        let is_shown = |(_, figure, _, is_of_side): &(&str, &str, Shown, bool)| {
            !is_of_side || self.cells.iter().any(|cell| cell.figures.contains_key(figure))
        };
        let mut table =
            Table::of("", SHOWN.into_iter().filter(is_shown)).text("of a connection", |it| it.0);
        for cell in &self.cells {
            let title = format!("{} ({} runs)", cell.cell.text(), cell.runs.len());
            table = table.written(&title, "", |(_, name, how, _)| {
                match (cell.figures.get(name), how) {
                    (None, _) => "–".to_owned(),
                    (Some(it), Shown::Sure(unit)) => {
                        let half = it.half_width.map(|half| sureness(it.mean, half, unit));
                        format!("{}{}", with_prefix(it.mean, unit), half.unwrap_or_default())
                    }
                    (Some(it), Shown::Bare(unit)) => with_prefix(it.mean, unit),
                    (Some(it), Shown::Percent) => format!("{:.3} %", 100.0 * it.mean),
                }
            });
        }
        table.into()
    }
}
