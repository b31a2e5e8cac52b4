//! How fast applications run beside each other.
//!
//! Speeds are relative to the application's own when it runs alone. For a set that was not measured, they are composed
//! from those of its pairs. [`Matrix::check`] compares what each way to compose them predicts for larger sets with what
//! was measured for these.

use std::collections::BTreeMap;

use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::percentile;
use serde::Serialize;

/// Speeds of applications that run at the same time.
pub trait Speeds {
    /// The speed of each application of a set in ascending order, 1 being its speed alone.
    fn speeds(&self, set: &[usize]) -> Vec<f64>;
}

/// Applications that do not disturb each other.
#[derive(Debug, Clone, Copy)]
pub struct NoContention;

impl Speeds for NoContention {
    fn speeds(&self, set: &[usize]) -> Vec<f64> {
        vec![1.0; set.len()]
    }
}

/// How slowdowns beside several others follow from those beside each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Composition {
    /// Lost time adds up.
    Sum,
    /// Slowdowns multiply.
    Product,
    /// The worst neighbour decides.
    Worst,
}

impl Composition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Product, Self::Worst];

    /// The slowdown (time over time alone) beside several neighbours, from those beside each of them.
    fn slowdown(self, beside: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Sum => 1.0 + beside.map(|slowdown| slowdown - 1.0).sum::<f64>(),
            Self::Product => beside.product(),
            Self::Worst => beside.reduce(f64::max).unwrap_or(1.0),
        }
    }
}

/// Measured speeds of sets of applications.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    names: Vec<String>,
    /// By set, in ascending order: the speed of each member.
    sets: BTreeMap<Vec<usize>, Vec<f64>>,
    composition: Composition,
}

/// What is wrong with a matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// Not a table of co-run speeds.
    #[error(
        "the first line has no column `{0}`; nightwatt needs applications, application and operations_per_s"
    )]
    Column(&'static str),
    /// A line that is no row of it.
    #[error("line {line}: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Speeds are relative to those alone.
    #[error("`{0}` was not measured alone; add a row for it")]
    NotAlone(String),
}

/// What a way to compose predicts for larger sets, beside what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CompositionCheck {
    /// The way.
    pub composition: Composition,
    /// Size of the sets.
    pub size: usize,
    /// Predicted slowdowns.
    pub predictions: u64,
    /// Mean of predicted over measured slowdown, less 1.
    pub bias: f64,
    /// Half of the predictions are off by at most this share.
    pub median: f64,
    /// 95 % of them are off by at most this share.
    pub p95: f64,
}

impl Matrix {
    /// Reads a table with a row for each application in each set: `applications` (`a+b`), `application`, and
    /// `operations_per_s`. Rows of the same set are averaged.
    pub fn read(csv: &str) -> Result<Self, MatrixError> {
        let mut lines = csv.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let header: Vec<&str> = lines.next().map_or("", |(_, line)| line).split(',').collect();
        let column = |name| {
            let place = header.iter().position(|cell| cell.trim() == name);
            place.ok_or(MatrixError::Column(name))
        };
        let columns =
            [column("applications")?, column("application")?, column("operations_per_s")?];
        let mut rates: BTreeMap<(Vec<String>, String), Moments> = BTreeMap::new();
        for (index, line) in lines {
            let wrong = |why: &str| MatrixError::Line { line: index + 1, why: why.to_owned() };
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let [set, application, rate] = columns.map(|place| cells.get(place).copied());
            let (set, application) = set.zip(application).ok_or_else(|| wrong("it is cut off"))?;
            let rate: f64 = rate
                .and_then(|rate| rate.parse().ok())
                .filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
                .ok_or_else(|| wrong("operations_per_s is not a number above 0"))?;
            let mut set: Vec<String> = set.split('+').map(str::to_owned).collect();
            set.sort_unstable();
            if !set.iter().any(|name| name == application) {
                return Err(wrong(&format!("`{application}` is not one of its applications")));
            }
            rates.entry((set, application.to_owned())).or_default().add(rate);
        }
        Self::of(&rates)
    }

    fn of(rates: &BTreeMap<(Vec<String>, String), Moments>) -> Result<Self, MatrixError> {
        let mut names: Vec<String> = rates.keys().map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let rate = |set: &[String], name: &String| {
            rates.get(&(set.to_vec(), name.clone())).and_then(Moments::mean)
        };
        let mut sets = BTreeMap::new();
        for (set, _) in rates.keys() {
            let mut members = Vec::new();
            let mut speeds = Vec::new();
            for name in set {
                let alone = rate(std::slice::from_ref(name), name);
                let alone = alone.ok_or_else(|| MatrixError::NotAlone(name.clone()))?;
                // A set of which a member is missing was not measured to its end.
                let Some(beside) = rate(set, name) else { break };
                members.extend(names.binary_search(name));
                speeds.push(beside / alone);
            }
            if speeds.len() == set.len() {
                sets.insert(members, speeds);
            }
        }
        Ok(Self::new(names, sets))
    }

    /// Speeds by set: members in ascending order, by their places in `names`.
    pub fn new(names: Vec<String>, sets: BTreeMap<Vec<usize>, Vec<f64>>) -> Self {
        let mut matrix = Self { names, sets, composition: Composition::Product };
        // The one that is closest for what was measured.
        let off = |check: &CompositionCheck| check.median;
        let best = matrix.check().into_iter().min_by(|a, b| off(a).total_cmp(&off(b)));
        matrix.composition = best.map_or(Composition::Product, |it| it.composition);
        matrix
    }

    /// The same, as if only single applications and pairs had been measured.
    #[must_use]
    pub fn without_larger_sets(&self) -> Self {
        let mut matrix = self.clone();
        matrix.sets.retain(|set, _| set.len() <= 2);
        matrix
    }

    /// Names of the applications.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How speeds of sets that were not measured are composed.
    pub const fn composition(&self) -> Composition {
        self.composition
    }

    /// Share of their speed that applications lose in the mean of all measured sets of this size.
    pub fn contention(&self, size: usize) -> Option<f64> {
        let sets = self.sets.iter().filter(|(set, _)| set.len() == size);
        let lost: Vec<f64> = sets.flat_map(|(_, speeds)| speeds).map(|speed| 1.0 - speed).collect();
        Moments::of(&lost).mean()
    }

    /// What each way to compose slowdowns predicts for measured sets of more than two, beside what was measured.
    pub fn check(&self) -> Vec<CompositionCheck> {
        let largest = self.sets.keys().map(Vec::len).max().unwrap_or(0);
        let sizes = 3..=largest;
        let each = sizes.flat_map(|size| Composition::ALL.map(|it| self.check_one(it, size)));
        each.flatten().collect()
    }

    fn check_one(&self, composition: Composition, size: usize) -> Option<CompositionCheck> {
        let mut errors = Vec::new();
        for (set, speeds) in self.sets.iter().filter(|(set, _)| set.len() == size) {
            for (place, speed) in speeds.iter().enumerate() {
                let composed = self.composed(composition, set, place);
                errors.extend(composed.map(|slowdown| slowdown * speed - 1.0));
            }
        }
        let bias = Moments::of(&errors).mean()?;
        let mut off: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        off.sort_by(f64::total_cmp);
        Some(CompositionCheck {
            composition,
            size,
            predictions: errors.len() as u64,
            bias,
            median: percentile(&off, 50.0),
            p95: percentile(&off, 95.0),
        })
    }

    /// The slowdown of a member beside the others, if it was measured beside each of them.
    fn composed(&self, composition: Composition, set: &[usize], place: usize) -> Option<f64> {
        let others = set.iter().enumerate().filter(|(other, _)| *other != place);
        let slowdowns: Option<Vec<f64>> =
            others.map(|(_, other)| self.slowdown_beside(set[place], *other)).collect();
        Some(composition.slowdown(slowdowns?.into_iter()))
    }

    fn slowdown_beside(&self, one: usize, other: usize) -> Option<f64> {
        let pair = [one.min(other), one.max(other)];
        let speeds = self.sets.get(&pair[..])?;
        Some(1.0 / speeds[usize::from(one > other)])
    }
}

impl Speeds for Matrix {
    fn speeds(&self, set: &[usize]) -> Vec<f64> {
        if let Some(speeds) = self.sets.get(set) {
            return speeds.clone();
        }
        let composed = |place| self.composed(self.composition, set, place);
        // Of a pair that was not measured nothing is known: it counts as undisturbed.
        (0..set.len()).map(|place| composed(place).map_or(1.0, f64::recip)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
applications,application,operations_per_s
a,a,10
a,a,30
b,b,5
c,c,1
a+b,a,10
b+a,b,2.5
a+c,a,16
a+c,c,0.8
b+c,b,5
b+c,c,1
";

    #[test]
    fn speeds_are_relative_to_those_alone() {
        let matrix = Matrix::read(TABLE).unwrap();
        assert_eq!(matrix.names(), ["a", "b", "c"]);
        assert_eq!(matrix.speeds(&[0]), [1.0], "the mean of both rounds");
        assert_eq!(matrix.speeds(&[0, 1]), [0.5, 0.5], "in whichever order it is written");
        assert_eq!(matrix.contention(2), Some((0.5 + 0.5 + 0.2 + 0.2) / 6.0));
        assert_eq!(matrix.contention(3), None);
    }

    #[test]
    fn slowdowns_are_composed_from_pairs() {
        let matrix = Matrix::read(TABLE).unwrap();
        // a: 2 beside b, 1.25 beside c.
        let of = |composition: Composition| matrix.composed(composition, &[0, 1, 2], 0).unwrap();
        assert_eq!(Composition::ALL.map(of).to_vec(), [2.25, 2.5, 2.0]);
        assert_eq!(matrix.speeds(&[0, 1, 2])[..1], [1.0 / 2.5], "by default they multiply");
        assert_eq!(matrix.speeds(&[2, 2]), [1.0, 1.0], "nothing is known");
    }

    #[test]
    fn what_is_composed_is_checked_against_larger_sets() {
        let of_three = "a+b+c,a,9\na+b+c,b,2.5\na+b+c,c,0.8\n";
        let matrix = Matrix::read(&[TABLE, of_three].concat()).unwrap();
        let checks = matrix.check();
        let product = checks.iter().find(|it| it.composition == Composition::Product).unwrap();
        // a is 20/9 times slower, and 2.5 is predicted: 12.5 % too much. b and c are exact.
        assert_eq!((product.size, product.predictions), (3, 3));
        assert!((product.bias - 0.125 / 3.0).abs() < 1e-12 && (product.p95 - 0.125).abs() < 1e-12);
        assert_eq!(matrix.speeds(&[0, 1, 2])[..1], [0.45], "what was measured counts");
        let from_pairs = matrix.without_larger_sets().speeds(&[0, 1, 2]);
        let composed = matrix.composed(matrix.composition(), &[0, 1, 2], 0).unwrap();
        assert_eq!(from_pairs[..1], [1.0 / composed]);
    }

    #[test]
    fn tables_that_are_wrong_are_refused_with_their_line() {
        for (text, part) in [
            ("a,b\n1,2\n", "no column `applications`"),
            ("applications,application,operations_per_s\na,a,x\n", "line 2: operations_per_s"),
            ("applications,application,operations_per_s\na,a,0\n", "line 2: operations_per_s"),
            ("applications,application,operations_per_s\na+b,c,1\n", "line 2: `c` is not one"),
            ("applications,application,operations_per_s\n\na+b\n", "line 3: it is cut off"),
            ("applications,application,operations_per_s\na+b,a,1\na,a,1\n", "`b` was not measured"),
        ] {
            let error = Matrix::read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
