//! What runs of groups of jobs show: who slows down whom, and which jobs are better run together.
//!
//! A group is compared with its own jobs one after the other, in the same block. So what changes slowly drops out, as in
//! `compare`, whose rule decides how wide an interval is.

use std::collections::BTreeMap;

use nightwatt_compare::pure::experiment::judged_ratios::evidence;
use nightwatt_energy::stats::equivalence::{Verdict, judge};
use nightwatt_energy::stats::intervals::Interval;
use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::ratio::Ratio;
use nightwatt_energy::stats::sequential::StopRule;
use serde::Serialize;

use super::groups::{Cost, Goal, best_groups};
use super::power_range::AtEnds;

/// A run of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Each block has every group once.
    pub block: u32,
    /// Its place among the groups.
    pub group: usize,
    /// Until the last job was finished.
    pub seconds: f64,
    /// Energy of the machine until then.
    pub energy: Option<Energy>,
    /// By job of the group.
    pub jobs: Vec<JobSample>,
}

/// Energy of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    /// As measured, or as the model has it.
    pub joules: f64,
    /// By what.
    pub by: EnergyBy,
}

/// What energy is known by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EnergyBy {
    /// A meter, whose error drops out of ratios.
    Meter,
    /// A model, with its joules at both ends of its range; `None` where that is not known.
    Model(Option<AtEnds>),
}

/// A job in a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobSample {
    /// Until it was finished.
    pub seconds: f64,
    /// What its tool counted.
    pub work: Option<Work>,
}

/// Operations that a tool counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// How many.
    pub operations: f64,
    /// In a second.
    pub per_second: f64,
}

/// A ratio with its interval, and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Judged {
    /// The ratio of the means.
    pub ratio: f64,
    /// It is in here with 95 %, by the scatter of the runs. Of modelled energy it has the ratios at both ends of the
    /// model's range, too.
    pub interval: Option<Interval>,
    /// Blocks that have all that it needs.
    pub blocks: u64,
    /// Whether it differs from 1, judged together with all others of its kind.
    pub verdict: Verdict,
    /// The runs show it, but the verdict would be another one at an end of the model's range, so it is "cannot tell".
    pub is_unsure_by_model: bool,
}

/// What is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Run them together.
    Together,
    /// Run them one after the other.
    Apart,
    /// It makes no difference above the margin.
    NoDifference,
    /// These runs do not show it.
    CannotTell,
    /// These runs show it only if the power model is right.
    CannotTellByModel,
}

impl Judged {
    /// What a ratio of a group to its jobs one after the other means.
    pub fn advice(&self) -> Advice {
        match self.verdict {
            Verdict::Differs if self.ratio < 1.0 => Advice::Together,
            Verdict::Differs => Advice::Apart,
            Verdict::NoDifference => Advice::NoDifference,
            Verdict::CannotTell if self.is_unsure_by_model => Advice::CannotTellByModel,
            Verdict::CannotTell => Advice::CannotTell,
        }
    }

    /// The same, if it is so at both ends of the model's range.
    fn also_at(self, ends: [Option<Self>; 2]) -> Self {
        let cannot_tell = Self {
            is_unsure_by_model: self.verdict != Verdict::CannotTell,
            verdict: Verdict::CannotTell,
            ..self
        };
        let [Some(low), Some(high)] = ends else { return cannot_tell };
        let all = [self, low, high];
        let bounds: Option<Vec<Interval>> = all.into_iter().map(|it| it.interval).collect();
        let interval = bounds.map(|all| Interval {
            low: all.iter().map(|it| it.low).fold(f64::INFINITY, f64::min),
            high: all.iter().map(|it| it.high).fold(f64::NEG_INFINITY, f64::max),
        });
        let agree = all.into_iter().all(|it| it.advice() == self.advice());
        Self { interval, ..if agree { self } else { cannot_tell } }
    }
}

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// It is in here with 95 %, by the scatter of the runs alone.
    pub interval: Option<Interval>,
}

/// How a job runs in a group, relative to alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slowdown {
    /// Its place among the jobs.
    pub job: usize,
    /// By operations a second, and not by the time until it was finished.
    pub by_operations: bool,
    /// Time for the same work, relative to alone.
    pub slowdown: Judged,
}

/// What a group comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupAnswer {
    /// Places of its jobs.
    pub jobs: Vec<usize>,
    /// Runs that came to their end.
    pub runs: u64,
    /// Until all are finished, s.
    pub seconds: Option<Mean>,
    /// Energy of the machine until then, J.
    pub joules: Option<Mean>,
    /// Time relative to its jobs one after the other.
    pub time: Option<Judged>,
    /// Energy relative to its jobs one after the other.
    pub energy: Option<Judged>,
    /// Its jobs.
    pub slowdowns: Vec<Slowdown>,
}

/// Groups, one after the other, that contain each job once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grouping {
    /// The most jobs that run at once.
    pub at_once: usize,
    /// Which jobs run together, by their places.
    pub groups: Vec<Vec<usize>>,
    /// Until all are finished, s.
    pub seconds: f64,
    /// Energy of the machine until then, J.
    pub joules: Option<f64>,
    /// Relative to all jobs one after the other, in time or energy; `None` of these themselves, and where fewer than
    /// two blocks have all runs that it needs.
    pub saved: Option<Judged>,
}

impl Grouping {
    /// Whether no two jobs run at the same time.
    pub fn is_one_after_the_other(&self) -> bool {
        self.groups.iter().all(|group| group.len() == 1)
    }
}

/// All that the runs show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answers {
    /// By group, in the order of the plan.
    pub groups: Vec<GroupAnswer>,
    /// By the number of jobs at once: the measured groups that need least time.
    pub least_time: Vec<Grouping>,
    /// Likewise for energy.
    pub least_energy: Vec<Grouping>,
    /// Jobs of which there are fewer than two runs alone: without these, no grouping can be compared with any other.
    pub unknown_alone: Vec<usize>,
    /// Jobs whose tools counted other numbers of operations in other runs: their groups are not compared.
    pub uneven: Vec<usize>,
}

/// A tool whose count differs by more than this share did other work each time.
const SAME_WORK: f64 = 0.01;

/// By what intervals and verdicts follow from runs.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The rule by which runs were repeated.
    pub stop: &'a StopRule,
    /// Differences up to this share do not matter.
    pub margin: f64,
}

/// The answers from all runs of these groups; the first ones are each job alone.
pub fn answers(groups: &[Vec<usize>], samples: &[Sample], rules: Rules<'_>) -> Answers {
    let runs = Runs::of(groups, samples);
    let uneven = runs.uneven();
    let against_alone = |figure| runs.groups_against_alone(&uneven, figure);
    let time = judged(&against_alone(Figure::Seconds), rules);
    let energy = runs.judged_energy(against_alone, rules);
    let slowdowns = runs.slowdowns(rules);
    let groups_of = |place: usize| {
        let of_it = || runs.samples[place].values();
        GroupAnswer {
            jobs: groups[place].clone(),
            runs: of_it().count() as u64,
            seconds: mean(of_it().map(|sample| Some(sample.seconds)), rules),
            joules: mean(of_it().map(|sample| Some(sample.energy?.joules)), rules),
            time: time[place],
            energy: energy[place],
            slowdowns: slowdowns.iter().filter(|(at, _)| *at == place).map(|(_, it)| *it).collect(),
        }
    };
    let answered: Vec<GroupAnswer> = (0..groups.len()).map(groups_of).collect();
    let jobs = groups.iter().filter(|group| group.len() == 1).count();
    let unknown_alone: Vec<usize> = (0..jobs)
        .filter(|job| answered[*job].seconds.is_none_or(|it| it.interval.is_none()))
        .collect();
    let least = |goal| {
        // Of work that differs from run to run, no grouping is the best.
        let is_known = uneven.is_empty() && unknown_alone.is_empty();
        if is_known { runs.groupings(jobs, &answered, goal, rules) } else { Vec::new() }
    };
    let (least_time, least_energy) = (least(Goal::Time), least(Goal::Energy));
    Answers { least_time, least_energy, groups: answered, unknown_alone, uneven }
}

/// Runs by group and block.
struct Runs<'a> {
    groups: &'a [Vec<usize>],
    samples: Vec<BTreeMap<u32, &'a Sample>>,
}

/// What is compared of a run.
#[derive(Debug, Clone, Copy)]
enum Figure {
    Seconds,
    Joules,
    /// As the model has it where idle power is as low as it may be, and power at full load as high.
    JoulesOfLowIdle,
    /// The other end.
    JoulesOfHighIdle,
}

impl Figure {
    fn of(self, sample: &Sample) -> Option<f64> {
        let at_end = |end: fn(AtEnds) -> f64| {
            let energy = sample.energy?;
            match energy.by {
                EnergyBy::Meter => Some(energy.joules),
                EnergyBy::Model(ends) => ends.map(end),
            }
        };
        match self {
            Self::Seconds => Some(sample.seconds),
            Self::Joules => sample.energy.map(|energy| energy.joules),
            Self::JoulesOfLowIdle => at_end(|ends| ends.low_idle),
            Self::JoulesOfHighIdle => at_end(|ends| ends.high_idle),
        }
    }
}

/// Values of the same blocks: what is compared, and what it is compared with.
type Pairs = Vec<(f64, f64)>;

impl<'a> Runs<'a> {
    fn of(groups: &'a [Vec<usize>], samples: &'a [Sample]) -> Self {
        let mut by_group = vec![BTreeMap::new(); groups.len()];
        for sample in samples {
            by_group[sample.group].insert(sample.block, sample);
        }
        Self { groups, samples: by_group }
    }

    /// Jobs whose tools did not count the same in every run.
    fn uneven(&self) -> Vec<usize> {
        let mut spans: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (group, samples) in self.groups.iter().zip(&self.samples) {
            for sample in samples.values() {
                for (job, it) in group.iter().zip(&sample.jobs) {
                    let Some(work) = it.work else { continue };
                    let span = spans.entry(*job).or_insert((work.operations, work.operations));
                    *span = (span.0.min(work.operations), span.1.max(work.operations));
                }
            }
        }
        let is_uneven = |(least, most): &(f64, f64)| most - least > SAME_WORK * most;
        spans.into_iter().filter(|(_, span)| is_uneven(span)).map(|(job, _)| job).collect()
    }

    fn value(&self, group: usize, block: u32, figure: Figure) -> Option<f64> {
        figure.of(self.samples[group].get(&block)?)
    }

    fn is_modelled(&self) -> bool {
        let energies = self.samples.iter().flat_map(BTreeMap::values).filter_map(|it| it.energy);
        energies.into_iter().any(|energy| energy.by != EnergyBy::Meter)
    }

    /// Ratios of energies. What a model decides has to be so at both ends of its range.
    fn judged_energy(
        &self,
        pairs: impl Fn(Figure) -> Vec<Option<Pairs>>,
        rules: Rules<'_>,
    ) -> Vec<Option<Judged>> {
        let of = |figure| judged(&pairs(figure), rules);
        let figures = of(Figure::Joules);
        if !self.is_modelled() {
            return figures;
        }
        let ends = of(Figure::JoulesOfLowIdle).into_iter().zip(of(Figure::JoulesOfHighIdle));
        let also = |(figure, (low, high)): (Option<Judged>, _)| Some(figure?.also_at([low, high]));
        figures.into_iter().zip(ends).map(also).collect()
    }

    /// Each group of several jobs against these one after the other; `None` where a job's work is uneven.
    fn groups_against_alone(&self, uneven: &[usize], figure: Figure) -> Vec<Option<Pairs>> {
        let pairs = |(place, group): (usize, &Vec<usize>)| {
            let is_compared = group.len() > 1 && !group.iter().any(|job| uneven.contains(job));
            is_compared.then(|| self.against_alone(&[place], group, figure))
        };
        self.groups.iter().enumerate().map(pairs).collect()
    }

    /// Groups one after the other, and these jobs one after the other, in each block that has all of them.
    fn against_alone(&self, places: &[usize], jobs: &[usize], figure: Figure) -> Pairs {
        let Some(first) = places.first() else { return Vec::new() };
        let pair = |block: &u32| {
            let sum = |places: &[usize]| -> Option<f64> {
                places.iter().map(|place| self.value(*place, *block, figure)).sum()
            };
            // The first groups are each job alone.
            Some((sum(places)?, sum(jobs)?))
        };
        self.samples[*first].keys().filter_map(pair).collect()
    }

    /// Of each job in each group with others.
    fn slowdowns(&self, rules: Rules<'_>) -> Vec<(usize, Slowdown)> {
        let mut found = Vec::new();
        let mut pairs = Vec::new();
        for (place, group) in self.groups.iter().enumerate().filter(|(_, it)| it.len() > 1) {
            for (at, job) in group.iter().enumerate() {
                let by_operations = self.samples[*job].values().any(|it| it.jobs[0].work.is_some());
                let time = |it: &JobSample| match it.work {
                    Some(work) if by_operations => work.per_second.recip(),
                    _ => it.seconds,
                };
                let pair = |(block, sample): (&u32, &&Sample)| {
                    let alone = self.samples[*job].get(block)?;
                    Some((time(&sample.jobs[at]), time(&alone.jobs[0])))
                };
                pairs.push(Some(self.samples[place].iter().filter_map(pair).collect()));
                found.push((place, *job, by_operations));
            }
        }
        let judged = judged(&pairs, rules);
        let slowdowns = found.into_iter().zip(judged);
        let slowdown = |((place, job, by_operations), judged): (_, Option<Judged>)| {
            Some((place, Slowdown { job, by_operations, slowdown: judged? }))
        };
        slowdowns.filter_map(slowdown).collect()
    }

    /// The best measured groups, by the number of jobs at once.
    fn groupings(
        &self,
        jobs: usize,
        measured: &[GroupAnswer],
        goal: Goal,
        rules: Rules<'_>,
    ) -> Vec<Grouping> {
        let largest = measured.iter().map(|group| group.jobs.len()).max().unwrap_or(0);
        let cost = |group: &[usize]| {
            if group.is_empty() {
                return Some(Cost::default());
            }
            let answer = measured.iter().find(|it| it.jobs == group)?;
            // A single run shows nothing.
            answer.seconds?.interval?;
            let joules = answer.joules.map(|it| it.mean);
            let joules = if goal == Goal::Energy { joules? } else { joules.unwrap_or(f64::NAN) };
            Some(Cost { seconds: answer.seconds?.mean, joules })
        };
        let mut groupings: Vec<Grouping> = Vec::new();
        let all: Vec<usize> = (0..jobs).collect();
        for at_once in 1..=largest {
            let Some((groups, cost)) = best_groups(jobs, at_once, goal, cost) else { continue };
            if groupings.iter().any(|it| it.groups == groups) {
                continue;
            }
            let joules = cost.joules.is_finite().then_some(cost.joules);
            groupings.push(Grouping {
                at_once,
                groups,
                seconds: cost.seconds,
                joules,
                saved: None,
            });
        }
        let place = |group: &Vec<usize>| self.groups.iter().position(|it| it == group);
        let against_alone = |grouping: &Grouping, figure| {
            let places: Vec<usize> = grouping.groups.iter().filter_map(place).collect();
            let is_compared = !grouping.is_one_after_the_other();
            is_compared.then(|| self.against_alone(&places, &all, figure))
        };
        // The best of many looks better than it is: it is judged together with all groups.
        let pairs = |figure| {
            let mut pairs = self.groups_against_alone(&[], figure);
            pairs.extend(groupings.iter().map(|it| against_alone(it, figure)));
            pairs
        };
        let judged = match goal {
            Goal::Time => judged(&pairs(Figure::Seconds), rules),
            Goal::Energy => self.judged_energy(pairs, rules),
        };
        for (grouping, judged) in
            groupings.iter_mut().zip(judged.into_iter().skip(self.groups.len()))
        {
            grouping.saved = judged;
        }
        groupings
    }
}

fn mean(values: impl Iterator<Item = Option<f64>>, rules: Rules<'_>) -> Option<Mean> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    let moments = Moments::of(&values);
    let interval = rules.stop.interval(&moments).map(not_below_0);
    Some(Mean { mean: moments.mean()?, interval })
}

/// Times and energies are positive, and so are their ratios. An interval of few and very different runs does not know.
fn not_below_0(interval: Interval) -> Interval {
    Interval { low: interval.low.max(0.0), ..interval }
}

/// Ratios that are judged together; `None` of what is not compared, and of fewer than two blocks.
fn judged(pairs: &[Option<Pairs>], rules: Rules<'_>) -> Vec<Option<Judged>> {
    let ratio = |pairs: &Option<Pairs>| {
        let pairs = pairs.as_ref()?;
        Some((Ratio::paired(pairs)?, pairs.len() as u64))
    };
    let ratios: Vec<Option<(Ratio, u64)>> = pairs.iter().map(ratio).collect();
    let known = ratios.iter().flatten();
    let judgements = judge(
        &known.map(|(ratio, _)| evidence(rules.stop, ratio, rules.margin)).collect::<Vec<_>>(),
    );
    let mut judgements = judgements.into_iter();
    let one = |ratio: Option<(Ratio, u64)>| {
        let (ratio, blocks) = ratio?;
        Some(Judged {
            ratio: ratio.estimate(),
            interval: ratio
                .interval(rules.stop.quantile(ratio.degrees_of_freedom()))
                .map(not_below_0),
            blocks,
            verdict: judgements.next()?.verdict,
            is_unsure_by_model: false,
        })
    };
    ratios.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
