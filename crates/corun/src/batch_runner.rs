//! Runs the batches of a list of jobs, and keeps which jobs have ended.

use std::fmt::Write as _;
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
use crate::left_over::{ADVICE, LeftOver};
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
    /// What else was wrong.
    pub warnings: Vec<String>,
}

impl JobsDone {
    /// What a folder has of a list.
    pub fn of(list: &JobList, done: &[RunRecord]) -> Self {
        let ended = done.iter().map(|record| EndedJob {
            job: list.jobs[record.cell].clone(),
            seconds: record.elapsed_s,
            failed: record.failed.clone(),
            warnings: record.warnings.clone(),
        });
        Self { jobs: list.jobs.len(), ended: ended.collect() }
    }

    /// Jobs that failed.
    pub fn failed(&self) -> impl Iterator<Item = &EndedJob> {
        self.ended.iter().filter(|job| job.failed.is_some())
    }

    /// Whether no job failed, and none has left anything running.
    pub fn is_good(&self) -> bool {
        self.ended.iter().all(|job| job.failed.is_none() && job.warnings.is_empty())
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
        for warning in self.ended.iter().flat_map(|job| &job.warnings) {
            let _ = write!(text, "\n  {warning}");
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
    let mut runner = Runner { profile, list, store, stop, guard: &guard, adopted: &adopted };
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
    adopted: &'a Adopted,
}

/// A job that runs.
struct RunningJob {
    /// Its place in the list.
    job: usize,
    process: Process,
    left_over: LeftOver,
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
        let mut running = Vec::new();
        for ((job, at), place) in jobs.iter().zip(&batch.jobs).zip(&places) {
            let left_over = LeftOver::new(*at as u32, 0);
            let command = line(place, &job.command, &left_over);
            // Its number is that of the job: of several that run, any may be noted first.
            let folder = self.store.run_folder(*at as u32 + 1)?;
            let process = Process::start_session(command, &folder, "job")?;
            running.push(RunningJob { job: *at, process, left_over });
        }
        let result = self.note_ends(began, &mut running);
        // What was interrupted is ended, and then its place.
        drop(running);
        let ended = places.into_iter().map(Started::stop);
        let ended = ended.fold(Ok(()), Result::and);
        result.and(ended.map_err(|error| RunError::of_run(error, self.stop)))
    }

    /// Notes each end when it comes: after a power cut, only what has not ended runs again.
    fn note_ends(&mut self, began: Stamp, running: &mut [RunningJob]) -> Result<(), RunError> {
        let stop = self.stop;
        let batch: Vec<usize> = running.iter().map(|it| it.job).collect();
        thread::scope(|scope| {
            let (sender, ends) = mpsc::channel();
            for running in running {
                let sender = sender.clone();
                scope.spawn(move || {
                    // The receiver is there until all have sent.
                    let _ = sender.send((running.job, end_of(running, stop)));
                });
            }
            drop(sender);
            let mut result = Ok(());
            let mut known = Vec::new();
            for (number, (job, end)) in ends.into_iter().enumerate() {
                let is_last = number + 1 == batch.len();
                let noted = end.and_then(|mut end| {
                    known.extend(end.failed.clone());
                    let left = if is_last { self.left_by(&batch, &known) } else { None };
                    let warnings = match left {
                        Some(left) if batch.len() == 1 => {
                            end.failed.get_or_insert(left);
                            Vec::new()
                        }
                        left => left.into_iter().collect(),
                    };
                    self.note(job, began, end, warnings)
                });
                result = result.and(noted);
            }
            result
        })
    }

    /// What still runs when all jobs of a batch have ended, and is not `known` by the mark of one: it has cleared its
    /// environment.
    fn left_by(&self, batch: &[usize], known: &[String]) -> Option<String> {
        let mut left = self.adopted.find_all(self.stop);
        left.retain(|it| !known.iter().any(|known| known.contains(it)));
        if left.is_empty() || self.stop.is_stopped() {
            return None;
        }
        let lines: Vec<String> =
            batch.iter().map(|job| self.list.jobs[*job].line.to_string()).collect();
        let which = match &lines[..] {
            [_] => "it has ended, and left".to_owned(),
            lines => format!("one of the jobs of lines {} has left", lines.join(", ")),
        };
        Some(format!("{which} {} running, which was ended: {ADVICE}", left.join(", ")))
    }

    fn note(
        &mut self,
        job: usize,
        began: Stamp,
        JobEnd { at, failed }: JobEnd,
        warnings: Vec<String>,
    ) -> Result<(), RunError> {
        let step = Step { block: 0, cell: job, attempt: 0, fresh_environment: false };
        let number = self.store.done.len() as u32 + 1;
        let elapsed_s = at.since(began.mono).as_secs_f64();
        let (name, unit) = (SECONDS.to_owned(), "s".to_owned());
        let figure = RunFigure { name, value: elapsed_s, unit, better: Better::Neither };
        self.store.push(RunRecord {
            elapsed_s,
            failed,
            warnings,
            figures: vec![figure],
            ..RunRecord::begin(number, &step, began.wall_ns)
        })
    }
}

/// Waits for the end of a job. There is no limit of time. What it leaves running is ended after the batch.
fn end_of(running: &mut RunningJob, stop: &Stop) -> Result<JobEnd, RunError> {
    let RunningJob { process, left_over, .. } = running;
    let ending = process.wait(Mono::NEVER, stop)?;
    let at = monotonic();
    let failed = commands::complaint(ending, Duration::MAX, process).or_else(|| {
        let left = left_over.find(stop)?;
        Some(format!("it has ended, and left {left} running, which was ended: {ADVICE}"))
    });
    Ok(JobEnd { at, failed })
}
