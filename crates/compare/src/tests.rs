//! Runs that are made up, and what is to come of them: expected values are worked out by hand beside them.

mod figures;
mod report;

use std::collections::BTreeMap;

use crate::pure::experiment::Step;
use nightwatt_energy::energy::Provenance;
use nightwatt_meters::Scope;

use super::plan::{Plan, PlanFile};
use super::record::{Better, ChannelRecord, RunFigure, RunRecord};
use super::runner;

/// Two environments, `host` and `jail`, and two workloads, of which the second does not tell operations.
fn plan(first: &str) -> Plan {
    let text = format!(
        "{first}\n[runs]\nleast = 3\nmost = 3\nretries = 0\n\
         [[environment]]\nname = 'host'\nkind = 'host'\n\
         [[environment]]\nname = 'jail'\nkind = 'bubblewrap'\nroot = 'host'\n\
         [[workload]]\nname = 'base'\ntool = 'pgbench'\ncommand = 'x'\n\
         [[workload]]\nname = 'rest'\ntool = 'idle'\ncommand = 'x'\n"
    );
    PlanFile::read("plan.toml", "plan", &text).unwrap()
}

/// The cell of an environment and a workload.
fn cell(plan: &Plan, name: &str) -> usize {
    (0..plan.cells.len()).find(|cell| plan.describe(*cell) == name).unwrap()
}

fn channel(name: &str, scope: Scope, watts: Option<f64>) -> ChannelRecord {
    let (meter, channel) = name.split_once('/').unwrap();
    ChannelRecord {
        meter: meter.to_owned(),
        channel: channel.to_owned(),
        scope,
        provenance: Provenance::Measured { meter: name.to_owned() },
        watts,
        accuracy_w: watts.map(|_| 0.0),
        window_s: 10.0,
        coverage: if watts.is_some() { 1.0 } else { 0.06 },
        readings: 10,
    }
}

fn run(step: Step, number: u32) -> RunRecord {
    RunRecord {
        number,
        block: step.block,
        cell: step.cell,
        attempt: step.attempt,
        began: String::new(),
        elapsed_s: 10.0,
        failed: None,
        figures: Vec::new(),
        percentiles: Vec::new(),
        answered: 1.0,
        errors: 0,
        channels: Vec::new(),
        settings: BTreeMap::new(),
        facts: BTreeMap::new(),
        warnings: Vec::new(),
    }
}

/// A run of a cell outside any order.
fn run_of(cell: usize, number: u32) -> RunRecord {
    run(Step { block: 0, cell, attempt: 0, fresh_environment: true }, number)
}

fn figure(name: &str, value: f64, unit: &str) -> RunFigure {
    RunFigure { name: name.to_owned(), value, unit: unit.to_owned(), better: Better::Lower }
}

/// All runs of a plan in its order, each as `fill` makes it.
fn runs(plan: &Plan, fill: impl Fn(&mut RunRecord)) -> Vec<RunRecord> {
    let mut all: Vec<RunRecord> = Vec::new();
    while let Some(step) = runner::experiment(plan, &all).unwrap().next_run() {
        let mut record = run(step, all.len() as u32 + 1);
        fill(&mut record);
        all.push(record);
    }
    all
}
