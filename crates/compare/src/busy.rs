//! Runs beside which the machine had other work: its energy is in theirs, and may be all that differs.

use std::collections::BTreeMap;

use nightwatt_energy::stats::equivalence::Verdict;

use super::figures;
use super::host::{MACHINE_WAS_BUSY, OURS};
use super::plan::{MAIN, Plan};
use super::record::RunRecord;
use crate::pure::experiment::judged_ratios::{Answers, RatioAnswer};

/// Runs of less CPU time are counted too coarsely, s.
const LEAST: f64 = 0.1;

/// Energies of a run's work.
const ENERGIES: [&str; 3] =
    [figures::PER_OPERATION, figures::DYNAMIC_PER_OPERATION, figures::ENERGY];

/// What is known of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Cell {
    runs: usize,
    busy: usize,
    /// CPU time of its own processes, all runs together, s.
    own: f64,
    /// What they did for that.
    operations: f64,
}

impl Cell {
    fn is_busy(&self) -> bool {
        self.busy * 2 > self.runs
    }

    /// CPU time of an operation, if that is known.
    fn each(&self) -> Option<f64> {
        let is_known = self.own > LEAST * self.runs as f64 && self.operations > 0.0;
        is_known.then(|| self.own / self.operations)
    }
}

/// Energies do not surely differ if the machine had other work and the CPU time of the runs does not differ the same
/// way. Returns what the reader has to know of that.
pub(crate) fn doubt(answers: &mut Answers, plan: &Plan, runs: &[RunRecord]) -> Vec<String> {
    let cells = cells(plan, runs);
    let main = plan.figure.as_deref().unwrap_or(figures::PER_OPERATION);
    let is_energy = |name: &str| ENERGIES.contains(&if name == MAIN { main } else { name });
    let mut doubted = false;
    for (_, figure) in answers.figures.iter_mut().filter(|(name, _)| is_energy(name)) {
        let ratios = figure.to_baseline.ratios.iter_mut().chain(&mut figure.to_each_other.ratios);
        for ratio in ratios.filter(|ratio| ratio.verdict == Verdict::Differs) {
            if may_be_others(ratio, &cells, answers.margin) {
                ratio.verdict = Verdict::CannotTell;
                doubted = true;
            }
        }
    }
    let warning = "the machine was busy: energies differ, but CPU times of the runs do not differ likewise, so that \
                   the difference may be that of other work. Stop what else runs, and compare again";
    if doubted { vec![warning.to_owned()] } else { Vec::new() }
}

/// By environment and comparison.
fn cells(plan: &Plan, runs: &[RunRecord]) -> BTreeMap<(String, String), Cell> {
    let mut cells: BTreeMap<(String, String), Cell> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.failed.is_none()) {
        let of_plan = &plan.cells[run.cell];
        let name = (plan.name_on_axis(of_plan), plan.name_of_comparison(of_plan));
        let cell = cells.entry(name).or_default();
        let rate = run.figure(figures::RATE);
        cell.runs += 1;
        cell.busy += usize::from(run.warnings.iter().any(|it| it == MACHINE_WAS_BUSY));
        cell.own += run.figure(OURS).unwrap_or(0.0);
        cell.operations += rate.map_or(1.0, |rate| rate * run.elapsed_s);
    }
    cells
}

fn may_be_others(
    ratio: &RatioAnswer,
    cells: &BTreeMap<(String, String), Cell>,
    margin: f64,
) -> bool {
    let of = |name: &String| cells.get(&(name.clone(), ratio.comparison.clone()));
    let (Some(one), Some(other)) = (of(&ratio.environment), of(&ratio.reference)) else {
        return false;
    };
    let Some((own, reference)) = one.each().zip(other.each()) else { return false };
    let by_time = own / reference;
    let likewise = (by_time > 1.0) == (ratio.ratio > 1.0) && (by_time - 1.0).abs() > margin;
    (one.is_busy() || other.is_busy()) && !likewise
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(busy: usize, own: f64) -> Cell {
        Cell { runs: 4, busy, own, operations: 4.0 }
    }

    #[test]
    fn a_cell_is_busy_by_most_of_its_runs_and_its_time_counts_from_a_tenth_of_a_second_on() {
        assert!(cell(3, 1.0).is_busy() && !cell(2, 1.0).is_busy());
        assert_eq!((cell(0, 4.0).each(), cell(0, 0.3).each()), (Some(1.0), None));
    }
}
