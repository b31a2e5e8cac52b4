//! What a tool found out.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Units of figures. All readers of tools use these.
pub mod unit {
    /// Seconds.
    pub const SECONDS: &str = "s";
    /// How often in a second.
    pub const PER_SECOND: &str = "1/s";
    /// Bytes.
    pub const BYTES: &str = "B";
    /// Bytes in a second.
    pub const BYTES_PER_SECOND: &str = "B/s";
    /// Bits in a second: the unit for networks.
    pub const BITS_PER_SECOND: &str = "bit/s";
    /// Floating-point operations in a second.
    pub const FLOPS: &str = "FLOP/s";
    /// Frequency of a clock.
    pub const HERTZ: &str = "Hz";
    /// Hundredths.
    pub const PERCENT: &str = "%";
    /// A number of things.
    pub const COUNT: &str = "1";
}

/// Which way a figure is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Up: throughput.
    Higher,
    /// Down: latency.
    Lower,
    /// It only describes the run.
    #[default]
    Neither,
}

/// A number that a tool found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Lower case with underscores: `latency_mean`.
    pub name: String,
    /// Finite.
    pub value: f64,
    /// One of [`mod@unit`], or what a plan calls it.
    pub unit: Cow<'static, str>,
    /// Which way it is to go.
    pub better: Better,
}

/// What was done, to be divided by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// How many succeeded; never 0.
    pub count: u64,
    /// Of what: `transactions`, `requests`, `bytes`.
    pub what: Cow<'static, str>,
}

/// So much of the operations took no longer than this.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// 0 to 100.
    pub percent: f64,
    /// The time.
    pub time: Duration,
}

/// What a tool found out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// All its figures; names are unique.
    pub figures: Vec<Figure>,
    /// What it did, where one kind of operation stands for the run.
    pub operations: Option<Operations>,
    /// How long it did so, by its own clock: without its start and end.
    pub duration: Option<Duration>,
    /// The response times that it lists one by one, in its order. Failed operations have none.
    pub responses: Vec<Duration>,
    /// Percentiles of the response times, ascending, where it tells these.
    pub percentiles: Vec<Percentile>,
    /// Operations that failed: not among those that count.
    pub errors: u64,
    /// What casts doubt on the figures, in words.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// The value of a figure.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// Operations a second: what a mean power is divided by.
    pub fn per_second(&self) -> Option<f64> {
        let seconds = self.duration.filter(|it| !it.is_zero())?.as_secs_f64();
        Some(self.operations.as_ref()?.count as f64 / seconds)
    }

    /// The share (0 to 1) of operations that were answered within a limit, by the response times that
    /// are listed one by one; whatever took longer, and each error, was not. With `limit` = 10 s this
    /// is a point of the published curves of quality of service. `None` where no times are listed.
    pub fn answered_within(&self, limit: Duration) -> Option<f64> {
        if self.responses.is_empty() {
            return None;
        }
        let listed = self.responses.len();
        let within = self.responses.iter().filter(|time| **time <= limit).count();
        // Where only some operations are listed, they stand for all that succeeded.
        let done = self.operations.as_ref().map_or(listed as f64, |it| it.count as f64);
        Some(within as f64 / listed as f64 * done / (done + self.errors as f64))
    }

    /// Adds a figure. Where the name is taken, it gets a number: `latency_mean_2`.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: impl Into<Cow<'static, str>>,
        better: Better,
    ) {
        let wanted = name.into();
        let is_taken = |figures: &[Figure], name: &str| figures.iter().any(|it| it.name == name);
        let mut name = wanted.clone();
        let mut number = 2;
        while is_taken(&self.figures, &name) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        self.figures.push(Figure { name, value, unit: unit.into(), better });
    }

    pub(crate) fn operations(&mut self, count: u64, what: &'static str) {
        self.operations = Some(Operations { count, what: Cow::Borrowed(what) });
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Answers that say that something was wrong are answers all the same.
    pub(crate) fn bad_statuses(&mut self, bad: u64, all: u64) {
        self.add("bad_statuses", bad as f64, unit::COUNT, Better::Lower);
        if bad > 0 {
            self.warn(format!(
                "{bad} of {all} answers have a status of 400 or more, and count as answered: does the \
                 server do the work that is to be measured?"
            ));
        }
    }

    /// The list of response times may be of some operations only.
    pub(crate) fn compare_listed(&mut self, operations: u64) {
        let listed = self.responses.len() as u64;
        if listed > 0 && listed != operations {
            self.warn(format!(
                "{listed} response times are listed of {operations} operations: shares and \
                 percentiles are those of the listed ones"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_take_too_long_are_no_answers() {
        // Four answers in 1, 2, 3 and 11 s and one error: of five, three within 10 s, four within 20.
        let responses = [1, 2, 3, 11].map(Duration::from_secs).to_vec();
        let outcome = Outcome { responses, errors: 1, ..Outcome::default() };
        let within = |seconds| outcome.answered_within(Duration::from_secs(seconds)).unwrap();
        assert!((within(10) - 0.6).abs() < 1e-12 && (within(20) - 0.8).abs() < 1e-12);
        assert!((within(3) - 0.6).abs() < 1e-12, "the limit itself is within");
        assert_eq!(Outcome::default().answered_within(Duration::MAX), None);
    }

    #[test]
    fn a_list_of_some_operations_stands_for_all_of_them() {
        // Two of the four that are listed, of 90 that succeeded; 10 failed: 0.5 * 90 / 100.
        let responses = [1, 2, 30, 40].map(Duration::from_secs).to_vec();
        let mut outcome = Outcome { responses, errors: 10, ..Outcome::default() };
        outcome.operations(90, "requests");
        assert!((outcome.answered_within(Duration::from_secs(10)).unwrap() - 0.45).abs() < 1e-12);
    }

    #[test]
    fn figures_keep_their_names_apart() {
        let mut outcome = Outcome::default();
        for value in [1.0, 2.0, 3.0] {
            outcome.add("speed", value, unit::PER_SECOND, Better::Higher);
        }
        assert_eq!(outcome.figure("speed"), Some(1.0));
        assert_eq!(outcome.figure("speed_3"), Some(3.0));
    }

    #[test]
    fn a_rate_needs_time_and_operations() {
        let mut outcome = Outcome::default();
        assert_eq!(outcome.per_second(), None);
        outcome.operations(10, "requests");
        outcome.duration = Some(Duration::ZERO);
        assert_eq!(outcome.per_second(), None);
        outcome.duration = Some(Duration::from_secs(4));
        assert_eq!(outcome.per_second(), Some(2.5));
    }
}
