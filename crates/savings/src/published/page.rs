//! The comparison as a report.

use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::{
    Axis, Block, Cell, Chart, Column, Document, Figure as _, KeyFigure, Note, Origin, Scale,
    Section, Series, SeriesKind, Table, Text,
};

use super::result::{Comparison, Configuration, Figure};
use super::yardstick::{CONFIGURATIONS, TABLE};

/// Delays of the distribution that the table has, s.
const TOLD: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 1.0, 2.0, 5.0, 7.0, 10.0];

impl Comparison {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new()).to_text()
    }

    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("The published comparison over your log");
        let rule = match self.crawlers {
            super::Crawlers::Published => "by the nine published strings",
            super::Crawlers::Classifier => "by nightwatt's classifier",
        };
        document.verdict = Text::marked(&format!(
            "{} requests in {:.1} days, {:.1} % of crawlers ({rule}); policy `{}`.",
            self.requests,
            self.span_s / 86_400.0,
            100.0 * self.crawler_share,
            self.policy
        ));
        document.subtitle = Text::from(self.logs.join(", "));
        document.generated = generated;
        document.warnings.clone_from(&self.warnings);
        document.sections([
            Section::new("In short", vec![Block::Figures(self.key_figures())]),
            Section::new("Who answered what, and how fast", self.table_blocks()),
            Section::new("Energy", self.energy_blocks()),
            Section::new(
                "Delays",
                vec![
                    self.delays_chart().into(),
                    self.delays_table().into(),
                    modelled_delays().into(),
                ],
            ),
            Section::new("Their figures, of another log", theirs()).detail(),
        ])
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
            table = table.row(row(name, cells.into_iter().map(Figure::cell)));
        }
        let share = |of: fn(&Configuration) -> f64| {
            self.configurations.iter().map(move |it| Cell::number(100.0 * of(it), 1))
        };
        let table = table
            .row(row("wake-ups", self.configurations.iter().map(|it| it.wakeups.cell(0))))
            .row(row("within 50 ms [%]", share(|it| it.within_50ms_share)))
            .row(row("energy saved [%]", share(|it| it.saving)));
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
        .series(Series::new("Server", SeriesKind::Stacked).points(kwh(|it| it.server_j)))
        .series(Series::new("Proxy", SeriesKind::Stacked).points(kwh(|it| it.proxy_j)));
        let table = Table::of("", &self.configurations)
            .text("configuration", |it| it.name)
            .number("server", "kWh", 3, |it| it.server_j / JOULES_PER_KWH)
            .number("proxy", "kWh", 3, |it| it.proxy_j / JOULES_PER_KWH)
            .number("energy", "kWh", 3, |it| it.energy_j / JOULES_PER_KWH)
            .number("saved", "%", 1, |it| 100.0 * it.saving);
        vec![chart.into(), table.into(), Note::of_energy(&self.energy()).into()]
    }

    fn delays_table(&self) -> Table {
        let table = Table::of("Share of the answers within a delay", TOLD);
        let table = table.text("delay [s]", |delay_s| delay_s.to_string());
        let with = |table: nightwatt_report::Rows<f64>, it: &Configuration| {
            table.number(it.name, "%", 2, |delay_s| {
                let at = it.delays.iter().find(|at| at.delay_s >= delay_s * (1.0 - 1e-9));
                at.map(|at| 100.0 * at.share)
            })
        };
        self.configurations.iter().fold(table, with).into()
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
            chart.series(Series::new(it.name, SeriesKind::Step).points(points))
        })
    }
}

fn row(name: &'static str, cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    std::iter::once(name.into()).chain(cells).collect()
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
        table = table.row(row(name, values.map(cell)));
    }
    let text = "A yardstick only: another log, a real test bed, delays measured there. K. J. \
                O'Dwyer, Topics in Power Usage in Network Services, PhD thesis, Maynooth \
                University, 2017, table 4.3.";
    vec![table.into(), Note::new(Origin::Measured, text).into()]
}
