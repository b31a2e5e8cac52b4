//! The result as tables, for the page and for CSV.

use nightwatt_energy::stats::equivalence::Verdict;
use nightwatt_energy::stats::intervals::Interval;
use nightwatt_report::{Cell, Column, Table};

use super::record::RunRecord;
use super::result::{Comparison, Report};
use super::text::words;
use crate::pure::experiment::End;

impl Report {
    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![("cells", self.cells_table()), ("runs", self.runs_table())]
    }

    /// The published form (mean, % of the baseline, standard deviation, 95 %) of one figure of one
    /// comparison, with ours beside it.
    pub(super) fn published_table(&self, comparison: &Comparison, figure: &str) -> Table {
        let unit = self.unit(&comparison.name, figure);
        let end = match comparison.end {
            Some(End::Precise) => "",
            Some(End::Cap) => ", as often as was allowed",
            Some(End::GivenUp) => ", given up",
            None => ", not done yet",
        };
        let caption = format!("{} [{unit}]{end}", words(figure));
        let cells =
            self.cells(&comparison.name, figure).map(|cell| (cell, self.ratio(cell, figure)));
        let plain = |title| Column::number(title, "");
        let half = |interval: Option<Interval>| interval.map(|it| it.width() / 2.0);
        Table::of(caption, cells)
            .text(&self.compared, |it| it.0.environment.as_str())
            .count("runs", |it| it.0.n)
            .count("failed", |it| Some(self.failed_of(it.0)).filter(|failed| *failed > 0))
            .column(plain("mean"), |it| mean(it.0.mean, half(it.0.sequential)))
            .column(plain("± 95 %"), |it| spread(half(it.0.sequential)))
            .number(format!("of {}", self.baseline), "%", 1, |(cell, ratio)| {
                let is_baseline = cell.environment == self.baseline;
                ratio.map(|it| 100.0 * it.ratio).or(is_baseline.then_some(100.0))
            })
            .number("from", "%", 1, |it| it.1.and_then(|it| it.interval).map(|it| 100.0 * it.low))
            .number("to", "%", 1, |it| it.1.and_then(|it| it.interval).map(|it| 100.0 * it.high))
            .text("answer", |it| match it.1.map(|it| it.verdict) {
                Some(Verdict::Differs) => "differs".to_owned(),
                Some(Verdict::NoDifference) => {
                    format!("no difference beyond {} %", super::text::percent(self.answers.margin))
                }
                Some(Verdict::CannotTell) => "cannot tell".to_owned(),
                None => String::new(),
            })
            .count("pairs", |it| it.1.map(|it| it.pairs))
            .detail()
            .column(plain("sd"), |it| spread(it.0.sd))
            .detail()
            .column(plain("Student's ±"), |it| spread(half(it.0.student)))
            .detail()
            .column(plain("normal ±"), |it| spread(half(it.0.normal)))
            .detail()
            .into()
    }

    /// Every figure of every cell.
    fn cells_table(&self) -> Table {
        let mut rows = Vec::new();
        for comparison in &self.comparisons {
            for figure in &self.figures {
                let cells = self.cells(&comparison.name, &figure.name).filter(|cell| cell.n > 0);
                rows.extend(cells.map(|cell| {
                    let ratio = self.ratio(cell, &figure.name);
                    (comparison, &figure.name, cell, ratio, ratio.and_then(|it| it.interval))
                }));
            }
        }
        let plain = |title| Column::number(title, "");
        Table::of("Every figure of every combination", rows)
            .text("comparison", |it| it.0.name.as_str())
            .text(&self.compared, |it| it.2.environment.as_str())
            .text("figure", |it| it.1.as_str())
            .text("unit", |it| self.unit(&it.0.name, it.1))
            .count("runs", |it| it.2.n)
            .column(plain("mean"), |it| number(it.2.mean))
            .column(plain("sd"), |it| number(it.2.sd))
            .column(plain("low"), |it| number(it.2.sequential.map(|it| it.low)))
            .column(plain("high"), |it| number(it.2.sequential.map(|it| it.high)))
            .column(plain("ratio"), |it| number(it.3.map(|it| it.ratio)))
            .column(plain("ratio_low"), |it| number(it.4.map(|it| it.low)))
            .column(plain("ratio_high"), |it| number(it.4.map(|it| it.high)))
            .column(plain("p_adjusted"), |it| number(it.3.map(|it| it.p_adjusted)))
            .into()
    }

    /// Every run with every figure.
    pub(super) fn runs_table(&self) -> Table {
        let cell = |run: &RunRecord| &self.plan.cells[run.cell];
        let mut table = Table::of("Every run", &self.runs)
            .count("run", |it| it.number)
            .count("block", |it| it.block)
            .text("comparison", |it| self.plan.name_of_comparison(cell(it)))
            .text(&self.compared, |it| self.plan.name_on_axis(cell(it)))
            .count("attempt", |it| it.attempt)
            .text("began", |it| it.began.as_str())
            .text("failed", |it| it.failed.as_deref().unwrap_or_default())
            .text("outlier", |it| if self.is_outlier(it) { "yes" } else { "" })
            .column(Column::number("coverage", ""), |it| number(self.coverage(it)));
        for figure in &self.figures {
            let column = Column::number(&figure.name, "");
            table = table.column(column, |it| number(it.figure(&figure.name)));
        }
        table.into()
    }

    /// Settings of the machine, and what environments are.
    pub(super) fn settings_table(&self) -> Table {
        let settings = self.settings.iter();
        let settings = settings.map(|(name, value)| ("this machine", name.as_str(), value.clone()));
        let changed = self
            .settings_that_changed
            .iter()
            .map(|(name, values)| ("this machine (changed)", name.as_str(), values.join(" | ")));
        let facts = self.facts.iter().flat_map(|(of, facts)| {
            facts.iter().map(|(name, value)| (of.as_str(), name.as_str(), value.clone()))
        });
        let rows: Vec<_> = settings.chain(changed).chain(facts).collect();
        Table::of("Settings", &rows)
            .text("of", |it| it.0)
            .text("setting", |it| it.1)
            .text("value", |it| it.2.as_str())
            .into()
    }
}

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Empty, of_some_digits)
}

/// With about four digits that count.
fn of_some_digits(value: f64) -> Cell {
    Cell::number(value, decimals(value, 4))
}

/// A mean, down to the second digit of its half-width where that is known (JCGM 100:2008, 7.2.6).
fn mean(value: Option<f64>, half_width: Option<f64>) -> Cell {
    let half_width = half_width.filter(|it| it.is_finite() && *it > 0.0);
    match (value, half_width) {
        (Some(value), Some(half_width)) => Cell::number(value, decimals(half_width, 2)),
        (value, _) => number(value),
    }
}

/// A half-width or a standard deviation, with the two digits that count.
fn spread(value: Option<f64>) -> Cell {
    value.map_or(Cell::Empty, |value| Cell::number(value, decimals(value, 2)))
}

/// Digits behind the point of a number with this many digits that count.
fn decimals(value: f64, digits: u8) -> usize {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    // Down to 1e-15: smaller values are not measurable.
    (f64::from(digits) - 1.0 - magnitude).clamp(0.0, 18.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_ends_at_the_second_digit_of_its_interval() {
        for (value, half_width, places) in [
            (0.000_100_4, 0.000_011_68, 6),
            (0.040_52, 0.062_03, 3),
            (3137.1, 15.69, 0),
            (3137.1, 1.569, 1),
            (3137.1, 1_569.0, 0),
        ] {
            let cells = [mean(Some(value), Some(half_width)), spread(Some(half_width))];
            let wanted = [value, half_width].map(|it| Cell::number(it, places));
            assert_eq!(cells, wanted, "{value} ± {half_width}");
        }
        // Equal runs, or one alone: nothing is known of what is beyond.
        for unknown in [None, Some(0.0), Some(f64::NAN)] {
            assert_eq!(mean(Some(12.345_6), unknown), Cell::number(12.345_6, 2), "{unknown:?}");
        }
        assert_eq!((mean(None, Some(1.0)), spread(None)), (Cell::Empty, Cell::Empty));
    }
}
