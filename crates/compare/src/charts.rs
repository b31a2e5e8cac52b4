//! The charts of the page.

use std::collections::BTreeMap;
use std::path::Path;

use nightwatt_meters::recording;
use nightwatt_report::{Axis, Chart, Scale, Series, SeriesKind};

use super::figures::{PER_OPERATION, POWER, RATE};
use super::metering::POWER_FILE;
use super::plan::{Cell, FactorKind, Plan};
use super::result::{Comparison, Report};
use super::text::words;

/// Maximum number of points in a curve of power: longer curves are thinned out.
const TRACE_POINTS: usize = 300;

/// Maximum number of curves of power in one chart.
const MOST_TRACES: usize = 7;

impl Report {
    /// A bar for each environment: its figure as a percentage of the baseline's, or the figure itself
    /// without a baseline.
    pub(super) fn bars(&self, comparison: &Comparison, main: &str) -> Option<Chart> {
        let cells: Vec<_> = self.cells(&comparison.name, main).filter(|it| it.n > 0).collect();
        if cells.is_empty() {
            return None;
        }
        let has_baseline = cells.iter().any(|cell| cell.environment == self.baseline);
        let is_relative = has_baseline && cells.len() > 1;
        let names: Vec<String> = cells.iter().map(|cell| cell.environment.clone()).collect();
        let mut bars = Series::new(words(main), SeriesKind::Bar);
        for (place, cell) in cells.iter().enumerate() {
            let (value, interval) = match self.ratio(cell, main).filter(|_| is_relative) {
                Some(ratio) => {
                    let percent = |share: f64| 100.0 * share;
                    let interval = ratio.interval.map(|it| (percent(it.low), percent(it.high)));
                    (percent(ratio.ratio), interval)
                }
                None if is_relative && cell.environment == self.baseline => {
                    let half = cell.relative_half_width.map(|half| 100.0 * half);
                    (100.0, half.map(|half| (100.0 - half, 100.0 + half)))
                }
                // Its own mean would be of another unit.
                None if is_relative => continue,
                None => (cell.mean?, cell.sequential.map(|it| (it.low, it.high))),
            };
            bars = bars.between(place as f64, value, interval);
        }
        let y = if is_relative {
            Axis::new(format!("{} of {}", words(main), self.baseline), "%", Scale::FromZero)
        } else {
            Axis::new(words(main), self.unit(&comparison.name, main), Scale::FromZero)
        };
        let x = Axis::new(self.compared.as_str(), "", Scale::Category(names));
        let mut chart =
            Chart::new(format!("{}: {}", comparison.name, words(main)), x, y).series(bars);
        if is_relative {
            let baseline = cells.iter().find(|cell| cell.environment == self.baseline);
            let value = baseline.and_then(|cell| cell.mean);
            let label =
                value.map(|value| self.labelled(&comparison.name, main, value)).unwrap_or_default();
            chart = chart.line_at_y(100.0, format!("{}: {label}", self.baseline));
        }
        Some(chart.description(
            "Each bar is the mean over the runs; whiskers are 95 % intervals. Less is better where the figure \
             is an energy, a power or a time; more where it is a rate.",
        ))
    }

    /// Figures against the values of each factor that are numbers: a line for each environment.
    pub(super) fn sweeps(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (place, factor) in self.plan.factors.iter().enumerate() {
            let numbers: Option<Vec<f64>> =
                factor.values.iter().map(|value| value.parse().ok()).collect();
            let Some(numbers) = numbers.filter(|it| it.len() > 2) else { continue };
            if matches!(factor.kind, FactorKind::Setting(_)) {
                continue;
            }
            for &workload in &factor.workloads {
                for figure in [PER_OPERATION, RATE, POWER] {
                    charts.extend(self.sweep(place, &numbers, workload, figure));
                }
            }
        }
        charts
    }

    fn sweep(
        &self,
        factor: usize,
        numbers: &[f64],
        workload: usize,
        figure: &str,
    ) -> Option<Chart> {
        let plan = &self.plan;
        let mut lines: BTreeMap<String, Vec<Mean>> = BTreeMap::new();
        let mut unit = "";
        let cells = &self.answers.figures.get(figure)?.cells;
        for (cell, answer) in plan.cells.iter().zip(cells) {
            let (Some(level), Some(mean)) = (cell.levels[factor], answer.mean) else { continue };
            if cell.workload != workload {
                continue;
            }
            let interval = answer.sequential.map(|it| (it.low, it.high));
            unit = self.unit(&answer.comparison, figure);
            lines.entry(line_name(plan, cell, factor)).or_default().push((
                numbers[level],
                mean,
                interval,
            ));
        }
        if lines.is_empty() {
            return None;
        }
        let name = &plan.factors[factor].name;
        let title = format!("{}: {} against {name}", plan.workloads[workload].name, words(figure));
        let y = Axis::new(words(figure), unit, Scale::FromZero);
        let mut chart = Chart::new(title, Axis::new(name, "", Scale::FromZero), y);
        for (name, mut points) in lines {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut series = Series::new(name, SeriesKind::Line);
            for (x, y, interval) in points {
                series = series.between(x, y, interval);
            }
            chart = chart.series(series);
        }
        Some(chart.description("Means over the runs, with 95 % intervals."))
    }

    /// Power of the first run of every environment under each workload.
    pub(super) fn power_charts(&self, folder: &Path) -> Vec<Chart> {
        let mut charts = Vec::new();
        for comparison in &self.comparisons {
            let mut seen: Vec<String> = Vec::new();
            let mut chart = Chart::new(
                format!("{}: power over a run", comparison.name),
                Axis::new("time", "s", Scale::FromZero),
                Axis::new("power", "W", Scale::FromZero),
            );
            for run in self.runs.iter().filter(|run| run.failed.is_none()) {
                let cell = &self.plan.cells[run.cell];
                let name = self.plan.name_on_axis(cell);
                let is_its = self.plan.name_of_comparison(cell) == comparison.name;
                if !is_its || seen.contains(&name) || seen.len() == MOST_TRACES {
                    continue;
                }
                let path = folder.join("runs").join(format!("{:04}", run.number)).join(POWER_FILE);
                let points = trace(&path, &self.energy.channels);
                if points.len() > 1 {
                    chart =
                        chart.series(Series::new(name.as_str(), SeriesKind::Line).points(points));
                    seen.push(name);
                }
            }
            if !seen.is_empty() {
                charts.push(chart.description(
                    "The first run of each; where energy is from several channels, their sum.",
                ));
            }
        }
        charts
    }
}

/// A value of a factor, the mean at it, and its interval.
type Mean = (f64, f64, Option<(f64, f64)>);

/// What a line of a sweep is called: all but the factor along the axis.
fn line_name(plan: &Plan, cell: &Cell, factor: usize) -> String {
    let mut parts = vec![plan.environments[cell.environment].name.clone()];
    for (place, (other, level)) in plan.factors.iter().zip(&cell.levels).enumerate() {
        let Some(level) = level.filter(|_| place != factor) else { continue };
        parts.push(format!("{} {}", other.name, other.values[level]));
    }
    parts.join(", ")
}

/// Time since the first reading and power of a source, `rapl/package-0 + rapl/dram-0`; of counters the mean
/// since the reading before.
fn trace(path: &Path, source: &str) -> Vec<(f64, f64)> {
    let names: Vec<&str> = source.split(" + ").collect();
    let mut readings: Vec<Reading> = Vec::new();
    // A recording that cannot be read leaves its curve out, and nothing else.
    let _ = recording::read(path, |meter, name, row| {
        let name = format!("{meter}/{name}");
        if let Some(place) = names.iter().position(|it| *it == name) {
            readings.push(Reading { mono_ns: row.mono_ns, channel: place, watts: row.watts });
        }
    });
    let points = sum(readings, names.len());
    let Some(&(begin, _)) = points.first() else { return points_of(&[], 0) };
    points_of(&points, begin)
}

/// What a channel said, if anything.
struct Reading {
    mono_ns: i64,
    channel: usize,
    watts: Option<f64>,
}

/// The sum of all channels at each reading of any channel: each channel counts with its last value; while
/// one is unknown, there is no sum.
fn sum(mut readings: Vec<Reading>, channels: usize) -> Vec<(i64, f64)> {
    readings.sort_by_key(|it| it.mono_ns);
    let mut latest = vec![None; channels];
    let at = |it: Reading| {
        latest[it.channel] = it.watts;
        let all: Option<f64> = latest.iter().copied().sum();
        Some((it.mono_ns, all?))
    };
    readings.into_iter().filter_map(at).collect()
}

fn points_of(points: &[(i64, f64)], begin: i64) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(TRACE_POINTS).max(1);
    // Means of neighbours: what is thinned out is not lost.
    let mean = |chunk: &[(i64, f64)]| {
        let count = chunk.len() as f64;
        let time = chunk.iter().map(|it| (it.0 - begin) as f64 / 1e9).sum::<f64>() / count;
        (time, chunk.iter().map(|it| it.1).sum::<f64>() / count)
    };
    points.chunks(step).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_of_several_channels_is_their_sum_where_all_are_known() {
        // Two meters that do not read at the same time; the second is silent at 30.
        let readings = [
            (10, 0, Some(20.0)),
            (20, 0, Some(22.0)),
            (30, 0, Some(24.0)),
            (40, 0, Some(26.0)),
            (15, 1, Some(4.0)),
            (29, 1, None),
            (35, 1, Some(5.0)),
        ];
        let wanted = [(15, 24.0), (20, 26.0), (35, 29.0), (40, 31.0)];
        let reading = |(mono_ns, channel, watts)| Reading { mono_ns, channel, watts };
        assert_eq!(sum(readings.map(reading).into(), 2), wanted);
    }
}
