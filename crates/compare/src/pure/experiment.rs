//! Comparisons as experiments: which run comes next, when there are enough, and what they say.
//!
//! A [`Design`] has cells: an environment under one workload and one setting of everything else. Cells
//! that differ in nothing but the environment are a comparison. [`Experiment`] says which run comes
//! next and is told what came of it, live and in simulation; [`judged_ratios`] draws the conclusions.
//!
//! - Runs come in blocks, each of them with every open cell once, in an order that follows from the seed
//!   and the block alone. So what changes slowly (temperature, a disk that fills) is common to a block,
//!   drops out of its ratios, and an interrupted experiment goes on where it was.
//! - Cells that need the same to be started follow each other: an environment that idles beside another
//!   would draw power, too.
//! - A comparison stays open until all its cells are precise enough, or the most blocks are done, so
//!   that blocks are complete.
//! - A run that fails is kept, tried again within its block as often as asked, and counted.

pub mod judged_ratios;
mod schedule;

pub use schedule::{End, Experiment, Progress};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use nightwatt_energy::stats::sequential::StopRuleError;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Names of environments.
    pub environments: Vec<String>,
    /// The environment that others are compared to: 100 %.
    pub baseline: usize,
    /// Names of comparisons: a workload, and the levels of all factors.
    pub comparisons: Vec<String>,
    /// What is run.
    pub cells: Vec<Cell>,
    /// By cell: cells of one group follow each other in a block, since what has to be started for one
    /// serves them all.
    pub groups: Vec<usize>,
    /// The figure that must be precise enough, such as joules per operation.
    pub main: String,
    /// How often.
    pub rule: Rule,
}

/// An environment under a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// Its place among the environments.
    pub environment: usize,
    /// Its place among the comparisons.
    pub comparison: usize,
}

/// The rule for repetitions, their order, and failures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Minimum number of runs of each cell.
    pub min: u32,
    /// Maximum number of blocks.
    pub max: u32,
    /// Blocks are added until the 95 % interval of the main figure is within this share of its mean, on
    /// either side.
    pub share: f64,
    /// How many times a failed run is tried again within its block.
    pub retries: u32,
    /// A cell without a success in this many blocks in a row is given up.
    pub give_up_after: u32,
    /// When environments are restarted.
    pub restart: Restart,
    /// Seed of the random order.
    pub seed: u64,
}

/// When environments are restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Once in each block; its cells run one after the other.
    Block,
    /// For every run; all cells of a block are in random order.
    Run,
}

/// The next run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The repetition, from 0.
    pub block: u32,
    /// Its place among the cells.
    pub cell: usize,
    /// Tries before it in this block, all failed.
    pub attempt: u32,
    /// Restart the environment even if it runs: a restart is due, or the last run failed.
    pub fresh_environment: bool,
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Of its [`Step`].
    pub block: u32,
    /// Of its [`Step`].
    pub cell: usize,
    /// Of its [`Step`].
    pub attempt: u32,
    /// What came of it.
    pub outcome: Outcome,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Figures by name, the main one among them.
    Figures(BTreeMap<String, f64>),
    /// Why there are none.
    Failed(String),
    /// Why there are none, and the cells that would fail for the same reason: they are given up, without retries.
    FailedForAll {
        /// The reason.
        why: String,
        /// The cells.
        cells: Vec<usize>,
    },
}

/// Designs that cannot be run, and runs of another design.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExperimentError {
    /// Bounds or share.
    #[error(transparent)]
    Rule(#[from] StopRuleError),
    /// No cells.
    #[error("nothing to run; give an environment and a workload")]
    Empty,
    /// A comparison without cells.
    #[error("nothing runs `{0}`; give it an environment, or leave it out")]
    Idle(String),
    /// A place beyond the end of its list.
    #[error("{what} {place} of {count}; places are counted from 0")]
    Place {
        /// Of what.
        what: &'static str,
        /// As given.
        place: usize,
        /// How many there are.
        count: usize,
    },
    /// A cell twice.
    #[error("{environment} is twice in `{comparison}`; name it once, repetitions are made anyway")]
    Twice {
        /// The environment.
        environment: String,
        /// The comparison.
        comparison: String,
    },
    /// A cell would be given up before it has run.
    #[error("0 failed blocks would end a cell before it has run; use 1 or more")]
    GiveUp,
    /// A run that was not the next one.
    #[error(
        "a run of block {}, cell {}, attempt {} where {expected} was next; was the plan or its seed \
         changed? Start a new record", found.0, found.1, found.2
    )]
    OutOfOrder {
        /// Block, cell and attempt.
        found: (u32, usize, u32),
        /// In words.
        expected: String,
    },
    /// A run without the figure that decides.
    #[error("a run of block {block}, cell {cell} has no finite `{figure}`; book it as failed")]
    NoFigure {
        /// The block.
        block: u32,
        /// The cell.
        cell: usize,
        /// The main figure.
        figure: String,
    },
}

impl Design {
    /// Whether it can be run.
    fn check(&self) -> Result<(), ExperimentError> {
        let place = |what, place, count| {
            if place < count { Ok(()) } else { Err(ExperimentError::Place { what, place, count }) }
        };
        if self.cells.is_empty() {
            return Err(ExperimentError::Empty);
        }
        if self.rule.give_up_after == 0 {
            return Err(ExperimentError::GiveUp);
        }
        if self.groups.len() != self.cells.len() {
            let (what, place, count) = ("groups:", self.groups.len(), self.cells.len());
            return Err(ExperimentError::Place { what, place, count });
        }
        place("baseline", self.baseline, self.environments.len())?;
        let mut seen = BTreeSet::new();
        for cell in &self.cells {
            place("environment", cell.environment, self.environments.len())?;
            place("comparison", cell.comparison, self.comparisons.len())?;
            if !seen.insert(cell) {
                return Err(ExperimentError::Twice {
                    environment: self.environments[cell.environment].clone(),
                    comparison: self.comparisons[cell.comparison].clone(),
                });
            }
        }
        let runs = |place: usize| self.cells.iter().any(|cell| cell.comparison == place);
        match self.comparisons.iter().enumerate().find(|(place, _)| !runs(*place)) {
            Some((_, name)) => Err(ExperimentError::Idle(name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
