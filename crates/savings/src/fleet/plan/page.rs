//! The result as a page, and as tables.

use nightwatt_report::{
    Block, Cell, Chart, Column, Document, KeyFigure, Note, Origin, Section, Table, Text, grouped,
};

use super::result::{Estimate, PlanResult, Row};

impl PlanResult {
    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("Pools of servers, switched by policies");
        document.subtitle = Text::from(format!(
            "Answers within {:.0} ms, at most {} % of the requests refused or late; {} replications",
            1e3 * self.sla_s,
            100.0 * self.refused_limit,
            self.replications
        ));
        document.generated = generated;
        let mut sections = vec![
            self.short_section(),
            charts("Energy against transitions", self.trade_offs()),
            charts("Against the rate", self.against_rate()),
            charts("By how many are always on", self.against_number()),
            charts("By how long switching off is delayed", self.against_delay()),
            charts(
                "Requests per watt and power",
                self.served_per_joule().into_iter().chain(self.by_the_queue()).collect(),
            ),
            Section::new("Servers", vec![self.servers_table().into()]),
            Section::new("Every simulated pool", vec![self.rows_table().into()]),
        ];
        sections.retain(|section| !section.blocks.is_empty());
        document.sections = sections;
        document
    }

    fn short_section(&self) -> Section {
        let mut figures = Vec::new();
        for rows in self.groups() {
            let figure = match rows.iter().find(|row| row.cheapest) {
                Some(best) => KeyFigure::new(
                    Self::heading(rows),
                    format!("{} W", grouped(best.watts.mean, 2)),
                )
                .note(format!("{}, {:.2} servers on", best.policy, best.servers_on.mean)),
                None => KeyFigure::new(Self::heading(rows), "–").note("too few servers"),
            };
            figures.push(figure);
        }
        Section::new("In short: the cheapest policy that keeps the limit", vec![
            Block::Figures(figures),
            Note::new(Origin::Modelled, note_text(self)).into(),
            Note::new(
                Origin::Caution,
                "servers are assumed to be like each other within a kind, to draw what was given whatever \
                 they serve, and never to fail.",
            )
            .into(),
        ])
    }

    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![
            ("policies", self.rows_table()),
            ("servers", self.servers_table()),
            ("response-times", self.curves_table()),
        ]
    }

    fn servers_table(&self) -> Table {
        let columns = vec![
            Column::text("kind"),
            Column::number("servers", ""),
            Column::number("service rate", "1/s"),
            Column::number("standard error", "1/s"),
            Column::number("places", ""),
            Column::number("off", "W"),
            Column::number("idle", "W"),
            Column::number("busy", "W"),
            Column::number("cycle", "J"),
            Column::number("start", "s"),
        ];
        let mut table = Table::new("Kinds of servers", columns);
        for server in &self.servers {
            let mut cells: Vec<Cell> = vec![
                server.name.as_str().into(),
                Cell::count(server.servers.into()),
                Cell::number(server.service_rate, 1),
                server.service_rate_error.map_or(Cell::Empty, |it| Cell::number(it, 1)),
                Cell::count(server.places.into()),
            ];
            cells.extend(server.watts.map(|watts| Cell::number(watts, 1)));
            cells.extend([Cell::number(server.switch_j, 1), Cell::number(server.switch_on_s, 1)]);
            table = table.row(cells);
        }
        table
    }

    fn rows_table(&self) -> Table {
        let mut columns = vec![
            Column::text("pool"),
            Column::text("traffic"),
            Column::number("rate", "1/s"),
            Column::text("policy"),
            Column::text("verdict"),
        ];
        for (name, unit) in [
            ("energy of a day", "Wh"),
            ("transitions an hour", ""),
            ("servers on", ""),
            ("refused", "%"),
            ("mean response", "ms"),
            ("99 % within", "ms"),
            ("requests per joule", "1/J"),
            ("cost", "W"),
        ] {
            columns.push(Column::number(name, unit));
            columns.push(Column::number(format!("± {name}"), unit));
        }
        columns.push(Column::number("most on", ""));
        let mut table = Table::new("Policies; ± is the 95 % interval of the simulation", columns);
        for row in &self.rows {
            table = table.row(cells(row));
        }
        table
    }

    fn curves_table(&self) -> Table {
        let columns = vec![
            Column::text("kind"),
            Column::number("mean response", "ms"),
            Column::number("rate", "1/s"),
            Column::number("servers", ""),
            Column::number("power", "W"),
            Column::number("requests per joule", "1/J"),
        ];
        let mut table =
            Table::new("Servers and power against the rate, by the M/D/1 queue", columns);
        for curve in &self.curves {
            for point in &curve.points {
                table = table.row(vec![
                    curve.server.as_str().into(),
                    Cell::number(1e3 * curve.response_s, 0),
                    Cell::number(point.rate, 1),
                    Cell::number(point.servers, 0),
                    Cell::number(point.watts, 1),
                    Cell::number(point.requests_per_joule, 2),
                ]);
            }
        }
        table
    }
}

fn note_text(result: &PlanResult) -> String {
    format!(
        "simulated from the watts, rates and times that were given. ± is the {:.0} % interval of the \
         simulation alone; what is given may be off by more.",
        100.0 * result.confidence
    )
}

fn charts(title: &str, charts: Vec<Chart>) -> Section {
    Section::new(title, charts.into_iter().map(Block::from).collect())
}

fn cells(row: &Row) -> Vec<Cell> {
    let verdict = match (row.cheapest, row.pareto, row.keeps_limit) {
        (true, ..) => "cheapest",
        (_, true, _) => "Pareto front",
        (_, _, true) if row.foresees => "knows what is to come",
        (_, _, true) => "keeps the limit",
        _ => "refuses too many",
    };
    let mut cells: Vec<Cell> = vec![
        row.pool.as_str().into(),
        row.traffic.as_str().into(),
        Cell::number(row.rate, 1),
        row.policy.as_str().into(),
        verdict.into(),
    ];
    let percent = |it: Estimate| Estimate {
        mean: 100.0 * it.mean,
        half_width: it.half_width.map(|width| 100.0 * width),
    };
    for (estimate, decimals) in [
        (row.wh_per_day, 1),
        (row.transitions_per_hour, 1),
        (row.servers_on, 2),
        (percent(row.refused), 3),
        (row.mean_response_ms, 2),
        (row.p99_response_ms, 2),
        (row.requests_per_joule, 2),
        (row.cost_w, 2),
    ] {
        cells.push(Cell::number(estimate.mean, decimals));
        cells.push(estimate.half_width.map_or(Cell::Empty, |it| Cell::number(it, decimals)));
    }
    cells.push(Cell::count(row.most_on.into()));
    cells
}
