//! Runs the groups of a plan, in the order of the experiment, and keeps each run.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nightwatt_clock::meter::{Stamp, Stop, monotonic};
use nightwatt_compare::commands::{self, Ending, Process, Processes};
use nightwatt_compare::machine_lock::MachineLock;
use nightwatt_compare::metering::{Meters, Power, Trim};
use nightwatt_compare::pure::experiment::{Done, Experiment, Outcome, Step};
use nightwatt_compare::record::{Better, RunFigure, RunRecord};
use nightwatt_compare::{Error as RunError, RunProgress, Runs, Store, drive, figures, host};
use nightwatt_energy::time::Mono;
use nightwatt_environments::guard::Guard;
use nightwatt_environments::{Common, EnvironmentConfig, KindConfig, Started, shell};
use nightwatt_meters::{Host, MeterSpec, machine};
use nightwatt_workloads::Output;

use crate::adopted::Adopted;
use crate::error::Error;
use crate::left_over::{ADVICE, LeftOver};
use crate::plan::{Job, Plan, SECONDS};
use crate::pure::failures::{self, Ended};
use crate::pure::placement::Placement;
use crate::pure::power_range::PowerRange;
use crate::topology;

/// Joules of the machine.
pub(crate) const JOULES: &str = "joules";

/// The same by the power model, at both ends of its range ([`PowerRange`]).
pub(crate) const JOULES_OF_LOW_IDLE: &str = "joules if idle power is low";
pub(crate) const JOULES_OF_HIGH_IDLE: &str = "joules if idle power is high";

/// Starting a job needs some milliseconds, which count as its own.
const SHORT: Duration = Duration::from_millis(200);

/// A job in the figures of a run.
pub(crate) struct JobFigures {
    /// Until it was finished.
    pub(crate) seconds: String,
    /// What its tool counted.
    pub(crate) operations: String,
    /// In a second.
    pub(crate) per_second: String,
}

impl JobFigures {
    pub(crate) fn of(name: &str) -> Self {
        Self {
            seconds: format!("seconds of {name}"),
            operations: format!("operations of {name}"),
            per_second: format!("operations per second of {name}"),
        }
    }
}

/// Where the jobs of a plan run on this machine.
pub fn placement(plan: &Plan) -> Result<Placement, Error> {
    let cpus = topology::cpus(&Host::default(), topology::is_allowed());
    Placement::of(&cpus, plan.share, plan.jobs.len(), plan.cpus_each).map_err(Error::Placement)
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
    let undone = runner.guard.finish().map_err(RunError::from);
    Ok(result.and(undone)?)
}

/// The experiment of a plan, after these runs.
pub(crate) fn experiment(plan: &Plan, done: &[RunRecord]) -> Result<Experiment, RunError> {
    let runs = done.iter().enumerate();
    let runs = runs.map(|(place, record)| done_of(plan, &done[..place], record));
    Ok(Experiment::resume(plan.design(), runs)?)
}

/// The fact of a failed run that names the job because of which it failed.
const FAILED_JOB: &str = "failed job";

/// A run as far as it matters for giving up.
pub(crate) fn ended(plan: &Plan, record: &RunRecord) -> Ended {
    let job = record.facts.get(FAILED_JOB);
    Ended {
        group: record.cell,
        has_failed: record.failed.is_some(),
        because_of: job.and_then(|name| plan.jobs.iter().position(|job| job.name == *name)),
    }
}

fn done_of(plan: &Plan, so_far: &[RunRecord], record: &RunRecord) -> Done {
    let outcome = match (&record.failed, record.figure(SECONDS)) {
        (Some(why), _) => {
            let runs: Vec<Ended> =
                so_far.iter().chain([record]).map(|record| ended(plan, record)).collect();
            match failures::broken_by_last(&plan.groups, &runs) {
                None => Outcome::Failed(why.clone()),
                Some(job) => Outcome::FailedForAll {
                    why: why.clone(),
                    cells: failures::groups_with(&plan.groups, job),
                },
            }
        }
        (None, None) => Outcome::Failed("it has no time".to_owned()),
        (None, Some(seconds)) => Outcome::Figures([(SECONDS.to_owned(), seconds)].into()),
    };
    Done { block: record.block, cell: record.cell, attempt: record.attempt, outcome }
}

struct Runner<'a> {
    plan: &'a Plan,
    store: &'a mut Store,
    stop: &'a Stop,
    experiment: Experiment,
    meters: Meters,
    model: Option<ModelMeter>,
    guard: Guard,
    adopted: Adopted,
    placement: Placement,
    host: Host,
    /// Prevents comparisons from changing settings meanwhile.
    _machine_lock: MachineLock,
}

impl Runs for Runner<'_> {
    fn experiment(&mut self) -> &mut Experiment {
        &mut self.experiment
    }

    fn store(&mut self) -> &mut Store {
        self.store
    }

    fn describe(&self, cell: usize) -> String {
        self.plan.name_of(&self.plan.groups[cell])
    }

    fn attempt(&mut self, step: Step) -> Result<RunRecord, RunError> {
        let number = self.store.done.len() as u32 + 1;
        let folder = self.store.run_folder(number)?;
        let mut record = RunRecord::begin(number, &step, Stamp::now().wall_ns);
        record.settings = host::settings(&self.host);
        if self.stop.is_stopped() {
            return Err(RunError::Interrupted);
        }
        let measured = self.measured(&self.plan.groups[step.cell], &folder, &mut record);
        self.adopted.end()?;
        match measured {
            Ok(()) => {}
            Err(RunError::RunFailed(why)) => record.failed = Some(why),
            Err(error) => return Err(error),
        }
        Ok(record)
    }

    fn done(&mut self, record: &RunRecord) -> Done {
        done_of(self.plan, &self.store.done, record)
    }
}

/// The meter without a meter, if it is among those that are read.
struct ModelMeter {
    name: String,
    range: PowerRange,
}

impl ModelMeter {
    fn find(host: &Host, specs: &[MeterSpec]) -> Result<Option<Self>, RunError> {
        let Some(spec) = specs.iter().find(|spec| spec.driver == nightwatt_meters::MODEL) else {
            return Ok(None);
        };
        let range = PowerRange::of(&nightwatt_meters::power_model(host, spec)?);
        Ok(Some(Self { name: spec.name().to_owned(), range }))
    }
}

/// A job of a group that is being run.
struct Member<'a> {
    job: &'a Job,
    place: Started,
    left_over: LeftOver,
}

/// What came of all jobs of a group.
struct Ran {
    processes: Processes,
    endings: Vec<Option<(Ending, Mono)>>,
    begin: Mono,
    end: Mono,
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
        let model = ModelMeter::find(&host, &specs)?;
        figures::check_energy(plan.energy.as_deref(), &meters)?;
        let placement = placement(plan)?;
        same_cpus(plan, store.folder(), &store.done, &placement)?;
        let experiment = experiment(plan, &store.done).map_err(|error| store.refusal(error))?;
        let machine_lock = MachineLock::take(false)?;
        if machine_lock.is_shared {
            tracing::warn!(
                "another nightwatt measures on this machine: each is in the figures of the other"
            );
        }
        let guard = Guard::start(&store.undo_file()).map_err(RunError::from)?;
        let adopted = Adopted::begin(guard.guardian())?;
        store.begin(plan.subject())?;
        Ok(Self {
            plan,
            store,
            stop,
            experiment,
            meters,
            model,
            guard,
            adopted,
            placement,
            host,
            _machine_lock: machine_lock,
        })
    }

    fn measured(
        &mut self,
        group: &[usize],
        folder: &Path,
        record: &mut RunRecord,
    ) -> Result<(), RunError> {
        let online = machine::cpus(&self.host);
        let members = self.members(group, record)?;
        for (at, member) in members.iter().enumerate() {
            self.prepare(member, folder, at, record)?;
        }
        self.stop.wait_until(monotonic() + self.plan.runs.rest);
        let (ran, power) = self.together(&members, folder)?;
        let limit = self.plan.runs.time_limit;
        let ended = members.iter().zip(ran.endings.iter().zip(&ran.processes.0));
        for (member, (ending, process)) in ended.clone() {
            let Some((ending, _)) = *ending else { continue };
            if let Some(why) = commands::complaint(ending, limit, process) {
                let name = &member.job.name;
                let hint = match ending {
                    Ending::TookTooLong => {
                        ". A job ends by itself: let it do less, or raise `time_limit`"
                    }
                    Ending::Exited(_) => "",
                };
                let why = format!("job `{name}` failed: {why}{hint}");
                return Err(failed_by(record, member.job, why));
            }
        }
        self.nothing_is_left(&members, record)?;
        if machine::cpus(&self.host) != online {
            return Err(RunError::RunFailed(
                "a CPU went online or offline during the run: jobs did not stay where they were put"
                    .to_owned(),
            ));
        }
        let elapsed = ran.end.since(ran.begin);
        record.elapsed_s = elapsed.as_secs_f64();
        record.channels = power.channels;
        record.warnings = power.warnings;
        add(record, SECONDS, record.elapsed_s, "s");
        let wanted = self.plan.energy.as_deref();
        same_source(wanted, &self.store.done, record)?;
        self.add_joules(record);
        for (member, (ending, process)) in ended {
            let end = ending.map_or(ran.end, |(_, end)| end);
            job_figures(record, member.job, process, end.since(ran.begin))?;
        }
        let ended = members.into_iter().map(|member| member.place.stop());
        ended.fold(Ok(()), Result::and).map_err(|error| RunError::of_run(error, self.stop))
    }

    /// No job has left anything running.
    fn nothing_is_left(
        &self,
        members: &[Member<'_>],
        record: &mut RunRecord,
    ) -> Result<(), RunError> {
        for Member { job, left_over, .. } in members {
            if let Some(left) = left_over.find(self.stop) {
                let why =
                    format!("job `{}` has ended, and left {left} running: {ADVICE}", job.name);
                return Err(failed_by(record, job, why));
            }
        }
        let Some(left) = self.adopted.find(self.stop) else { return Ok(()) };
        match members {
            [Member { job, .. }] => {
                let why =
                    format!("job `{}` has ended, and left {left} running: {ADVICE}", job.name);
                Err(failed_by(record, job, why))
            }
            _ => Err(RunError::RunFailed(format!(
                "one of the jobs has ended, and left {left} running: {ADVICE}"
            ))),
        }
    }

    fn add_joules(&self, record: &mut RunRecord) {
        let wanted = self.plan.energy.as_deref();
        let Some(watts) = figures::watts_of(wanted, &record.channels) else { return };
        let seconds = record.elapsed_s;
        let source = figures::channels_of(wanted, &record.channels);
        let model = self.model.as_ref().filter(|it| source.iter().all(|by| by.meter == it.name));
        add(record, JOULES, watts * seconds, "J");
        if let Some(model) = model {
            let ends = model.range.at_ends(watts);
            add(record, JOULES_OF_LOW_IDLE, ends.low_idle * seconds, "J");
            add(record, JOULES_OF_HIGH_IDLE, ends.high_idle * seconds, "J");
        }
    }

    /// A place for each job: with its CPUs, and all of it ended at the end.
    fn members(
        &self,
        group: &[usize],
        record: &mut RunRecord,
    ) -> Result<Vec<Member<'a>>, RunError> {
        let mut members = Vec::new();
        for (at, (job, cpus)) in group.iter().zip(self.placement.cpus(group)).enumerate() {
            let job = &self.plan.jobs[*job];
            record.facts.insert(format!("CPUs of {}", job.name), words(&cpus));
            let place = place_of(&job.name, cpus, &self.guard, self.stop)?;
            members.push(Member { job, place, left_over: LeftOver::new(record.number, at) });
        }
        Ok(members)
    }

    fn prepare(
        &self,
        member: &Member<'_>,
        folder: &Path,
        at: usize,
        record: &mut RunRecord,
    ) -> Result<(), RunError> {
        for (number, line) in member.job.prepare.iter().enumerate() {
            let command = member.place.command(line);
            let limit = self.plan.runs.time_limit;
            let name = format!("prepare-{at}-{number}");
            if let Some(why) = commands::run(command, folder, &name, limit, self.stop)? {
                let why = format!("`prepare` of job `{}` failed: {why}", member.job.name);
                return Err(failed_by(record, member.job, why));
            }
        }
        Ok(())
    }

    /// Runs all jobs at the same time, with the meters on.
    fn together(
        &mut self,
        members: &[Member<'_>],
        folder: &Path,
    ) -> Result<(Ran, Power), RunError> {
        // Lines are made before: the meters shall see the jobs alone.
        let lines: Vec<Command> =
            members.iter().map(|it| line(&it.place, &it.job.command, &it.left_over)).collect();
        let (stop, limit) = (self.stop, self.plan.runs.time_limit);
        let work = |begins: &dyn Fn(Mono)| {
            let mut processes = Processes::default();
            let begin = monotonic();
            begins(begin);
            for (at, line) in lines.into_iter().enumerate() {
                processes.0.push(Process::start_session(line, folder, &format!("job-{at}"))?);
            }
            let endings = processes.wait_until_one_fails(begin + limit, stop)?;
            let end = monotonic();
            Ok((Ran { processes, endings, begin, end }, end))
        };
        self.meters.during(folder, Trim::default(), work)
    }
}

/// A run that failed because of a job.
fn failed_by(record: &mut RunRecord, job: &Job, why: String) -> RunError {
    record.facts.insert(FAILED_JOB.to_owned(), job.name.clone());
    RunError::RunFailed(why)
}

/// In a session of its own it has no terminal: a job that wants one fails, and does not wait for it. For
/// [`Process::start_session`].
pub(crate) fn line(place: &Started, line: &str, left_over: &LeftOver) -> Command {
    let line = shell::join(["setsid", "--wait", "/bin/sh", "-c", line]);
    let mut command = place.command(&format!("exec {line}"));
    left_over.mark(&mut command);
    command
}

/// A place on this machine with these CPUs; all that runs in it is ended at its end.
pub(crate) fn place_of(
    name: &str,
    cpus: Vec<u32>,
    guard: &Guard,
    stop: &Stop,
) -> Result<Started, RunError> {
    let common = Common { pin: Some(cpus), ..Common::named(name) };
    let kind = KindConfig::Host(nightwatt_environments::host::Config {});
    let place = EnvironmentConfig { common, kind }.start(0, None, guard, stop);
    place.map_err(|error| RunError::of_run(error, stop))
}

fn job_figures(
    record: &mut RunRecord,
    job: &Job,
    process: &Process,
    time: Duration,
) -> Result<(), RunError> {
    let names = JobFigures::of(&job.name);
    add(record, &names.seconds, time.as_secs_f64(), "s");
    if time < SHORT {
        record.warnings.push(format!(
            "job `{}` ends after {:.0} ms, and starting it is part of that: let it do more",
            job.name,
            1e3 * time.as_secs_f64()
        ));
    }
    let Some(reader) = &job.reader else { return Ok(()) };
    let (stdout, stderr) = (commands::text(&process.out)?, commands::text(&process.err)?);
    let outcome = reader.read(&Output { stdout: &stdout, stderr: &stderr, files: &[] });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            let why = format!("output of job `{}`: {error}", job.name);
            return Err(failed_by(record, job, why));
        }
    };
    let Some(operations) = outcome.operations else {
        let why = format!(
            "the output of job `{}` has no operations: leave out its `tool`, or have `read` count them",
            job.name
        );
        return Err(failed_by(record, job, why));
    };
    let time = outcome.duration.filter(|it| !it.is_zero()).unwrap_or(time);
    add(record, &names.operations, operations.count as f64, &operations.what);
    add(record, &names.per_second, operations.count as f64 / time.as_secs_f64(), "1/s");
    Ok(())
}

/// Energy of other meters cannot be averaged with that of the earlier runs.
fn same_source(
    wanted: Option<&str>,
    so_far: &[RunRecord],
    record: &RunRecord,
) -> Result<(), RunError> {
    let Some(first) = so_far.iter().find(|run| run.failed.is_none()) else { return Ok(()) };
    let source = |run: &RunRecord| match figures::source_of(wanted, &run.channels) {
        none if none.is_empty() => "no meter".to_owned(),
        source => source,
    };
    let (then, now) = (source(first), source(record));
    if then == now {
        return Ok(());
    }
    let number = first.number;
    Err(RunError::RunFailed(format!("energy was by {then} in run {number}, and is by {now} now")))
}

fn add(record: &mut RunRecord, name: &str, value: f64, unit: &str) {
    let (name, unit) = (name.to_owned(), unit.to_owned());
    record.figures.push(RunFigure { name, value, unit, better: Better::Neither });
}

/// `0,1`
pub(crate) fn words(cpus: &[u32]) -> String {
    let words: Vec<String> = cpus.iter().map(u32::to_string).collect();
    words.join(",")
}

/// Runs on other CPUs are of another experiment.
pub(crate) fn same_cpus(
    plan: &Plan,
    folder: &Path,
    done: &[RunRecord],
    placement: &Placement,
) -> Result<(), Error> {
    for run in done.iter().filter(|run| !run.facts.is_empty()) {
        let Some(group) = plan.groups.get(run.cell) else { continue };
        for (job, cpus) in group.iter().zip(placement.cpus(group)) {
            let then = run.facts.get(&format!("CPUs of {}", plan.jobs[*job].name));
            let now = words(&cpus);
            if let Some(then) = then.filter(|then| **then != now) {
                let (folder, then) = (folder.to_owned(), then.clone());
                return Err(Error::OtherCpus { folder, then, now });
            }
        }
    }
    Ok(())
}
