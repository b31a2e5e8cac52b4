//! The result of a plan, so far.

use std::collections::BTreeMap;

use nightwatt_compare::pure::experiment::{End, Experiment};
use nightwatt_compare::record::RunRecord;
use nightwatt_compare::{EnergySource, Failed, figures, percent, warnings_of_runs};
use serde::Serialize;

use crate::error::Error;
use crate::plan::{Plan, SECONDS};
use crate::pure::answers::{self, Answers, Energy, EnergyBy, JobSample, Rules, Sample, Work};
use crate::pure::failures::{self, Ended};
use crate::pure::placement::Placement;
use crate::pure::power_range::AtEnds;
use crate::runner::{self, JOULES, JOULES_OF_HIGH_IDLE, JOULES_OF_LOW_IDLE, JobFigures};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// What runs of groups of jobs show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// What it is about.
    pub title: String,
    /// The jobs; other lists name them by their places here.
    pub jobs: Vec<NamedJob>,
    /// Where they run.
    pub placement: Placement,
    /// Where the energy is from.
    pub energy: EnergySource,
    /// Differences up to this share do not matter.
    pub margin: f64,
    /// Why there are no more runs; `None` while there are.
    pub end: Option<End>,
    /// Runs that came to their end.
    pub finished: u64,
    /// Runs that failed, each with the reason.
    pub failed: Vec<Failed>,
    /// Figures of all groups, and the best groupings.
    pub answers: Answers,
    /// Settings of the machine at the last run.
    pub settings: BTreeMap<String, String>,
    /// What the reader has to know.
    pub warnings: Vec<String>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedJob {
    /// Its name.
    pub name: String,
    /// Its line of the shell.
    pub command: String,
}

/// The report of a plan's runs.
pub fn report(plan: &Plan, placement: &Placement, runs: &[RunRecord]) -> Result<Report, Error> {
    let experiment = runner::experiment(plan, runs)?;
    let samples: Vec<Sample> = runs.iter().filter_map(|run| sample(plan, run)).collect();
    let rules = Rules { stop: experiment.rule(), margin: plan.margin };
    let answers = answers::answers(&plan.groups, &samples, rules);
    let failed = runs.iter().filter_map(|run| {
        let cell = plan.name_of(&plan.groups[run.cell]);
        Some(Failed { run: run.number, cell, why: run.failed.clone()? })
    });
    let failed: Vec<Failed> = failed.collect();
    let jobs = plan.jobs.iter().map(|job| {
        let (name, command) = (job.name.clone(), job.command.clone());
        NamedJob { name, command }
    });
    Ok(Report {
        schema: SCHEMA,
        title: plan.title.clone(),
        jobs: jobs.collect(),
        placement: placement.clone(),
        energy: EnergySource::of(plan.energy.as_deref(), runs),
        margin: plan.margin,
        end: experiment.end(0),
        finished: samples.len() as u64,
        warnings: warnings(plan, placement, runs, &experiment, &answers),
        failed,
        answers,
        settings: runs.last().map(|run| run.settings.clone()).unwrap_or_default(),
    })
}

/// A run that came to its end.
fn sample(plan: &Plan, run: &RunRecord) -> Option<Sample> {
    if run.failed.is_some() {
        return None;
    }
    let job = |job: &usize| {
        let names = JobFigures::of(&plan.jobs[*job].name);
        let work = run.figure(&names.operations).zip(run.figure(&names.per_second));
        Some(JobSample {
            seconds: run.figure(&names.seconds)?,
            work: work.map(|(operations, per_second)| Work { operations, per_second }),
        })
    };
    Some(Sample {
        block: run.block,
        group: run.cell,
        seconds: run.figure(SECONDS)?,
        energy: energy(plan, run),
        jobs: plan.groups[run.cell].iter().map(job).collect::<Option<_>>()?,
    })
}

fn energy(plan: &Plan, run: &RunRecord) -> Option<Energy> {
    let joules = run.figure(JOULES)?;
    let ends = run.figure(JOULES_OF_LOW_IDLE).zip(run.figure(JOULES_OF_HIGH_IDLE));
    let ends = ends.map(|(low_idle, high_idle)| AtEnds { low_idle, high_idle });
    let is_modelled = figures::is_modelled(plan.energy.as_deref(), &run.channels);
    Some(Energy { joules, by: if is_modelled { EnergyBy::Model(ends) } else { EnergyBy::Meter } })
}

fn warnings(
    plan: &Plan,
    placement: &Placement,
    runs: &[RunRecord],
    experiment: &Experiment,
    answers: &Answers,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let failed = runs.iter().filter(|run| run.failed.is_some()).count();
    if failed < runs.len() {
        let source = EnergySource::of(plan.energy.as_deref(), runs);
        warnings.extend(source.warning().map(str::to_owned));
    }
    if failed > 0 {
        warnings.push(format!("{failed} of {} runs failed: they are listed, with why", runs.len()));
    }
    let ended: Vec<Ended> = runs.iter().map(|run| runner::ended(plan, run)).collect();
    let broken = failures::broken(&plan.groups, &ended);
    for job in &broken {
        warnings.push(format!(
            "job `{}` failed three times on end: no more runs of the groups with it",
            plan.jobs[*job].name
        ));
    }
    for (cell, group) in plan.groups.iter().enumerate() {
        if experiment.is_given_up(cell) && !group.iter().any(|job| broken.contains(job)) {
            let name = plan.name_of(group);
            warnings.push(format!("{name}: no more runs, since it failed every time"));
        }
        let places = placement.slots.len();
        if places > 0 && group.len() > places {
            let (name, cpus) = (plan.name_of(group), runner::words(&placement.slots.concat()));
            warnings.push(format!("{name}: more jobs than places, so that they share CPUs {cpus}"));
        }
    }
    if experiment.end(0) == Some(End::Cap) {
        warnings.push(format!(
            "not all times are within {} % of the mean after {} runs, the most that the plan allows",
            percent(plan.runs.precision),
            plan.runs.most
        ));
    }
    for job in &answers.uneven {
        warnings.push(format!(
            "`{}` counts other numbers of operations in other runs, so it does not do the same work each time: its \
             groups are not compared with its jobs one after the other",
            plan.jobs[*job].name
        ));
    }
    warnings.extend(warnings_of_runs(runs, |cell| plan.name_of(&plan.groups[cell])));
    warnings
}

impl Report {
    /// A group in words.
    pub(crate) fn name_of(&self, group: &[usize]) -> String {
        let names: Vec<&str> = group.iter().map(|job| self.jobs[*job].name.as_str()).collect();
        names.join(" + ")
    }

    /// Whether there are enough runs, and no group failed every time.
    pub fn is_whole(&self) -> bool {
        matches!(self.end, Some(End::Precise | End::Cap))
            && self.answers.groups.iter().all(|group| group.runs > 0)
    }

    /// How a job runs beside another one.
    pub(crate) fn beside(&self, job: usize, other: usize) -> Option<answers::Judged> {
        let pair = [job.min(other), job.max(other)];
        let group = self.answers.groups.iter().find(|group| group.jobs == pair)?;
        Some(group.slowdowns.iter().find(|it| it.job == job)?.slowdown)
    }
}
