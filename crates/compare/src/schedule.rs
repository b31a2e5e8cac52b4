//! What would be run, and what can be.

use std::fmt::Write as _;

use nightwatt_environments::KINDS;
use nightwatt_workloads::TOOLS;
use serde::Serialize;

use super::error::Error;
use super::plan::Plan;
use super::runner;

/// What a plan would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// What the plan calls itself.
    pub title: String,
    /// All combinations.
    pub cells: Vec<String>,
    /// The runs of the first block, in their order: combinations by their places.
    pub first_block: Vec<usize>,
    /// Runs at least.
    pub least_runs: u64,
    /// Runs at most.
    pub most_runs: u64,
    /// What this machine lacks for them, each with what to do about it.
    pub missing: Vec<String>,
}

/// What a plan would do, on a machine that lacks this.
pub fn schedule(plan: &Plan, missing: Vec<String>) -> Result<Schedule, Error> {
    let experiment = runner::experiment(plan, &[])?;
    let cells = plan.cells.len() as u64;
    Ok(Schedule {
        title: plan.title.clone(),
        cells: (0..plan.cells.len()).map(|cell| plan.describe(cell)).collect(),
        first_block: experiment.order().to_vec(),
        least_runs: cells * u64::from(plan.runs.least),
        most_runs: cells * u64::from(plan.runs.most),
        missing,
    })
}

impl Schedule {
    /// The schedule as text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} combinations, {} to {} runs (retries not counted)\n\nThe first block, in this order:\n",
            self.title,
            self.cells.len(),
            self.least_runs,
            self.most_runs
        );
        for cell in &self.first_block {
            let _ = writeln!(text, "  {}", self.cells[*cell]);
        }
        text.push_str(
            "\nEach block has its own random order. The first one shows how long a block lasts.",
        );
        if !self.missing.is_empty() {
            let list = self.missing.join("\n  ");
            let _ = write!(text, "\n\nMissing on this machine:\n  {list}");
        }
        text
    }
}

/// The tools whose output is understood.
pub fn tools() -> String {
    let mut text = String::new();
    for tool in TOOLS {
        let _ = writeln!(text, "{:<16}{}\n{:<16}  {}", tool.name, tool.about, "", tool.example);
    }
    text.push_str(
        "regex           anything else, by a regular expression (`read` in the workload)\n",
    );
    text.push_str(
        "json            anything else that is JSON, by pointers (`read` in the workload)\n",
    );
    text
}

/// The kinds of environments.
pub fn environments() -> String {
    let mut text = String::new();
    for kind in KINDS {
        let _ = writeln!(text, "{:<12}{}", kind.name, kind.about);
        let options = (kind.options)();
        if !options.is_empty() {
            let _ = writeln!(text, "{:<12}options: {}", "", options.join(", "));
        }
    }
    let _ = writeln!(
        text,
        "\nAll have the options {}.\ndocs/environments.md says what each means.",
        nightwatt_environments::COMMON_OPTIONS.join(", ")
    );
    text
}
