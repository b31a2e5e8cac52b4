//! What is compared: environments x workloads x factors, each combination of which is a cell.

mod cells;
mod commands;
mod factor;
mod file;
mod workload;
mod wrong_value;

use std::time::Duration;

use nightwatt_environments::EnvironmentConfig;
use nightwatt_environments::settings::Setting;
use nightwatt_meters::MeterSpec;
use serde::Deserialize;
use toml::Value;

pub(crate) use cells::{Cell, MAIN, SetupKey};
pub use commands::Commands;
pub(crate) use factor::{Factor, FactorKind};
pub use file::PlanFile;
use file::Restart;
pub use workload::Reader;
pub(crate) use workload::{Site, Workload};
pub use wrong_value::Wrong;

/// What the results in a folder are of.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The plan, as it was read.
    pub text: &'a str,
    /// How many cells it has.
    pub cells: usize,
    /// The fact of a run that names what it is of, for plans that may change between runs. Without one, runs are of
    /// the cells of one plan.
    pub key: Option<&'static str>,
}

/// A plan that was read and checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Heading of the report.
    pub title: String,
    /// The file, as it was read: who goes on with a plan must have the same.
    pub text: String,
    /// What is compared.
    pub axis: Axis,
    /// Which of them is 100 %.
    pub baseline: usize,
    /// The figure that runs are repeated for; default: energy per operation, or of a run.
    pub figure: Option<String>,
    /// Differences up to this share are none worth speaking of.
    pub margin: f64,
    /// Where the energy is read, as `METER/CHANNEL`.
    pub energy: Option<String>,
    /// Meters; none: those of this machine.
    pub meters: Vec<MeterSpec>,
    /// Time between two readings.
    pub interval: Option<Duration>,
    /// For how long each environment is measured idle, once a block.
    pub idle: Option<Duration>,
    /// Of the order of runs.
    pub seed: u64,
    /// How often, and how long.
    pub runs: Runs,
    /// From where the load comes; default: from this machine.
    pub client: Option<EnvironmentPlan>,
    /// By which that reaches this machine, if it is another.
    pub address: Option<String>,
    /// Where the work is done.
    pub environments: Vec<EnvironmentPlan>,
    /// What else is varied.
    pub factors: Vec<Factor>,
    /// What is done.
    pub workloads: Vec<Workload>,
    /// All combinations that there are.
    pub cells: Vec<Cell>,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Environments.
    Environment,
    /// Values of this factor.
    Factor(usize),
}

/// Repetitions and times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Runs {
    /// Minimum number of runs of each cell.
    pub least: u32,
    /// Maximum number of runs of each cell.
    pub most: u32,
    /// Half of the 95 % interval is to be within this share of the mean.
    pub precision: f64,
    /// Unmeasured runs before the first measured one of a workload that was just made ready.
    pub warm_ups: u32,
    /// How many times a failed run is tried again.
    pub retries: u32,
    /// Is an environment restarted before every run?
    pub restart_each: bool,
    /// Time at the beginning of a run that does not count for the power.
    pub trim_first: Duration,
    /// The same at its end.
    pub trim_last: Duration,
    /// A run that takes longer has failed.
    pub time_limit: Duration,
    /// The machine rests for this time before each run.
    pub rest: Duration,
}

/// An environment of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentPlan {
    /// As tables call it.
    pub name: String,
    /// What it is, and its options.
    pub table: toml::Table,
}

impl EnvironmentPlan {
    /// This machine, as it is.
    pub(crate) fn host(name: &str) -> Self {
        let pairs = [("name", name), ("kind", "host")];
        let table = pairs.map(|(key, value)| (key.to_owned(), Value::from(value)));
        Self { name: name.to_owned(), table: toml::Table::from_iter(table) }
    }

    /// Of a table of the plan. Without a name it is called what it is.
    fn of(table: &toml::Table) -> Self {
        let word = |key| table.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = word("name").or_else(|| word("kind")).unwrap_or_default();
        let mut table = table.clone();
        table.entry("name").or_insert_with(|| name.clone().into());
        Self { name, table }
    }

    /// What it is, with these keys set to other values.
    pub(crate) fn config<'a>(
        &self,
        options: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Result<EnvironmentConfig, String> {
        let mut table = self.table.clone();
        for (key, value) in options {
            table.insert(key.to_owned(), value.clone());
        }
        EnvironmentConfig::deserialize(table).map_err(|error| error.message().trim().to_owned())
    }

    /// Do all of its processes descend from us? A container's are an engine's, and a guest's are its machine's.
    pub(crate) fn starts_processes(&self) -> bool {
        let kind = self.table.get("kind").and_then(Value::as_str);
        let is_within = self.table.contains_key("within");
        kind.is_some_and(|kind| {
            !is_within && ["host", "chroot", "bubblewrap", "netns"].contains(&kind)
        })
    }

    /// Is it another machine, which a meter of this one says nothing of?
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.table.get("kind").and_then(Value::as_str) == Some("ssh")
    }
}

/// A value as lines and tables have it.
pub(crate) fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is) => Some(is.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

impl Plan {
    /// What its results are of.
    pub fn subject(&self) -> Subject<'_> {
        Subject { text: &self.text, cells: self.cells.len(), key: None }
    }

    /// What is compared, in a word.
    pub fn compared(&self) -> &str {
        match self.axis {
            Axis::Environment => "environment",
            Axis::Factor(factor) => &self.factors[factor].name,
        }
    }

    /// What a cell sets on this machine, and to which values.
    pub(crate) fn settings<'a>(
        &'a self,
        cell: &'a Cell,
    ) -> impl Iterator<Item = (&'a Setting, &'a String)> {
        let levels = self.factors.iter().zip(&cell.levels);
        levels.filter_map(|(factor, level)| match &factor.kind {
            FactorKind::Setting(setting) => Some((setting, &factor.values[(*level)?])),
            FactorKind::Word | FactorKind::Option(_) => None,
        })
    }

    /// The environment of a cell, with the options that the cell's levels are.
    pub(crate) fn config(&self, cell: &Cell) -> Result<EnvironmentConfig, String> {
        let levels = self.factors.iter().zip(&cell.levels);
        let options = levels.filter_map(|(factor, level)| match &factor.kind {
            FactorKind::Option(key) => Some((key.as_str(), &factor.raw[(*level)?])),
            FactorKind::Word | FactorKind::Setting(_) => None,
        });
        self.environments[cell.environment].config(options)
    }
}

impl Runs {
    fn of(file: &file::RunsFile) -> Self {
        let file::RunsFile { least, most, precision, warm_ups, retries, restart, .. } = *file;
        let file::RunsFile { trim_first, trim_last, time_limit, rest, .. } = *file;
        let restart_each = restart == Restart::Run;
        Self {
            least,
            most,
            precision,
            warm_ups,
            retries,
            restart_each,
            trim_first,
            trim_last,
            time_limit,
            rest,
        }
    }
}

#[cfg(test)]
mod tests;
