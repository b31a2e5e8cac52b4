//! By regular expressions with named groups.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{Count, JsonPlan, Operation, Quantity, Source, Value};
use crate::error::ReadError;
use crate::number;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::quote;
use crate::tool::read_clean;

/// Patterns, and what their groups are. A named group that is nothing else is a figure of its name,
/// in the unit `1`. The fields are those of [`JsonPlan`].
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct RegexPlan {
    /// Regular expressions as of the crate `regex`: `(?<rate>[\d.]+) pages/s`. `^` and `$` are the
    /// ends of a line.
    pub patterns: Vec<String>,
    /// Which match counts if there are several.
    #[serde(default)]
    pub take: Take,
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
    /// Response times: every match of the pattern that has this group.
    #[serde(default)]
    pub responses: Option<Value>,
}

/// Which match of a pattern counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// There must be one alone.
    #[default]
    Only,
    /// The first.
    First,
    /// The last: the sum after lines of progress.
    Last,
}

/// Reads figures by patterns in all that a tool printed: its output, its files, its errors.
#[derive(Debug, Clone)]
pub struct RegexReader {
    patterns: Vec<Regex>,
    take: Take,
    plan: JsonPlan,
}

impl RegexReader {
    /// A reader, if the patterns are some and have the groups that the plan names.
    pub fn new(plan: RegexPlan) -> Result<Self, ReadError> {
        let mut patterns = Vec::new();
        for pattern in &plan.patterns {
            let built = RegexBuilder::new(pattern).multi_line(true).build().map_err(|source| {
                ReadError::Pattern { pattern: quote::short(pattern), source: Box::new(source) }
            })?;
            patterns.push(built);
        }
        let mut reader = Self {
            patterns,
            take: plan.take,
            plan: JsonPlan {
                figures: plan.figures,
                main: plan.main,
                operations: plan.operations,
                duration: plan.duration,
                errors: plan.errors,
                responses: plan.responses,
            },
        };
        reader.name_the_rest()?;
        reader.plan.check()?;
        Ok(reader)
    }

    /// Groups that are nothing else become figures; what is named and no group is a mistake.
    fn name_the_rest(&mut self) -> Result<(), ReadError> {
        let wrong = |why: String| Err(ReadError::Plan { why });
        let mut groups: Vec<String> = Vec::new();
        for name in self.patterns.iter().flat_map(Regex::capture_names).flatten() {
            if groups.iter().any(|it| it == name) {
                return wrong(format!("two patterns have a group `{name}`: name one otherwise"));
            }
            groups.push(name.to_owned());
        }
        let plan = &self.plan;
        let mut used: Vec<String> = Vec::new();
        for (name, quantity) in &plan.figures {
            used.push(quantity.from.as_ref().unwrap_or(name).clone());
            used.extend(quantity.unit_from.clone());
        }
        used.extend(plan.operations.as_ref().map(|it| it.from.clone()));
        used.extend(plan.duration.as_ref().map(|it| it.from.clone()));
        used.extend(plan.errors.as_ref().map(|it| it.from.clone()));
        used.extend(plan.responses.as_ref().map(|it| it.from.clone()));
        if let Some(name) = used.iter().find(|name| !groups.contains(name)) {
            let there = groups.join("`, `");
            return wrong(format!("no pattern has a group `(?<{name}>..)`; there is `{there}`"));
        }
        for name in groups.into_iter().filter(|name| !used.contains(name)) {
            let better = crate::Better::Neither;
            let quantity = Quantity { better, ..Quantity::default() };
            self.plan.figures.insert(name, quantity);
        }
        Ok(())
    }

    /// The figure that says most.
    pub fn main(&self) -> Option<&str> {
        self.plan.main()
    }

    /// Reads an output.
    pub fn read(&self, output: &Output<'_>) -> Result<Outcome, ReadError> {
        read_clean(output, |clean| {
            if clean.is_silent() {
                return Err(ReadError::Silent);
            }
            let texts: Vec<&str> = clean.texts().collect();
            let last = quote::last_words(clean);
            self.plan.outcome(&Searched { reader: self, text: texts.join("\n"), last }, clean)
        })
    }
}

/// A text that patterns are looked for in.
struct Searched<'a> {
    reader: &'a RegexReader,
    text: String,
    last: String,
}

impl Searched<'_> {
    fn pattern(&self, group: &str) -> Result<&Regex, ReadError> {
        let has_it = |it: &&Regex| it.capture_names().flatten().any(|name| name == group);
        self.reader
            .patterns
            .iter()
            .find(has_it)
            .ok_or_else(|| ReadError::Plan { why: format!("no pattern has a group `{group}`") })
    }

    fn not_so(&self, pattern: &Regex, found: usize) -> ReadError {
        let advice = if found == 0 {
            ""
        } else {
            ", say more in it, or say which match counts (`take = \"last\"`)"
        };
        let pattern = quote::short(pattern.as_str());
        ReadError::Matches { pattern, found, advice, last: self.last.clone() }
    }

    /// What a group caught, in all matches.
    fn all(&self, group: &str) -> Result<Vec<&str>, ReadError> {
        let pattern = self.pattern(group)?;
        let caught = pattern.captures_iter(&self.text).filter_map(|it| it.name(group));
        Ok(caught.map(|it| it.as_str()).collect())
    }

    fn one(&self, group: &str) -> Result<&str, ReadError> {
        let pattern = self.pattern(group)?;
        // All matches count, also those in which an optional group caught nothing: groups of a
        // pattern must come from the same match.
        let mut matches = pattern.captures_iter(&self.text);
        let first = matches.next().ok_or_else(|| self.not_so(pattern, 0))?;
        let taken = match self.reader.take {
            Take::First => first,
            Take::Last => matches.last().unwrap_or(first),
            Take::Only => match matches.count() {
                0 => first,
                more => return Err(self.not_so(pattern, 1 + more)),
            },
        };
        let caught = taken.name(group).map(|it| it.as_str());
        caught.ok_or_else(|| ReadError::number(format!("the group `{group}`"), ""))
    }
}

impl Source for Searched<'_> {
    fn number(&self, from: &str) -> Result<f64, ReadError> {
        number::number(&format!("the group `{from}`"), self.one(from)?)
    }

    fn count(&self, from: &str) -> Result<u64, ReadError> {
        number::count(&format!("the group `{from}`"), self.one(from)?)
    }

    fn text(&self, from: &str) -> Result<String, ReadError> {
        self.one(from).map(str::to_owned)
    }

    fn list(&self, from: &str) -> Result<Vec<f64>, ReadError> {
        let what = format!("the group `{from}`");
        let all = self.all(from)?;
        if all.is_empty() {
            return Err(self.not_so(self.pattern(from)?, 0));
        }
        all.into_iter().map(|it| number::number(&what, it)).collect()
    }
}
