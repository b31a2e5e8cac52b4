//! What runs say: each cell's figures with their intervals, and ratios to the baseline, judged.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::schedule::{End, Experiment};
use super::{Cell, Design, Outcome};
use nightwatt_energy::stats::equivalence::{Evidence, Verdict, judge};
use nightwatt_energy::stats::intervals::{self, Interval};
use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::outliers::Fences;
use nightwatt_energy::stats::ratio::{self, Ratio};
use nightwatt_energy::stats::sequential::StopRule;

/// All there is to say, now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answers {
    /// The figure that decided on the number of runs.
    pub main: String,
    /// Differences up to this share of the baseline count as none.
    pub margin: f64,
    /// By which rule runs were repeated.
    pub rule: RuleUsed,
    /// How each comparison went, in the order of the design.
    pub comparisons: Vec<ComparisonEnd>,
    /// How each cell went, in the order of the design.
    pub cells: Vec<CellRuns>,
    /// What each figure comes to.
    pub figures: BTreeMap<String, FigureAnswers>,
}

/// By which rule runs were repeated, for intervals are right for that one only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleUsed {
    /// Minimum number of runs.
    pub min: u32,
    /// Maximum number of blocks.
    pub max: u32,
    /// Until within this share of the mean.
    pub share: f64,
    /// How much wider than Student's the intervals are that hold all the same.
    pub factor: f64,
}

/// Runs of a comparison, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonEnd {
    /// The comparison.
    pub name: String,
    /// Why there are no more runs; `None` of one that is not over.
    pub end: Option<End>,
}

/// Runs of a cell, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellRuns {
    /// The environment.
    pub environment: String,
    /// The comparison.
    pub comparison: String,
    /// Runs that came to their end.
    pub finished: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Blocks without a value, since every try in them failed.
    pub lost_blocks: u64,
    /// It failed too many times in a row, and further runs were skipped.
    pub given_up: bool,
}

/// What a figure comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureAnswers {
    /// By cell, in the order of the design.
    pub cells: Vec<CellAnswer>,
    /// Of every other environment to the baseline.
    pub to_baseline: Family,
    /// Of these to each other, the later one in the plan to the earlier.
    pub to_each_other: Family,
}

/// Ratios that are judged together: p-values are adjusted for all of one family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Family {
    /// How many.
    pub judged: usize,
    /// They.
    pub ratios: Vec<RatioAnswer>,
    /// Of these nothing can be said: there are fewer than two values, or the reference's mean is not
    /// above 0.
    pub without: Vec<Unanswered>,
}

/// A ratio that there is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unanswered {
    /// The comparison.
    pub comparison: String,
    /// The environment.
    pub environment: String,
    /// What it would have been compared to.
    pub reference: String,
}

/// A figure of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellAnswer {
    /// The environment.
    pub environment: String,
    /// The comparison.
    pub comparison: String,
    /// How many values.
    pub n: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// Their standard deviation, bias-corrected.
    pub sd: Option<f64>,
    /// As tables print it: mean ± 1.96 s / √n.
    pub normal: Option<Interval>,
    /// As if the number of runs had been fixed: mean ± t s / √n.
    pub student: Option<Interval>,
    /// The interval that holds 95 % under the rule by which runs were repeated.
    pub sequential: Option<Interval>,
    /// Half of [`Self::sequential`] in the mean.
    pub relative_half_width: Option<f64>,
    /// Values beyond Tukey's fences. They are in all of the above.
    pub outliers: Vec<Outlier>,
}

/// A value that lies apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outlier {
    /// In which block.
    pub block: u32,
    /// What it is.
    pub value: f64,
}

/// A figure of an environment in that of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatioAnswer {
    /// The comparison.
    pub comparison: String,
    /// The environment.
    pub environment: String,
    /// What it is compared to: 100 %.
    pub reference: String,
    /// By pairs of the same block, where there are enough; else as if they were independent.
    pub design: ratio::Design,
    /// Blocks in which both have a value.
    pub pairs: u64,
    /// 1 for 100 %.
    pub ratio: f64,
    /// The interval that holds 95 % under the rule by which runs were repeated; `None` where the reference
    /// is not surely above 0.
    pub interval: Option<Interval>,
    /// Of "it is 1", two-sided.
    pub p: f64,
    /// Adjusted for all of its family (Holm). The verdict goes by it, so that it may be unsure where the
    /// interval, which is of this ratio alone, seems sure.
    pub p_adjusted: f64,
    /// Of "it is the margin away from 1, or more", adjusted likewise; one-sided.
    pub p_equivalence: f64,
    /// What may be said.
    pub verdict: Verdict,
}

/// Values by block.
type Series = BTreeMap<u32, f64>;

/// Draws the conclusions of all runs that are over.
pub fn answers(experiment: &Experiment, margin: f64) -> Answers {
    let design = experiment.design();
    let rule = experiment.rule();
    let numbered = design.comparisons.iter().enumerate();
    let names: BTreeSet<&str> = experiment
        .runs()
        .iter()
        .filter_map(|run| match &run.outcome {
            Outcome::Figures(figures) => Some(figures.keys().map(String::as_str)),
            Outcome::Failed(_) | Outcome::FailedForAll { .. } => None,
        })
        .flatten()
        .collect();
    Answers {
        main: design.main.clone(),
        margin,
        rule: RuleUsed {
            min: rule.min(),
            max: rule.max(),
            share: rule.share(),
            factor: rule.factor(),
        },
        comparisons: numbered
            .map(|(place, name)| ComparisonEnd { name: name.clone(), end: experiment.end(place) })
            .collect(),
        cells: (0..design.cells.len()).map(|cell| cell_runs(experiment, cell)).collect(),
        figures: names
            .into_iter()
            .map(|name| (name.to_owned(), figure(experiment, name, margin)))
            .collect(),
    }
}

fn cell_runs(experiment: &Experiment, cell: usize) -> CellRuns {
    let (environment, comparison) = names(experiment, experiment.design().cells[cell]);
    let retries = experiment.design().rule.retries;
    let mut cell_runs = CellRuns {
        environment,
        comparison,
        finished: 0,
        failed: 0,
        lost_blocks: 0,
        given_up: experiment.is_given_up(cell),
    };
    for run in experiment.runs().iter().filter(|run| run.cell == cell) {
        match run.outcome {
            Outcome::Figures(_) => cell_runs.finished += 1,
            Outcome::Failed(_) => {
                cell_runs.failed += 1;
                cell_runs.lost_blocks += u64::from(run.attempt == retries);
            }
            Outcome::FailedForAll { .. } => {
                cell_runs.failed += 1;
                cell_runs.lost_blocks += 1;
            }
        }
    }
    cell_runs
}

fn names(experiment: &Experiment, cell: Cell) -> (String, String) {
    let design = experiment.design();
    (design.environments[cell.environment].clone(), design.comparisons[cell.comparison].clone())
}

fn figure(experiment: &Experiment, name: &str, margin: f64) -> FigureAnswers {
    let cells = &experiment.design().cells;
    let mut series = vec![Series::new(); cells.len()];
    for run in experiment.runs() {
        if let Outcome::Figures(figures) = &run.outcome
            && let Some(&value) = figures.get(name).filter(|value| value.is_finite())
        {
            series[run.cell].insert(run.block, value);
        }
    }
    let answer = |(&cell, series): (&Cell, &Series)| {
        let (environment, comparison) = names(experiment, cell);
        cell_answer(experiment.rule(), series, environment, comparison)
    };
    let (to_baseline, to_each_other) = pairs(experiment.design());
    FigureAnswers {
        cells: cells.iter().zip(&series).map(answer).collect(),
        to_baseline: family(experiment, &series, &to_baseline, margin),
        to_each_other: family(experiment, &series, &to_each_other, margin),
    }
}

/// Places of a cell and of its reference.
type Pair = (usize, usize);

/// What is compared: with the baseline, and all others with each other.
fn pairs(design: &Design) -> (Vec<Pair>, Vec<Pair>) {
    let (mut to_baseline, mut to_each_other) = (Vec::new(), Vec::new());
    for (place, cell) in design.cells.iter().enumerate() {
        for (reference, other) in design.cells.iter().enumerate() {
            if cell.comparison != other.comparison || place == reference {
                continue;
            }
            if other.environment == design.baseline {
                to_baseline.push((place, reference));
            } else if cell.environment != design.baseline && reference < place {
                to_each_other.push((place, reference));
            }
        }
    }
    (to_baseline, to_each_other)
}

fn cell_answer(
    rule: &StopRule,
    series: &Series,
    environment: String,
    comparison: String,
) -> CellAnswer {
    let values: Vec<f64> = series.values().copied().collect();
    let moments = Moments::of(&values);
    let fences = Fences::of(&values);
    let outliers = series
        .iter()
        .filter(|&(_, &value)| fences.is_some_and(|fences| fences.exclude(value)))
        .map(|(&block, &value)| Outlier { block, value });
    let relative = |half: f64| moments.mean().map(|mean| half / mean.abs());
    CellAnswer {
        environment,
        comparison,
        n: moments.count(),
        mean: moments.mean(),
        sd: moments.sd(),
        normal: intervals::normal(&moments),
        student: intervals::student(&moments),
        sequential: rule.interval(&moments),
        relative_half_width: rule.half_width(&moments).and_then(relative),
        outliers: outliers.collect(),
    }
}

fn family(experiment: &Experiment, series: &[Series], pairs: &[Pair], margin: f64) -> Family {
    let (design, rule) = (experiment.design(), experiment.rule());
    let (mut known, mut without) = (Vec::new(), Vec::new());
    for &(cell, reference) in pairs {
        let (environment, comparison) = names(experiment, design.cells[cell]);
        let reference_name = names(experiment, design.cells[reference]).0;
        let name = Unanswered { comparison, environment, reference: reference_name };
        match ratio_of(&series[cell], &series[reference], rule.min()) {
            Some((ratio, pairs)) => {
                known.push((name, ratio, pairs, evidence(rule, &ratio, margin)));
            }
            None => without.push(name),
        }
    }
    let judgements = judge(&known.iter().map(|(.., evidence)| *evidence).collect::<Vec<_>>());
    let answers = known.into_iter().zip(judgements).map(|(known, judgement)| {
        let (Unanswered { comparison, environment, reference }, ratio, pairs, evidence) = known;
        RatioAnswer {
            comparison,
            environment,
            reference,
            design: ratio.design(),
            pairs,
            ratio: ratio.estimate(),
            interval: ratio.interval(rule.quantile(ratio.degrees_of_freedom())),
            p: evidence.difference,
            p_adjusted: judgement.difference,
            p_equivalence: judgement.equivalence,
            verdict: judgement.verdict,
        }
    });
    let ratios: Vec<RatioAnswer> = answers.collect();
    Family { judged: ratios.len(), ratios, without }
}

/// By pairs, if as many blocks have both as a cell must have runs; else by all values.
fn ratio_of(above: &Series, below: &Series, least: u32) -> Option<(Ratio, u64)> {
    let pairs: Vec<(f64, f64)> =
        above.iter().filter_map(|(block, &value)| Some((value, *below.get(block)?))).collect();
    let ratio = if pairs.len() >= least as usize {
        Ratio::paired(&pairs)
    } else {
        let of = |series: &Series| Moments::of(&series.values().copied().collect::<Vec<_>>());
        Ratio::independent(&of(above), &of(below))
    };
    Some((ratio?, pairs.len() as u64))
}

/// What a ratio says against 1, and against a margin around it.
pub fn evidence(rule: &StopRule, ratio: &Ratio, margin: f64) -> Evidence {
    let df = ratio.degrees_of_freedom();
    let at_most = rule.tail(-ratio.t(1.0 + margin), df);
    let at_least = rule.tail(ratio.t(1.0 - margin), df);
    Evidence { difference: rule.p_value(ratio.t(1.0), df), equivalence: at_most.max(at_least) }
}
