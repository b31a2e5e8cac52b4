//! What came of the runs.

use std::collections::BTreeMap;

use nightwatt_compare::pure::experiment::judged_ratios::RuleUsed;
use nightwatt_compare::pure::experiment::{End, Experiment, Outcome};
use nightwatt_energy::energy::Provenance;
use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::sequential::StopRule;
use serde::Serialize;

use super::breakdown::{Breakdown, Shares};
use super::captured::CaptureComparison;
use super::estimate::Estimate;
use super::figures::{FIGURES, Figures};
use super::kernel_time::{self, KernelTimeReport};
use super::notes::{
    ABOUT_CPU_QUERIES, PowerSource, about_frequency, about_waking, below_idle, unpowered,
};
use super::{Cell, Plan};
use crate::cards::{Card, Refusal};
use crate::check::CheckResult;
use crate::ends::{Ends, EndsConfig};
use crate::link::Emulation;
use crate::relay::Relayed;
use crate::scenario::Scenario;
use nightwatt_compare::record::ChannelRecord;

/// The version of this form.
const SCHEMA: u32 = 1;

/// A machine that is busier than this without us says little of what we do.
pub(crate) const BUSY: f64 = 0.1;

/// What one machine cannot tell.
const ONE_MACHINE: &str = "both ends are on this machine: power and energy, wake-ups and active CPU time are \
     of the whole machine, both sides, the link's emulation and all else that runs on it, and are not told \
     apart by side; the CPU time of a side is that of its program, with what the kernel does in its name";

/// What guests cannot tell.
const GUESTS: &str = "the ends are guests of this machine, and what each one's kernel counts is told apart; power \
     and energy, `wake_ups` and `active` are of the machine below them, both guests, the wire between them and \
     all else that runs on it, and are not told apart by side; where guests are emulated their CPUs, and so their \
     CPU time and their timers, are not those of real ones";

/// What two machines tell.
const HOSTS: &str = "the ends are two machines, and what each one's kernel counts is told apart, with all else that \
     runs on them";

/// All links.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of this form.
    pub schema: u32,
    /// What the energy is from: `rapl/package-0`.
    pub energy_source: String,
    /// A model says so, and no meter.
    pub energy_is_modelled: bool,
    /// What a transition from idle to active takes, where it was added to the model's energy.
    pub wake_joules: Option<f64>,
    /// Runs are repeated until this figure is sure enough.
    pub main: String,
    /// The sender and the receiver.
    pub ends: Vec<EndReport>,
    /// One for each link.
    pub scenarios: Vec<ScenarioReport>,
    /// What this machine is, and is set to.
    pub settings: BTreeMap<String, String>,
    /// What the reader has to know.
    pub notes: Vec<String>,
    /// By which rule runs were repeated.
    pub rule: Option<RuleUsed>,
    #[serde(skip)]
    stop_rule: Option<StopRule>,
}

/// One end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndReport {
    /// What it does: `sender`, `receiver`.
    pub name: &'static str,
    /// The other one reaches it here.
    pub address: String,
    /// By which card.
    pub card: String,
    /// Kernel, CPUs, memory.
    pub facts: BTreeMap<String, String>,
    /// Power and energy are of it alone.
    pub is_metered: bool,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScenarioReport {
    /// What it should be.
    pub scenario: Scenario,
    /// How it was made.
    pub emulation: Emulation,
    /// What it was found to be.
    pub link: CheckResult,
    /// What the cards of both ends did during the runs, the sender's first.
    pub cards: Option<[Card; 2]>,
    /// What they were to do and do not.
    pub refused: Vec<Refusal>,
    /// Why nothing was captured, if it was to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncaptured: Option<&'static str>,
    /// What the relay has done, over the whole time.
    pub relayed: Option<Relayed>,
    /// What was run over it.
    pub cells: Vec<CellReport>,
    /// The share of CPU time that was busy with nothing on the link, at its worst.
    pub idle_busy: Option<f64>,
    /// Looks at idle machines and runs without an energy, because a channel was silent that had spoken at first,
    /// or the other way round.
    pub without_power: u32,
    #[serde(skip)]
    pub(crate) source: Option<PowerSource>,
}

/// What was run over a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellReport {
    /// What that is.
    #[serde(flatten)]
    pub cell: Cell,
    /// Mean duration of the runs, s.
    pub run_s: f64,
    /// The same in mean lifetimes of their connections.
    pub lifetimes: f64,
    /// The figures of all runs, by name.
    pub figures: BTreeMap<&'static str, Estimate>,
    /// Where the CPUs' time went, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_time: Option<Breakdown>,
    /// Why there were no more runs; `None` if it was interrupted.
    pub end: Option<End>,
    /// One by one.
    pub runs: Vec<Run>,
    /// Why runs failed.
    pub failures: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Duration of the counted part, s.
    pub seconds: f64,
    /// Connections, over the whole run.
    pub completed: u64,
    /// Connections that failed.
    pub failed: u64,
    /// What was in force.
    pub congestion: Option<String>,
    /// What was counted.
    pub figures: Figures,
    /// Consistency checks that failed.
    pub disagreements: Vec<String>,
    /// What was captured of it, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureComparison>,
    /// Where the CPUs' time went, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_time: Option<KernelTimeReport>,
    /// Of time and energy, by category.
    #[serde(skip)]
    pub(super) shares: Option<Shares>,
}

impl Run {
    /// Why a figure is not known.
    pub(crate) fn lacks(&self, figure: &str) -> String {
        if self.figures.get("goodput") == Some(0.0) {
            return format!("no {figure}: nothing came over the link in {:.1} s", self.seconds);
        }
        format!("no {figure}: nothing here tells it")
    }

    /// Keeps what was captured of it.
    pub(super) fn captured(&mut self, comparison: CaptureComparison) {
        let disagreements = comparison.disagreements.iter().map(|it| format!("capture: {it}"));
        self.disagreements.extend(disagreements);
        self.capture = Some(comparison);
    }
}

/// Does a model say so?
pub(super) fn is_modelled(channel: &ChannelRecord) -> bool {
    !matches!(channel.provenance, Provenance::Measured { .. })
}

impl EndReport {
    /// The sender and the receiver.
    pub(crate) fn of_both(plan: &Plan, ends: &Ends) -> Vec<Self> {
        let metered = match &plan.ends {
            EndsConfig::Hosts(configs) => configs.each_ref().map(|it| it.is_metered),
            EndsConfig::Namespaces | EndsConfig::Guests(_) => [false; 2],
        };
        let all = ends.both().into_iter().zip(metered).map(|(end, is_metered)| Self {
            name: end.name,
            address: end.address.clone(),
            card: end.card.clone(),
            facts: end.facts().into_iter().collect(),
            is_metered,
        });
        all.collect()
    }
}

/// What is told of each side, and what only of both.
pub(crate) fn limits_of_ends(ends: &EndsConfig) -> String {
    let EndsConfig::Hosts(configs) = ends else {
        let is_one = *ends == EndsConfig::Namespaces;
        return if is_one { ONE_MACHINE } else { GUESTS }.to_owned();
    };
    match ["sender", "receiver"].iter().zip(configs.iter()).find(|it| it.1.is_metered) {
        Some((name, _)) => format!("{HOSTS}; power and energy are of the {name} alone"),
        None => format!(
            "{HOSTS}; no meter is of either of them (`metered` in `--ends`), so there is no energy"
        ),
    }
}

impl Report {
    pub(super) fn of(plan: &Plan, settings: BTreeMap<String, String>, ends: &Ends) -> Self {
        let rule = StopRule::new(plan.least, plan.most, plan.precision).ok();
        Self {
            schema: SCHEMA,
            energy_source: String::new(),
            energy_is_modelled: true,
            wake_joules: plan.wake_cost.map(|it| it.joules),
            main: plan.main.clone(),
            ends: EndReport::of_both(plan, ends),
            scenarios: Vec::new(),
            settings,
            notes: vec![limits_of_ends(&plan.ends)],
            rule: rule.as_ref().map(|rule| RuleUsed {
                min: rule.min(),
                max: rule.max(),
                share: rule.share(),
                factor: rule.factor(),
            }),
            stop_rule: rule,
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&mut self) {
        if let Some(PowerSource { name, is_modelled }) =
            self.scenarios.iter().find_map(|scenario| scenario.source.clone())
        {
            (self.energy_source, self.energy_is_modelled) = (name, is_modelled);
        }
        self.wake_joules = self.wake_joules.filter(|_| self.energy_is_modelled);
        for cell in self.scenarios.iter_mut().flat_map(|scenario| &mut scenario.cells) {
            for figure in FIGURES {
                let values: Vec<f64> =
                    cell.runs.iter().filter_map(|run| run.figures.get(figure.name)).collect();
                let moments = Moments::of(&values);
                let half_width = self.stop_rule.as_ref().and_then(|rule| rule.half_width(&moments));
                let estimate =
                    moments.mean().map(|mean| Estimate { mean, half_width, runs: moments.count() });
                cell.figures.extend(estimate.map(|it| (figure.name, it)));
            }
            let shares: Vec<Shares> =
                cell.runs.iter().filter_map(|run| run.shares.clone()).collect();
            cell.kernel_time = Breakdown::of(&shares, self.stop_rule.as_ref());
        }
        self.note();
    }

    fn note(&mut self) {
        if self.energy_is_modelled && !self.energy_source.is_empty() {
            let mut cells = self.scenarios.iter().flat_map(|it| &it.cells);
            let counted = ["wake_ups", "traced_wake_ups"];
            let counts = cells.any(|it| counted.iter().any(|name| it.figures.contains_key(name)));
            self.notes.extend(about_waking(self.wake_joules, counts));
        }
        self.notes.extend(about_frequency(&self.settings));
        let cells = || self.scenarios.iter().flat_map(|it| &it.cells);
        if cells().any(|cell| cell.kernel_time.is_some() && cell.figures.contains_key("energy")) {
            self.notes.push(ABOUT_CPU_QUERIES.to_owned());
        }
        for it in &self.scenarios {
            let name = &it.scenario.name;
            if let Some(why) = &it.emulation.bare {
                self.notes.push(format!(
                    "scenario {name}: the link is as it is, nothing is emulated: {why}"
                ));
            }
            if !it.link.complaints.is_empty() {
                let found = it.link.verdict();
                let what = "the link is not what it should be";
                self.notes.push(format!("scenario {name}: {what}, {found}"));
            }
            self.notes.extend(it.uncaptured.map(|why| format!("scenario {name}: {why}")));
            self.notes.extend(it.refused.iter().map(|no| {
                format!("scenario {name}: the {}'s card refuses {}: {}", no.end, no.what, no.why)
            }));
            if it.idle_busy.is_some_and(|busy| busy > BUSY) {
                let busy = 100.0 * it.idle_busy.unwrap_or(0.0);
                self.notes.push(format!(
                    "scenario {name}: with nothing on the link the CPUs were busy for {busy:.0} % of the time: \
                     wake-ups, active CPU time and energy are those of other work, too, and say little"
                ));
            }
            self.notes.extend(
                unpowered(it.without_power, it.source.as_ref())
                    .map(|why| format!("scenario {name}: {why}")),
            );
            for cell in &it.cells {
                let what = cell.cell.text();
                let below = cell.figures.get("energy").and_then(|it| below_idle(it.mean));
                self.notes.extend(below.map(|why| format!("scenario {name}, {what}: {why}")));
                let warning =
                    warned(&cell.runs).map(|why| format!("scenario {name}, {what}: {why}"));
                self.notes.extend(warning);
                let odd = disagreeing(&cell.runs.iter().collect::<Vec<_>>());
                self.notes.extend(odd.map(|odd| format!("scenario {name}, {what}: {odd}")));
                self.notes.extend(
                    cell.failures
                        .first()
                        .map(|why| format!("scenario {name}, {what}: a run failed: {why}")),
                );
            }
        }
    }

    /// Stacks of all runs with their CPU time in microseconds, a line each, as flame graphs are made of: the
    /// link and what was run over it come first, so that each is a tower of its own.
    pub fn folded(&self) -> String {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (it, cell) in
            self.scenarios.iter().flat_map(|it| it.cells.iter().map(move |cell| (it, cell)))
        {
            let kernel_times = cell.runs.iter().filter_map(|run| run.kernel_time.as_ref());
            for line in kernel_times.flat_map(|it| kernel_time::folded(it).lines()) {
                let Some((stack, time)) = line.rsplit_once(' ') else { continue };
                let stack = format!("scenario {};{};{stack}", it.scenario.name, cell.cell.text());
                *found.entry(stack).or_default() += time.parse::<u64>().unwrap_or(0);
            }
        }
        found.into_iter().fold(String::new(), |mut text, (stack, time)| {
            text.push_str(&stack);
            text.push(' ');
            text.push_str(&time.to_string());
            text.push('\n');
            text
        })
    }

    /// Links that were not right, over which nothing was run, each with why.
    pub fn refused_links(&self) -> Vec<String> {
        self.scenarios.iter().filter_map(|it| it.link.refusal(&it.scenario)).collect()
    }

    /// All links were right or accepted, all planned runs were made, and all consistency checks passed.
    pub fn is_whole(&self) -> bool {
        let agrees = |cell: &CellReport| cell.runs.iter().all(|run| run.disagreements.is_empty());
        self.scenarios.iter().all(|it| {
            (it.link.complaints.is_empty() || it.link.is_accepted)
                && it.cells.iter().all(|cell| cell.end.is_some_and(|end| end != End::GivenUp))
                && it.cells.iter().all(agrees)
        })
    }
}

/// The number of runs with warnings about where the time went, with the first warning.
fn warned(runs: &[Run]) -> Option<String> {
    let kernel_times = runs.iter().filter_map(|run| run.kernel_time.as_ref());
    let warnings = kernel_times.filter_map(|it| kernel_time::warnings(it).first());
    let first = warnings.clone().next()?;
    Some(format!("`--where`, in {} of {} runs: {first}", warnings.count(), runs.len()))
}

/// The number of runs in which a consistency check failed, with the first one that did.
pub(crate) fn disagreeing(runs: &[&Run]) -> Option<String> {
    let odd = runs.iter().filter_map(|run| run.disagreements.first());
    let first = odd.clone().next()?;
    Some(format!("in {} of {} runs the consistency check failed: {first}", odd.count(), runs.len()))
}

impl CellReport {
    /// The mean lifetime by all runs so far: the time of connections over their number (Little's law).
    pub(super) fn lifetime(&self) -> Option<f64> {
        let rate = |run: &Run| run.figures.connections_per_second.unwrap_or(0.0);
        let seconds: f64 = self.runs.iter().map(|run| run.seconds).sum();
        let connections: f64 = self.runs.iter().map(|run| run.seconds * rate(run)).sum();
        let lifetime = f64::from(self.cell.connections) * seconds / connections;
        Some(lifetime).filter(|it| it.is_finite() && *it > 0.0)
    }

    fn ran(&mut self, run: Run) {
        self.runs.push(run);
        let seconds: f64 = self.runs.iter().map(|run| run.seconds).sum();
        self.run_s = seconds / self.runs.len() as f64;
        self.lifetimes = self.lifetime().map_or(0.0, |lifetime| self.run_s / lifetime);
    }
}

impl ScenarioReport {
    pub(crate) fn of(scenario: &Scenario, emulation: &Emulation, link: CheckResult) -> Self {
        let (scenario, emulation) = (scenario.clone(), emulation.clone());
        Self {
            scenario,
            emulation,
            link,
            cards: None,
            refused: Vec::new(),
            uncaptured: None,
            relayed: None,
            cells: Vec::new(),
            idle_busy: None,
            without_power: 0,
            source: None,
        }
    }

    pub(super) fn cell(&mut self, cell: &Cell) {
        self.cells.push(CellReport {
            cell: cell.clone(),
            run_s: 0.0,
            lifetimes: 0.0,
            figures: BTreeMap::new(),
            kernel_time: None,
            end: None,
            runs: Vec::new(),
            failures: Vec::new(),
        });
    }

    /// The idle machine was so busy.
    pub(crate) fn idled(&mut self, busy: f64) {
        self.idle_busy = Some(self.idle_busy.unwrap_or(0.0).max(busy));
    }

    /// Does the power come from the same channels as in the first run? The difference of two meters is no
    /// energy, so a run in which a channel was silent has no energy.
    pub(crate) fn is_powered_by(&mut self, source: &str, is_modelled: bool) -> bool {
        if self.source.is_none() && !source.is_empty() {
            self.source = Some(PowerSource { name: source.to_owned(), is_modelled });
        }
        let is_the_same = self.source.as_ref().is_some_and(|first| first.name == source);
        self.without_power += u32::from(!is_the_same);
        is_the_same
    }

    pub(crate) fn is_modelled(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.is_modelled)
    }

    /// Keeps a run; gives what the experiment is told of it.
    pub(super) fn push(&mut self, cell: usize, run: Run, main: &str) -> Outcome {
        let value = run.figures.get(main).filter(|value| value.is_finite());
        let lacks = run.lacks(main);
        self.cells[cell].ran(run);
        match value {
            Some(value) => Outcome::Figures([(main.to_owned(), value)].into()),
            None => Outcome::Failed(lacks),
        }
    }

    pub(super) fn failed(&mut self, cell: usize, why: &str) {
        self.cells[cell].failures.push(why.to_owned());
    }

    /// It is not run at all.
    pub(super) fn given_up(&mut self, cell: usize, why: &str) {
        self.failed(cell, why);
        self.cells[cell].end = Some(End::GivenUp);
    }

    /// Cells at these places were run.
    pub(super) fn ended(&mut self, experiment: &Experiment, places: &[usize]) {
        for (cell, place) in places.iter().enumerate() {
            self.cells[*place].end = experiment.end(cell);
        }
    }
}
