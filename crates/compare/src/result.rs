//! What the runs of a plan say: for every combination its figures with their intervals, and for every
//! environment its ratio to the baseline, judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::pure::experiment::End;
use crate::pure::experiment::answers::{self, Answers, CellAnswer, RatioAnswer};
use nightwatt_model::energy::Provenance;
use serde::Serialize;

use super::consolidation::Consolidation;
use super::error::Error;
use super::plan::{MAIN, Plan, Site, Workload};
use super::record::{Better, RunRecord};
use super::service::ServiceTime;
use super::text::percent;
use super::{consolidation, figures, runner, service};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// The result of a plan, so far.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// What it is about.
    pub title: String,
    /// What is compared: `environment`, or the name of a factor.
    pub compared: String,
    /// What is 100 %.
    pub baseline: String,
    /// Where the energy is from.
    pub energy: EnergySource,
    /// Each comparison: cells that differ in nothing but in what is compared.
    pub comparisons: Vec<Comparison>,
    /// Names and directions of all figures.
    pub figures: Vec<FigureName>,
    /// Every figure of every cell, and every ratio.
    pub answers: Answers,
    /// Response times, where tools tell them.
    pub service: Vec<ServiceTime>,
    /// What several copies on one machine save, where copies were varied.
    pub consolidation: Vec<Consolidation>,
    /// Runs that came to their end.
    pub finished: u64,
    /// Runs that failed, each with the reason.
    pub failed: Vec<Failed>,
    /// Settings of the machine that were the same in all runs.
    pub settings: BTreeMap<String, String>,
    /// Settings that were not: name, and all values that were seen.
    pub settings_that_changed: BTreeMap<String, Vec<String>>,
    /// What environments say of themselves: all values that were seen.
    pub facts: BTreeMap<String, BTreeMap<String, String>>,
    /// What the reader has to know.
    pub warnings: Vec<String>,
    /// The runs themselves, for charts.
    #[serde(skip)]
    pub(crate) runs: Vec<RunRecord>,
    #[serde(skip)]
    pub(crate) plan: Plan,
}

/// Where the energy is from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnergySource {
    /// Channels that are summed: `rapl/package-0 + rapl/dram-0`; empty where no meter spoke.
    pub channels: String,
    /// Is any of it a model's?
    pub is_modelled: bool,
    /// How far the power may be off at 95 %, the same way in every run, as a share of it; ratios do not
    /// suffer from it.
    pub accuracy: Option<f64>,
}

/// Cells that are compared with each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Its name: the workload, and what all have in common.
    pub name: String,
    /// The figure for which runs were repeated.
    pub main: String,
    /// Are there enough runs?
    pub end: Option<End>,
    /// Units of all its figures: tools count different things under one name.
    pub units: BTreeMap<String, String>,
}

/// What a figure is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureName {
    /// Its name.
    pub name: String,
    /// Which way is better.
    pub better: Better,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Its number: what it said is in `runs/NUMBER`.
    pub run: u32,
    /// Its cell, in words.
    pub cell: String,
    /// Why.
    pub why: String,
}

/// The report of a plan's runs.
pub fn report(plan: &Plan, runs: &[RunRecord]) -> Result<Report, Error> {
    let experiment = runner::experiment(plan, runs)?;
    let answers = answers::answers(&experiment, plan.margin);
    let comparisons = answers.comparisons.iter().map(|course| {
        let of_it = |run: &&RunRecord| {
            plan.name_of_comparison(&plan.cells[run.cell]) == course.name && run.failed.is_none()
        };
        let main = runs.iter().find(of_it).and_then(|run| figures::main_name(plan, run));
        let figures = runs.iter().filter(of_it).flat_map(|run| &run.figures);
        Comparison {
            name: course.name.clone(),
            main: main.unwrap_or_default(),
            end: course.end,
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
        energy: energy(plan, runs),
        comparisons: comparisons.collect(),
        figures: names(runs),
        service: service::times(plan, runs),
        consolidation: consolidation::consolidation(plan, runs, experiment.rule()),
        finished: (runs.len() - failed.len()) as u64,
        warnings: warnings(plan, runs, &answers, &failed),
        answers,
        failed,
        settings,
        settings_that_changed,
        facts: facts(plan, runs),
        runs: runs.to_vec(),
        plan: plan.clone(),
    })
}

fn energy(plan: &Plan, runs: &[RunRecord]) -> EnergySource {
    let ended: Vec<&RunRecord> = runs.iter().filter(|run| run.failed.is_none()).collect();
    let channels = ended.first().map(|run| figures::energy_source(plan, &run.channels));
    let is_modelled = ended.iter().any(|run| {
        let of_it = figures::energy_channels(plan, &run.channels);
        of_it.iter().any(|it| !matches!(it.provenance, Provenance::Measured { .. }))
    });
    let accuracies = ended.iter().filter_map(|run| {
        let of_it = figures::energy_channels(plan, &run.channels);
        // Parts of one meter err the same way.
        let off: Option<f64> = of_it.iter().map(|it| it.accuracy_w).sum();
        Some(off? / figures::energy_watts(plan, &run.channels)?)
    });
    let accuracy = accuracies.reduce(f64::max);
    EnergySource { channels: channels.unwrap_or_default(), is_modelled, accuracy }
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
    let source = energy(plan, runs);
    if source.is_modelled {
        warnings.push(
            "no meter: energy and power are a model's, from what the processors did. `nightwatt meters` \
             says what could measure here"
                .to_owned(),
        );
    } else if source.channels.is_empty() && runs.iter().any(|run| run.failed.is_none()) {
        warnings.push("no meter said anything: there is no energy in this report".to_owned());
    }
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
    for course in answers.comparisons.iter().filter(|it| it.end == Some(End::Cap)) {
        let share = percent(answers.rule.share);
        warnings.push(format!(
            "{}: not within {share} % of the mean after {} runs, the most that the plan allows",
            course.name, answers.rule.max
        ));
    }
    let outliers: usize = answers
        .figures
        .get(MAIN)
        .map_or(0, |figure| figure.cells.iter().map(|cell| cell.outliers.len()).sum());
    if outliers > 0 {
        warnings.push(format!("{outliers} runs lie far from the others of their kind; they count"));
    }
    warnings.extend(said_by_runs(plan, runs));
    warnings
}

/// What runs warned of: of those that differ in numbers only the first.
fn said_by_runs(plan: &Plan, runs: &[RunRecord]) -> Vec<String> {
    let mut kinds: Vec<(String, String, usize)> = Vec::new();
    let all = runs.iter().flat_map(|run| run.warnings.iter().map(move |it| (run.cell, it)));
    for (cell, warning) in all {
        let words: Vec<&str> = warning.split(|c: char| c.is_ascii_digit()).collect();
        let kind: String =
            words.iter().filter(|word| !word.is_empty() && **word != ".").copied().collect();
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((.., count)) => *count += 1,
            None => kinds.push((kind, format!("{}: {warning}", plan.describe(cell)), 1)),
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

impl EnergySource {
    /// How far the power may be off: `± 3.0 %`, or beyond all of it as a factor.
    pub(crate) fn accuracy_in_words(&self) -> Option<String> {
        let share = self.accuracy?;
        Some(if share < 1.0 {
            format!("± {:.1} %", 100.0 * share)
        } else {
            format!("within a factor of {:.0}", 1.0 + share)
        })
    }
}

impl Report {
    /// Are there enough runs of everything?
    pub fn is_whole(&self) -> bool {
        self.comparisons.iter().all(|it| matches!(it.end, Some(End::Precise | End::Cap)))
            && self.answers.cells.iter().all(|cell| !cell.given_up)
    }

    /// A figure of every cell of a comparison, in the order of the plan.
    pub(crate) fn cells<'a>(
        &'a self,
        comparison: &'a str,
        figure: &str,
    ) -> impl Iterator<Item = &'a CellAnswer> + use<'a> {
        let cells = self.answers.figures.get(figure).map(|it| &it.cells[..]).unwrap_or_default();
        cells.iter().filter(move |cell| cell.comparison == comparison)
    }

    /// What a cell's figure is of the baseline's. Main figures of all comparisons are judged together,
    /// whatever they are called.
    pub(crate) fn ratio(&self, cell: &CellAnswer, figure: &str) -> Option<&RatioAnswer> {
        let is_main = |it: &Comparison| it.name == cell.comparison && it.main == figure;
        let figure = if self.comparisons.iter().any(is_main) { MAIN } else { figure };
        let ratios = &self.answers.figures.get(figure)?.to_baseline.ratios;
        ratios
            .iter()
            .find(|it| it.comparison == cell.comparison && it.environment == cell.environment)
    }

    pub(crate) fn unit(&self, comparison: &str, figure: &str) -> &str {
        let comparison = self.comparisons.iter().find(|it| it.name == comparison);
        let unit = comparison.and_then(|it| it.units.get(figure));
        unit.map_or("", String::as_str)
    }

    /// Does the main figure of a run lie far from the others of its cell?
    pub(crate) fn is_outlier(&self, run: &RunRecord) -> bool {
        let cell = self.answers.figures.get(MAIN).and_then(|it| it.cells.get(run.cell));
        run.failed.is_none()
            && cell.is_some_and(|cell| cell.outliers.iter().any(|it| it.block == run.block))
    }

    /// For which share of a run its power is known, at the least of the channels that count.
    pub(crate) fn coverage(&self, run: &RunRecord) -> Option<f64> {
        let channels = figures::energy_channels(&self.plan, &run.channels);
        channels.iter().map(|it| it.coverage).reduce(f64::min)
    }

    /// How many runs of a cell failed.
    pub(crate) fn failed_of(&self, cell: &CellAnswer) -> u64 {
        let is_it = |it: &&answers::CellCourse| {
            it.comparison == cell.comparison && it.environment == cell.environment
        };
        self.answers.cells.iter().find(is_it).map_or(0, |it| it.failed)
    }
}
