//! What the folder of a list has of its jobs. Of each job, the last run counts.

use std::collections::HashMap;
use std::fmt::Write as _;

use nightwatt_compare::Store;
use nightwatt_compare::record::RunRecord;
use serde::Serialize;

use crate::job_key::{ALSO_OF, JOB, JobKey, OUTPUT};
use crate::job_list::{JobList, ListedJob};

/// The job of a run.
fn key_of(record: &RunRecord, list: &JobList) -> Option<JobKey> {
    if record.facts.contains_key(JOB) {
        return JobKey::of(&record.facts);
    }
    // Of an earlier version: the store accepts such runs for an unchanged list only.
    list.jobs.get(record.cell).map(|job| job.key.clone())
}

/// The runs of each job.
pub(crate) struct JobHistory<'a> {
    jobs: HashMap<JobKey, Runs<'a>>,
}

struct Runs<'a> {
    last: &'a RunRecord,
    count: u32,
    /// Those of the last run.
    warnings: Vec<String>,
}

impl Runs<'_> {
    fn is_good(&self) -> bool {
        self.last.failed.is_none() && self.warnings.is_empty()
    }
}

impl<'a> JobHistory<'a> {
    pub(crate) fn of(list: &JobList, done: &'a [RunRecord]) -> Self {
        let mut jobs: HashMap<JobKey, Runs<'a>> = HashMap::new();
        for last in done {
            let Some(key) = key_of(last, list) else { continue };
            let count = jobs.get(&key).map_or(0, |runs| runs.count) + 1;
            jobs.insert(key, Runs { last, count, warnings: Vec::new() });
        }
        let shared: Vec<&RunRecord> =
            done.iter().filter(|run| run.facts.contains_key(ALSO_OF)).collect();
        for runs in jobs.values_mut() {
            runs.warnings = warnings_of(runs.last, &shared);
        }
        Self { jobs }
    }

    /// How many times a job has run.
    pub(crate) fn attempts(&self, job: &ListedJob) -> u32 {
        self.jobs.get(&job.key).map_or(0, |runs| runs.count)
    }
}

/// What a run was warned of, by its own record or by one of its batch. `shared` has those of several jobs.
fn warnings_of(run: &RunRecord, shared: &[&RunRecord]) -> Vec<String> {
    let output = output_of(run);
    let is_of_it = |other: &&&RunRecord| {
        let outputs = other.facts.get(ALSO_OF).map(String::as_str).unwrap_or_default();
        outputs.split(',').any(|it| it == output)
    };
    let of_batch = shared.iter().filter(is_of_it).flat_map(|other| &other.warnings);
    run.warnings.iter().chain(of_batch).cloned().collect()
}

/// Where the output of a run is.
pub(crate) fn output_of(record: &RunRecord) -> String {
    // An earlier version had it at the number of the line.
    record.facts.get(OUTPUT).cloned().unwrap_or_else(|| format!("runs/{:04}", record.cell + 1))
}

/// The number of the folder of a run.
pub(crate) fn folder_number(record: &RunRecord) -> Option<u32> {
    output_of(record).rsplit('/').next()?.parse().ok()
}

/// Places of the jobs that are not to be run: those that have ended. With `retry_failed`, only those that have neither
/// failed nor a warning.
pub fn jobs_done(list: &JobList, store: &Store, retry_failed: bool) -> Vec<usize> {
    let history = JobHistory::of(list, &store.done);
    let jobs = list.jobs.iter().enumerate();
    let done = jobs.filter(|(_, job)| {
        let runs = history.jobs.get(&job.key);
        runs.is_some_and(|runs| !retry_failed || runs.is_good())
    });
    done.map(|(place, _)| place).collect()
}

/// What became of a list of jobs, so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobsDone {
    /// How many jobs there are.
    pub jobs: usize,
    /// Those that have ended, in the order in which that was noted.
    pub ended: Vec<EndedJob>,
    /// How many have ended whose lines are no longer in the list.
    pub removed: usize,
}

/// A job that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndedJob {
    /// Its line, kind and command.
    #[serde(flatten)]
    pub job: ListedJob,
    /// Until it ended, s.
    pub seconds: f64,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// How many times it has run; all else is of the last time.
    pub attempts: u32,
    /// Its output, in the folder of the list.
    pub output: String,
    /// What else was wrong; of several jobs in a batch it may not be known which one it is of.
    pub warnings: Vec<String>,
}

impl EndedJob {
    /// Whether it has neither failed nor a warning.
    pub const fn is_good(&self) -> bool {
        self.failed.is_none() && self.warnings.is_empty()
    }
}

impl JobsDone {
    /// What a folder has of a list.
    pub fn of(list: &JobList, done: &[RunRecord]) -> Self {
        let mut history = JobHistory::of(list, done);
        let mut ended: Vec<(u32, EndedJob)> = Vec::new();
        for job in &list.jobs {
            let Some(runs) = history.jobs.remove(&job.key) else { continue };
            let Runs { last, count, warnings } = runs;
            let job = EndedJob {
                job: job.clone(),
                seconds: last.elapsed_s,
                failed: last.failed.clone(),
                attempts: count,
                output: output_of(last),
                warnings,
            };
            ended.push((last.number, job));
        }
        ended.sort_by_key(|(number, _)| *number);
        let ended = ended.into_iter().map(|(_, job)| job).collect();
        Self { jobs: list.jobs.len(), ended, removed: history.jobs.len() }
    }

    /// Jobs that failed.
    pub fn failed(&self) -> impl Iterator<Item = &EndedJob> {
        self.ended.iter().filter(|job| job.failed.is_some())
    }

    /// Jobs that did not fail, and have a warning.
    pub fn warned(&self) -> impl Iterator<Item = &EndedJob> {
        self.ended.iter().filter(|job| job.failed.is_none() && !job.warnings.is_empty())
    }

    /// Whether no job failed, and none has left anything running.
    pub fn is_good(&self) -> bool {
        self.ended.iter().all(EndedJob::is_good)
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let (failed, warned) = (self.failed().count(), self.warned().count());
        let mut text = format!(
            "{} of {} jobs have ended, {failed} of them failed",
            self.ended.len(),
            self.jobs
        );
        if warned > 0 {
            let _ = write!(text, ", {warned} with a warning");
        }
        for EndedJob { job, failed, attempts, output, .. } in self.failed() {
            let why = nightwatt_compare::in_a_line(failed.as_deref().unwrap_or_default());
            let attempts =
                if *attempts > 1 { format!(", {attempts} attempts") } else { String::new() };
            let (line, command) = (job.line, &job.command);
            let _ = write!(text, "\n  line {line}, {command}: {why} ({output}{attempts})");
        }
        // All jobs of a batch may have the same one.
        let mut warnings: Vec<&String> = Vec::new();
        for warning in self.ended.iter().flat_map(|job| &job.warnings) {
            if !warnings.contains(&warning) {
                let _ = write!(text, "\n  {warning}");
                warnings.push(warning);
            }
        }
        if !self.is_good() {
            text.push_str("\n`--retry-failed` runs these again");
        }
        if self.removed > 0 {
            let _ = write!(text, "\nnot counted: {} whose lines are not in the list", self.removed);
        }
        text
    }
}
