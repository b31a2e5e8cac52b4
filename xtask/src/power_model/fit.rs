//! Regressions over all samples, and over all but some.
//!
//! The normal equations of each group of samples are kept apart, so that leaving out a group is a
//! subtraction and a system of nine equations: leaving out every group, and then every other, takes
//! seconds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use nightwatt_energy::power_model::LOADS;
use nightwatt_energy::power_model::regression::{Basis, ERAS, Regression, era};

use super::Result;
use super::data::{Sample, Source};

/// The share of the machines that the interval is to cover.
const COVERED: f64 = 0.95;

/// A sample as a basis sees it.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) source: Source,
    pub(super) group: usize,
    pub(super) row: Vec<f64>,
    pub(super) era: usize,
    /// What it counts for: the results of a processor together as much as the root of their number.
    /// Nearly copies of each other, they are worth more than one and less than so many.
    weight: f64,
    pub(super) processor: String,
    /// ln(W), for each multiple of the basis.
    pub(super) ln_watts: [Option<f64>; LOADS],
}

/// Sums over samples, from which a regression follows.
#[derive(Debug, Clone)]
struct Sums {
    /// X'X, row by row.
    gram: Vec<f64>,
    /// X' ln(W) idle and at full load.
    moments: [Vec<f64>; 2],
    /// For each era and over all: shares of the way from idle to full load, and how many.
    curves: [([f64; LOADS], f64); ERAS],
}

/// All samples of a basis in groups.
#[derive(Debug)]
pub(super) struct Study {
    pub(super) cases: Vec<Case>,
    groups: Vec<Sums>,
    /// Of all groups together.
    all: Sums,
}

/// Whether a result tells anything of what a basis is for. Guests run on hosts with many threads; of
/// those whose processor is not named, it is taken that the host is not from before 2012.
fn speaks_for(sample: &Sample, basis: Basis) -> bool {
    let host = sample.machine.threads >= 16;
    match basis {
        Basis::Server | Basis::ServerOfAnyYear => true,
        Basis::Thread => host,
        Basis::ThreadOfAnyYear => {
            host && sample.machine.cpu_year().is_some_and(|year| year >= 2012)
        }
    }
}

/// Errors at each load, with their weights, as ln(measured / modelled) divided by the spread.
type Errors = [Vec<(f64, f64)>; LOADS];

impl Study {
    /// The samples that the basis can use, in groups of equal name.
    pub(super) fn new(samples: &[Sample], basis: Basis, name: impl Fn(&Sample) -> String) -> Self {
        let mut names = BTreeMap::new();
        let samples = samples.iter().filter(|sample| speaks_for(sample, basis));
        let alike = |sample: &Sample| (sample.processor.clone(), sample.source as u8);
        let mut many: BTreeMap<_, u32> = BTreeMap::new();
        for sample in samples.clone() {
            *many.entry(alike(sample)).or_default() += 1;
        }
        let mut cases = Vec::new();
        for sample in samples {
            let Some(row) = basis.row(&sample.machine) else { continue };
            let next = names.len();
            let group = *names.entry(name(sample)).or_insert(next);
            let source = sample.source;
            let multiple = basis.multiple(&sample.machine);
            let ln_watts = sample.watts.map(|watts| watts.map(|watts| (watts / multiple).ln()));
            // A basis that knows no year knows no era.
            let era = match basis {
                Basis::Server | Basis::Thread => era(&sample.machine),
                Basis::ServerOfAnyYear | Basis::ThreadOfAnyYear => ERAS - 1,
            };
            let weight = 1.0 / f64::from(many[&alike(sample)]).sqrt();
            let processor = sample.processor.clone();
            cases.push(Case { source, group, row, era, weight, processor, ln_watts });
        }
        let columns = cases.first().map_or(0, |case| case.row.len());
        let mut groups = vec![Sums::nothing(columns); names.len()];
        let mut all = Sums::nothing(columns);
        for case in &cases {
            groups[case.group].add(case);
            all.add(case);
        }
        Self { cases, groups, all }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The regression over all samples but those of `left_out`, its bounds from leaving out each
    /// other group in turn: nothing in it knows of the groups left out.
    pub(super) fn regression(&self, left_out: Option<usize>) -> Result<Regression> {
        let kept = match left_out {
            Some(group) => self.all.without(&self.groups[group]),
            None => self.all.clone(),
        };
        let mut regression = kept.regression()?;
        let mut members = vec![Vec::new(); self.groups.len()];
        for case in &self.cases {
            members[case.group].push(case);
        }
        let mut errors: Errors = std::array::from_fn(|_| Vec::new());
        for (group, members) in members.iter().enumerate() {
            if Some(group) != left_out {
                let others = kept.without(&self.groups[group]).regression()?;
                for case in members {
                    add_errors(&mut errors, case, &others);
                }
            }
        }
        regression.bounds = errors.map(|errors| {
            let below = (1.0 - COVERED) / 2.0;
            [quantile(errors.clone(), below), quantile(errors, 1.0 - below)]
        });
        Ok(regression)
    }
}

/// Idle and full load are judged by the larger collection, the loads between by the other.
pub(super) fn judged(case: &Case, load: usize) -> bool {
    (case.source == Source::Systems) == (load == 0 || load == LOADS - 1)
}

fn add_errors(errors: &mut Errors, case: &Case, others: &Regression) {
    let modelled = others.ln_watts(&case.row, case.era);
    let spread = others.spread(&case.row);
    for load in (0..LOADS).filter(|&load| judged(case, load)) {
        if let Some(measured) = case.ln_watts[load] {
            errors[load].push(((measured - modelled[load]) / spread, case.weight));
        }
    }
}

/// The value at or below which this share of the weight lies.
pub(super) fn quantile(mut values: Vec<(f64, f64)>, share: f64) -> f64 {
    values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let whole: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let reached = values.iter().find(|(_, weight)| {
        below += weight;
        below >= share * whole
    });
    reached.or(values.last()).map_or(f64::NAN, |&(value, _)| value)
}

impl Sums {
    fn nothing(columns: usize) -> Self {
        Self {
            gram: vec![0.0; columns * columns],
            moments: [vec![0.0; columns], vec![0.0; columns]],
            curves: [([0.0; LOADS], 0.0); ERAS],
        }
    }

    fn add(&mut self, case: &Case) {
        let columns = case.row.len();
        match (case.source, case.ln_watts[0], case.ln_watts[LOADS - 1]) {
            (Source::Systems, Some(idle), Some(full)) => {
                for (i, x) in case.row.iter().enumerate() {
                    for (k, z) in case.row.iter().enumerate() {
                        self.gram[i * columns + k] += case.weight * x * z;
                    }
                    self.moments[0][i] += case.weight * x * idle;
                    self.moments[1][i] += case.weight * x * full;
                }
            }
            (Source::LoadLevels, Some(idle), Some(full)) => {
                let (idle, full) = (idle.exp(), full.exp());
                // A known era counts there and over all.
                let eras =
                    if case.era == ERAS - 1 { vec![ERAS - 1] } else { vec![case.era, ERAS - 1] };
                for era in eras {
                    let (sums, count) = &mut self.curves[era];
                    for (sum, ln_watts) in sums.iter_mut().zip(case.ln_watts) {
                        *sum += case.weight
                            * ln_watts.map_or(0.0, |ln| (ln.exp() - idle) / (full - idle));
                    }
                    *count += case.weight;
                }
            }
            _ => {}
        }
    }

    fn without(&self, other: &Self) -> Self {
        let less = |all: &[f64], part: &[f64]| all.iter().zip(part).map(|(a, b)| a - b).collect();
        Self {
            gram: less(&self.gram, &other.gram),
            moments: std::array::from_fn(|end| less(&self.moments[end], &other.moments[end])),
            curves: std::array::from_fn(|era| {
                let ((all, count), (part, gone)) = (self.curves[era], other.curves[era]);
                (std::array::from_fn(|load| all[load] - part[load]), count - gone)
            }),
        }
    }

    /// Without bounds.
    fn regression(&self) -> Result<Regression> {
        let inverse = inverse(&self.gram, self.moments[0].len())
            .ok_or("the predictors do not differ enough among what is kept")?;
        let columns = self.moments[0].len();
        let times = |moment: &[f64]| -> Vec<f64> {
            let lines = inverse.chunks(columns);
            lines.map(|line| line.iter().zip(moment).map(|(a, b)| a * b).sum()).collect()
        };
        let mean = |(sums, count): ([f64; LOADS], f64)| sums.map(|sum| sum / count);
        let curves =
            self.curves.map(|era| mean(if era.1 < 1e-9 { self.curves[ERAS - 1] } else { era }));
        Ok(Regression {
            idle: Cow::Owned(times(&self.moments[0])),
            full: Cow::Owned(times(&self.moments[1])),
            inverse_gram: Cow::Owned(inverse),
            curves,
            bounds: [[0.0; 2]; LOADS],
        })
    }
}

/// Inverse of a symmetric positive matrix, by Cholesky's factors. `None` if it is not positive.
fn inverse(matrix: &[f64], columns: usize) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; columns * columns];
    for i in 0..columns {
        for k in 0..=i {
            let known: f64 = (0..k).map(|j| lower[i * columns + j] * lower[k * columns + j]).sum();
            let left = matrix[i * columns + k] - known;
            lower[i * columns + k] = if i == k {
                if left <= 1e-9 * matrix[i * columns + i] {
                    return None;
                }
                left.sqrt()
            } else {
                left / lower[k * columns + k]
            };
        }
    }
    let mut inverse = vec![0.0; columns * columns];
    for unit in 0..columns {
        let mut column = vec![0.0; columns];
        for i in 0..columns {
            let known: f64 = (0..i).map(|j| lower[i * columns + j] * column[j]).sum();
            column[i] = (f64::from(u8::from(i == unit)) - known) / lower[i * columns + i];
        }
        for i in (0..columns).rev() {
            let known: f64 = (i + 1..columns).map(|j| lower[j * columns + i] * column[j]).sum();
            column[i] = (column[i] - known) / lower[i * columns + i];
        }
        for i in 0..columns {
            inverse[i * columns + unit] = column[i];
        }
    }
    Some(inverse)
}
