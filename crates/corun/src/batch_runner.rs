//! Runs the batches of a list of jobs, and keeps which jobs have ended.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::{Stamp, Stop, monotonic};
use nightwatt_compare::commands::{self, Ending, Process};
use nightwatt_compare::pure::experiment::Step;
use nightwatt_compare::record::{Better, RunFigure, RunRecord};
use nightwatt_compare::{Error as RunError, Store};
use nightwatt_energy::duration_text;
use nightwatt_energy::time::Mono;
use nightwatt_environments::Started;
use nightwatt_environments::guard::Guard;

use crate::adopted::Adopted;
use crate::error::Error;
use crate::job_history::{self, JobHistory};
use crate::job_key::ALSO_OF;
use crate::job_list::{Batches, JobList, ListedJob, Profile};
use crate::left_over::{ADVICE, LeftOver};
use crate::plan::SECONDS;
use crate::pure::batches::Batch;
use crate::runner::{line, place_of};

/// What is run.
#[derive(Debug, Clone, Copy)]
pub struct BatchRun<'a> {
    /// Where jobs of each kind run.
    pub profile: &'a Profile,
    /// The jobs.
    pub list: &'a JobList,
    /// Those that are to run.
    pub batches: &'a Batches,
    /// A job that runs longer is ended, and has failed.
    pub time_limit: Option<Duration>,
}

/// Runs batches one after the other, and notes the end of each job in the store. `on_progress` gets each batch before
/// it begins, and how many jobs of the list need not run any more.
pub fn run_batches(
    run: BatchRun<'_>,
    store: &mut Store,
    stop: &Stop,
    on_progress: &mut dyn FnMut(&Batch, usize),
) -> Result<(), Error> {
    let BatchRun { list, batches, .. } = run;
    let guard = Guard::start(&store.undo_file()).map_err(RunError::from)?;
    let adopted = Adopted::begin(guard.guardian())?;
    store.begin(list.subject())?;
    let history = JobHistory::of(list, &store.done);
    let attempts = list.jobs.iter().map(|job| history.attempts(job)).collect();
    let folders = Folders::free(&store.done);
    let mut runner =
        Runner { run, store, stop, guard: &guard, adopted: &adopted, attempts, folders };
    let mut left: usize = batches.batches.iter().map(|batch| batch.jobs.len()).sum();
    let mut result = Ok(());
    for batch in &batches.batches {
        on_progress(batch, list.jobs.len() - left);
        left -= batch.jobs.len();
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
    run: BatchRun<'a>,
    store: &'a mut Store,
    stop: &'a Stop,
    guard: &'a Guard,
    adopted: &'a Adopted,
    /// How many times each job of the list has run before.
    attempts: Vec<u32>,
    folders: Folders,
}

/// Numbers for folders of output that no run has.
struct Folders {
    used: BTreeSet<u32>,
    next: u32,
}

impl Folders {
    fn free(done: &[RunRecord]) -> Self {
        Self { used: done.iter().filter_map(job_history::folder_number).collect(), next: 1 }
    }

    fn next(&mut self) -> u32 {
        while self.used.contains(&self.next) {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
}

/// A job that runs.
struct RunningJob {
    /// Its place in the list.
    job: usize,
    process: Process,
    left_over: LeftOver,
    /// Ended after the process.
    place: Option<Started>,
    /// Where its output is, beneath the folder of the list.
    output: String,
}

/// The end of a job.
struct JobEnd {
    elapsed: Duration,
    /// Why it failed, if it did.
    failed: Option<String>,
}

/// When jobs are ended.
#[derive(Clone, Copy)]
struct Limit<'a> {
    began: Stamp,
    time: Option<Duration>,
    stop: &'a Stop,
}

impl Runner<'_> {
    /// All jobs of a batch at the same time, each to its own end.
    fn run(&mut self, batch: &Batch) -> Result<(), RunError> {
        if self.stop.is_stopped() {
            return Err(RunError::Interrupted);
        }
        let BatchRun { profile, list, time_limit, .. } = self.run;
        let jobs: Vec<&ListedJob> = batch.jobs.iter().map(|job| &list.jobs[*job]).collect();
        let kinds: Vec<usize> = jobs.iter().map(|job| job.place).collect();
        let mut places = Vec::new();
        for (job, cpus) in jobs.iter().zip(profile.report.placement.cpus(&kinds)) {
            places.push(place_of(&job.kind, cpus, self.guard, self.stop)?);
        }
        let limit = Limit { began: Stamp::now(), time: time_limit, stop: self.stop };
        let mut running = Vec::new();
        for ((job, at), place) in jobs.iter().zip(&batch.jobs).zip(places) {
            let left_over = LeftOver::new(*at as u32, 0);
            let command = line(&place, &job.command, &left_over);
            let folder = self.store.run_folder(self.folders.next())?;
            let output = folder.strip_prefix(self.store.folder()).unwrap_or(&folder);
            let output = output.display().to_string();
            let process = Process::start_session(command, &folder, "job")?;
            running.push(RunningJob { job: *at, process, left_over, place: Some(place), output });
        }
        let result = self.note_ends(limit, &mut running);
        // What was interrupted is ended, and then its place.
        let places: Vec<Started> = running.into_iter().filter_map(|job| job.place).collect();
        let ended = places.into_iter().map(Started::stop);
        let ended = ended.fold(Ok(()), Result::and);
        result.and(ended.map_err(|error| RunError::of_run(error, self.stop)))
    }

    /// Notes each end when it comes: after a power cut, only what has not ended runs again.
    fn note_ends(&mut self, limit: Limit<'_>, running: &mut [RunningJob]) -> Result<(), RunError> {
        let batch: Vec<usize> = running.iter().map(|it| it.job).collect();
        let outputs: Vec<String> = running.iter().map(|it| it.output.clone()).collect();
        thread::scope(|scope| {
            let (sender, ends) = mpsc::channel();
            for (at, running) in running.iter_mut().enumerate() {
                let sender = sender.clone();
                scope.spawn(move || {
                    // The receiver is there until all have sent.
                    let _ = sender.send((at, end_of(running, limit)));
                });
            }
            drop(sender);
            let mut result = Ok(());
            let mut known = Vec::new();
            for (number, (at, end)) in ends.into_iter().enumerate() {
                // A job that was interrupted still runs: it is not what another one has left.
                let all_have_ended = number + 1 == batch.len() && result.is_ok();
                let noted = end.and_then(|mut end| {
                    known.extend(end.failed.clone());
                    let left = if all_have_ended { self.left_by(&batch, &known) } else { None };
                    let warnings: Vec<String> = match left {
                        Some(left) if batch.len() == 1 => {
                            end.failed.get_or_insert(left);
                            Vec::new()
                        }
                        left => left.into_iter().collect(),
                    };
                    let mut record = self.record(batch[at], &outputs[at], limit.began);
                    if !warnings.is_empty() {
                        let others = outputs.iter().filter(|it| **it != outputs[at]);
                        let others: Vec<&str> = others.map(String::as_str).collect();
                        record.facts.insert(ALSO_OF.to_owned(), others.join(","));
                    }
                    self.note(RunRecord { warnings, ..record }, end)
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
            batch.iter().map(|job| self.run.list.jobs[*job].line.to_string()).collect();
        let which = match &lines[..] {
            [_] => "it has ended, and left".to_owned(),
            lines => format!("one of the jobs of lines {} has left", lines.join(", ")),
        };
        Some(format!("{which} {} running, which was ended: {ADVICE}", left.join(", ")))
    }

    /// A run of a job that has begun.
    fn record(&self, job: usize, output: &str, began: Stamp) -> RunRecord {
        let attempt = self.attempts[job];
        let step = Step { block: 0, cell: job, attempt, fresh_environment: false };
        let number = self.store.done.len() as u32 + 1;
        let facts = self.run.list.jobs[job].key.facts(output);
        RunRecord { facts, ..RunRecord::begin(number, &step, began.wall_ns) }
    }

    fn note(&mut self, record: RunRecord, end: JobEnd) -> Result<(), RunError> {
        let JobEnd { elapsed, failed } = end;
        let elapsed_s = elapsed.as_secs_f64();
        let (name, unit) = (SECONDS.to_owned(), "s".to_owned());
        let figures = vec![RunFigure { name, value: elapsed_s, unit, better: Better::Neither }];
        self.store.push(RunRecord { elapsed_s, failed, figures, ..record })
    }
}

/// Waits for the end of a job. What it leaves running is ended after the batch; at its time limit, at once.
fn end_of(running: &mut RunningJob, limit: Limit<'_>) -> Result<JobEnd, RunError> {
    let RunningJob { process, left_over, place, .. } = running;
    let Limit { began, time, stop } = limit;
    let deadline = time.map_or(Mono::NEVER, |time| began.mono + time);
    let ending = process.wait(deadline, stop)?;
    let elapsed = monotonic().since(began.mono);
    let failed = match ending {
        Ending::TookTooLong => {
            if let Some(Err(error)) = place.take().map(Started::stop) {
                tracing::warn!("{error}; it is tried once more at the end");
            }
            let limit = duration_text::format(time.unwrap_or_default());
            Some(commands::with_last_words(format!("time limit of {limit}"), process))
        }
        // What ends us may end all others, too, as a service manager does.
        Ending::Exited(status) if status.signal().is_some() && stop.is_stopped() => {
            return Err(RunError::Interrupted);
        }
        Ending::Exited(_) => commands::complaint(ending, Duration::MAX, process).or_else(|| {
            let left = left_over.find(stop)?;
            Some(format!("it has ended, and left {left} running, which was ended: {ADVICE}"))
        }),
    };
    Ok(JobEnd { elapsed, failed })
}
