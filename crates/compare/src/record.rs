//! What is kept of a run: one line of `runs.jsonl`.

use std::collections::BTreeMap;

use nightwatt_energy::energy::Provenance;
use nightwatt_meters::Scope;
use serde::{Deserialize, Serialize};

use crate::pure::experiment::Step;

/// One run, measured or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// From 1, in the order in which they were run. What it left is in `runs/NUMBER`.
    pub number: u32,
    /// Each block has every cell once.
    pub block: u32,
    /// Which combination, by its place in the plan's.
    pub cell: usize,
    /// From 0: how often this was tried before in this block.
    pub attempt: u32,
    /// Civil time at its start, RFC 3339.
    pub began: String,
    /// Wall-clock time of the measured command, s; of several copies from the first start to the last end.
    pub elapsed_s: f64,
    /// Why it failed; null of one that did not.
    pub failed: Option<String>,
    /// What the tool said and what was computed from it and the meters. Of several copies rates and bytes
    /// are summed, all else is the mean.
    pub figures: Vec<RunFigure>,
    /// Response times, if the tool tells them: pairs of a percentage of responses and the time within
    /// which they came, s. Percentages are of the responses that came.
    pub percentiles: Vec<(f64, f64)>,
    /// The share of operations that these are: done / (done + errors). 1 where the tool tells no operations.
    #[serde(default = "all")]
    pub answered: f64,
    /// Requests that were answered with an error, too late or not at all.
    pub errors: u64,
    /// Every channel of every meter. They may contain each other: never sum them.
    pub channels: Vec<ChannelRecord>,
    /// Settings of this machine at the time.
    pub settings: BTreeMap<String, String>,
    /// What the environment says of itself.
    pub facts: BTreeMap<String, String>,
    /// What the reader has to know.
    pub warnings: Vec<String>,
}

fn all() -> f64 {
    1.0
}

/// A number with its name and unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFigure {
    /// As the tool calls it, or as `compare` does.
    pub name: String,
    /// The number.
    pub value: f64,
    /// In which unit.
    pub unit: String,
    /// Is more of it better?
    pub better: Better,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is.
    Higher,
    /// Less is.
    Lower,
    /// It is what it is.
    Neither,
}

/// What a channel said of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// The meter, as the user calls it.
    pub meter: String,
    /// The channel of that meter.
    pub channel: String,
    /// What it covers.
    pub scope: Scope,
    /// Measured or modelled, and by what.
    pub provenance: Provenance,
    /// Mean power of what is known of the time that counts, W; null where nothing is, or of what is
    /// measured too little.
    pub watts: Option<f64>,
    /// How far that may be off by the meter itself, W, at 95 %: the same way in every run.
    pub accuracy_w: Option<f64>,
    /// The time that counts, s.
    pub window_s: f64,
    /// Share of it of which the power is known.
    pub coverage: f64,
    /// Readings.
    pub readings: u64,
}

impl RunRecord {
    /// A run that begins at this civil time, in nanoseconds since 1970.
    pub fn begin(number: u32, step: &Step, wall_ns: i64) -> Self {
        Self {
            number,
            block: step.block,
            cell: step.cell,
            attempt: step.attempt,
            began: super::civil(wall_ns),
            elapsed_s: 0.0,
            failed: None,
            figures: Vec::new(),
            percentiles: Vec::new(),
            answered: 1.0,
            errors: 0,
            channels: Vec::new(),
            settings: BTreeMap::new(),
            facts: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}
