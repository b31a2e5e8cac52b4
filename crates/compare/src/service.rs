//! Quality of service: within which time which share of responses came.

use std::collections::BTreeMap;

use nightwatt_energy::stats::bootstrap;
use nightwatt_report::{Axis, Chart, Scale, Series, SeriesKind, Table};

use super::plan::Plan;
use super::record::RunRecord;
use super::result::{Report, ServiceTime};

/// Those that are shown, if the tool tells them.
const SHOWN: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

const RESAMPLES: usize = 2000;

/// The percentiles of every combination whose tool tells them.
pub(super) fn times(plan: &Plan, runs: &[RunRecord]) -> Vec<ServiceTime> {
    let mut times = Vec::new();
    for (place, cell) in plan.cells.iter().enumerate() {
        let is_its = |run: &&RunRecord| run.cell == place && run.failed.is_none();
        let its: Vec<&RunRecord> = runs.iter().filter(is_its).collect();
        for percent in SHOWN {
            let values: Vec<f64> = its.iter().filter_map(|run| time_at(run, percent)).collect();
            if values.is_empty() || values.len() < its.len() {
                continue;
            }
            times.push(ServiceTime {
                comparison: plan.name_of_comparison(cell),
                environment: plan.name_on_axis(cell),
                percent,
                seconds: values.iter().sum::<f64>() / values.len() as f64,
                interval: bootstrap::of_mean(&values, RESAMPLES, plan.seed),
                runs: values.len() as u64,
            });
        }
    }
    times
}

/// The time within which this percentage of a run's responses came.
fn time_at(run: &RunRecord, percent: f64) -> Option<f64> {
    run.percentiles.iter().find(|it| it.0.to_bits() == percent.to_bits()).map(|it| it.1)
}

impl Report {
    /// The percentiles of one comparison, if its tool tells any.
    pub(super) fn service_table(&self, comparison: &str) -> Option<Table> {
        let times = self.service.iter().filter(|it| it.comparison == comparison);
        let table = Table::of(format!("{comparison}: response times"), times)
            .text(&self.compared, |it| it.environment.as_str())
            .number("responses", "%", 1, |it| it.percent)
            .number("within", "s", 6, |it| it.seconds)
            .number("from", "s", 6, |it| it.interval.map(|it| it.low))
            .number("to", "s", 6, |it| it.interval.map(|it| it.high))
            .count("runs", |it| it.runs);
        let table = Table::from(table);
        (!table.rows.is_empty()).then_some(table)
    }

    /// The share of responses that came within a time, over all runs of each combination.
    pub(super) fn service_curves(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for comparison in &self.comparisons {
            let mut curves: BTreeMap<String, Vec<&RunRecord>> = BTreeMap::new();
            for run in self.runs.iter().filter(|run| run.percentiles.len() > 1) {
                let cell = &self.plan.cells[run.cell];
                if self.plan.name_of_comparison(cell) == comparison.name {
                    curves.entry(self.plan.name_on_axis(cell)).or_default().push(run);
                }
            }
            if curves.is_empty() {
                continue;
            }
            let mut chart = Chart::new(
                format!("{}: responses within a time", comparison.name),
                Axis::new("response time", "s", Scale::LogDuration),
                Axis::new("share of operations", "%", Scale::FromZero),
            );
            for (name, runs) in curves {
                chart = chart.series(Series::new(name, SeriesKind::Line).points(mean_curve(&runs)));
            }
            charts.push(chart.description(
                "Each point is the mean over the runs of the time within which so many per cent of all \
                 operations were answered: where some failed, a curve ends below 100 %.",
            ));
        }
        charts
    }
}

/// Time and percentage of all operations, at the percentages of responses that all runs have.
fn mean_curve(runs: &[&RunRecord]) -> Vec<(f64, f64)> {
    let Some(first) = runs.first() else { return Vec::new() };
    let at = |percent: f64| -> Option<f64> {
        let times: Option<Vec<f64>> = runs.iter().map(|run| time_at(run, percent)).collect();
        times.map(|times| times.iter().sum::<f64>() / times.len() as f64)
    };
    let answered = runs.iter().map(|run| run.answered).sum::<f64>() / runs.len() as f64;
    let point = |&(percent, _): &(f64, f64)| Some((at(percent)?, percent * answered));
    first.percentiles.iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_service_ends_where_errors_begin() {
        let run = |seconds: f64, answered: f64| {
            let json = serde_json::json!({
                "number": 1, "block": 0, "cell": 0, "attempt": 0, "began": "", "elapsed_s": 1.0,
                "failed": null, "figures": [], "percentiles": [[50.0, seconds], [100.0, 2.0 * seconds]],
                "answered": answered, "errors": 0, "channels": [], "settings": {}, "facts": {},
                "warnings": [],
            });
            serde_json::from_value::<RunRecord>(json).unwrap()
        };
        // Means of 1 and 3 s, and of shares of 0.5 and 1.
        let curve = mean_curve(&[&run(1.0, 0.5), &run(3.0, 1.0)]);
        assert_eq!(curve, [(2.0, 37.5), (4.0, 75.0)]);
    }
}
