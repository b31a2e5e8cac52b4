//! Does the runs of a plan, one after the other, in the order that the experiment says.
//!
//! ```text
//! experiment (pure): which cell next? ─► setup: settings, environment, prepare, serve, ready, idle
//!                        ▲                 └─► run: warm-ups, meters on, command of each copy, meters off
//!                        └──────── values ◄──── read what the tool said ◄─┘      └─► store
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::pure::experiment::{Done, Experiment, Outcome, Progress, Step};
use nightwatt_clock::meter::{Stamp, Stop, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_environments::guard::Guard;
use nightwatt_meters::Host;
use nightwatt_meters::machine::others::{self, Busy};

use super::commands::{self, Process, Processes};
use super::error::Error;
use super::figures::{self, ToolOutcome};
use super::host::{self, HostActivity};
use super::machine_lock::MachineLock;
use super::metering::{Meters, Trim};
use super::plan::{Factor, FactorKind, MAIN, Plan, Site};
use super::record::RunRecord;
use super::setup::{CopyOf, Setup};
use super::store::Store;

/// What is told while runs go on.
pub struct RunProgress<'a> {
    /// How far the experiment is.
    pub progress: Progress,
    /// What comes next, in words.
    pub next: &'a str,
    /// A guess at the time left, from the runs so far.
    pub left: Option<Duration>,
    /// The run before, in words, and why it failed, if it did.
    pub failed: Option<(String, String)>,
}

impl RunProgress<'_> {
    /// Runs done, and done and to come.
    pub fn runs(&self) -> (u64, u64) {
        let left = self.progress.expected_left.unwrap_or(self.progress.most_left);
        (self.progress.done, self.progress.done + left)
    }
}

/// Runs of an experiment that are kept in a store.
pub trait Runs {
    /// Which run is next.
    fn experiment(&mut self) -> &mut Experiment;
    /// Where runs are kept.
    fn store(&mut self) -> &mut Store;
    /// A cell in words.
    fn describe(&self, cell: usize) -> String;
    /// One attempt at a run. What goes wrong with it is kept in the record; only what would go wrong with all, and the
    /// user's wish to stop, is an error.
    fn attempt(&mut self, step: Step) -> Result<RunRecord, Error>;
    /// What a run means for the experiment.
    fn done(&mut self, record: &RunRecord) -> Done;
}

/// Makes all runs of an experiment, and keeps each in the store before the next one begins.
pub fn drive(
    runs: &mut impl Runs,
    on_progress: &mut dyn FnMut(&RunProgress<'_>),
) -> Result<(), Error> {
    let mut failed = None;
    // Wall-clock time of what was done in this session, and runs in it.
    let mut spent = (Duration::ZERO, 0_u32);
    while let Some(step) = runs.experiment().next_run() {
        let progress = runs.experiment().progress();
        let next = runs.describe(step.cell);
        let left = progress.expected_left.unwrap_or(progress.most_left) as f64;
        let left = (spent.1 > 0).then(|| spent.0.mul_f64(left / f64::from(spent.1)));
        on_progress(&RunProgress { progress, next: &next, left, failed: failed.take() });
        let began = monotonic();
        let record = runs.attempt(step)?;
        let done = runs.done(&record);
        failed = record
            .failed
            .as_ref()
            .map(|why| (format!("run {}, {next}", record.number), why.clone()));
        runs.store().push(record)?;
        runs.experiment().done(done)?;
        spent.0 += monotonic().since(began);
        spent.1 += 1;
    }
    Ok(())
}

/// Runs what is still to be run, and keeps each run in the store.
pub fn run(
    plan: &Plan,
    store: &mut Store,
    stop: &Stop,
    on_progress: &mut dyn FnMut(&RunProgress<'_>),
) -> Result<(), Error> {
    let mut runner = Runner::new(plan, store, stop)?;
    let result = drive(&mut runner, on_progress);
    let ended = runner.end();
    result.and(ended)
}

/// The experiment of a plan, after the runs that were done.
pub(crate) fn experiment(plan: &Plan, done: &[RunRecord]) -> Result<Experiment, Error> {
    let runs = done.iter().enumerate();
    let runs = runs.map(|(place, record)| done_of(plan, &done[..place], record));
    Ok(Experiment::resume(plan.design(), runs)?)
}

fn done_of(plan: &Plan, so_far: &[RunRecord], record: &RunRecord) -> Done {
    let outcome = match figures::main_of(plan, so_far, record) {
        Err(why) => Outcome::Failed(why),
        Ok((_, value)) => {
            let figures = record.figures.iter().map(|it| (it.name.clone(), it.value));
            Outcome::Figures(figures.chain([(MAIN.to_owned(), value)]).collect())
        }
    };
    Done { block: record.block, cell: record.cell, attempt: record.attempt, outcome }
}

/// A setting that this machine has not got would fail in every run: better none is begun.
fn check_settings(plan: &Plan, stop: &Stop) -> Result<(), Error> {
    for factor in &plan.factors {
        if let FactorKind::Setting(setting) = &factor.kind {
            setting.check(Path::new("/"), &factor.values, stop)?;
        }
    }
    Ok(())
}

struct Runner<'a> {
    plan: &'a Plan,
    store: &'a mut Store,
    stop: &'a Stop,
    experiment: Experiment,
    meters: Meters,
    host: Host,
    guard: Guard,
    setup: Option<Setup>,
    /// Prevents other comparisons from changing settings meanwhile.
    _machine_lock: MachineLock,
}

/// What came of an attempt that has a number.
struct Attempt {
    step: Step,
    number: u32,
    folder: PathBuf,
    began: Stamp,
}

impl Runs for Runner<'_> {
    fn experiment(&mut self) -> &mut Experiment {
        &mut self.experiment
    }

    fn store(&mut self) -> &mut Store {
        self.store
    }

    fn describe(&self, cell: usize) -> String {
        self.plan.describe(cell)
    }

    fn attempt(&mut self, step: Step) -> Result<RunRecord, Error> {
        let number = self.store.done.len() as u32 + 1;
        let folder = self.store.run_folder(number)?;
        let attempt = Attempt { step, number, folder, began: Stamp::now() };
        self.check_stopped()?;
        match self.measured(&attempt) {
            Ok(record) => Ok(record),
            Err(Error::RunFailed(why)) => {
                // What is left of its environment is of no use to the next.
                let facts = self.setup.as_ref().map(Setup::facts).unwrap_or_default();
                self.close_setup();
                Ok(self.record(&attempt, Some(why), facts))
            }
            Err(error) => Err(error),
        }
    }

    fn done(&mut self, record: &RunRecord) -> Done {
        done_of(self.plan, &self.store.done, record)
    }
}

impl<'a> Runner<'a> {
    fn new(plan: &'a Plan, store: &'a mut Store, stop: &'a Stop) -> Result<Self, Error> {
        let host = Host::default();
        let specs = if plan.meters.is_empty() {
            nightwatt_meters::usual(&host)
        } else {
            plan.meters.clone()
        };
        let meters = Meters::open(&specs, plan.interval)?;
        figures::check_energy(plan.energy.as_deref(), &meters)?;
        let experiment = experiment(plan, &store.done).map_err(|error| store.refusal(error))?;
        let is_setting = |it: &Factor| matches!(it.kind, FactorKind::Setting(_));
        let machine_lock = MachineLock::take(plan.factors.iter().any(is_setting))?;
        if machine_lock.is_shared {
            tracing::warn!(
                "another `nightwatt compare` runs on this machine: each is in the figures of the other"
            );
        }
        check_settings(plan, stop)?;
        let guard = Guard::start(&store.undo_file())?;
        // Now nothing keeps it from running: what `--fresh` forgets goes only now.
        store.begin(plan.subject())?;
        let setup = None;
        Ok(Self {
            plan,
            store,
            stop,
            experiment,
            meters,
            host,
            guard,
            setup,
            _machine_lock: machine_lock,
        })
    }

    /// Ends what runs, and says whether all was undone.
    fn end(mut self) -> Result<(), Error> {
        let stopped = self.setup.take().map_or(Ok(()), Setup::end);
        let undone = self.guard.finish().map_err(Error::from);
        stopped.and(undone)
    }

    fn check_stopped(&self) -> Result<(), Error> {
        if self.stop.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn close_setup(&mut self) {
        if let Some(Err(error)) = self.setup.take().map(Setup::end) {
            // The guard tries again at the end, and then it counts.
            tracing::warn!("{error}");
        }
    }

    fn record(
        &self,
        attempt: &Attempt,
        failed: Option<String>,
        facts: BTreeMap<String, String>,
    ) -> RunRecord {
        let Attempt { step, number, began, .. } = attempt;
        RunRecord {
            failed,
            settings: host::settings(&self.host),
            facts,
            ..RunRecord::begin(*number, step, began.wall_ns)
        }
    }

    fn measured(&mut self, attempt: &Attempt) -> Result<RunRecord, Error> {
        self.make_ready(attempt)?;
        let rest = self.plan.runs.rest;
        if !rest.is_zero() {
            self.stop.wait_until(monotonic() + rest);
            self.check_stopped()?;
        }
        let cell = &self.plan.cells[attempt.step.cell];
        let workload = &self.plan.workloads[cell.workload];
        let doings = Cell::new(None);
        let runs = self.plan.runs;
        let trim = Trim { first: runs.trim_first, last: runs.trim_last };
        // Lines are made before: the meters are to see nothing else.
        let lines = self.lines(attempt, workload.at)?;
        let (stop, limit) = (self.stop, runs.time_limit);
        let folder = attempt.folder.as_path();
        let is_ours = self.plan.environments[cell.environment].starts_processes();
        let work = |begins: &dyn Fn(Mono)| {
            let mut running = Processes::default();
            doings.set(Some(HostActivity::begin(&self.host, is_ours)?));
            let begin = monotonic();
            begins(begin);
            for (name, command) in lines {
                running.0.push(Process::start(command, folder, &name)?);
            }
            let endings = running.wait(begin + limit, stop)?;
            let end = monotonic();
            let did = doings.take().map(|doings| doings.end(end.since(begin)));
            Ok(((running, endings, end.since(begin), did), end))
        };
        let ((processes, endings, elapsed, did), power) = self.meters.during(folder, trim, work)?;
        for (process, ending) in processes.0.iter().zip(&endings) {
            if let Some(why) = commands::complaint(*ending, limit, process) {
                return Err(Error::RunFailed(why));
            }
        }
        self.setup.as_ref().map_or(Ok(()), Setup::server_is_there)?;
        self.setup.as_ref().map_or(Ok(()), |setup| setup.settings_hold(self.plan, cell))?;
        if elapsed <= trim.first + trim.last && !(trim.first + trim.last).is_zero() {
            return Err(Error::RunFailed(format!(
                "it took {:.1} s, and `trim_first` and `trim_last` take {:.1} s of that: nothing is left that counts",
                elapsed.as_secs_f64(),
                (trim.first + trim.last).as_secs_f64()
            )));
        }
        let said: Result<Vec<ToolOutcome>, Error> = processes
            .0
            .iter()
            .map(|process| ToolOutcome::read(&workload.reader, process))
            .collect();
        let facts = self.setup.as_ref().map(Setup::facts).unwrap_or_default();
        let mut record = self.record(attempt, None, facts);
        record.elapsed_s = elapsed.as_secs_f64();
        record.warnings = power.warnings;
        record.warnings.extend(self.setup.as_ref().and_then(|setup| setup.idle_warning.clone()));
        record.channels = power.channels;
        let idle = self.setup.as_ref().and_then(Setup::idle_watts);
        let said = said?;
        figures::check_times(&said, elapsed).map_err(Error::RunFailed)?;
        figures::fill(self.plan, &mut record, &said, idle);
        let did = did.unwrap_or_default();
        record.figures.extend(did.figures);
        record.warnings.extend(did.warning);
        figures::main_of(self.plan, &self.store.done, &record).map_err(Error::RunFailed)?;
        Ok(record)
    }

    /// The commands of all copies.
    fn lines(
        &self,
        attempt: &Attempt,
        at: Site,
    ) -> Result<Vec<(String, std::process::Command)>, Error> {
        let cell = &self.plan.cells[attempt.step.cell];
        let setup = self.setup.as_ref().ok_or(Error::Interrupted)?;
        let line = &self.plan.workloads[cell.workload].command;
        let one = |copy: u32| {
            let name = if setup.copies() == 1 { "run".to_owned() } else { format!("run-{copy}") };
            (name, setup.command(CopyOf { plan: self.plan, cell, copy }, line, at))
        };
        Ok((0..setup.copies()).map(one).collect())
    }

    /// The environment, the workload in it and the settings that a cell needs.
    fn make_ready(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let cell = &self.plan.cells[attempt.step.cell];
        let key = self.plan.setup_of(cell);
        let fits =
            self.setup.as_ref().is_some_and(|it| it.key == key && it.block == attempt.step.block);
        let fresh = self.plan.runs.restart_each || attempt.step.fresh_environment;
        if fits && !fresh {
            return Ok(());
        }
        self.close_setup();
        let block = attempt.step.block;
        let (folder, stop) = (&attempt.folder, self.stop);
        let mut setup = Setup::start(self.plan, cell, block, &self.guard, folder, stop)?;
        if let Some(idle) = self.plan.idle {
            let stop = self.stop;
            let rest = |begins: &dyn Fn(Mono)| {
                begins(monotonic());
                stop.wait_until(monotonic() + idle);
                Ok(((), monotonic()))
            };
            let folder = attempt.folder.join("idle");
            make(&folder)?;
            let busy = Busy::start(self.host.clone());
            let ((), power) = self.meters.during(&folder, Trim::default(), rest)?;
            setup.idle_warning = others::idle_warning(busy.over(idle));
            setup.set_idle(figures::idle_watts(self.plan, &self.store.done, &power.channels));
            if self.stop.is_stopped() {
                return Err(Error::Interrupted);
            }
        }
        self.setup = Some(setup);
        self.warm_up(attempt)
    }

    fn warm_up(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let cell = &self.plan.cells[attempt.step.cell];
        let at = self.plan.workloads[cell.workload].at;
        for number in 1..=self.plan.runs.warm_ups {
            let folder = attempt.folder.join(format!("warm-up-{number}"));
            make(&folder)?;
            let limit = self.plan.runs.time_limit;
            let deadline = monotonic() + limit;
            let mut running = Processes::default();
            for (name, command) in self.lines(attempt, at)? {
                running.0.push(Process::start(command, &folder, &name)?);
            }
            let endings = running.wait(deadline, self.stop)?;
            for (process, ending) in running.0.iter().zip(endings) {
                if let Some(why) = commands::complaint(ending, limit, process) {
                    return Err(Error::RunFailed(format!("a warm-up failed: {why}")));
                }
            }
        }
        Ok(())
    }
}

fn make(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Results {
        what: "make",
        path: folder.to_owned(),
        source,
    })
}
