//! How often the interval holds the truth, on what no regression has seen.

use std::collections::BTreeMap;
use std::fmt;

use nightwatt_energy::power_model::LOADS;

use super::Result;
use super::data::Sample;
use super::fit::{Study, judged, quantile};

/// What is left out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Every result of a processor is left out, in both collections: results of one processor are
    /// nearly copies of each other.
    OtherProcessors,
    /// A fiftieth of the results, whatever their processors. This flatters: others of the same
    /// processor stay.
    MostRows,
    /// Every result of a year of processors: what the model will be worth for the next generation.
    OtherYears,
}

impl Kept {
    /// Name of the group that a sample is left out with.
    pub(super) fn group(self, sample: &Sample) -> String {
        match self {
            Self::OtherProcessors => sample.processor.clone(),
            Self::MostRows => (sample.row % 50).to_string(),
            Self::OtherYears => format!("{:?}", sample.machine.cpu_year()),
        }
    }

    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::OtherProcessors => "all results of a processor",
            Self::MostRows => "every fiftieth result",
            Self::OtherYears => "all results of a year of processors",
        }
    }
}

/// At one load, on all that was left out.
#[derive(Debug, Clone)]
pub(super) struct AtLoad {
    /// How many results.
    pub(super) count: usize,
    /// Share of them within the interval.
    pub(super) covered: f64,
    /// The same, if each processor counts as one.
    pub(super) covered_by_processor: f64,
    /// Share below and above the interval.
    outside: [f64; 2],
    /// Median lower and upper end, as multiples of the estimate.
    median_bounds: [f64; 2],
    /// Median of |measured / modelled - 1|.
    median_error: f64,
}

/// At every load.
#[derive(Debug)]
pub(super) struct Coverage {
    pub(super) loads: Vec<AtLoad>,
    groups: usize,
}

/// One left-out result at one load.
struct Trial<'a> {
    processor: &'a str,
    below: bool,
    above: bool,
    bounds: [f64; 2],
    error: f64,
}

impl Coverage {
    /// Leaves out each group of a study in turn.
    pub(super) fn of(study: &Study) -> Result<Self> {
        let mut trials: Vec<Vec<Trial>> = (0..LOADS).map(|_| Vec::new()).collect();
        for group in 0..study.groups() {
            let regression = study.regression(Some(group))?;
            for case in study.cases.iter().filter(|case| case.group == group) {
                let estimates = regression.estimates(&case.row, case.era, 1.0, 1.0);
                for load in (0..LOADS).filter(|&load| judged(case, load)) {
                    let Some(ln_watts) = case.ln_watts[load] else { continue };
                    let (estimate, measured) = (estimates[load], ln_watts.exp());
                    trials[load].push(Trial {
                        processor: &case.processor,
                        below: measured < estimate.low.get(),
                        above: measured > estimate.high.get(),
                        bounds: [estimate.low / estimate.watts, estimate.high / estimate.watts],
                        error: (measured / estimate.watts.get() - 1.0).abs(),
                    });
                }
            }
        }
        let loads = trials.iter().map(|trials| at_load(trials)).collect();
        Ok(Self { loads, groups: study.groups() })
    }
}

fn at_load(trials: &[Trial]) -> AtLoad {
    let share = |of: &dyn Fn(&Trial) -> bool| {
        trials.iter().filter(|trial| of(trial)).count() as f64 / trials.len() as f64
    };
    let median = |of: &dyn Fn(&Trial) -> f64| {
        quantile(trials.iter().map(|trial| (of(trial), 1.0)).collect(), 0.5)
    };
    let mut by_processor: BTreeMap<_, (f64, f64)> = BTreeMap::new();
    for trial in trials {
        let (within, all) = by_processor.entry(trial.processor).or_default();
        *within += f64::from(u8::from(!trial.below && !trial.above));
        *all += 1.0;
    }
    let sum: f64 = by_processor.values().map(|(within, all)| within / all).sum();
    AtLoad {
        count: trials.len(),
        covered: share(&|trial| !trial.below && !trial.above),
        covered_by_processor: sum / by_processor.len() as f64,
        outside: [share(&|trial| trial.below), share(&|trial| trial.above)],
        median_bounds: [median(&|trial| trial.bounds[0]), median(&|trial| trial.bounds[1])],
        median_error: median(&|trial| trial.error),
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {} groups; bounds are medians, as multiples of the estimate", self.groups)?;
        writeln!(
            f,
            "  load  results  covered  by processor  below  above  bounds       width  median error"
        )?;
        for (load, at) in self.loads.iter().enumerate() {
            let [low, high] = at.median_bounds;
            writeln!(
                f,
                "  {:3} %  {:7}  {:5.1} %  {:10.1} %  {:3.1} %  {:3.1} %  {low:.2} - {high:.2}  {:4.0} %  {:11.1} %",
                load * 10,
                at.count,
                at.covered * 100.0,
                at.covered_by_processor * 100.0,
                at.outside[0] * 100.0,
                at.outside[1] * 100.0,
                (high - low) * 100.0,
                at.median_error * 100.0,
            )?;
        }
        Ok(())
    }
}
