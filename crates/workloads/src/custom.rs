//! Readers of one's own: by regular expressions, or by pointers into JSON, as a plan says.

mod json_reader;
mod regex_reader;
mod units;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

pub use self::json_reader::JsonReader;
pub use self::regex_reader::{RegexPlan, RegexReader, Take};
use crate::error::ReadError;
use crate::number;
use crate::outcome::{Better, Operations, Outcome};
use crate::output::Output;
use crate::quote;

/// What is to be read, and where it is: `from` is the name of a group of a pattern, or a pointer into
/// JSON (RFC 6901).
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct JsonPlan {
    /// Figures by name.
    #[serde(default)]
    pub figures: BTreeMap<String, Quantity>,
    /// The figure that says most. May be left out where there is only one.
    #[serde(default)]
    pub main: Option<String>,
    /// How much was done.
    #[serde(default)]
    pub operations: Option<Operation>,
    /// How long that took.
    #[serde(default)]
    pub duration: Option<Value>,
    /// How many operations failed.
    #[serde(default)]
    pub errors: Option<Count>,
    /// Response times: of each match of the pattern, or a list of numbers.
    #[serde(default)]
    pub responses: Option<Value>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Where it is. For patterns it may be left out: the group of the figure's name.
    #[serde(default)]
    pub from: Option<String>,
    /// Its unit, `1` if it is left out. What is known here (times, bytes, bits and FLOP, each also
    /// per second) is brought to seconds, bytes, bits and FLOP; what is not is taken as it is.
    #[serde(default)]
    pub unit: Option<String>,
    /// Where the unit is, instead: a group (or pointer). It must be one that is known.
    #[serde(default)]
    pub unit_from: Option<String>,
    /// Which way the figure is to go.
    #[serde(default)]
    pub better: Better,
    /// A run that does not have it (nothing there, or `null`) goes without. Otherwise that is an error.
    #[serde(default)]
    pub optional: bool,
}

/// A length of time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Where it is.
    pub from: String,
    /// `ns`, `us`, `ms`, `s`, `min` or `h`.
    pub unit: String,
}

/// A number of operations.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Where it is.
    pub from: String,
    /// Of what: `pages`, `frames`.
    pub what: String,
}

/// A number of errors.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Where it is.
    pub from: String,
    /// How many there are if it is nowhere. Without this, that is an error.
    #[serde(default)]
    pub otherwise: Option<u64>,
}

/// What a reader finds its values in.
trait Source {
    /// Where there is nothing: `Missing`, `Matches` or `Pointer`.
    fn number(&self, from: &str) -> Result<f64, ReadError>;
    /// The value is explicitly null.
    fn is_null(&self, _from: &str) -> bool {
        false
    }
    fn count(&self, from: &str) -> Result<u64, ReadError>;
    fn text(&self, from: &str) -> Result<String, ReadError>;
    fn list(&self, from: &str) -> Result<Vec<f64>, ReadError>;
}

/// What was looked for is not there.
const fn is_nowhere(error: &ReadError) -> bool {
    matches!(error, ReadError::Matches { found: 0, .. } | ReadError::Pointer { .. })
}

impl JsonPlan {
    /// What is wrong before anything is read.
    fn check(&self) -> Result<(), ReadError> {
        let wrong = |why: String| Err(ReadError::Plan { why });
        if self.figures.is_empty() && self.operations.is_none() && self.duration.is_none() {
            return wrong(
                "it reads nothing: give `figures`, `operations` or `duration`".to_owned(),
            );
        }
        match &self.main {
            Some(main) if !self.figures.contains_key(main) => {
                return wrong(format!("`main` is `{main}`, which is not one of the figures"));
            }
            None if self.figures.len() > 1 => {
                return wrong("say which of the figures is the `main` one".to_owned());
            }
            _ => (),
        }
        if let Some(main) = self.main()
            && self.figures.get(main).is_some_and(|it| it.optional)
        {
            return wrong(format!("`{main}` is the `main` figure, so it cannot be `optional`"));
        }
        for time in [&self.duration, &self.responses].into_iter().flatten() {
            number::time_unit("a time", &time.unit)?;
        }
        for (name, quantity) in &self.figures {
            match (&quantity.unit, &quantity.unit_from) {
                (Some(_), Some(_)) => {
                    return wrong(format!(
                        "`{name}` has a `unit` and a `unit_from`: leave one out"
                    ));
                }
                (Some(unit), None) => drop(units::of_a_plan(unit)?),
                _ => (),
            }
        }
        Ok(())
    }

    fn main(&self) -> Option<&str> {
        self.main.as_deref().or_else(|| self.figures.keys().next().map(String::as_str))
    }

    fn outcome(&self, source: &dyn Source, output: &Output<'_>) -> Result<Outcome, ReadError> {
        let mut outcome = Outcome::default();
        for (name, quantity) in &self.figures {
            let from = quantity.from.as_ref().unwrap_or(name);
            let value = match source.number(from) {
                Err(error) if quantity.optional && (is_nowhere(&error) || source.is_null(from)) => {
                    continue;
                }
                found => found?,
            };
            let (unit, factor) = match (&quantity.unit_from, &quantity.unit) {
                (Some(from), _) => units::known(name, &source.text(from)?)?,
                (None, Some(unit)) => units::of_a_plan(unit)?,
                (None, None) => (Cow::Borrowed(crate::unit::COUNT), 1.0),
            };
            outcome.add(name, value * factor, unit, quantity.better);
        }
        if let Some(operation) = &self.operations {
            let count = source.count(&operation.from)?;
            if count == 0 {
                let last = quote::last_words(output);
                return Err(ReadError::NoOperations { what: "operation", last });
            }
            let what = Cow::Owned(operation.what.clone());
            outcome.operations = Some(Operations { count, what });
        }
        if let Some(time) = &self.duration {
            let unit = number::time_unit("duration", &time.unit)?;
            outcome.duration =
                Some(number::seconds("duration", source.number(&time.from)? * unit)?);
        }
        if let Some(errors) = &self.errors {
            outcome.errors = match (source.count(&errors.from), errors.otherwise) {
                (Err(error), Some(it)) if is_nowhere(&error) => it,
                (found, _) => found?,
            };
        }
        if let Some(times) = &self.responses {
            let unit = number::time_unit("response time", &times.unit)?;
            for time in source.list(&times.from)? {
                outcome.responses.push(number::seconds("response time", time * unit)?);
            }
            if let Some(count) = outcome.operations.as_ref().map(|it| it.count) {
                outcome.compare_listed(count);
            }
        }
        Ok(outcome)
    }
}
