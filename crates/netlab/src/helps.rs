//! What helps a connection: each change with and without, in pairs of runs in random order within blocks,
//! and how much that takes off each figure.
//!
//! A change over a link under a load is a comparison of [`nightwatt_compare::pure::experiment`], whose two
//! environments are "without" (100 %) and "with". The two runs of a pair follow each other.

mod change;
mod page;
mod result;
mod runs;

use nightwatt_clock::meter::Stop;
use nightwatt_compare::pure::experiment::{Cell as ExperimentCell, Design, Restart, Rule};

pub use change::{Change, FORMS, USUAL};
pub use result::{ChangeReport, Effect, HelpsReport, KIND, LinkHelps, SCHEMA, SHOWN, Verdict};

use super::Error;
use super::study::{Plan, StudyProgress};

/// What is to be tried, and how.
#[derive(Debug, Clone)]
pub struct HelpsPlan {
    /// Links, loads, lengths and repetitions. Its `offload` says what cards do where that is not what is
    /// tried.
    pub plan: Plan,
    /// What is tried.
    pub changes: Vec<Change>,
    /// Differences up to this share count as none.
    pub margin: f64,
}

/// The two environments of each comparison, by their place: without it, and with it.
const STATES: [&str; 2] = ["without", "with"];

/// A change under a load: places in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Comparison {
    change: usize,
    cell: usize,
}

impl HelpsPlan {
    /// Can it be run at all?
    pub fn check(&self) -> Result<(), Error> {
        self.plan.check()?;
        let invalid = |why: &str| Err(Error::Options(why.to_owned()));
        if self.changes.is_empty() {
            return invalid("nothing to try: name changes, such as tso+gso+gro");
        }
        if !(self.margin > 0.0 && self.margin < 1.0) {
            return invalid("a margin is a share of the figure, such as 0.03");
        }
        let unfelt = |change: &Change| {
            let why: Option<Vec<_>> =
                self.plan.cells.iter().map(|cell| change.unfelt(cell)).collect();
            Some(format!("{change}: {}", why?.join("; ")))
        };
        let unfelt: Option<Vec<String>> = self.changes.iter().map(unfelt).collect();
        if let Some(why) = unfelt {
            return invalid(&format!("nothing to try: {}", why.join("; ")));
        }
        Ok(())
    }

    /// Comparisons in pairs.
    fn design(&self, comparisons: &[Comparison]) -> Design {
        let name = |it: &Comparison| {
            format!("{}: {}", self.changes[it.change], self.plan.cells[it.cell].text())
        };
        let places = (0..comparisons.len()).flat_map(|comparison| {
            [0, 1].map(|environment| ExperimentCell { environment, comparison })
        });
        let cells: Vec<ExperimentCell> = places.collect();
        Design {
            environments: STATES.map(str::to_owned).to_vec(),
            baseline: 0,
            comparisons: comparisons.iter().map(name).collect(),
            // The two of a pair follow each other, so that what else goes on is common to both.
            groups: cells.iter().map(|it| it.comparison).collect(),
            cells,
            main: self.plan.main.clone(),
            rule: Rule {
                min: self.plan.least,
                max: self.plan.most,
                share: self.plan.precision,
                retries: 1,
                give_up_after: 2,
                restart: Restart::Block,
                seed: self.plan.seed,
            },
        }
    }
}

/// Runs all of it. What was measured is in the report, however it ended.
pub fn run(
    plan: &HelpsPlan,
    stop: &Stop,
    report_progress: &mut dyn FnMut(&StudyProgress<'_>),
) -> Result<(HelpsReport, Result<(), Error>), Error> {
    plan.check()?;
    runs::all(plan, stop, report_progress)
}

#[cfg(test)]
mod tests;
