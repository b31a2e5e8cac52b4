//! The result of a plan: for every combination its figures with their intervals, and for every environment its ratio to
//! the baseline, judged.

use std::collections::BTreeMap;

use nightwatt_energy::stats::intervals::Interval;
use nightwatt_report::{Note, Origin, Section, Table, Text};
use serde::Serialize;

use super::figures;
use super::plan::{MAIN, Plan};
use super::record::{Better, RunRecord};
use super::text::in_a_line;
use crate::pure::experiment::End;
use crate::pure::experiment::judged_ratios::{Answers, CellAnswer, CellRuns, RatioAnswer};

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

/// The source of the energy.
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

/// A percentile of the response times of one combination.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceTime {
    /// The comparison.
    pub comparison: String,
    /// What is compared.
    pub environment: String,
    /// This percentage of the responses came
    pub percent: f64,
    /// within this time, s: the mean of the runs' values.
    pub seconds: f64,
    /// Its 95 % interval by the bootstrap over runs; null of fewer than two.
    pub interval: Option<Interval>,
    /// Number of runs that reported it.
    pub runs: u64,
}

/// What a machine with several copies takes of what as many machines with one copy take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Consolidation {
    /// The workload, and what else both sides have in common.
    pub workload: String,
    /// Where the copies run.
    pub environment: String,
    /// How many.
    pub copies: u32,
    /// What runs on each of the machines that the copies are compared with: one copy of this.
    pub reference: String,
    /// The compared figure: `energy_per_operation`, or without it the `power` of all.
    pub figure: String,
    /// Energy of the one machine as a share of that of the many, for the same work; 1 means equal.
    pub share: f64,
    /// The interval that holds 95 % under the rule by which runs were repeated.
    pub interval: Option<Interval>,
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

impl Failed {
    /// Of a terminal's report; the page has all of them.
    const MOST: usize = 10;

    /// Runs that failed, and why.
    pub fn section(failed: &[Self]) -> Section {
        let table = Table::of("", failed)
            .count("run", |it| it.run)
            .text("of", |it| it.cell.as_str())
            .text("why", |it| in_a_line(&it.why))
            .most(Self::MOST);
        Section::of_table("Failed runs", table.into())
    }
}

impl EnergySource {
    /// Of the channel that is wanted, or of those that cover most of the machine.
    pub fn of(wanted: Option<&str>, runs: &[RunRecord]) -> Self {
        let ended: Vec<&RunRecord> = runs.iter().filter(|run| run.failed.is_none()).collect();
        let channels = ended.first().map(|run| figures::source_of(wanted, &run.channels));
        let is_modelled = ended.iter().any(|run| figures::is_modelled(wanted, &run.channels));
        let accuracies = ended.iter().filter_map(|run| {
            let of_it = figures::channels_of(wanted, &run.channels);
            // Parts of one meter err the same way.
            let off: Option<f64> = of_it.iter().map(|it| it.accuracy_w).sum();
            Some(off? / figures::watts_of(wanted, &run.channels)?)
        });
        let accuracy = accuracies.reduce(f64::max);
        Self { channels: channels.unwrap_or_default(), is_modelled, accuracy }
    }

    /// What the reader has to know, if it is not measured.
    pub const fn warning(&self) -> Option<&'static str> {
        if self.is_modelled {
            Some(
                "no meter: energy and power are a model's, from what the processors did. `nightwatt meters` says what \
                 could measure here",
            )
        } else if self.channels.is_empty() {
            Some("no meter said anything: there is no energy in this report")
        } else {
            None
        }
    }

    /// The same for a report of runs, of which so many came to their end.
    pub fn note_of(&self, finished: u64) -> Note {
        if finished == 0 {
            return Note::new(Origin::Caution, "no run came to its end: there is no energy here");
        }
        self.note()
    }

    /// The same for runs that came to their end.
    pub fn note(&self) -> Note {
        if self.channels.is_empty() {
            return Note::new(Origin::Caution, "no meter said anything: there is no energy here");
        }
        let origin = if self.is_modelled { Origin::Modelled } else { Origin::Measured };
        let off = self.accuracy_in_words().map(|off| {
            let ratios = if self.is_modelled {
                "ratios suffer only where its share of idle power is wrong"
            } else {
                "ratios do not suffer from that"
            };
            format!(", {off} (95 %), the same way in every run: {ratios}")
        });
        let text =
            Text::from("energy and power by ").code(&self.channels).plain(off.unwrap_or_default());
        Note::new(origin, text)
    }

    /// How far the power may be off: `± 3.0 %`, or beyond all of it as a factor.
    pub(crate) fn accuracy_in_words(&self) -> Option<String> {
        self.accuracy.map(nightwatt_report::figures::accuracy)
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
        let is_it =
            |it: &&CellRuns| it.comparison == cell.comparison && it.environment == cell.environment;
        self.answers.cells.iter().find(is_it).map_or(0, |it| it.failed)
    }
}
