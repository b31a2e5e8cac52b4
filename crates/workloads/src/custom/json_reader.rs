//! By pointers into JSON.

use serde_json::Value;

use super::{JsonPlan, Source};
use crate::error::ReadError;
use crate::json;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::tool::read_clean;

/// Reads figures at pointers into the first JSON that an output has.
#[derive(Debug, Clone)]
pub struct JsonReader {
    plan: JsonPlan,
}

impl JsonReader {
    /// A reader, if the plan can work.
    pub fn new(plan: JsonPlan) -> Result<Self, ReadError> {
        plan.check()?;
        let figures = plan.figures.iter().map(|(name, it)| (name.as_str(), it.from.as_deref()));
        let others = [
            plan.operations.as_ref().map(|it| ("operations", it.from.as_str())),
            plan.duration.as_ref().map(|it| ("duration", it.from.as_str())),
            plan.errors.as_ref().map(|it| ("errors", it.from.as_str())),
            plan.responses.as_ref().map(|it| ("responses", it.from.as_str())),
        ];
        let others = others.into_iter().flatten().map(|(name, from)| (name, Some(from)));
        for (name, from) in figures.chain(others) {
            let why = match from {
                None => {
                    format!("`{name}` has no pointer: give `from`, such as `/jobs/0/read/iops`")
                }
                Some(from) if !from.is_empty() && !from.starts_with('/') => {
                    format!("`{name}`: a JSON pointer begins with `/`: `/{from}`?")
                }
                Some(_) => continue,
            };
            return Err(ReadError::Plan { why });
        }
        Ok(Self { plan })
    }

    /// The figure that says most.
    pub fn main(&self) -> Option<&str> {
        self.plan.main()
    }

    /// Reads an output.
    pub fn read(&self, output: &Output<'_>) -> Result<Outcome, ReadError> {
        read_clean(output, |clean| {
            let document = json::document(clean);
            let document = document.ok_or_else(|| ReadError::missing("JSON", clean))??;
            self.plan.outcome(&document, clean)
        })
    }
}

impl Source for Value {
    fn number(&self, from: &str) -> Result<f64, ReadError> {
        json::number(self, from)
    }

    fn is_null(&self, from: &str) -> bool {
        self.pointer(from).is_some_and(Self::is_null)
    }

    fn count(&self, from: &str) -> Result<u64, ReadError> {
        json::count(self, from)
    }

    fn text(&self, from: &str) -> Result<String, ReadError> {
        match json::at(self, from)? {
            Value::String(text) => Ok(text.clone()),
            other => Err(ReadError::unit(format!("`{from}`"), &json::describe(other))),
        }
    }

    fn list(&self, from: &str) -> Result<Vec<f64>, ReadError> {
        let found = json::at(self, from)?;
        let list = found.as_array().ok_or_else(|| ReadError::Pointer {
            why: format!("at `{from}` is no list, but {}", json::describe(found)),
        })?;
        list.iter().map(|item| json::number(item, "")).collect()
    }
}
