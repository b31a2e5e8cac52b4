//! What a plan would do.

use std::fmt::Write as _;

use serde::Serialize;

use crate::error::Error;
use crate::plan::Plan;
use crate::pure::placement::Placement;
use crate::runner::{self, words};
use crate::text::placed;

/// What a plan would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// Heading of the plan.
    pub title: String,
    /// Where jobs run.
    pub placement: Placement,
    /// The groups.
    pub groups: Vec<PlannedGroup>,
    /// The runs of the first block, in their order: groups by their places.
    pub first_block: Vec<usize>,
    /// Runs at least.
    pub least_runs: u64,
    /// Runs at most.
    pub most_runs: u64,
}

/// A group, and where it would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedGroup {
    /// Its name: `a + b`.
    pub name: String,
    /// CPUs of each of its jobs.
    pub cpus: Vec<Vec<u32>>,
}

/// What a plan would do.
pub fn schedule(plan: &Plan, placement: Placement) -> Result<Schedule, Error> {
    let experiment = runner::experiment(plan, &[])?;
    let groups = plan.groups.iter().map(|group| {
        let (name, cpus) = (plan.name_of(group), placement.cpus(group));
        PlannedGroup { name, cpus }
    });
    let groups = groups.collect();
    let runs = plan.groups.len() as u64;
    Ok(Schedule {
        title: plan.title.clone(),
        placement,
        groups,
        first_block: experiment.order().to_vec(),
        least_runs: runs * u64::from(plan.runs.least),
        most_runs: runs * u64::from(plan.runs.most),
    })
}

impl Schedule {
    /// The schedule as text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} groups, {} to {} runs (retries not counted)\njobs share {}\n\nThe first block, in this order:\n",
            self.title,
            self.groups.len(),
            self.least_runs,
            self.most_runs,
            placed(&self.placement)
        );
        for place in &self.first_block {
            let group = &self.groups[*place];
            let cpus: Vec<String> = group.cpus.iter().map(|cpus| words(cpus)).collect();
            let _ = writeln!(text, "  {} on CPUs {}", group.name, cpus.join(" | "));
        }
        text.push_str("\nEach block has its own random order.");
        text
    }
}
