//! Draws up the result of a plan from the records of its runs.

use std::collections::{BTreeMap, BTreeSet};

use super::error::Error;
use super::plan::{MAIN, Plan, Site, Workload};
use super::record::RunRecord;
use super::result::{Comparison, EnergySource, Failed, FigureName, Report};
use super::text::percent;
use super::{busy, consolidation, figures, runner, service};
use crate::pure::experiment::End;
use crate::pure::experiment::judged_ratios::{self, Answers};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// The report of a plan's runs.
pub fn report(plan: &Plan, runs: &[RunRecord]) -> Result<Report, Error> {
    let experiment = runner::experiment(plan, runs)?;
    let mut answers = judged_ratios::answers(&experiment, plan.margin);
    let doubted = busy::doubt(&mut answers, plan, runs);
    let comparisons = answers.comparisons.iter().map(|comparison| {
        let of_it = |run: &&RunRecord| {
            plan.name_of_comparison(&plan.cells[run.cell]) == comparison.name
                && run.failed.is_none()
        };
        let main = runs.iter().find(of_it).and_then(|run| figures::main_name(plan, run));
        let figures = runs.iter().filter(of_it).flat_map(|run| &run.figures);
        Comparison {
            name: comparison.name.clone(),
            main: main.unwrap_or_default(),
            end: comparison.end,
            units: figures.map(|it| (it.name.clone(), it.unit.clone())).collect(),
        }
    });
    let failed = runs.iter().filter_map(|run| {
        let why = run.failed.clone()?;
        Some(Failed { run: run.number, cell: plan.describe(run.cell), why })
    });
    let failed: Vec<Failed> = failed.collect();
    let (settings, settings_that_changed) = settings(runs);
    let baseline = plan.cells.iter().find(|cell| cell.is_baseline);
    Ok(Report {
        schema: SCHEMA,
        title: plan.title.clone(),
        compared: plan.compared().to_owned(),
        baseline: baseline.map(|cell| plan.name_on_axis(cell)).unwrap_or_default(),
        energy: EnergySource::of(plan.energy.as_deref(), runs),
        comparisons: comparisons.collect(),
        figures: names(runs),
        service: service::times(plan, runs),
        consolidation: consolidation::consolidation(plan, runs, experiment.rule()),
        finished: (runs.len() - failed.len()) as u64,
        warnings: [warnings(plan, runs, &answers, &failed), doubted].concat(),
        answers,
        failed,
        settings,
        settings_that_changed,
        facts: facts(plan, runs),
        runs: runs.to_vec(),
        plan: plan.clone(),
    })
}

fn names(runs: &[RunRecord]) -> Vec<FigureName> {
    let mut names: Vec<FigureName> = Vec::new();
    for figure in runs.iter().flat_map(|run| &run.figures) {
        if names.iter().all(|known| known.name != figure.name) {
            names.push(FigureName { name: figure.name.clone(), better: figure.better });
        }
    }
    names
}

/// Settings that were always the same, and those that were not.
fn settings(runs: &[RunRecord]) -> (BTreeMap<String, String>, BTreeMap<String, Vec<String>>) {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in runs.iter().flat_map(|run| &run.settings) {
        all.entry(name).or_default().insert(value);
    }
    let (mut same, mut changed) = (BTreeMap::new(), BTreeMap::new());
    for (name, values) in all {
        let mut values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        match (values.pop(), values.is_empty()) {
            (Some(value), true) => drop(same.insert(name.to_owned(), value)),
            (Some(value), false) => {
                values.push(value);
                changed.insert(name.to_owned(), values);
            }
            (None, _) => {}
        }
    }
    (same, changed)
}

fn facts(plan: &Plan, runs: &[RunRecord]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut all: BTreeMap<String, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    for run in runs {
        let name = &plan.environments[plan.cells[run.cell].environment].name;
        let its = all.entry(name.clone()).or_default();
        for (fact, value) in &run.facts {
            its.entry(fact.clone()).or_default().insert(value);
        }
    }
    let joined = |(fact, values): (String, BTreeSet<&str>)| {
        (fact, values.into_iter().collect::<Vec<_>>().join(", "))
    };
    all.into_iter().map(|(name, its)| (name, its.into_iter().map(joined).collect())).collect()
}

fn warnings(plan: &Plan, runs: &[RunRecord], answers: &Answers, failed: &[Failed]) -> Vec<String> {
    let mut warnings = Vec::new();
    let source = EnergySource::of(plan.energy.as_deref(), runs);
    let has_runs = runs.iter().any(|run| run.failed.is_none());
    warnings.extend(source.warning().filter(|_| has_runs).map(str::to_owned));
    let is_asked = |it: &Workload| it.at == Site::Client && it.tool != "idle";
    if plan.client.is_none() && plan.workloads.iter().any(is_asked) {
        warnings.push(
            "the load comes from the machine that is measured: what it takes to make it is in all figures. \
             `[client]` in the plan names another"
                .to_owned(),
        );
    }
    let remote = plan.environments.iter().filter(|it| it.is_elsewhere());
    for environment in remote {
        let name = &environment.name;
        warnings.push(format!(
            "`{name}` is on another machine: energy and power are its own only if the meter hangs on it"
        ));
    }
    if !failed.is_empty() {
        let count = failed.len();
        warnings.push(format!("{count} of {} runs failed: they are listed, with why", runs.len()));
    }
    let mut errors: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.errors > 0) {
        let (count, of) = errors.entry(run.cell).or_default();
        (*count, *of) = (*count + run.errors, *of + 1);
    }
    for (cell, (count, of)) in errors {
        let cell = plan.describe(cell);
        warnings.push(format!("{cell}: {count} operations failed in {of} runs: see `errors`"));
    }
    for cell in answers.cells.iter().filter(|cell| cell.given_up) {
        let (environment, comparison) = (&cell.environment, &cell.comparison);
        warnings.push(format!("{environment}: {comparison} was given up: it failed every time"));
    }
    for comparison in answers.comparisons.iter().filter(|it| it.end == Some(End::Cap)) {
        let share = percent(answers.rule.share);
        warnings.push(format!(
            "{}: not within {share} % of the mean after {} runs, the most that were allowed",
            comparison.name, answers.rule.max
        ));
    }
    let outliers: usize = answers
        .figures
        .get(MAIN)
        .map_or(0, |figure| figure.cells.iter().map(|cell| cell.outliers.len()).sum());
    if outliers > 0 {
        warnings.push(match outliers {
            1 => "1 run lies far from the others of its kind; it counts".to_owned(),
            many => format!("{many} runs lie far from the others of their kind; they count"),
        });
    }
    warnings.extend(warnings_of_runs(runs, |cell| plan.describe(cell)));
    warnings
}

/// What runs warned of: of those that differ in numbers only the first.
pub fn warnings_of_runs(runs: &[RunRecord], describe: impl Fn(usize) -> String) -> Vec<String> {
    let mut kinds: Vec<(String, String, usize)> = Vec::new();
    let all = runs.iter().flat_map(|run| run.warnings.iter().map(move |it| (run.cell, it)));
    for (cell, warning) in all {
        let words: Vec<&str> = warning.split(|c: char| c.is_ascii_digit()).collect();
        let kind: String =
            words.iter().filter(|word| !word.is_empty() && **word != ".").copied().collect();
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((.., count)) => *count += 1,
            None => kinds.push((kind, format!("{}: {warning}", describe(cell)), 1)),
        }
    }
    let told = kinds.into_iter().take(MOST_WARNINGS).map(|(_, first, count)| match count {
        1 => first,
        _ => format!("{first} (and {} more like that: `runs.jsonl` has them)", count - 1),
    });
    told.collect()
}

/// Of different kinds.
const MOST_WARNINGS: usize = 20;
