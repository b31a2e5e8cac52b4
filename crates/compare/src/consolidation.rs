//! Several copies on one machine against as many machines with one copy each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nightwatt_energy::stats::ratio::Ratio;
use nightwatt_energy::stats::sequential::StopRule;
use nightwatt_report::{Axis, Block, Chart, Scale, Section, Series, SeriesKind, Text};

use super::figures::{PER_OPERATION, POWER};
use super::plan::{Cell, FactorKind, Plan};
use super::record::RunRecord;
use super::result::{Consolidation, Report};

/// The option of environments that says how many there are.
const COPIES: &str = "copies";

/// Of every combination with more than one copy, where the baseline, or else the same environment, was
/// also run with one.
pub(super) fn consolidation(
    plan: &Plan,
    runs: &[RunRecord],
    rule: &StopRule,
) -> Vec<Consolidation> {
    let is_copies = |kind: &FactorKind| matches!(kind, FactorKind::Option(key) if key == COPIES);
    let Some(factor) = plan.factors.iter().position(|it| is_copies(&it.kind)) else {
        return Vec::new();
    };
    let copies_of = |cell: &Cell| -> Option<u32> {
        plan.factors[factor].values[cell.levels[factor]?].parse().ok()
    };
    let mut all = Vec::new();
    for (place, cell) in plan.cells.iter().enumerate() {
        let Some(copies) = copies_of(cell).filter(|copies| *copies > 1) else { continue };
        let of_one = |environment: Option<usize>| {
            plan.cells.iter().position(|other| {
                copies_of(other) == Some(1)
                    && other.workload == cell.workload
                    && environment.is_none_or(|it| it == other.environment)
                    && (environment.is_some() || other.is_baseline)
                    && has_in_common(cell, other, factor)
            })
        };
        let Some(reference) = of_one(None).or_else(|| of_one(Some(cell.environment))) else {
            continue;
        };
        // Copies that get in each other's way do less each: energy for the same work tells.
        let by_work =
            || ratio_of(runs, place, reference, PER_OPERATION, 1.0).map(|it| (PER_OPERATION, it));
        let by_power =
            || ratio_of(runs, place, reference, POWER, f64::from(copies)).map(|it| (POWER, it));
        let Some((figure, ratio)) = by_work().or_else(by_power) else { continue };
        all.push(Consolidation {
            workload: workload_of(plan, cell, factor),
            environment: plan.environments[cell.environment].name.clone(),
            copies,
            reference: plan.environments[plan.cells[reference].environment].name.clone(),
            figure: figure.to_owned(),
            share: ratio.estimate(),
            interval: ratio.interval(rule.quantile(ratio.degrees_of_freedom())),
        });
    }
    all
}

/// Are the other factors the same, where both have them?
fn has_in_common(cell: &Cell, other: &Cell, but: usize) -> bool {
    let levels = cell.levels.iter().zip(&other.levels).enumerate();
    levels.filter(|(place, _)| *place != but).all(|(_, (a, b))| a == b || b.is_none())
}

fn workload_of(plan: &Plan, cell: &Cell, but: usize) -> String {
    let mut name = plan.workloads[cell.workload].name.clone();
    for (place, (factor, level)) in plan.factors.iter().zip(&cell.levels).enumerate() {
        let Some(level) = level.filter(|_| place != but) else { continue };
        let _ = write!(name, ", {} {}", factor.name, factor.values[level]);
    }
    name
}

/// The ratio of a figure of the first cell to that of the second, by pairs of the same block.
fn ratio_of(
    runs: &[RunRecord],
    first: usize,
    second: usize,
    figure: &str,
    times: f64,
) -> Option<Ratio> {
    let of = |cell: usize| -> BTreeMap<u32, f64> {
        let its = runs.iter().filter(|run| run.cell == cell && run.failed.is_none());
        its.filter_map(|run| Some((run.block, run.figure(figure)?))).collect()
    };
    let second = of(second);
    let pair = |(block, value)| Some((value, times * second.get(&block)?));
    Ratio::paired(&of(first).into_iter().filter_map(pair).collect::<Vec<(f64, f64)>>())
}

impl Report {
    /// What copies save in a sentence each, and a chart for each workload.
    pub(super) fn consolidation_section(&self) -> Section {
        let mut charts: Vec<(&str, Vec<&Consolidation>)> = Vec::new();
        for it in &self.consolidation {
            match charts.iter_mut().find(|(workload, _)| *workload == it.workload) {
                Some((_, its)) => its.push(it),
                None => charts.push((&it.workload, vec![it])),
            }
        }
        let sentences = self.consolidation.iter().map(|it| Text::from(sentence(it)).into());
        let charts = charts.into_iter().map(|(workload, its)| Block::from(chart(workload, &its)));
        Section::new("Consolidation", sentences.chain(charts).collect())
    }
}

fn sentence(it: &Consolidation) -> String {
    let interval =
        it.interval.map(|it| format!(" ({:.1} to {:.1} %)", 100.0 * it.low, 100.0 * it.high));
    format!(
        "{}: {} x {} on one machine takes {:.1} %{} of the {} of {} machines with one {} each",
        it.workload,
        it.copies,
        it.environment,
        100.0 * it.share,
        interval.unwrap_or_default(),
        if it.figure == POWER { "power" } else { "energy for the same work" },
        it.copies,
        it.reference
    )
}

fn chart(workload: &str, its: &[&Consolidation]) -> Chart {
    let mut counts: Vec<u32> = its.iter().map(|it| it.copies).collect();
    counts.sort_unstable();
    counts.dedup();
    let names = counts.iter().map(|count| format!("{count} copies")).collect();
    let mut chart = Chart::new(
        format!("{workload}: copies on one machine"),
        Axis::new("on one machine", "", Scale::Category(names)),
        Axis::new("energy for the same work", "%", Scale::FromZero),
    )
    .line_at_y(100.0, "as many machines");
    let mut series: Vec<Series> = Vec::new();
    for it in its {
        let name = format!("{}, against {}", it.environment, it.reference);
        let x = counts.iter().position(|count| *count == it.copies).unwrap_or(0) as f64;
        let interval = it.interval.map(|it| (100.0 * it.low, 100.0 * it.high));
        match series.iter_mut().find(|it| it.name == name) {
            Some(bars) => *bars = bars.clone().between(x, 100.0 * it.share, interval),
            None => {
                series.push(Series::new(name, SeriesKind::Bar).between(
                    x,
                    100.0 * it.share,
                    interval,
                ));
            }
        }
    }
    for bars in series {
        chart = chart.series(bars);
    }
    chart.description(
        "What one machine with all copies uses for the same work (by energy per operation; where no \
         operations are counted, by power), in per cent of what machines with one copy each use; whiskers are \
         95 % intervals. Below 100 % consolidation saves.",
    )
}
