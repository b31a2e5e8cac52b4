//! Which run comes next.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Design, Done, ExperimentError, Outcome, Restart, Step};
use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::sequential::StopRule;

/// Why a comparison needs no more runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All its cells are precise enough, but those given up.
    Precise,
    /// The most blocks are done.
    Cap,
    /// All its cells were given up.
    GivenUp,
}

/// Progress of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Runs that are over, failed ones included.
    pub done: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Runs still to come if means and spreads stay as they are and nothing fails; `None` while there is
    /// a cell of which no spread is known.
    pub expected_left: Option<u64>,
    /// Runs still to come at most, if nothing fails.
    pub most_left: u64,
}

/// What is known of a cell.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    main: Moments,
    /// Blocks without a success, the latest ones on end.
    barren: u32,
    given_up: bool,
}

/// An experiment under way.
#[derive(Debug, Clone)]
pub struct Experiment {
    design: Design,
    rule: StopRule,
    runs: Vec<Done>,
    failed: u64,
    cells: Vec<Known>,
    /// By comparison; `None` while it is open.
    ends: Vec<Option<End>>,
    block: u32,
    /// The cells of this block, in the order of their runs.
    order: Vec<usize>,
    /// The place of the next run in it.
    next: usize,
    attempt: u32,
    /// The latest run failed.
    suspect: bool,
}

impl Experiment {
    /// Nothing has run yet.
    pub fn new(design: Design) -> Result<Self, ExperimentError> {
        design.check()?;
        let rule = StopRule::new(design.rule.min, design.rule.max, design.rule.share)?;
        let mut experiment = Self {
            cells: vec![Known::default(); design.cells.len()],
            ends: vec![None; design.comparisons.len()],
            rule,
            design,
            runs: Vec::new(),
            failed: 0,
            block: 0,
            order: Vec::new(),
            next: 0,
            attempt: 0,
            suspect: false,
        };
        experiment.order = experiment.shuffled();
        Ok(experiment)
    }

    /// These runs are over, in the order in which they were.
    pub fn resume(
        design: Design,
        runs: impl IntoIterator<Item = Done>,
    ) -> Result<Self, ExperimentError> {
        let mut experiment = Self::new(design)?;
        for run in runs {
            experiment.done(run)?;
        }
        Ok(experiment)
    }

    /// What is compared.
    pub const fn design(&self) -> &Design {
        &self.design
    }

    /// When it stops, and the intervals that are right for that.
    pub const fn rule(&self) -> &StopRule {
        &self.rule
    }

    /// All runs that are over.
    pub fn runs(&self) -> &[Done] {
        &self.runs
    }

    /// Whether a cell failed too often.
    pub fn is_given_up(&self, cell: usize) -> bool {
        self.cells[cell].given_up
    }

    /// Why a comparison is over; `None` while it is not.
    pub fn end(&self, comparison: usize) -> Option<End> {
        self.ends[comparison]
    }

    /// The cells of this block, in the order of their runs.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The next run; `None` when there are enough.
    pub fn next_run(&self) -> Option<Step> {
        let &cell = self.order.get(self.next)?;
        let group = |cell: usize| self.design.groups[cell];
        let fresh_environment = self.suspect
            || self.design.rule.restart == Restart::Run
            || self.next == 0
            || group(self.order[self.next - 1]) != group(cell);
        Some(Step { block: self.block, cell, attempt: self.attempt, fresh_environment })
    }

    /// The next run is over. An error leaves everything as it was.
    pub fn done(&mut self, done: Done) -> Result<(), ExperimentError> {
        let next = self.next_run();
        if next.map(|step| (step.block, step.cell, step.attempt))
            != Some((done.block, done.cell, done.attempt))
        {
            let expected = next.map_or("nothing".to_owned(), |step| {
                format!("block {}, cell {}, attempt {}", step.block, step.cell, step.attempt)
            });
            let found = (done.block, done.cell, done.attempt);
            return Err(ExperimentError::OutOfOrder { found, expected });
        }
        if let Outcome::FailedForAll { cells, .. } = &done.outcome
            && let Some(place) = cells.iter().copied().find(|cell| *cell >= self.cells.len())
        {
            return Err(ExperimentError::Place { what: "cell", place, count: self.cells.len() });
        }
        let known = &mut self.cells[done.cell];
        let is_over = match &done.outcome {
            Outcome::Figures(figures) => {
                let main = figures.get(&self.design.main).filter(|value| value.is_finite());
                let Some(&main) = main else {
                    let figure = self.design.main.clone();
                    return Err(ExperimentError::NoFigure {
                        block: done.block,
                        cell: done.cell,
                        figure,
                    });
                };
                known.main.add(main);
                known.barren = 0;
                self.suspect = false;
                true
            }
            Outcome::Failed(_) => {
                self.failed += 1;
                self.suspect = true;
                let was_last = self.attempt == self.design.rule.retries;
                if was_last {
                    known.barren += 1;
                    known.given_up = known.barren == self.design.rule.give_up_after;
                }
                was_last
            }
            Outcome::FailedForAll { cells, .. } => {
                self.failed += 1;
                self.suspect = true;
                for cell in cells {
                    self.cells[*cell].given_up = true;
                }
                let to_come = self.order.split_off(self.next + 1);
                self.order.extend(to_come.into_iter().filter(|cell| !cells.contains(cell)));
                true
            }
        };
        self.runs.push(done);
        self.advance(is_over);
        Ok(())
    }

    fn advance(&mut self, is_over: bool) {
        if !is_over {
            self.attempt += 1;
            return;
        }
        self.attempt = 0;
        self.next += 1;
        if self.next == self.order.len() {
            self.close();
            self.block += 1;
            self.next = 0;
            self.order = self.shuffled();
        }
    }

    /// At the end of a block.
    fn close(&mut self) {
        let is_last = self.block + 1 == self.rule.max();
        for comparison in 0..self.ends.len() {
            if self.ends[comparison].is_some() {
                continue;
            }
            let precise: Vec<bool> =
                self.active(comparison).map(|known| self.rule.is_precise(&known.main)).collect();
            self.ends[comparison] = if precise.is_empty() {
                Some(End::GivenUp)
            } else if precise.into_iter().all(|precise| precise) {
                Some(End::Precise)
            } else {
                is_last.then_some(End::Cap)
            };
        }
    }

    /// A comparison's cells that were not given up.
    fn active(&self, comparison: usize) -> impl Iterator<Item = &Known> {
        let cells = self.design.cells.iter().zip(&self.cells);
        let left =
            cells.filter(move |(cell, known)| cell.comparison == comparison && !known.given_up);
        left.map(|(_, known)| known)
    }

    /// The order of this block: a function of the seed and the block, less the cells that are not open.
    fn shuffled(&self) -> Vec<usize> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.design.rule.seed);
        rng.set_stream(u64::from(self.block));
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        order.shuffle(&mut rng);
        if self.design.rule.restart == Restart::Block {
            let groups = self.design.groups.iter().max().map_or(0, |last| last + 1);
            let mut ranks: Vec<usize> = (0..groups).collect();
            ranks.shuffle(&mut rng);
            // Stable: within a group, cells stay in their random order.
            order.sort_by_key(|&cell| ranks[self.design.groups[cell]]);
        }
        order.retain(|&cell| {
            self.ends[self.design.cells[cell].comparison].is_none() && !self.cells[cell].given_up
        });
        order
    }

    /// The progress so far.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress {
            done: self.runs.len() as u64,
            failed: self.failed,
            expected_left: Some(0),
            most_left: 0,
        };
        for comparison in (0..self.ends.len()).filter(|&place| self.ends[place].is_none()) {
            let cells: Vec<usize> = (0..self.cells.len())
                .filter(|&cell| self.design.cells[cell].comparison == comparison)
                .filter(|&cell| !self.cells[cell].given_up)
                .collect();
            let to_run = cells.iter().filter(|&&cell| !self.has_run(cell)).count() as u64;
            let until = |blocks: u32| {
                to_run + cells.len() as u64 * u64::from(blocks.saturating_sub(self.block + 1))
            };
            let needed = cells.iter().map(|&cell| self.blocks_needed(cell));
            let needed: Option<u32> = needed.into_iter().try_fold(0, |most, n| Some(most.max(n?)));
            progress.most_left += until(self.rule.max());
            progress.expected_left =
                progress.expected_left.zip(needed).map(|(sum, blocks)| sum + until(blocks));
        }
        progress
    }

    /// Whether a cell is through with this block.
    fn has_run(&self, cell: usize) -> bool {
        !self.order[self.next..].contains(&cell)
    }

    /// How many blocks there will be when a cell is precise; those in which it fails come on top.
    fn blocks_needed(&self, cell: usize) -> Option<u32> {
        let main = &self.cells[cell].main;
        let runs = u64::from(self.rule.runs_needed(main)?).saturating_sub(main.count()) as u32;
        let blocks = self.block + u32::from(self.has_run(cell)) + runs;
        Some(blocks.min(self.rule.max()))
    }
}
