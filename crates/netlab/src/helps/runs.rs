//! Drives the pairs.

use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_compare::pure::experiment::{
    Cell as ExperimentCell, Done, Experiment, ExperimentError, Outcome, Progress, Step,
};

use super::result::{HelpsReport, LinkHelps, PairedRun, Refused};
use super::{Change, Comparison, Error, HelpsPlan, STATES};
use crate::cards::{Feature, Features, Refusal};
use crate::scenario::Scenario;
use crate::study::fetching::{How, PILOT};
use crate::study::lab::{CheckedLink, Lab, ReadyLink, ReportProgress, StepProgress, all_of};
use crate::study::result::EndReport;
use crate::study::runs::left;
use crate::study::{Cell, FIGURES, Fetched, Idle, Run, ScenarioReport, StudyProgress};
use nightwatt_compare::host::settings;

/// All links, one after the other.
pub(super) fn all(
    plan: &HelpsPlan,
    stop: &Stop,
    report_progress: &mut dyn FnMut(&StudyProgress<'_>),
) -> Result<(HelpsReport, Result<(), Error>), Error> {
    let lab = Lab::open(&plan.plan, stop)?;
    let mut report = HelpsReport::of(plan, settings(&lab.host));
    report.ends = EndReport::of_both(&plan.plan, &lab.ends);
    let mut helps = Helps { plan, lab };
    let mut outcome = Ok(());
    for (place, scenario) in plan.plan.scenarios.iter().enumerate() {
        let mut report_progress = |step: StepProgress| {
            let of = (place, plan.plan.scenarios.len());
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
        let (link, ended) = helps.link(scenario, &mut report_progress);
        report.links.extend(link);
        if let Err(error) = ended {
            outcome = Err(helps.lab.ends.explained(error));
            break;
        }
    }
    let undone = helps.lab.ends.finish();
    report.close();
    Ok((report, outcome.and(undone)))
}

struct Helps<'a> {
    plan: &'a HelpsPlan,
    lab: Lab<'a>,
}

/// What is known while pairs are run.
struct RunState {
    /// The idle machine, and in which block that was.
    idle: Option<(u32, Idle)>,
    spent: Duration,
    comparisons: Vec<Comparison>,
    /// Of runs, by load.
    lengths: Vec<Duration>,
}

/// What is run next, and what is known by then.
struct Next<'a> {
    scenario: &'a Scenario,
    change: &'a Change,
    cell: &'a Cell,
    is_on: bool,
    length: Duration,
    idle: &'a Idle,
}

impl Helps<'_> {
    /// One link: what was found so far, and how it ended.
    fn link(
        &mut self,
        scenario: &Scenario,
        report_progress: &mut ReportProgress<'_>,
    ) -> (Option<LinkHelps>, Result<(), Error>) {
        let joined = match self.lab.join(scenario, report_progress) {
            Ok(joined) => joined,
            Err(error) => return (None, Err(error)),
        };
        let mut link = LinkHelps::of(scenario, joined.emulation(), joined.found.clone());
        if !joined.is_usable() {
            return (Some(link), joined.end(&self.lab).map(drop));
        }
        let ran = self.pairs(joined, &mut link, report_progress);
        (Some(link), ran)
    }

    fn pairs(
        &mut self,
        joined: CheckedLink,
        link: &mut LinkHelps,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<(), Error> {
        let scenario = &link.scenario.clone();
        let mut ready = self.lab.serve(joined)?;
        let mut possible = Vec::new();
        for (place, change) in self.plan.changes.iter().enumerate() {
            report_progress(format!("can {change} be switched?").as_str().into());
            let mut refusals = self.unfelt(change);
            if refusals.len() < self.plan.plan.cells.len() {
                let refused = self.try_out(&mut ready, scenario, change)?;
                possible.extend(refused.is_empty().then_some(place));
                refusals.extend(refused);
            }
            if !refusals.is_empty() {
                link.refused.push(Refused { change: change.to_string(), refusals });
            }
        }
        if !possible.is_empty() {
            self.experiment(&mut ready, &possible, link, report_progress)?;
        }
        link.relayed = self.lab.end(ready)?;
        Ok(())
    }

    /// The loads under which it makes no difference.
    fn unfelt(&self, change: &Change) -> Vec<Refusal> {
        let why = self.plan.plan.cells.iter().filter_map(|cell| change.unfelt(cell));
        let refusal = |why| Refusal { what: change.to_string(), end: "sender".to_owned(), why };
        why.map(refusal).collect()
    }

    /// Switches a change on and off. What is refused cannot be compared.
    fn try_out(
        &self,
        ready: &mut ReadyLink,
        scenario: &Scenario,
        change: &Change,
    ) -> Result<Vec<Refusal>, Error> {
        if let Some(why) = change.senseless(scenario) {
            let end = "sender".to_owned();
            return Ok(vec![Refusal { what: change.to_string(), end, why: why.to_owned() }]);
        }
        let mut refusals = Vec::new();
        for is_on in [true, false] {
            refusals.extend(self.switch(ready, change, is_on)?);
            if !refusals.is_empty() {
                return Ok(refusals);
            }
        }
        let [cell, ..] = &self.plan.plan.cells[..] else { return Ok(refusals) };
        let words = change.words(scenario, cell.connections);
        if !words.is_empty() {
            let refused = match self.lab.pilot(cell, &words) {
                Ok((_, fetched)) => unpolled(&fetched, &ready.cards.now()[1].driver),
                Err(error) => match self.lab.ends.explained(error) {
                    Error::Command { output, .. } => Some(output),
                    error => return Err(error),
                },
            };
            refusals.extend(refused.map(|why| {
                let (what, end) = (change.to_string(), "sockets".to_owned());
                Refusal { what, end, why }
            }));
        }
        Ok(refusals)
    }

    /// Sets cards to what a run needs: what is tried, and the rest as it is to be.
    fn switch(
        &self,
        ready: &mut ReadyLink,
        change: &Change,
        is_on: bool,
    ) -> Result<Vec<Refusal>, Error> {
        self.set(ready, &change.switched(is_on), change.coalescing(is_on))
    }

    /// Sets cards to these, and the rest as it is to be where nothing is tried.
    fn set(
        &self,
        ready: &mut ReadyLink,
        own: &Features,
        usecs: Option<u64>,
    ) -> Result<Vec<Refusal>, Error> {
        let (ends, cards) = (&self.lab.ends, &mut ready.cards);
        let checksums = [Feature::RxChecksum, Feature::TxChecksum];
        let mut wanted = all_of(&checksums, true);
        wanted.extend(all_of(&Feature::JOINING, self.plan.plan.offload));
        wanted.extend(own.clone());
        let mut refused = cards.switch(ends, &wanted)?;
        // What the rest refuses is not what is asked.
        refused.retain(|no| own.keys().any(|it| no.what.starts_with(it.long())));
        refused.extend(cards.coalesce(ends, usecs)?);
        Ok(refused)
    }

    fn experiment(
        &mut self,
        ready: &mut ReadyLink,
        possible: &[usize],
        link: &mut LinkHelps,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<(), Error> {
        let plan = self.plan;
        let pilot_lengths = self.lengths(ready, report_progress)?;
        let all = (0..plan.plan.cells.len()).flat_map(|cell| {
            possible.iter().map(move |change| Comparison { change: *change, cell })
        });
        let is_felt =
            |it: &Comparison| plan.changes[it.change].unfelt(&plan.plan.cells[it.cell]).is_none();
        let all = all.filter(is_felt);
        // Of which nothing came at the first look is not run; the others are.
        let (comparisons, not_run): (Vec<_>, Vec<_>) =
            all.partition(|it| pilot_lengths[it.cell].is_ok());
        let length = |it: &Result<Duration, String>| it.as_ref().copied().unwrap_or_default();
        let lengths: Vec<Duration> = pilot_lengths.iter().map(length).collect();
        let seconds: Vec<f64> = lengths.iter().map(Duration::as_secs_f64).collect();
        link.expects(plan, &comparisons, &seconds);
        if comparisons.is_empty() {
            link.gives_up(plan, &not_run, &pilot_lengths);
            return Ok(());
        }
        let found = link.link.clone().unwrap_or_default();
        link.seen = Some(ScenarioReport::of(&link.scenario, &link.emulation, found));
        let to_error = |error: ExperimentError| Error::Options(error.to_string());
        let mut experiment = Experiment::new(plan.design(&comparisons)).map_err(to_error)?;
        let mut run_state = RunState { idle: None, spent: Duration::ZERO, comparisons, lengths };
        let mut ended = Ok(());
        while let Some(step) = experiment.next_run() {
            let place = experiment.design().cells[step.cell];
            let began = monotonic();
            let progress = experiment.progress();
            let outcome = match self.step(
                ready,
                step,
                place,
                progress,
                &mut run_state,
                link,
                report_progress,
            ) {
                Ok(outcome) => outcome,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            };
            if let Outcome::Failed(why) = &outcome {
                link.changes[place.comparison].failures.push(why.clone());
            }
            let Step { block, cell, attempt, .. } = step;
            experiment.done(Done { block, cell, attempt, outcome }).map_err(to_error)?;
            run_state.spent += monotonic().since(began);
        }
        link.conclude(&experiment, plan.margin);
        link.gives_up(plan, &not_run, &pilot_lengths);
        ended
    }

    /// One run, and before the first of a block the idle machine.
    #[expect(clippy::too_many_arguments, reason = "each is of another owner")]
    fn step(
        &mut self,
        ready: &mut ReadyLink,
        step: Step,
        place: ExperimentCell,
        progress: Progress,
        run_state: &mut RunState,
        link: &mut LinkHelps,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<Outcome, Error> {
        let plan = self.plan;
        let it = run_state.comparisons[place.comparison];
        let (change, cell) = (&plan.changes[it.change], &plan.plan.cells[it.cell]);
        let (state, length) = (STATES[place.environment], run_state.lengths[it.cell]);
        let left = left(&progress, run_state.spent, &run_state.lengths);
        let now = |what: &str| StepProgress {
            progress: Some(progress),
            left,
            ..StepProgress::from(what)
        };
        let LinkHelps { scenario, changes, seen: Some(seen), .. } = link else {
            return Err(Error::Options("no link".to_owned()));
        };
        if run_state.idle.as_ref().is_none_or(|(block, _)| *block != step.block) {
            report_progress(now("the idle machine"));
            let longest = run_state.lengths.iter().max().copied().unwrap_or(PILOT);
            run_state.idle = Some((step.block, self.lab.idle(longest, seen)?));
        }
        let idle = run_state.idle.clone().map(|(_, idle)| idle).unwrap_or_default();
        let what = format!("{state} {change}, {}", cell.text());
        report_progress(now(&what));
        let is_on = place.environment == 1;
        let next = Next { scenario, change, cell, is_on, length, idle: &idle };
        match self.one(ready, &next, seen) {
            Ok(run) => {
                let run_json = serde_json::json!({
                    "scenario": scenario.name, "change": change, "state": state, "cell": cell,
                    "block": step.block, "run": run,
                });
                report_progress(StepProgress { run: Some(run_json), ..now(&what) });
                let report = &mut changes[place.comparison];
                report.cards[place.environment] = Some(ready.cards.now().clone());
                Ok(keep(report, step, state, run, &plan.plan.main))
            }
            // It is kept with its reason, and tried again.
            Err(error) => self.lab.ends.explained(error).of_one_run().map(Outcome::Failed),
        }
    }

    /// How long runs of each load last: as many lifetimes as are wanted, with all as it is to be where
    /// nothing is tried.
    fn lengths(
        &self,
        ready: &mut ReadyLink,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<Vec<Result<Duration, String>>, Error> {
        // What it refuses is told with the change that wants it.
        self.set(ready, &Features::new(), None)?;
        self.lab.lengths(report_progress)
    }

    fn one(
        &mut self,
        ready: &mut ReadyLink,
        next: &Next<'_>,
        seen: &mut ScenarioReport,
    ) -> Result<Run, Error> {
        let Next { scenario, change, cell, is_on, length, idle } = *next;
        if let Some(no) = self.switch(ready, change, is_on)?.first() {
            // It could be switched before: a run like others, and a failed one.
            let what = format!("switch {} at the {}", no.what, no.end);
            return Err(Error::Command {
                what,
                command: "ethtool".to_owned(),
                output: no.why.clone(),
            });
        }
        let words = if is_on { change.words(scenario, cell.connections) } else { Vec::new() };
        self.lab.one(ready, How { cell, words: &words, length }, idle, seen)
    }
}

/// Why busy polling, if that is what was tried, is the same as none.
fn unpolled(fetched: &Fetched, driver: &str) -> Option<String> {
    (fetched.busy_polled == Some(0)).then(|| {
        format!(
            "{driver}: what comes to a connection comes by no queue of the card that could be polled (no NAPI)"
        )
    })
}

/// Keeps a run; gives what the experiment is told of it.
fn keep(
    report: &mut super::ChangeReport,
    step: Step,
    state: &'static str,
    run: Run,
    main: &str,
) -> Outcome {
    let (figures, lacks) = (run.figures, run.lacks(main));
    report.runs.push(PairedRun { block: step.block, state, run });
    let known = FIGURES.iter().filter_map(|it| Some((it.name, figures.get(it.name)?)));
    let known = known.filter(|(_, value)| value.is_finite());
    let all: std::collections::BTreeMap<String, f64> =
        known.map(|(name, value)| (name.to_owned(), value)).collect();
    if all.contains_key(main) { Outcome::Figures(all) } else { Outcome::Failed(lacks) }
}
