//! What came of the pairs. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use nightwatt_compare::pure::experiment::judged_ratios::{Answers, RatioAnswer, RuleUsed, answers};
use nightwatt_compare::pure::experiment::{End, Experiment};
use nightwatt_energy::stats::equivalence;
use serde::Serialize;

use super::{Comparison, HelpsPlan, STATES};
use crate::cards::{Card, Refusal};
use crate::check::CheckResult;
use crate::link::Emulation;
use crate::relay::Relayed;
use crate::scenario::Scenario;
use crate::study::notes::{PowerSource, about_frequency, about_waking, unpowered};
use crate::study::result::{BUSY, EndReport, disagreeing, limits_of_ends};
use crate::study::{Cell, Run, ScenarioReport};

/// The version of this form.
pub const SCHEMA: u32 = 1;

/// What this form is called in itself.
pub const KIND: &str = "tcp helps";

/// A figure of [`FIGURES`](crate::study::FIGURES) that is compared.
#[derive(Debug, Clone, Copy)]
pub struct ComparedFigure {
    /// In JSON.
    pub name: &'static str,
    /// In tables.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The short table has it.
    pub is_main: bool,
}

/// All that is compared, in the order of tables. Of each end only where each has a kernel of its own.
pub const SHOWN: [ComparedFigure; 18] = {
    const fn it(
        name: &'static str,
        title: &'static str,
        unit: &'static str,
        is_main: bool,
    ) -> ComparedFigure {
        ComparedFigure { name, title, unit, is_main }
    }
    [
        it("lifetime", "lifetime", "s", true),
        it("cpu", "CPU of both sides", "s", true),
        it("sender_cpu", "CPU of the sender", "s", false),
        it("receiver_cpu", "CPU of the receiver", "s", false),
        it("active", "active CPU", "s", false),
        it("wake_ups", "wake-ups", "", true),
        it("traced_wake_ups", "wake-ups, traced", "", false),
        it("sender_active", "active CPU, sender", "s", false),
        it("receiver_active", "active CPU, receiver", "s", false),
        it("sender_wake_ups", "wake-ups, sender", "", true),
        it("receiver_wake_ups", "wake-ups, receiver", "", true),
        it("context_switches", "context switches", "", false),
        it("interrupts", "interrupts", "", true),
        it("sender_interrupts", "interrupts, sender", "", true),
        it("receiver_interrupts", "interrupts, receiver", "", true),
        it("received_softirqs", "softirqs of receiving", "", false),
        it("frames", "frames", "", true),
        it("energy", "energy", "J", true),
    ]
};

/// What may be said of a figure with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is less.
    Less,
    /// It is more.
    More,
    /// There is no difference beyond the margin.
    NoDifference,
    /// None of these can be said.
    NotKnownYet,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "less",
            Self::More => "more",
            Self::NoDifference => "no difference beyond the margin",
            Self::NotKnownYet => "not known yet",
        })
    }
}

impl Verdict {
    fn of(ratio: &RatioAnswer) -> Self {
        match ratio.verdict {
            equivalence::Verdict::NoDifference => Self::NoDifference,
            equivalence::Verdict::CannotTell => Self::NotKnownYet,
            equivalence::Verdict::Differs if ratio.ratio < 1.0 => Self::Less,
            equivalence::Verdict::Differs => Self::More,
        }
    }
}

/// A figure with a change, beside the same without.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Its unit; none of counts.
    pub unit: &'static str,
    /// Its mean without the change.
    pub without: Option<f64>,
    /// And with it.
    pub with: Option<f64>,
    /// By how much it is more with the change, in percent of what it is without; below 0 it is less. `None`
    /// where that is not surely above 0.
    pub percent: Option<f64>,
    /// The lower end of the interval that holds 95 % though figures said when to stop.
    pub low: Option<f64>,
    /// And the upper end.
    pub high: Option<f64>,
    /// Pairs of runs that know it.
    pub pairs: u64,
    /// Of "it changes nothing", adjusted for all changes and loads of this link (Holm).
    pub p_adjusted: Option<f64>,
    /// What may be said; by the adjusted p-values.
    pub verdict: Verdict,
}

/// A change under a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeReport {
    /// Which: `tso+gso+gro`.
    pub change: String,
    /// What that is.
    pub about: String,
    /// Connections.
    #[serde(flatten)]
    pub cell: Cell,
    /// Duration of a run, s.
    pub run_s: f64,
    /// What cards were set to without it, the sender's first, and with it.
    pub cards: [Option<[Card; 2]>; 2],
    /// Why there were no more runs; `None` if it was interrupted.
    pub end: Option<End>,
    /// The figures that are compared, by name.
    pub figures: BTreeMap<&'static str, Effect>,
    /// One by one.
    pub runs: Vec<PairedRun>,
    /// Why runs failed.
    pub failures: Vec<String>,
}

/// One run of a pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairedRun {
    /// Which pair.
    pub block: u32,
    /// `with`, `without`.
    pub state: &'static str,
    /// What was counted.
    #[serde(flatten)]
    pub run: Run,
}

/// A change that cannot be tried here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Which.
    pub change: String,
    /// By whom, and why.
    pub refusals: Vec<Refusal>,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkHelps {
    /// What it should be.
    pub scenario: Scenario,
    /// How it was made.
    pub emulation: Emulation,
    /// What it was found to be; none of one of which nothing is emulated.
    pub link: Option<CheckResult>,
    /// What the relay has done, over the whole time.
    pub relayed: Option<Relayed>,
    /// The share of CPU time that was busy with nothing on the link, at its worst.
    pub idle_busy: Option<f64>,
    /// By which rule runs were repeated.
    pub rule: Option<RuleUsed>,
    /// Changes under loads whose p-values were adjusted for each other, figure by figure.
    pub judged: usize,
    /// What was tried.
    pub changes: Vec<ChangeReport>,
    /// What could not be.
    pub refused: Vec<Refused>,
    /// What is measured, and is known of power.
    #[serde(skip)]
    pub(super) seen: Option<ScenarioReport>,
}

/// All links. The JSON of `tcp helps`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HelpsReport {
    /// `tcp helps`.
    pub kind: &'static str,
    /// The version of this form.
    pub schema: u32,
    /// What the energy is from.
    pub energy_source: String,
    /// A model says so, and no meter.
    pub energy_is_modelled: bool,
    /// What a transition from idle to active takes, where it was added to the model's energy.
    pub wake_joules: Option<f64>,
    /// Runs are repeated until this figure is sure enough.
    pub main: String,
    /// Differences up to this share count as none.
    pub margin: f64,
    /// What cards do where that is not what is tried.
    pub others: &'static str,
    /// The sender and the receiver.
    pub ends: Vec<EndReport>,
    /// One for each.
    pub links: Vec<LinkHelps>,
    /// What this machine is, and is set to.
    pub settings: BTreeMap<String, String>,
    /// What the reader has to know.
    pub notes: Vec<String>,
}

impl LinkHelps {
    pub(super) fn of(
        scenario: &Scenario,
        emulation: &Emulation,
        link: Option<CheckResult>,
    ) -> Self {
        Self {
            scenario: scenario.clone(),
            emulation: emulation.clone(),
            link,
            relayed: None,
            idle_busy: None,
            rule: None,
            judged: 0,
            changes: Vec::new(),
            refused: Vec::new(),
            seen: None,
        }
    }

    /// What is to be compared, nothing of it run yet.
    pub(super) fn expects(&mut self, plan: &HelpsPlan, comparisons: &[Comparison], run_s: &[f64]) {
        self.changes.extend(comparisons.iter().map(|it| {
            let change = &plan.changes[it.change];
            ChangeReport {
                change: change.to_string(),
                about: change.about(),
                cell: plan.plan.cells[it.cell].clone(),
                run_s: run_s[it.cell],
                cards: [None, None],
                end: None,
                figures: BTreeMap::new(),
                runs: Vec::new(),
                failures: Vec::new(),
            }
        }));
    }

    /// What is not run, since a look at the load has found nothing but why not.
    pub(super) fn gives_up(
        &mut self,
        plan: &HelpsPlan,
        comparisons: &[Comparison],
        pilot_lengths: &[Result<Duration, String>],
    ) {
        let run = self.changes.len();
        self.expects(plan, comparisons, &vec![0.0; pilot_lengths.len()]);
        for (change, it) in self.changes.iter_mut().skip(run).zip(comparisons) {
            change.end = Some(End::GivenUp);
            change.failures.extend(pilot_lengths[it.cell].clone().err());
        }
    }

    /// Draws the conclusions.
    pub(super) fn conclude(&mut self, experiment: &Experiment, margin: f64) {
        let all = answers(experiment, margin);
        let names = experiment.design().comparisons.iter().enumerate();
        for ((place, name), change) in names.zip(&mut self.changes) {
            change.end = experiment.end(place);
            change.figures =
                SHOWN.iter().filter_map(|it| Some((it.name, effect(&all, it, name)?))).collect();
        }
        self.judged = self.changes.len();
        self.rule = Some(all.rule);
    }
}

fn effect(all: &Answers, figure: &ComparedFigure, comparison: &str) -> Option<Effect> {
    let answers = all.figures.get(figure.name)?;
    let mean = |state: &str| {
        let is_it = |it: &&nightwatt_compare::pure::experiment::judged_ratios::CellAnswer| {
            it.comparison == comparison && it.environment == state
        };
        answers.cells.iter().find(is_it).and_then(|it| it.mean)
    };
    let ratio = answers.to_baseline.ratios.iter().find(|it| it.comparison == comparison);
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let interval = ratio.and_then(|it| it.interval);
    let [without, with] = STATES.map(mean);
    without.or(with)?;
    Some(Effect {
        unit: figure.unit,
        without,
        with,
        // A share of what is not surely above 0 has no interval, and says nothing.
        percent: ratio.filter(|it| it.interval.is_some()).map(|it| percent(it.ratio)),
        low: interval.map(|it| percent(it.low)),
        high: interval.map(|it| percent(it.high)),
        pairs: ratio.map_or(0, |it| it.pairs),
        p_adjusted: ratio.map(|it| it.p_adjusted),
        // A share of what is not surely above 0 has no interval, and says nothing.
        verdict: ratio.filter(|it| it.interval.is_some()).map_or(Verdict::NotKnownYet, Verdict::of),
    })
}

impl HelpsReport {
    pub(super) fn of(plan: &HelpsPlan, settings: BTreeMap<String, String>) -> Self {
        Self {
            kind: KIND,
            schema: SCHEMA,
            energy_source: String::new(),
            energy_is_modelled: true,
            wake_joules: plan.plan.wake_cost.map(|it| it.joules),
            main: plan.plan.main.clone(),
            margin: plan.margin,
            others: if plan.plan.offload { "on" } else { "off" },
            ends: Vec::new(),
            links: Vec::new(),
            settings,
            notes: vec![limits_of_ends(&plan.plan.ends)],
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&mut self) {
        let mut unpowered_links = Vec::new();
        let seen = self.links.iter_mut().filter_map(|link| {
            let seen = link.seen.take()?;
            link.idle_busy = seen.idle_busy;
            unpowered_links.extend(
                unpowered(seen.without_power, seen.source.as_ref())
                    .map(|why| format!("scenario {}: {why}", link.scenario.name)),
            );
            seen.source
        });
        // All of them, so that each link has what it was told.
        let sources: Vec<PowerSource> = seen.collect();
        if let Some(PowerSource { name, is_modelled }) = sources.into_iter().next() {
            (self.energy_source, self.energy_is_modelled) = (name, is_modelled);
        }
        self.wake_joules = self.wake_joules.filter(|_| self.energy_is_modelled);
        self.notes.extend(unpowered_links);
        self.note();
    }

    fn note(&mut self) {
        if self.energy_is_modelled && !self.energy_source.is_empty() {
            let mut changes = self.links.iter().flat_map(|it| &it.changes);
            let counted = ["wake_ups", "traced_wake_ups"];
            let counts = changes.any(|it| counted.iter().any(|name| it.figures.contains_key(name)));
            self.notes.extend(about_waking(self.wake_joules, counts));
        }
        self.notes.extend(about_frequency(&self.settings));
        for link in &self.links {
            let name = &link.scenario.name;
            // Of a bare one nothing was to be.
            if let Some(why) = link.emulation.bare.as_ref().filter(|_| !link.scenario.is_bare()) {
                self.notes.push(format!(
                    "scenario {name}: the link is as it is, nothing is emulated: {why}"
                ));
            }
            if let Some(found) = link.link.as_ref().filter(|it| !it.complaints.is_empty()) {
                let found = found.verdict();
                let what = "the link is not what it should be";
                self.notes.push(format!("scenario {name}: {what}, {found}"));
            }
            if let Some(busy) = link.idle_busy.filter(|busy| *busy > BUSY) {
                self.notes.push(format!(
                    "scenario {name}: with nothing on the link the CPUs were busy for {:.0} % of the time: \
                     wake-ups, interrupts, active CPU time and energy are those of other work, too, and say \
                     little; the CPU time of the two sides does not have it",
                    100.0 * busy
                ));
            }
            if link.scenario.loss > 0.0 && link.changes.iter().any(ChangeReport::joins) {
                self.notes.push(format!(
                    "scenario {name}: where cards cut or join, one loss takes all segments of a frame: with \
                     and without are not the same link"
                ));
            }
            for it in &link.changes {
                let what = format!("scenario {name}, {}, {}", it.change, it.cell.text());
                let odd = disagreeing(&it.runs.iter().map(|run| &run.run).collect::<Vec<_>>());
                self.notes.extend(odd.map(|odd| format!("{what}: {odd}")));
                let failure = it.failures.first();
                self.notes.extend(failure.map(|why| format!("{what}: a run failed: {why}")));
                self.notes.extend(it.dragged().map(|dragged| format!("{what}: {dragged}")));
            }
        }
    }

    /// Links that were not right, over which nothing was run, each with why.
    pub fn refused_links(&self) -> Vec<String> {
        self.links.iter().filter_map(|it| it.link.as_ref()?.refusal(&it.scenario)).collect()
    }

    /// All links were right or accepted, something could be tried, and all consistency checks passed.
    pub fn is_whole(&self) -> bool {
        let is_whole = |link: &LinkHelps| {
            link.link.as_ref().is_none_or(|it| it.complaints.is_empty() || it.is_accepted)
                && link.changes.iter().all(|it| it.end.is_some_and(|end| end != End::GivenUp))
                && !link.changes.is_empty()
                && link
                    .changes
                    .iter()
                    .flat_map(|it| &it.runs)
                    .all(|it| it.run.disagreements.is_empty())
        };
        self.links.iter().all(is_whole)
    }
}

impl ChangeReport {
    fn joins(&self) -> bool {
        super::Change::parse(&self.change).is_ok_and(|it| it.joins())
    }

    /// What cards have switched besides, since one needs the other.
    fn dragged(&self) -> Option<String> {
        let [Some(without), Some(with)] = &self.cards else { return None };
        let own = super::Change::parse(&self.change).map(|it| it.switched(true)).ok()?;
        let mut besides: Vec<&str> = Vec::new();
        for (without, with) in without.iter().zip(with) {
            let others = with.features.iter().filter(|it| !own.contains_key(it.0));
            let other = others.filter(|it| without.features.get(it.0) != Some(it.1));
            besides.extend(other.map(|it| it.0.long()));
        }
        besides.sort_unstable();
        besides.dedup();
        let names = besides.join(", ");
        (!besides.is_empty()).then(|| format!("without it the cards do no {names} either"))
    }
}
