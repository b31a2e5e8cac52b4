//! The runs of a plan, link by link.

use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_compare::pure::experiment::{Done, Experiment, Outcome, Progress, Step};
use nightwatt_energy::time::Mono;

use super::fetching::{How, PILOT};
use super::figures::{Figures, Idle, RunCounts, Side, Window, disagreements, figures};
use super::kernel_time;
use super::lab::{CheckedLink, Lab, NO_PROCESSES, ReadyLink, ReportProgress, StepProgress, all_of};
use super::notes::about_tracing;
use super::result::{self, Report, Run, ScenarioReport};
use super::{Error, Plan};
use crate::cards::Feature;
use crate::ends::{Counted, Pair};
use crate::scenario::Scenario;
use nightwatt_compare::figures::{channels_of, name_of};
use nightwatt_compare::host::settings;
use nightwatt_compare::metering::Trim;
use nightwatt_compare::record::ChannelRecord;
use nightwatt_measure::counters::{Machine, Process};

/// Until all connections are under way.
const MARGIN: Duration = Duration::from_millis(300);

/// The same where ends are asked by ssh, which takes a while.
const FAR_MARGIN: Duration = Duration::from_secs(1);

/// What happens now.
#[derive(Debug, Clone)]
pub struct StudyProgress<'a> {
    /// Which link.
    pub scenario: &'a str,
    /// Its place among the links, from 0, and how many there are.
    pub of: (usize, usize),
    /// Runs over this link.
    pub progress: Option<Progress>,
    /// What is done.
    pub what: String,
    /// How long this link will take, if that can be said.
    pub left: Option<Duration>,
    /// A run that is over, as JSON.
    pub run: Option<serde_json::Value>,
}

/// All links, one after the other.
pub(super) fn all(
    plan: &Plan,
    stop: &Stop,
    report_progress: &mut dyn FnMut(&StudyProgress<'_>),
) -> Result<(Report, Result<(), Error>), Error> {
    let mut lab = Lab::open(plan, stop)?;
    let mut report = Report::of(plan, settings(&lab.host), &lab.ends);
    report.notes.extend(lab.idle_trace.refused.as_deref().map(about_tracing));
    let mut outcome = Ok(());
    for (place, scenario) in plan.scenarios.iter().enumerate() {
        let mut report_progress = |step: StepProgress| {
            let of = (place, plan.scenarios.len());
            let StepProgress { what, progress, left, run } = step;
            report_progress(&StudyProgress {
                scenario: &scenario.name,
                of,
                progress,
                what,
                left,
                run,
            });
        };
        let (scenario_report, ended) = lab.scenario(scenario, &mut report_progress);
        report.scenarios.extend(scenario_report);
        if let Err(error) = ended {
            outcome = Err(lab.ends.explained(error));
            break;
        }
    }
    let undone = lab.ends.finish();
    report.close();
    Ok((report, outcome.and(undone)))
}

impl Lab<'_> {
    /// One link: what was found so far, and how it ended.
    fn scenario(
        &mut self,
        scenario: &Scenario,
        report_progress: &mut ReportProgress<'_>,
    ) -> (Option<ScenarioReport>, Result<(), Error>) {
        let mut joined = match self.join(scenario, report_progress) {
            Ok(joined) => joined,
            Err(error) => return (None, Err(error)),
        };
        let Some(found) = joined.found.take() else { return (None, Ok(())) };
        let is_usable = found.complaints.is_empty() || found.is_accepted;
        let mut report = ScenarioReport::of(scenario, joined.emulation(), found);
        if !is_usable {
            return (Some(report), joined.end(self).map(drop));
        }
        let ran = self.cells(joined, scenario, &mut report, report_progress);
        (Some(report), ran)
    }

    fn cells(
        &mut self,
        mut joined: CheckedLink,
        scenario: &Scenario,
        report: &mut ScenarioReport,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<(), Error> {
        if self.plan.offload {
            let wanted = all_of(&Feature::JOINING, true);
            report.refused = joined.cards.switch(&self.ends, &wanted)?;
        }
        report.cards = Some(joined.cards.now().clone());
        report.uncaptured = self.uncaptured(joined.emulation().loss);
        let ready = self.serve(joined)?;
        self.plan.cells.iter().for_each(|cell| report.cell(cell));
        // Of which nothing came at the first look is not run; the others are.
        let (mut places, mut lengths) = (Vec::new(), Vec::new());
        for (place, length) in self.lengths(report_progress)?.into_iter().enumerate() {
            match length {
                Ok(length) => {
                    places.push(place);
                    lengths.push(length);
                }
                Err(why) => report.given_up(place, &why),
            }
        }
        if !places.is_empty() {
            self.experiment(&ready, scenario, &places, &mut lengths, report, report_progress)?;
        }
        report.relayed = self.end(ready)?;
        Ok(())
    }

    fn experiment(
        &mut self,
        ready: &ReadyLink,
        scenario: &Scenario,
        places: &[usize],
        lengths: &mut [Duration],
        report: &mut ScenarioReport,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<(), Error> {
        let design = self.plan.design(scenario, places);
        let mut experiment =
            Experiment::new(design).map_err(|error| Error::Options(error.to_string()))?;
        let mut idle: Option<(u32, Idle)> = None;
        let mut spent = Duration::ZERO;
        while let Some(step) = experiment.next_run() {
            let place = places[step.cell];
            let cell = &self.plan.cells[place];
            let progress = experiment.progress();
            let left = left(&progress, spent, lengths);
            let now = |what: &str| StepProgress {
                progress: Some(progress),
                left,
                ..StepProgress::from(what)
            };
            let began = monotonic();
            if idle.as_ref().is_none_or(|(block, _)| *block != step.block) {
                report_progress(now("the idle machine"));
                let longest = lengths.iter().max().copied().unwrap_or(PILOT);
                idle = Some((step.block, self.idle(longest, report)?));
            }
            report_progress(now(&cell.text()));
            let Some((_, still)) = &idle else { continue };
            let still = still.clone();
            let how = How { cell, words: &[], length: lengths[step.cell] };
            let outcome = match self.one(ready, how, &still, report) {
                Ok(run) => {
                    let run_json = serde_json::json!({
                        "scenario": scenario.name, "cell": cell, "block": step.block, "run": run,
                    });
                    report_progress(StepProgress { run: Some(run_json), ..now(&cell.text()) });
                    report.push(place, run, &self.plan.main)
                }
                // It is kept with its reason, and tried again.
                Err(error) => Outcome::Failed(self.ends.explained(error).of_one_run()?),
            };
            if let Outcome::Failed(why) = &outcome {
                report.failed(place, why);
            }
            // A look has seldom seen what a loss does to a connection; runs have.
            if let Some(lifetime) = report.cells[place].lifetime() {
                lengths[step.cell] = self.plan.length(lifetime);
            }
            let Step { block, cell, attempt, .. } = step;
            experiment
                .done(Done { block, cell, attempt, outcome })
                .map_err(|error| Error::Options(error.to_string()))?;
            spent += monotonic().since(began);
        }
        report.ended(&experiment, places);
        Ok(())
    }

    /// Mean power of the channels that count; nothing where others spoke than before.
    fn watts(&self, channels: &[ChannelRecord], report: &mut ScenarioReport) -> Option<f64> {
        if channels.is_empty() {
            return None;
        }
        let counted = channels_of(self.plan.energy.as_deref(), channels);
        let names: Vec<String> = counted.iter().map(|it| name_of(it)).collect();
        let is_modelled = counted.iter().any(|it| result::is_modelled(it));
        let is_the_same = report.is_powered_by(&names.join(" + "), is_modelled);
        is_the_same.then(|| counted.iter().map(|it| it.watts).sum()).flatten()
    }

    /// Reads meters for this time, and calls `look` at its begin and end.
    fn watch<T>(
        &mut self,
        time: Duration,
        look: impl Fn(&Self) -> Result<T, Error>,
    ) -> Result<([T; 2], Duration, Vec<ChannelRecord>), Error> {
        let looked = |lab: &Self, begin: Mono| {
            let first = look(lab)?;
            lab.wait(begin + time)?;
            Ok::<_, Error>([first, look(lab)?])
        };
        let Some(mut meters) = self.meters.take() else {
            let begin = monotonic();
            let looked = looked(self, begin)?;
            return Ok((looked, monotonic().since(begin), Vec::new()));
        };
        // What they say is kept only while it is read.
        let folder = tempfile::tempdir_in(&self.folder)
            .map_err(Error::system("make a folder for what meters say"))?;
        let watched = meters.during(folder.path(), Trim::default(), |begins| {
            let begin = monotonic();
            begins(begin);
            let looked = looked(self, begin);
            let end = monotonic();
            Ok(((looked, end.since(begin)), end))
        });
        self.meters = Some(meters);
        let ((looked, lasted), power) = watched?;
        Ok((looked?, lasted, power.channels))
    }

    /// The machine with the link in place, and nothing on it.
    pub(crate) fn idle(
        &mut self,
        time: Duration,
        report: &mut ScenarioReport,
    ) -> Result<Idle, Error> {
        let look = |lab: &Self| Ok((lab.machine()?, lab.ends.count(&lab.host, NO_PROCESSES)?));
        // What wakes the CPUs to ask them is no connection's: it is there with nothing on the link, too.
        let hz = self.plan.kernel_time;
        let watching = kernel_time::prepared(hz, &[])?;
        let (watched, kernel_time) = kernel_time::during(watching, &[], || self.watch(time, look))?;
        let ([before, after], lasted, channels) = watched;
        let watts = self.watts(&channels, report);
        let seconds = lasted.as_secs_f64();
        let machine = after.0.zip(before.0).map(|(after, before)| after.since(&before));
        let machine = kernel_time::not_its_own(machine, kernel_time.as_ref(), seconds);
        let sides = sides(&before.1, &after.1);
        let busy = |machine: &Machine, seconds: f64| {
            machine.busy_seconds(seconds) / (machine.cpus as f64 * seconds)
        };
        let all = machine.iter().map(|it| busy(it, seconds));
        let each = sides.iter().flatten().map(|it| busy(&it.machine, it.seconds));
        // Guests that do nothing say more than the machine below them, which has other things to do.
        report.idled(all.chain(each).fold(0.0, f64::max));
        Ok(Idle { seconds, machine, sides, watts, kernel_time })
    }

    /// Of this machine, where that says something.
    fn machine(&self) -> Result<Option<Machine>, Error> {
        match self.ends.pair() {
            Pair::Hosts { is_here: false, .. } => Ok(None),
            _ => Ok(Some(self.idle_trace.read(&self.host)?)),
        }
    }

    /// One run.
    pub(crate) fn one(
        &mut self,
        ready: &ReadyLink,
        how: How<'_>,
        idle: &Idle,
        report: &mut ScenarioReport,
    ) -> Result<Run, Error> {
        if ready.answering.is_none() {
            return Ok(self.counted(ready, how, idle, report)?.0);
        }
        let begun = self.begin_capture(ready)?;
        let (mut run, output) = self.counted(ready, how, idle, report)?;
        run.captured(self.end_capture(begun, ready, &output)?);
        Ok(run)
    }

    /// One run by counters, and what `tcp fetch` has printed of it.
    fn counted(
        &mut self,
        ready: &ReadyLink,
        how: How<'_>,
        idle: &Idle,
        report: &mut ScenarioReport,
    ) -> Result<(Run, String), Error> {
        let How { cell, length, .. } = how;
        let delay = report.scenario.delay;
        let before = self.settled(delay)?;
        let planted_before = ready.link.planted(&self.ends.receiver)?;
        let margin = if self.ends.are_apart() { FAR_MARGIN } else { MARGIN };
        let serve = ready.serving.process();
        // Before connections are under way: it takes a while.
        let watching = kernel_time::prepared(self.plan.kernel_time, &[serve])?;
        let mut fetching = self.fetching(How { length: length + 2 * margin, ..how })?;
        self.ends.receiver.wait_for_more(&self.host, &before[1])?;
        self.wait(monotonic() + margin)?;
        let fetch = fetching.process();
        let relay = ready.link.relay();
        let look = |lab: &Self| {
            let relay = relay.map(|relay| Process::read(&lab.host, relay)).transpose()?;
            Ok((lab.machine()?, lab.ends.count(&lab.host, [&[serve], &[fetch]])?, relay))
        };
        let watched = kernel_time::during(watching, &[fetch], || self.watch(length, look))?;
        let (([first, last], lasted, channels), kernel_time) = watched;
        let ended_before = fetching.has_ended();
        let (fetched, output) = self.fetched(fetching)?;
        if ended_before {
            return Err(Error::TooLate);
        }
        let after = self.settled(delay)?;
        let planted = ready.link.planted(&self.ends.receiver)?;
        let planted = planted.zip(planted_before).map(|(now, then)| now.since(then));
        let mut window = window(&[first, last], lasted, self.watts(&channels, report));
        window.machine =
            kernel_time::not_its_own(window.machine, kernel_time.as_ref(), window.seconds);
        let [sender, receiver] = [0, 1].map(|end| after[end].since(&before[end]));
        let whole = RunCounts { sender, receiver, planted };
        let cost = self.plan.wake_cost.filter(|_| report.is_modelled());
        let figures: Figures = figures(&fetched, &window, &whole, idle, cell.segments, cost);
        // The card of an existing machine has other frames too, and the kernel of another machine has the
        // segments of ssh.
        let is_shared = ready.joins() || self.ends.are_apart();
        let disagreements = disagreements(&fetched, &whole, is_shared);
        let shares = kernel_time.as_ref().map(|it| {
            let energy = figures.energy.map(|all| all - figures.waking_energy.unwrap_or(0.0));
            kernel_time::shares(it, idle.kernel_time.as_ref(), energy)
        });
        let run = Run {
            seconds: window.seconds,
            completed: fetched.completed,
            failed: fetched.failed,
            congestion: fetched.congestion,
            figures,
            disagreements,
            capture: None,
            kernel_time,
            shares,
        };
        Ok((run, output))
    }
}

/// The machine, the ends, and the process that is the wire.
type CounterSnapshot = (Option<Machine>, [Counted; 2], Option<Process>);

/// What was counted from the first look to the last.
fn window([first, last]: &[CounterSnapshot; 2], lasted: Duration, watts: Option<f64>) -> Window {
    let (begin, end) = (&first.1, &last.1);
    let [sender, receiver] = [0, 1].map(|at| end[at].network.since(&begin[at].network));
    let process = |at: usize| {
        let pairs = end[at].processes.first().zip(begin[at].processes.first());
        pairs.map(|(last, first)| last.since(first)).unwrap_or_default()
    };
    Window {
        seconds: lasted.as_secs_f64(),
        machine: last.0.as_ref().zip(first.0.as_ref()).map(|(last, first)| last.since(first)),
        sides: sides(begin, end),
        sender,
        receiver,
        sending: process(0),
        receiving: process(1),
        relaying: last.2.zip(first.2).map(|(last, first)| last.since(&first)),
        watts,
    }
}

/// What ends that count on their own have counted.
fn sides(before: &[Counted; 2], after: &[Counted; 2]) -> Option<[Side; 2]> {
    let side = |at: usize| {
        let (first, last) = (before[at].machine.as_ref()?, after[at].machine.as_ref()?);
        let seconds = after[at].seconds_since(&before[at]);
        Some(Side { seconds, machine: last.since(first) })
    };
    Some([side(0)?, side(1)?])
}

/// By what the runs so far have taken; before the first, by how long they are to be, and the most there may
/// be.
pub(crate) fn left(progress: &Progress, spent: Duration, lengths: &[Duration]) -> Option<Duration> {
    if progress.done == 0 {
        let all: Duration = lengths.iter().sum();
        let each = all.as_secs_f64() / (lengths.len() as f64).max(1.0);
        return Duration::try_from_secs_f64(each * progress.most_left as f64).ok();
    }
    let left = progress.expected_left.unwrap_or(progress.most_left) as f64;
    Some(spent.mul_f64(left / progress.done as f64))
}
