//! Runs the batches of a list of jobs, and keeps which jobs have ended.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::{Stamp, Stop, monotonic};
use nightwatt_compare::commands::{self, Process};
use nightwatt_compare::pure::experiment::Step;
use nightwatt_compare::record::{Better, RunFigure, RunRecord};
use nightwatt_compare::{Error as RunError, Store};
use nightwatt_energy::time::Mono;
use nightwatt_environments::Started;
use nightwatt_environments::guard::Guard;
use serde::Serialize;

use crate::adopted::Adopted;
use crate::error::Error;
use crate::job_list::{Batches, JobList, ListedJob, Profile};
use crate::left_over::LeftOver;
use crate::plan::SECONDS;
use crate::pure::batches::Batch;
use crate::runner::{line, place_of};

/// What became of a list of jobs, so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobsDone {
    /// How many jobs there are.
    pub jobs: usize,
    /// Those that have ended, in the order in which that was noted.
    pub ended: Vec<EndedJob>,
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
}

impl JobsDone {
    /// What a folder has of a list.
    pub fn of(list: &JobList, done: &[RunRecord]) -> Self {
        let ended = done.iter().map(|record| EndedJob {
            job: list.jobs[record.cell].clone(),
            seconds: record.elapsed_s,
            failed: record.failed.clone(),
        });
        Self { jobs: list.jobs.len(), ended: ended.collect() }
    }

    /// Jobs that failed.
    pub fn failed(&self) -> impl Iterator<Item = &EndedJob> {
        self.ended.iter().filter(|job| job.failed.is_some())
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let failed = self.failed().count();
        let mut text = format!(
            "{} of {} jobs have ended, {failed} of them failed",
            self.ended.len(),
            self.jobs
        );
        for EndedJob { job, failed, .. } in self.failed() {
            let why = failed.as_deref().unwrap_or_default();
            let line = format!(
                "\n  line {}, {}: {}",
                job.line,
                job.command,
                nightwatt_compare::in_a_line(why)
            );
            text.push_str(&line);
        }
        text
    }
}

/// Places of the jobs that have ended.
pub fn jobs_done(store: &Store) -> Vec<usize> {
    store.done.iter().map(|record| record.cell).collect()
}

/// Runs batches one after the other, and notes the end of each job in the store. `tell` gets each batch before it
/// begins, and how many jobs have ended.
pub fn run_batches(
    profile: &Profile,
    list: &JobList,
    batches: &Batches,
    store: &mut Store,
    stop: &Stop,
    tell: &mut dyn FnMut(&Batch, usize),
) -> Result<(), Error> {
    let guard = Guard::start(&store.undo_file()).map_err(RunError::from)?;
    let adopted = Adopted::begin(guard.guardian())?;
    store.begin(list.subject())?;
    let mut runner = Runner { profile, list, store, stop, guard: &guard };
    let mut result = Ok(());
    for batch in &batches.batches {
        tell(batch, runner.store.done.len());
        result = runner.run(batch);
        adopted.end()?;
        if result.is_err() {
            break;
        }
    }
    let undone = guard.finish().map_err(RunError::from);
    Ok(result.and(undone)?)
}

struct Runner<'a> {
    profile: &'a Profile,
    list: &'a JobList,
    store: &'a mut Store,
    stop: &'a Stop,
    guard: &'a Guard,
}

/// The end of a job.
struct JobEnd {
    at: Mono,
    /// Why it failed, if it did.
    failed: Option<String>,
}

impl Runner<'_> {
    /// All jobs of a batch at the same time, each to its own end.
    fn run(&mut self, batch: &Batch) -> Result<(), RunError> {
        if self.stop.is_stopped() {
            return Err(RunError::Interrupted);
        }
        let jobs: Vec<&ListedJob> = batch.jobs.iter().map(|job| &self.list.jobs[*job]).collect();
        let kinds: Vec<usize> = jobs.iter().map(|job| job.place).collect();
        let mut places = Vec::new();
        for (job, cpus) in jobs.iter().zip(self.profile.report.placement.cpus(&kinds)) {
            places.push(place_of(&job.kind, cpus, self.guard, self.stop)?);
        }
        let began = Stamp::now();
        let mut processes = Vec::new();
        for ((job, at), place) in jobs.iter().zip(&batch.jobs).zip(&places) {
            let left_over = LeftOver::new(*at as u32, 0);
            let command = line(place, &job.command, &left_over);
            // Its number is that of the job: of several that run, any may be noted first.
            let folder = self.store.run_folder(*at as u32 + 1)?;
            processes.push(Process::start(command, &folder, "job")?);
        }
        let result = self.note_ends(batch, began, &mut processes);
        // What was interrupted is ended, and then its place.
        drop(processes);
        let ended = places.into_iter().map(Started::stop);
        let ended = ended.fold(Ok(()), Result::and);
        result.and(ended.map_err(|error| RunError::of_run(error, self.stop)))
    }

    /// Notes each end when it comes: after a power cut, only what has not ended runs again.
    fn note_ends(
        &mut self,
        batch: &Batch,
        began: Stamp,
        processes: &mut [Process],
    ) -> Result<(), RunError> {
        let stop = self.stop;
        thread::scope(|scope| {
            let (sender, ends) = mpsc::channel();
            for (job, process) in batch.jobs.iter().copied().zip(processes) {
                let sender = sender.clone();
                scope.spawn(move || {
                    // The receiver is there until all have sent.
                    let _ = sender.send((job, end_of(process, stop)));
                });
            }
            drop(sender);
            let mut result = Ok(());
            for (job, end) in ends {
                let noted = end.and_then(|end| self.note(job, began, end));
                result = result.and(noted);
            }
            result
        })
    }

    fn note(
        &mut self,
        job: usize,
        began: Stamp,
        JobEnd { at, failed }: JobEnd,
    ) -> Result<(), RunError> {
        let step = Step { block: 0, cell: job, attempt: 0, fresh_environment: false };
        let number = self.store.done.len() as u32 + 1;
        let elapsed_s = at.since(began.mono).as_secs_f64();
        let (name, unit) = (SECONDS.to_owned(), "s".to_owned());
        let figure = RunFigure { name, value: elapsed_s, unit, better: Better::Neither };
        self.store.push(RunRecord {
            elapsed_s,
            failed,
            figures: vec![figure],
            ..RunRecord::begin(number, &step, began.wall_ns)
        })
    }
}

/// Waits for the end of a job. There is no limit of time.
fn end_of(process: &mut Process, stop: &Stop) -> Result<JobEnd, RunError> {
    let ending = process.wait(Mono::NEVER, stop)?;
    let at = monotonic();
    Ok(JobEnd { at, failed: commands::complaint(ending, Duration::MAX, process) })
}
