//! What can be said of requests without their order: numbers that add up.
//!
//! `summary(a)` merged with `summary(b)` is `summary(a ++ b)`, in any order and any grouping, so a
//! log may be read in pieces, on many cores or machines. Memory is bounded whatever the log holds;
//! what each bound costs stands beside it.

use std::collections::BTreeMap;

use nightwatt_energy::time::Wall;
use serde::{Deserialize, Serialize};

pub use crate::summary::distinct::Distinct;
pub use crate::summary::hours::{Hour, Hours, Typical};
pub use crate::summary::sizes::Sizes;
pub use crate::summary::tops::Tops;

pub(crate) use crate::summary::hours::beginning;
pub(crate) use crate::summary::sizes::bin;

mod distinct;
mod hours;
mod sizes;
mod tops;

/// Agents counted; beyond that the rarest are forgotten ([`Tops`]).
const AGENTS: usize = 8192;

/// Methods counted; likewise.
const METHODS: usize = 64;

/// One request, as far as a summary wants to know.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// When, UTC.
    pub at: Wall,
    /// Local time minus UTC, in seconds.
    pub utc_offset: i32,
    /// `GET`.
    pub method: &'a str,
    /// [`Traits::target`](crate::Traits::target).
    pub target: u64,
    /// Of the answer.
    pub status: u16,
    /// Bytes of the answer's body.
    pub bytes: u64,
}

/// Sums over requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Requests.
    pub requests: u64,
    /// Times of the earliest and the latest.
    pub span: Option<(Wall, Wall)>,
    /// Whether any time has a fraction of a second. Else the log knows whole seconds, and requests
    /// of one second may have come at any moment of it.
    pub fractions: bool,
    /// Requests by method.
    pub methods: Tops,
    /// Requests by status, 0 ..= 999.
    pub statuses: BTreeMap<u16, u64>,
    /// Sizes of answers.
    pub sizes: Sizes,
    /// Requests of each hour.
    pub hours: Hours,
    /// Requests by agent; those without one are not counted here.
    pub agents: Tops,
    /// Distinct targets, queries included.
    pub targets: Distinct,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            requests: 0,
            span: None,
            fractions: false,
            methods: Tops::new(METHODS),
            statuses: BTreeMap::new(),
            sizes: Sizes::default(),
            hours: Hours::default(),
            agents: Tops::new(AGENTS),
            targets: Distinct::default(),
        }
    }
}

impl Summary {
    /// Counts a request and its agent.
    pub fn add(&mut self, facts: &Facts<'_>, agent: Option<&str>) {
        self.requests += 1;
        self.span = Some(match self.span {
            Some((first, last)) => (first.min(facts.at), last.max(facts.at)),
            None => (facts.at, facts.at),
        });
        self.fractions |= facts.at.0 % 1000 != 0;
        self.methods.add(facts.method, 1);
        *self.statuses.entry(facts.status).or_default() += 1;
        self.sizes.add(facts.bytes);
        self.hours.add(facts.at, facts.utc_offset, 1);
        self.targets.add(facts.target);
        if let Some(agent) = agent {
            self.agents.add(agent, 1);
        }
    }

    /// As new, room kept.
    pub(crate) fn clear(&mut self) {
        self.requests = 0;
        self.span = None;
        self.fractions = false;
        self.methods.clear();
        self.statuses.clear();
        self.sizes = Sizes::default();
        self.hours.clear();
        self.agents.clear();
        self.targets = Distinct::default();
    }

    /// Adds another's requests.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.span = match (self.span, other.span) {
            (Some((first, last)), Some((from, to))) => Some((first.min(from), last.max(to))),
            (one, other) => one.or(other),
        };
        self.fractions |= other.fractions;
        self.methods.merge(&other.methods);
        for (&status, requests) in &other.statuses {
            *self.statuses.entry(status).or_default() += requests;
        }
        self.sizes.merge(&other.sizes);
        self.hours.merge(&other.hours);
        self.agents.merge(&other.agents);
        self.targets.merge(&other.targets);
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
