//! A list of jobs of kinds that `corun` has measured, and the batches in which they run (`nightwatt schedule`).

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use nightwatt_compare::{EnergySource, Error as RunError, Subject, store};
use nightwatt_report::{Block, Document, Section, Table, Text};
use serde::Serialize;

use crate::error::Error;
use crate::job_key::{self, JobKey};
use crate::plan::Plan;
use crate::pure::answers::{Advice, GroupAnswer};
use crate::pure::batches::{Batch, MeasuredGroup, batches};
use crate::pure::groups::{Cost, Goal};
use crate::report::{Report, report};
use crate::runner;

/// What is known of kinds of jobs: the results of a plan.
#[derive(Debug, Clone)]
pub struct Profile {
    pub(crate) plan: Plan,
    pub(crate) report: Report,
}

/// Jobs of these kinds.
#[derive(Debug, Clone)]
pub struct JobList {
    pub(crate) text: String,
    pub(crate) jobs: Vec<ListedJob>,
}

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedJob {
    /// Its line, from 1.
    pub line: usize,
    /// Its kind: a job of the profile.
    pub kind: String,
    /// Its line of the shell.
    pub command: String,
    #[serde(skip)]
    pub(crate) place: usize,
    #[serde(skip)]
    pub(crate) key: JobKey,
}

/// The batches of a list, one after the other.
#[derive(Debug, Clone, Serialize)]
pub struct Batches {
    /// The jobs.
    pub jobs: Vec<ListedJob>,
    /// Which of these run together; by their places among `jobs`.
    pub batches: Vec<Batch>,
    /// All batches, by what was measured of their groups.
    pub expected: Cost,
    /// The same jobs one after the other.
    pub one_after_the_other: Cost,
    /// Why each job runs alone, if each of several does.
    pub alone_because: Option<String>,
    /// Where the energy is from.
    pub energy: EnergySource,
}

impl Profile {
    /// Reads a folder of results of `nightwatt corun`.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let wrong = |why| Error::Profile { folder: folder.to_owned(), why };
        let path = folder.join("plan.toml");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| wrong(format!("cannot read {}: {source}", path.display())))?;
        let plan = Plan::read(&path.display().to_string(), "profile", &text)?;
        // `--fresh`, which these errors name elsewhere, is not about the profile here.
        let runs = store::runs(folder, plan.groups.len()).map_err(|error| match error {
            RunError::BadRun { line, why, .. } => {
                wrong(format!("line {line} of runs.jsonl is no run of this plan: {why}"))
            }
            error => error.into(),
        })?;
        let placement = runner::placement(&plan)?;
        runner::same_cpus(&plan, folder, &runs, &placement).map_err(|error| match error {
            Error::OtherCpus { then, now, .. } => {
                wrong(format!("its runs were made on CPUs {then}, and jobs would run on {now}"))
            }
            error => error,
        })?;
        let report = report(&plan, &placement, &runs)?;
        let unknown: Vec<&str> =
            report.answers.unknown_alone.iter().map(|job| plan.jobs[*job].name.as_str()).collect();
        if !unknown.is_empty() {
            let why = format!("there are not two runs of {} alone", unknown.join(", "));
            return Err(wrong(why));
        }
        Ok(Self { plan, report })
    }

    /// Each job alone, and the groups that are better together.
    fn groups(&self, goal: Goal) -> Result<Vec<MeasuredGroup>, Error> {
        let is_better = |group: &GroupAnswer| {
            let judged = if goal == Goal::Time { group.time } else { group.energy };
            group.jobs.len() == 1 || judged.is_some_and(|it| it.advice() == Advice::Together)
        };
        let measured = |group: &GroupAnswer| {
            let joules = group.joules.map(|it| it.mean);
            let joules = if goal == Goal::Energy { joules? } else { joules.unwrap_or(f64::NAN) };
            let cost = Cost { seconds: group.seconds?.mean, joules };
            Some(MeasuredGroup { kinds: group.jobs.clone(), cost })
        };
        let groups = self.report.answers.groups.iter().filter(|group| is_better(group));
        let groups: Vec<MeasuredGroup> = groups.filter_map(measured).collect();
        if groups.iter().filter(|group| group.kinds.len() == 1).count() < self.plan.jobs.len() {
            return Err(Error::NoEnergy);
        }
        Ok(groups)
    }
}

impl JobList {
    /// Reads a list: lines `KIND: COMMAND`. Empty lines and those that begin with `#` do not count.
    pub fn read(name: &str, text: &str, profile: &Profile) -> Result<Self, Error> {
        let kinds: Vec<&str> = profile.plan.jobs.iter().map(|job| job.name.as_str()).collect();
        let wrong = |line: usize, why: String| Error::JobList { name: name.to_owned(), line, why };
        let mut jobs = Vec::new();
        let mut occurrences: HashMap<String, u32> = HashMap::new();
        for (index, text) in text.lines().enumerate() {
            let (line, text) = (index + 1, text.trim());
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let of_kind = |place: usize| {
                let command = text.strip_prefix(kinds[place])?.strip_prefix(':')?;
                Some((place, command.trim()))
            };
            // Of `a` and `a: b`, the longer one.
            let found =
                (0..kinds.len()).filter_map(of_kind).min_by_key(|(_, command)| command.len());
            let Some((place, command)) = found else {
                let why = format!(
                    "it does not begin with a job of the profile and a colon, as in `{}: COMMAND`; there are {}",
                    kinds[0],
                    kinds.join(", ")
                );
                return Err(wrong(line, why));
            };
            if command.is_empty() {
                return Err(wrong(line, format!("there is no command after `{}:`", kinds[place])));
            }
            let (kind, command) = (kinds[place].to_owned(), command.to_owned());
            let text = format!("{kind}: {command}");
            let occurrence = occurrences.entry(text.clone()).or_default();
            *occurrence += 1;
            let key = JobKey { text, occurrence: *occurrence };
            jobs.push(ListedJob { line, kind, command, place, key });
        }
        if jobs.is_empty() {
            return Err(wrong(
                1,
                "there are no jobs; write `KIND: COMMAND`, one a line".to_owned(),
            ));
        }
        Ok(Self { text: text.to_owned(), jobs })
    }

    /// What the state in a folder is of. It stays when the list changes.
    pub fn subject(&self) -> Subject<'_> {
        Subject { text: &self.text, cells: self.jobs.len(), key: Some(job_key::JOB) }
    }

    /// The batches of the jobs that are left; `done` are those that are not, by their places.
    pub fn batches(
        &self,
        profile: &Profile,
        goal: Goal,
        bound: Option<Duration>,
        done: &[usize],
    ) -> Result<Batches, Error> {
        let groups = profile.groups(goal)?;
        let left: Vec<usize> = (0..self.jobs.len()).filter(|job| !done.contains(job)).collect();
        let kinds: Vec<usize> = left.iter().map(|job| self.jobs[*job].place).collect();
        let mut planned = batches(&kinds, &groups, goal, bound).ok_or(Error::NoEnergy)?;
        for batch in &mut planned {
            batch.jobs.iter_mut().for_each(|job| *job = left[*job]);
        }
        let alone =
            |kind: &usize| groups.iter().find(|group| group.kinds == [*kind]).map(|it| it.cost);
        let sum = |costs: &mut dyn Iterator<Item = Cost>| costs.fold(Cost::default(), Cost::then);
        Ok(Batches {
            jobs: self.jobs.clone(),
            expected: sum(&mut planned.iter().map(|batch| batch.cost)),
            one_after_the_other: sum(&mut kinds.iter().filter_map(alone)),
            alone_because: alone_because(&planned, &kinds, &groups, goal),
            batches: planned,
            energy: profile.report.energy.clone(),
        })
    }
}

/// Why each job runs alone, if each of several does.
fn alone_because(
    planned: &[Batch],
    kinds: &[usize],
    groups: &[MeasuredGroup],
    goal: Goal,
) -> Option<String> {
    if planned.len() < 2 || planned.iter().any(|batch| batch.jobs.len() > 1) {
        return None;
    }
    let fits = |group: &MeasuredGroup| group.kinds.iter().all(|kind| kinds.contains(kind));
    let why = if groups.iter().any(|group| group.kinds.len() > 1 && fits(group)) {
        "by the means that were measured, no group of them costs less".to_owned()
    } else {
        let by = if goal == Goal::Time { "time" } else { "energy" };
        format!("no group of their kinds is `together` by {by} in the profile")
    };
    Some(format!("each job runs alone: {why}"))
}

impl Batches {
    /// The jobs of a batch in words.
    pub fn name_of(&self, batch: &Batch) -> String {
        let jobs = batch.jobs.iter().map(|job| {
            let ListedJob { line, command, .. } = &self.jobs[*job];
            format!("{command} (line {line})")
        });
        jobs.collect::<Vec<_>>().join(" + ")
    }

    /// For a terminal: the order of the batches, and what they cost.
    pub fn text(&self) -> String {
        let mut document = Document::new("Jobs in batches");
        let cost = |cost: Cost| {
            let joules = if cost.joules.is_finite() {
                format!(", {:.0} J", cost.joules)
            } else {
                String::new()
            };
            format!("{:.1} s{joules}", cost.seconds)
        };
        let number = |count: usize, one: &str, more: &str| {
            format!("{count} {}", if count == 1 { one } else { more })
        };
        let summary = Text::from(format!(
            "{} in {}, by the means of measured groups: {}; one after the other {}",
            number(self.batches.iter().map(|batch| batch.jobs.len()).sum(), "job", "jobs"),
            number(self.batches.len(), "batch", "batches"),
            cost(self.expected),
            cost(self.one_after_the_other),
        ));
        let lines: Vec<(usize, &Batch)> = self.batches.iter().enumerate().collect();
        let table = Table::of("In this order", lines.iter())
            .count("batch", |(place, _)| *place as u64 + 1)
            .text("together", |(_, batch)| self.name_of(batch))
            .number("time", "s", 1, |(_, batch)| Some(batch.cost.seconds))
            .number("energy", "J", 0, |(_, batch)| {
                Some(batch.cost.joules).filter(|it| it.is_finite())
            });
        let mut short: Vec<Block> = vec![summary.into(), self.energy.note().into()];
        short.extend(self.alone_because.as_deref().map(|why| Block::from(Text::from(why))));
        document.sections.push(Section::new("In short", short));
        document.sections.push(Section::of_table("Batches", table.into()));
        document.to_text()
    }
}

#[cfg(test)]
mod runs;
#[cfg(test)]
mod tests;
