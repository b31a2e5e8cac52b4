//! The runs: connections of all kinds over each link, repeated until their figures are sure enough.

mod breakdown;
mod captured;
mod estimate;
pub(crate) mod fetching;
mod figures;
mod kernel_time;
pub(crate) mod lab;
pub(crate) mod notes;
pub(crate) mod page;
pub(crate) mod result;
pub(crate) mod runs;
mod settled;
pub(crate) mod units;

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_compare::pure::experiment::{Cell as ExperimentCell, Design, Restart, Rule};
use nightwatt_meters::MeterSpec;
use serde::Serialize;

pub use breakdown::{Breakdown, CategoryEstimate};
pub use captured::CaptureComparison;
pub use estimate::Estimate;
pub use figures::{
    FIGURES, Fetched, Figure, Figures, Idle, RunCounts, WakeCost, Window, disagreements, figures,
};
pub use kernel_time::KernelTimeReport;
pub use result::{CellReport, Report, Run, ScenarioReport};
pub use runs::StudyProgress;

use super::Error;
use super::ends::EndsConfig;
use super::link::FULL_FRAME;
use super::scenario::Scenario;

/// What is run over each link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Connections at once.
    pub connections: u32,
    /// Segments of each.
    pub segments: u64,
    /// Congestion control of the sender.
    pub congestion: String,
}

impl Cell {
    /// In words: `10 connections of 10 segments, cubic`.
    pub fn text(&self) -> String {
        let plural = if self.connections == 1 { "" } else { "s" };
        format!(
            "{} connection{plural} of {} segments, {}",
            self.connections, self.segments, self.congestion
        )
    }
}

/// What is to be run, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Between which ends.
    pub ends: EndsConfig,
    /// Links.
    pub scenarios: Vec<Scenario>,
    /// What is run over each.
    pub cells: Vec<Cell>,
    /// Duration of a run in mean lifetimes,
    pub lifetimes: f64,
    /// but no longer than this, or three lifetimes if that is more.
    pub longest: Duration,
    /// Minimum number of runs of each.
    pub least: u32,
    /// Maximum number of runs of each.
    pub most: u32,
    /// Runs are added until the 95 % interval of [`main`](Self::main) is within this share of its mean.
    pub precision: f64,
    /// A name of [`FIGURES`].
    pub main: String,
    /// Go on over links that are not what they should be.
    pub accept_link: bool,
    /// Cards cut and join segments, as many real ones do.
    pub offload: bool,
    /// By which meters; none for those of this machine.
    pub meters: Vec<MeterSpec>,
    /// The channel whose power counts, as `METER/CHANNEL`.
    pub energy: Option<String>,
    /// Energy of a transition from idle to active, if the power comes from a model.
    pub wake_cost: Option<WakeCost>,
    /// Samples a second on each CPU of what runs there, to report where the time of each run went.
    pub kernel_time: Option<u32>,
    /// Capture what goes through the sender's card, and compare it with what kernels and cards have counted.
    pub capture: bool,
    /// Our own binary.
    pub program: PathBuf,
    /// Of the order of runs.
    pub seed: u64,
}

impl Plan {
    /// Can it be run at all?
    pub fn check(&self) -> Result<(), Error> {
        let invalid = |why: &str| Err(Error::Options(why.to_owned()));
        if self.scenarios.is_empty() || self.cells.is_empty() {
            return invalid(
                "nothing to run: name a scenario, connections, segments, congestion controls",
            );
        }
        if !FIGURES.iter().any(|it| it.name == self.main) {
            let names: Vec<&str> = FIGURES.iter().map(|it| it.name).collect();
            let (main, names) = (&self.main, names.join(", "));
            return Err(Error::Options(format!("there is no figure `{main}`: one of {names}")));
        }
        if self.kernel_time.is_some() && self.ends != EndsConfig::Namespaces {
            return invalid(
                "where the time goes is asked of the CPUs of this machine (`--where`), and the ends are others: \
                 run `nightwatt tcp where` there",
            );
        }
        if self.capture && self.ends != EndsConfig::Namespaces {
            return invalid(
                "packets are captured between two networks of this machine (`--capture`), and the ends are others: \
                 run tcpdump there, and `nightwatt tcp check` on what it has written",
            );
        }
        if !(self.precision > 0.0 && self.precision.is_finite()) {
            return invalid("the precision is a share above 0: 0.03 for 3 %");
        }
        if !(self.lifetimes >= 3.0 && self.lifetimes.is_finite()) {
            return invalid("a run lasts 3 mean lifetimes at least");
        }
        Ok(())
    }

    /// Duration of a run whose connections have this mean lifetime.
    pub(crate) fn length(&self, lifetime: f64) -> Duration {
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX);
        let most = self.longest.max(seconds(LEAST_LIFETIMES * lifetime));
        seconds(self.lifetimes * lifetime).clamp(SHORTEST.min(most), most)
    }

    /// Estimated duration of all runs at the speed of the links, with the fewest and with the most runs of each.
    pub fn reckoned(&self) -> [Duration; 2] {
        let block = |scenario: &Scenario| {
            let lengths = self.cells.iter().map(|cell| {
                let frames = f64::from(cell.connections) * cell.segments as f64;
                let carried = frames * 8.0 * FULL_FRAME / scenario.bits_per_second;
                self.length(carried + 2.0 * scenario.delay.as_secs_f64())
            });
            // The idle machine is measured for as long as the longest.
            let longest = lengths.clone().max().unwrap_or_default();
            lengths.fold(longest, Duration::saturating_add)
        };
        let all = self.scenarios.iter().map(block).fold(Duration::ZERO, Duration::saturating_add);
        [self.least, self.most].map(|runs| all.saturating_mul(runs))
    }

    /// Of the cells at these places.
    fn design(&self, scenario: &Scenario, places: &[usize]) -> Design {
        let cells = 0..places.len();
        Design {
            environments: vec![scenario.name.clone()],
            baseline: 0,
            comparisons: places.iter().map(|place| self.cells[*place].text()).collect(),
            cells: cells
                .clone()
                .map(|comparison| ExperimentCell { environment: 0, comparison })
                .collect(),
            groups: cells.collect(),
            main: self.main.clone(),
            rule: Rule {
                min: self.least,
                max: self.most,
                share: self.precision,
                retries: 1,
                give_up_after: 2,
                restart: Restart::Run,
                seed: self.seed,
            },
        }
    }
}

/// Counters of CPU time go on in ticks of 10 ms.
const SHORTEST: Duration = Duration::from_secs(1);

/// Minimum duration of a shortened run, in lifetimes.
const LEAST_LIFETIMES: f64 = 3.0;

/// Runs all of it. What was measured is in the report, however it ended.
pub fn run(
    plan: &Plan,
    stop: &Stop,
    report_progress: &mut dyn FnMut(&StudyProgress<'_>),
) -> Result<(Report, Result<(), Error>), Error> {
    plan.check()?;
    runs::all(plan, stop, report_progress)
}

#[cfg(test)]
mod tests;
