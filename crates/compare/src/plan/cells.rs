//! All combinations of environments, workloads and values of factors.

use std::collections::{BTreeMap, BTreeSet};

use crate::pure::experiment::{self, Design, Restart, Rule};

use super::{Axis, Factor, FactorKind, Plan};
use crate::lines;

/// One combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its place among the environments.
    pub environment: usize,
    /// Its place among the workloads.
    pub workload: usize,
    /// Of each factor the place of its value; `None` where it does not apply.
    pub levels: Vec<Option<usize>>,
    /// Cells that are compared with each other have the same.
    pub comparison: usize,
    /// Is it what the others are compared with?
    pub is_baseline: bool,
}

/// Beyond this a plan is a mistake.
const MOST_CELLS: usize = 10_000;

impl Plan {
    pub(super) fn with_cells(mut self) -> Result<Self, String> {
        let too_many = || format!("there are more than {MOST_CELLS} combinations");
        let mut cells = Vec::new();
        for (workload, it) in self.workloads.iter().enumerate() {
            for (environment, place) in self.environments.iter().enumerate() {
                if !it.environments.is_empty() && !it.environments.contains(&place.name) {
                    continue;
                }
                // Counted before they are made: they could be more than memory holds.
                let mut counts = self.choices(environment, workload).map(|it| it.len());
                if counts.try_fold(1, usize::checked_mul).is_none_or(|it| it > MOST_CELLS) {
                    return Err(too_many());
                }
                for levels in self.levels(environment, workload) {
                    let at = self.on_axis(environment, &levels);
                    let is_baseline = at == Some(self.baseline);
                    cells.push(Cell { environment, workload, levels, comparison: 0, is_baseline });
                    if cells.len() > MOST_CELLS {
                        return Err(too_many());
                    }
                }
            }
        }
        if !cells.iter().any(|cell| cell.is_baseline) {
            return Err(
                "none of them runs in what is the baseline; name another `baseline`".to_owned()
            );
        }
        // Cells are of one comparison if they differ in nothing but in what is compared.
        let mut comparisons = BTreeMap::new();
        for cell in &mut cells {
            let common = match self.axis {
                Axis::Environment => None,
                Axis::Factor(_) => Some(cell.environment),
            };
            let levels: Vec<Option<usize>> = (cell.levels.iter().enumerate())
                .map(|(factor, level)| level.filter(|_| !self.is_compared(factor)))
                .collect();
            let next = comparisons.len();
            let key = (cell.workload, common, levels);
            cell.comparison = *comparisons.entry(key).or_insert(next);
        }
        self.cells = cells;
        self.check_names()?;
        Ok(self)
    }

    /// Names tell combinations apart: a workload could be called as another with a factor's value.
    fn check_names(&self) -> Result<(), String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut names: BTreeSet<String> = BTreeSet::new();
        for (place, cell) in self.cells.iter().enumerate() {
            let name = self.name_of_comparison(cell);
            let is_other = seen.insert(name.clone(), cell.comparison);
            let is_other = is_other.is_some_and(|comparison| comparison != cell.comparison);
            if is_other || !names.insert(self.describe(place)) {
                return Err(format!(
                    "two combinations would both be called `{name}`: choose other names"
                ));
            }
        }
        Ok(())
    }

    /// Do cells of one comparison differ in this factor? Where environments are compared, so they do in
    /// what the baseline does not have: a disk's cache mode, against the host.
    fn is_compared(&self, factor: usize) -> bool {
        match self.axis {
            Axis::Environment => !self.factors[factor].environments.contains(&self.baseline),
            Axis::Factor(compared) => factor == compared,
        }
    }

    /// Where a cell is on the axis of what is compared.
    fn on_axis(&self, environment: usize, levels: &[Option<usize>]) -> Option<usize> {
        match self.axis {
            Axis::Environment => Some(environment),
            Axis::Factor(factor) => levels[factor],
        }
    }

    /// The values of each factor, by their places; one nothing where it does not apply.
    fn choices(
        &self,
        environment: usize,
        workload: usize,
    ) -> impl Iterator<Item = Vec<Option<usize>>> {
        self.factors.iter().map(move |factor| {
            let applies = factor.environments.contains(&environment) && factor.applies_to(workload);
            if applies { (0..factor.values.len()).map(Some).collect() } else { vec![None] }
        })
    }

    /// Every combination of values of those factors that apply.
    fn levels(&self, environment: usize, workload: usize) -> Vec<Vec<Option<usize>>> {
        let mut all = vec![Vec::new()];
        for choices in self.choices(environment, workload) {
            let with = |levels: &Vec<Option<usize>>| {
                let levels = levels.clone();
                choices.clone().into_iter().map(move |choice| {
                    let mut levels = levels.clone();
                    levels.push(choice);
                    levels
                })
            };
            all = all.iter().flat_map(with).collect();
        }
        all
    }

    /// A cell's values, by the names of their factors.
    pub fn words(&self, cell: &Cell) -> Vec<(&str, &str)> {
        let levels = self.factors.iter().zip(&cell.levels);
        levels
            .filter_map(|(factor, level)| {
                Some((factor.name.as_str(), factor.values[(*level)?].as_str()))
            })
            .collect()
    }

    /// What a cell is called on the axis of what is compared.
    pub fn name_on_axis(&self, cell: &Cell) -> String {
        let mut parts = match self.axis {
            Axis::Environment => vec![self.environments[cell.environment].name.clone()],
            Axis::Factor(_) => Vec::new(),
        };
        for (place, (factor, level)) in self.factors.iter().zip(&cell.levels).enumerate() {
            let Some(level) = level.filter(|_| self.is_compared(place)) else { continue };
            parts.push(format!("{} {}", factor.name, factor.values[level]));
        }
        if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
    }

    /// What a comparison is called: all that its cells have in common.
    pub fn name_of_comparison(&self, cell: &Cell) -> String {
        let mut parts = vec![self.workloads[cell.workload].name.clone()];
        if let Axis::Factor(_) = self.axis {
            parts.push(self.environments[cell.environment].name.clone());
        }
        for (place, (factor, level)) in self.factors.iter().zip(&cell.levels).enumerate() {
            let Some(level) = level.filter(|_| !self.is_compared(place)) else { continue };
            parts.push(format!("{} {}", factor.name, factor.values[level]));
        }
        parts.join(", ")
    }

    /// A cell in words: `podman: pgbench, threads 4`.
    pub fn describe(&self, cell: usize) -> String {
        let cell = &self.cells[cell];
        format!("{}: {}", self.name_on_axis(cell), self.name_of_comparison(cell))
    }

    /// What has to be started for a cell, and can serve others like it.
    pub fn setup_of(&self, cell: &Cell) -> SetupKey {
        let levels = self.factors.iter().zip(&cell.levels);
        let levels = levels
            .map(|(factor, level)| {
                level.filter(|_| factor.kind != FactorKind::Word || self.prepares(cell, factor))
            })
            .collect();
        SetupKey { environment: cell.environment, workload: cell.workload, levels }
    }

    /// Does the value of a factor stand in a line by which the workload is made ready?
    fn prepares(&self, cell: &Cell, factor: &Factor) -> bool {
        let workload = &self.workloads[cell.workload];
        workload.lines().any(|(key, line)| key != "command" && lines::has(line, &factor.name))
    }

    /// The plan as an experiment: which cells there are, and how often they are run.
    pub(crate) fn design(&self) -> Design {
        let mut environments: Vec<String> = Vec::new();
        let mut comparisons: Vec<String> = Vec::new();
        let mut setups: Vec<SetupKey> = Vec::new();
        let place_of = |names: &mut Vec<String>, name: String| {
            names.iter().position(|it| *it == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        };
        let mut baseline = 0;
        let (mut cells, mut groups) = (Vec::new(), Vec::new());
        for cell in &self.cells {
            let environment = place_of(&mut environments, self.name_on_axis(cell));
            let comparison = place_of(&mut comparisons, self.name_of_comparison(cell));
            if cell.is_baseline {
                baseline = environment;
            }
            cells.push(experiment::Cell { environment, comparison });
            let setup = self.setup_of(cell);
            groups.push(setups.iter().position(|it| *it == setup).unwrap_or_else(|| {
                setups.push(setup);
                setups.len() - 1
            }));
        }
        let runs = self.runs;
        let rule = Rule {
            min: runs.least,
            max: runs.most,
            share: runs.precision,
            retries: runs.retries,
            give_up_after: GIVE_UP_AFTER,
            restart: if runs.restart_each { Restart::Run } else { Restart::Block },
            seed: self.seed,
        };
        Design { environments, baseline, comparisons, cells, groups, main: MAIN.to_owned(), rule }
    }
}

/// What has to be started for a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupKey {
    environment: usize,
    workload: usize,
    /// Of those factors that are not only in the measured line.
    levels: Vec<Option<usize>>,
}

/// A cell that fails in this many blocks in a row is skipped from then on.
const GIVE_UP_AFTER: u32 = 3;

/// The name under which the experiment knows the figure that runs are repeated for: workloads differ in
/// which that is.
pub(crate) const MAIN: &str = "main";
