//! The result as tables, for the page and for CSV.

use nightwatt_energy::stats::equivalence::Verdict;
use nightwatt_report::{Cell, Column, Table};

use super::result::Report;
use super::text::words;

impl Report {
    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![("cells", self.cells_table()), ("runs", self.runs_table())]
    }

    /// The published form (mean, % of the baseline, standard deviation, 95 %) of one figure of one
    /// comparison, with ours beside it.
    pub(super) fn published_table(&self, comparison: &str, figure: &str) -> Table {
        let unit = self.unit(comparison, figure);
        let caption = format!("{comparison}: {}", words(figure));
        let columns = vec![
            Column::text(&self.compared),
            Column::number("runs", ""),
            Column::number("mean", unit),
            Column::number(format!("of {}", self.baseline), "%"),
            Column::number("from", "%"),
            Column::number("to", "%"),
            Column::text("answer"),
            Column::number("pairs", ""),
            Column::number("sd", unit),
            Column::number("± 95 %", unit),
            Column::number("Student's ±", unit),
            Column::number("normal ±", unit),
        ];
        let mut table = Table::new(caption, columns);
        for cell in self.cells(comparison, figure) {
            let number = |value: Option<f64>| value.map_or(Cell::Empty, of_some_digits);
            let half = |interval: Option<nightwatt_energy::stats::intervals::Interval>| {
                number(interval.map(|interval| interval.width() / 2.0))
            };
            let ratio = self.ratio(cell, figure);
            let is_baseline = cell.environment == self.baseline;
            let share = ratio.map(|it| it.ratio).or(is_baseline.then_some(1.0));
            let percent =
                |share: Option<f64>| share.map_or(Cell::Empty, |it| Cell::number(100.0 * it, 2));
            let answer = match ratio.map(|it| it.verdict) {
                Some(Verdict::Differs) => "differs".to_owned(),
                Some(Verdict::NoDifference) => {
                    format!("no difference beyond {} %", super::text::percent(self.answers.margin))
                }
                Some(Verdict::CannotTell) => "cannot tell".to_owned(),
                None => String::new(),
            };
            table.rows.push(vec![
                cell.environment.as_str().into(),
                Cell::count(cell.n),
                number(cell.mean),
                percent(share),
                percent(ratio.and_then(|it| it.interval).map(|it| it.low)),
                percent(ratio.and_then(|it| it.interval).map(|it| it.high)),
                answer.into(),
                ratio.map_or(Cell::Empty, |it| Cell::count(it.pairs)),
                number(cell.sd),
                half(cell.sequential),
                half(cell.student),
                half(cell.normal),
            ]);
        }
        table
    }

    /// Every figure of every cell.
    fn cells_table(&self) -> Table {
        let columns = vec![
            Column::text("comparison"),
            Column::text(&self.compared),
            Column::text("figure"),
            Column::text("unit"),
            Column::number("runs", ""),
            Column::number("mean", ""),
            Column::number("sd", ""),
            Column::number("low", ""),
            Column::number("high", ""),
            Column::number("ratio", ""),
            Column::number("ratio_low", ""),
            Column::number("ratio_high", ""),
            Column::number("p_adjusted", ""),
        ];
        let mut table = Table::new("Every figure of every combination", columns);
        for comparison in &self.comparisons {
            for figure in &self.figures {
                for cell in self.cells(&comparison.name, &figure.name).filter(|cell| cell.n > 0) {
                    let number = |value: Option<f64>| value.map_or(Cell::Empty, of_some_digits);
                    let ratio = self.ratio(cell, &figure.name);
                    let interval = ratio.and_then(|it| it.interval);
                    table.rows.push(vec![
                        comparison.name.as_str().into(),
                        cell.environment.as_str().into(),
                        figure.name.as_str().into(),
                        self.unit(&comparison.name, &figure.name).into(),
                        Cell::count(cell.n),
                        number(cell.mean),
                        number(cell.sd),
                        number(cell.sequential.map(|it| it.low)),
                        number(cell.sequential.map(|it| it.high)),
                        number(ratio.map(|it| it.ratio)),
                        number(interval.map(|it| it.low)),
                        number(interval.map(|it| it.high)),
                        number(ratio.map(|it| it.p_adjusted)),
                    ]);
                }
            }
        }
        table
    }

    /// Every run with every figure.
    pub(super) fn runs_table(&self) -> Table {
        let mut columns = vec![
            Column::number("run", ""),
            Column::number("block", ""),
            Column::text("comparison"),
            Column::text(&self.compared),
            Column::number("attempt", ""),
            Column::text("began"),
            Column::text("failed"),
            Column::text("outlier"),
            Column::number("coverage", ""),
        ];
        columns.extend(self.figures.iter().map(|it| Column::number(&it.name, "")));
        let mut table = Table::new("Every run", columns);
        for run in &self.runs {
            let cell = &self.plan.cells[run.cell];
            let mut row = vec![
                Cell::count(run.number.into()),
                Cell::count(run.block.into()),
                self.plan.name_of_comparison(cell).into(),
                self.plan.name_on_axis(cell).into(),
                Cell::count(run.attempt.into()),
                run.began.as_str().into(),
                run.failed.as_deref().unwrap_or_default().into(),
                if self.is_outlier(run) { "yes" } else { "" }.into(),
                self.coverage(run).map_or(Cell::Empty, of_some_digits),
            ];
            row.extend(
                self.figures
                    .iter()
                    .map(|figure| run.figure(&figure.name).map_or(Cell::Empty, of_some_digits)),
            );
            table.rows.push(row);
        }
        table
    }

    /// Settings of the machine, and what environments are.
    pub(super) fn settings_table(&self) -> Table {
        let columns = vec![Column::text("of"), Column::text("setting"), Column::text("value")];
        let mut table = Table::new("Settings", columns);
        let mut add = |of: &str, name: &str, value: &str| {
            table.rows.push(vec![of.into(), name.into(), value.into()]);
        };
        for (name, value) in &self.settings {
            add("this machine", name, value);
        }
        for (name, values) in &self.settings_that_changed {
            add("this machine (changed)", name, &values.join(" | "));
        }
        for (environment, facts) in &self.facts {
            for (name, value) in facts {
                add(environment, name, value);
            }
        }
        table
    }
}

/// With about four digits that count.
fn of_some_digits(value: f64) -> Cell {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    // Down to 1e-15: smaller values are not measurable.
    Cell::number(value, (3.0 - magnitude).clamp(0.0, 18.0) as usize)
}
