//! The comparison as a page.

use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::{
    Axis, Block, Cell, Chart, Column, Document, KeyFigure, Kind, Note, Origin, Scale, Section,
    Series, Table, Text,
};

use super::result::{Comparison, Figure};
use super::yardstick::{CONFIGURATIONS, TABLE};

impl Comparison {
    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("The published comparison over your log");
        let days = self.span_s / 86_400.0;
        document.subtitle = Text::from(format!(
            "{}: {} requests in {days:.1} days, {:.1} % of crawlers ({}); policy {}",
            self.logs.join(", "),
            self.requests,
            100.0 * self.crawler_share,
            self.rule(),
            self.policy
        ));
        document.generated = generated;
        document.sections = vec![
            Section::new("In short", vec![Block::Figures(self.key_figures())]),
            Section::new("Who answered what, and how fast", self.table_blocks()),
            Section::new("Energy", self.energy_blocks()),
            Section::new("Delays", vec![self.delays_chart().into(), modelled_delays().into()]),
            Section::new("Their figures, of another log", theirs()),
        ];
        if !self.warnings.is_empty() {
            let warnings = self.warnings.iter().map(|warning| Text::from(warning.as_str()));
            let block = Block::List(warnings.collect());
            document.sections.insert(1, Section::new("What to mind", vec![block]));
        }
        document
    }

    fn key_figures(&self) -> Vec<KeyFigure> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut figures = vec![
            KeyFigure::new("Answered by the cache", percent(self.cache_share(1)))
                .note(format!("{} with an hour of grace", percent(self.cache_share(2)))),
        ];
        for it in self.configurations.iter().skip(3) {
            let figure = KeyFigure::new(format!("Energy saved, {}", it.name), percent(it.saving));
            let on_time = percent(it.within_50ms_share);
            figures.push(figure.note(format!("{on_time} of the answers within 50 ms")));
        }
        figures
    }

    fn table_blocks(&self) -> Vec<Block> {
        let mut table = Table::new("Five configurations, each from an empty cache", columns());
        for (name, cells) in self.rows() {
            let cells = cells.into_iter().map(|figure| match figure {
                Figure::Count(count) => Cell::count(count),
                Figure::Seconds(seconds) => Cell::number(seconds, 3),
                Figure::Nothing => Cell::Empty,
            });
            table = table.row(std::iter::once(name.into()).chain(cells).collect());
        }
        let counted = Text::from("Requests, statuses and clients are those of the log. ")
            .code("malformed")
            .plain(" are lines that hold no HTTP request; nothing is sent for them.");
        vec![table.into(), Note::new(Origin::Counted, counted).into()]
    }

    fn energy_blocks(&self) -> Vec<Block> {
        let names = CONFIGURATIONS.map(str::to_owned).to_vec();
        let kwh = |of: fn(&super::Configuration) -> f64| {
            let configurations = self.configurations.iter().enumerate();
            configurations.map(move |(place, it)| (place as f64, of(it) / JOULES_PER_KWH))
        };
        let chart = Chart::new(
            "Energy",
            Axis::new("Configuration", "", Scale::Category(names)),
            Axis::new("Energy", "kWh", Scale::FromZero),
        )
        .description("The energy of server and proxy in each configuration, on top of each other.")
        .series(Series::new("Server", Kind::Stacked).points(kwh(|it| it.server_j)))
        .series(Series::new("Proxy", Kind::Stacked).points(kwh(|it| it.proxy_j)));
        vec![chart.into(), Note::of_energy(&self.energy()).into()]
    }

    fn delays_chart(&self) -> Chart {
        let chart = Chart::new(
            "Share of the answers within a time",
            Axis::new("Delay", "s", Scale::LogDuration),
            Axis::new("Share of the answers", "%", Scale::Linear),
        )
        .description(
            "For each configuration, how many of the answers took no longer than this delay.",
        )
        .line_at_x(0.05, "50 ms");
        self.configurations.iter().fold(chart, |chart, it| {
            let points = it.delays.iter().map(|at| (at.delay_s, 100.0 * at.share));
            chart.series(Series::new(it.name, Kind::Step).points(points))
        })
    }
}

fn columns() -> Vec<Column> {
    let names = CONFIGURATIONS.into_iter().map(|name| Column::number(name, ""));
    std::iter::once(Column::text("metric")).chain(names).collect()
}

fn modelled_delays() -> Note {
    let text = "What a request waits for a server that sleeps comes from the simulation; what an \
                answer takes besides is the scenario's service time, the same for all. Network, \
                load and failures are not in it.";
    Note::new(Origin::Modelled, text)
}

fn theirs() -> Vec<Block> {
    let mut table = Table::new("As published by O'Dwyer: 28 hours of a campus server", columns());
    for (name, values) in TABLE {
        let decimals = if name.ends_with("_s") { 3 } else { 0 };
        let cell = |value: f64| {
            if value.is_nan() { Cell::Empty } else { Cell::number(value, decimals) }
        };
        table = table.row(std::iter::once(name.into()).chain(values.map(cell)).collect());
    }
    let text = "A yardstick only: another log, a real test bed, delays measured there. K. J. \
                O'Dwyer, Topics in Power Usage in Network Services, PhD thesis, Maynooth \
                University, 2017, table 4.3.";
    vec![table.into(), Note::new(Origin::Measured, text).into()]
}
