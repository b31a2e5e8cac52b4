//! The plan as a TOML file. Every table refuses keys it does not know; errors name file, line and what
//! would be right.

use std::collections::BTreeSet;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_host::ConfigError;
use nightwatt_meters::MeterSpec;
use serde::Deserialize;
use toml::Value;

use super::factor::FactorFile;
use super::workload::WorkloadFile;
use super::{Axis, EnvironmentPlan, Factor, Plan, Reader, Runs, Workload, Wrong};
use crate::error::Error;
use crate::lines::{self, Names};

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Heading of the report; default: the file's name.
    pub title: Option<String>,
    /// What is compared: `environment`, or the name of a factor.
    #[serde(default = "environment")]
    pub compare: String,
    /// The environment (or the factor's value) that is 100 %; default: the first.
    pub baseline: Option<Value>,
    /// The figure that runs are repeated for; default: energy per operation, or the energy of a run.
    pub figure: Option<String>,
    /// Differences up to this share are none worth speaking of.
    #[serde(default = "three_percent")]
    pub margin: f64,
    /// Which channel of which meter the energy is read from, as `METER/CHANNEL`; default: the one that
    /// says most of the machine.
    pub energy: Option<String>,
    /// Meters, as `--meter` has them; default: those of this machine.
    #[serde(default)]
    pub meters: Vec<String>,
    /// Time between two readings.
    #[serde(default, with = "optional_duration")]
    pub interval: Option<Duration>,
    /// For how long each environment is measured idle, once a block.
    #[serde(default, with = "optional_duration")]
    pub idle: Option<Duration>,
    /// Of the order of runs.
    #[serde(default = "first")]
    pub seed: u64,
    /// How often, and how long.
    #[serde(default)]
    pub runs: RunsFile,
    /// From where the load comes; default: from this machine.
    pub client: Option<toml::Table>,
    /// By which it reaches this machine.
    pub address: Option<String>,
    /// Where the work is done: one or more.
    #[serde(default)]
    pub environment: Vec<toml::Table>,
    /// What else is varied.
    #[serde(default)]
    pub factor: Vec<FactorFile>,
    /// What is done: one or more.
    #[serde(default)]
    pub workload: Vec<WorkloadFile>,
}

/// Repetitions and times, as the plan file has them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunsFile {
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
    /// When an environment is restarted.
    pub restart: Restart,
    /// Readings in this time at the beginning of a run do not count.
    #[serde(with = "duration_text")]
    pub trim_first: Duration,
    /// The same at its end.
    #[serde(with = "duration_text")]
    pub trim_last: Duration,
    /// A run that takes longer has failed.
    #[serde(with = "duration_text")]
    pub time_limit: Duration,
    /// The machine rests for this time before each run.
    #[serde(with = "duration_text")]
    pub rest: Duration,
}

impl Default for RunsFile {
    fn default() -> Self {
        Self {
            least: 8,
            most: 30,
            precision: 0.03,
            warm_ups: 1,
            retries: 1,
            restart: Restart::Block,
            trim_first: Duration::ZERO,
            trim_last: Duration::ZERO,
            time_limit: Duration::from_mins(30),
            rest: Duration::ZERO,
        }
    }
}

/// When an environment is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Once a block.
    Block,
    /// Before every run.
    Run,
}

fn environment() -> String {
    "environment".to_owned()
}

const fn three_percent() -> f64 {
    0.03
}

const fn first() -> u64 {
    1
}

/// `"5 s"`, or nothing.
mod optional_duration {
    use super::{Duration, duration_text};
    use serde::Deserializer;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        duration_text::deserialize(deserializer).map(Some)
    }
}

impl PlanFile {
    /// Reads a plan; `name` is what errors call it, `title` what the report does if the plan does not say.
    pub fn read(name: &str, title: &str, text: &str) -> Result<Plan, Error> {
        let file: Self = toml::from_str(text)
            .map_err(|error| ConfigError::syntax::<Self>(name, text, &error))?;
        let plan = file.resolve(title, text);
        plan.map_err(|it| ConfigError::value(name, text, &it.key, it.text).into())
    }

    fn resolve(self, title: &str, text: &str) -> Result<Plan, Wrong> {
        self.check_numbers()?;
        let environments = self.environments()?;
        let workloads = self.workloads()?;
        let factors = self.factors(&environments, &workloads)?;
        Self::check_lines(&factors, &workloads)?;
        let axis = self.axis(&factors)?;
        let baseline = self.baseline(axis, &environments, &factors)?;
        let meters: Result<Vec<MeterSpec>, Wrong> = (self.meters.iter().enumerate())
            .map(|(index, text)| {
                let wrong = |error: String| Wrong::new(format!("meters.{index}"), error);
                let spec: MeterSpec = text.parse().map_err(|error| wrong(format!("{error}")))?;
                nightwatt_meters::driver(&spec.driver).map_err(|error| wrong(error.to_string()))?;
                Ok(spec)
            })
            .collect();
        let plan = Plan {
            title: self.title.clone().unwrap_or_else(|| title.to_owned()),
            text: text.to_owned(),
            axis,
            baseline,
            figure: self.figure.clone(),
            margin: self.margin,
            energy: self.energy.clone(),
            meters: meters?,
            interval: self.interval,
            idle: self.idle,
            seed: self.seed,
            runs: Runs::of(&self.runs),
            client: self.client.as_ref().map(EnvironmentPlan::of),
            address: self.address.clone(),
            environments,
            factors,
            workloads,
            cells: Vec::new(),
        };
        let plan = plan.with_cells().map_err(|message| Wrong::new("workload", message))?;
        check_environments(&plan)?;
        Ok(plan)
    }

    fn check_numbers(&self) -> Result<(), Wrong> {
        let share = |key: &str, value: f64| {
            let is_share = value > 0.0 && value < 1.0;
            let message = format!("{value} is no share: 3 % is written 0.03");
            if is_share { Ok(()) } else { Err(Wrong::new(key, message)) }
        };
        share("margin", self.margin)?;
        let trimmed = self.runs.trim_first + self.runs.trim_last;
        if !trimmed.is_zero() && trimmed >= self.runs.time_limit {
            let message = "with `trim_last` it takes as much as `time_limit` allows: nothing would be left that counts";
            return Err(Wrong::new("runs.trim_first", message));
        }
        share("runs.precision", self.runs.precision)?;
        if self.runs.least < 3 {
            return Err(Wrong::new(
                "runs.least",
                "how surely a mean is known takes 3 runs at least; 8 are better",
            ));
        }
        if self.runs.most > 1000 {
            return Err(Wrong::new("runs.most", "is 1000 at most"));
        }
        if self.runs.most < self.runs.least {
            let (most, least) = (self.runs.most, self.runs.least);
            return Err(Wrong::new("runs.most", format!("{most} is below `least`, {least}")));
        }
        for (key, time) in [("interval", self.interval), ("idle", self.idle)] {
            if time.is_some_and(|time| time.is_zero()) {
                return Err(Wrong::new(key, "takes some time; leave it out or say how much"));
            }
        }
        if self.runs.time_limit.is_zero() {
            return Err(Wrong::new(
                "runs.time_limit",
                "a run takes some time; leave it out or say how much",
            ));
        }
        Ok(())
    }

    fn environments(&self) -> Result<Vec<EnvironmentPlan>, Wrong> {
        if self.environment.is_empty() {
            let message = "no environment is given: add an `[[environment]]`";
            return Err(Wrong::new("environment", message));
        }
        let mut all: Vec<EnvironmentPlan> = Vec::new();
        for (index, table) in self.environment.iter().enumerate() {
            let environment = EnvironmentPlan::of(table);
            if all.iter().any(|other| other.name == environment.name) {
                let message =
                    format!("`{}` is there twice; rows need different names", environment.name);
                return Err(Wrong::new(format!("environment.{index}.name"), message));
            }
            all.push(environment);
        }
        Ok(all)
    }

    fn workloads(&self) -> Result<Vec<Workload>, Wrong> {
        if self.workload.is_empty() {
            return Err(Wrong::new("workload", "no workload is given: add a `[[workload]]`"));
        }
        let environments: Vec<EnvironmentPlan> =
            self.environment.iter().map(EnvironmentPlan::of).collect();
        let names: Vec<&str> = environments.iter().map(|it| it.name.as_str()).collect();
        let mut seen = BTreeSet::new();
        let workload = |(index, file): (usize, &WorkloadFile)| {
            let key = |key: &str| format!("workload.{index}.{key}");
            if !seen.insert(file.name.clone()) {
                let message = format!("`{}` is there twice; rows need different names", file.name);
                return Err(Wrong::new(key("name"), message));
            }
            known(&file.environments, &names)
                .map_err(|why| Wrong::new(key("environments"), why))?;
            let reader = Reader::of(&file.tool, file.read.as_ref());
            let reader = reader.map_err(|it| it.within(format_args!("workload.{index}")))?;
            if file.ready.is_some() && file.serve.is_none() {
                return Err(Wrong::new(key("ready"), "there is no `serve` to wait for"));
            }
            Ok(Workload::of(file, reader))
        };
        self.workload.iter().enumerate().map(workload).collect()
    }

    fn factors(
        &self,
        environments: &[EnvironmentPlan],
        workloads: &[Workload],
    ) -> Result<Vec<Factor>, Wrong> {
        let mut all: Vec<Factor> = Vec::new();
        for (index, file) in self.factor.iter().enumerate() {
            let key = |key: &str| format!("factor.{index}.{key}");
            if !lines::is_name(&file.name) || lines::RESERVED.contains(&file.name.as_str()) {
                let why = "is no name for a factor: take a lower-case word that is not one of nightwatt's";
                let all = lines::RESERVED.join(", ");
                return Err(Wrong::new(key("name"), format!("`{}` {why} ({all})", file.name)));
            }
            if all.iter().any(|other| other.name == file.name) {
                return Err(Wrong::new(key("name"), format!("`{}` is there twice", file.name)));
            }
            let names: Vec<&str> = environments.iter().map(|it| it.name.as_str()).collect();
            known(&file.environments, &names)
                .map_err(|why| Wrong::new(key("environments"), why))?;
            let names: Vec<&str> = workloads.iter().map(|it| it.name.as_str()).collect();
            known(&file.workloads, &names).map_err(|why| Wrong::new(key("workloads"), why))?;
            let factor = Factor::of(file, environments, workloads);
            all.push(factor.map_err(|it| it.within(format_args!("factor.{index}")))?);
        }
        Ok(all)
    }

    /// Placeholders in lines are those that there are.
    fn check_lines(factors: &[Factor], workloads: &[Workload]) -> Result<(), Wrong> {
        for (index, workload) in workloads.iter().enumerate() {
            let names: Vec<&str> = factors
                .iter()
                .filter(|it| it.applies_to(index))
                .map(|it| it.name.as_str())
                .collect();
            for (key, line) in workload.lines() {
                lines::check(line, &Names { factors: &names })
                    .map_err(|message| Wrong::new(format!("workload.{index}.{key}"), message))?;
            }
        }
        Ok(())
    }

    fn axis(&self, factors: &[Factor]) -> Result<Axis, Wrong> {
        if self.compare == "environment" {
            return Ok(Axis::Environment);
        }
        let place = factors.iter().position(|factor| factor.name == self.compare);
        place.map(Axis::Factor).ok_or_else(|| {
            let names: Vec<_> = factors.iter().map(|factor| format!("`{}`", factor.name)).collect();
            let all = names.join(", ");
            let message =
                format!("`{}` is neither `environment` nor a factor ({all})", self.compare);
            Wrong::new("compare", message)
        })
    }

    fn baseline(
        &self,
        axis: Axis,
        environments: &[EnvironmentPlan],
        factors: &[Factor],
    ) -> Result<usize, Wrong> {
        let names: Vec<String> = match axis {
            Axis::Environment => environments.iter().map(|it| it.name.clone()).collect(),
            Axis::Factor(factor) => factors[factor].values.clone(),
        };
        let Some(wanted) = &self.baseline else { return Ok(0) };
        let wanted = super::word(wanted).unwrap_or_default();
        let place = names.iter().position(|name| *name == wanted);
        place.ok_or_else(|| {
            Wrong::new(
                "baseline",
                format!("`{wanted}` is not one of those compared: {}", names.join(", ")),
            )
        })
    }
}

/// Every environment is one, with every option that it is given; those within others find them.
fn check_environments(plan: &Plan) -> Result<(), Wrong> {
    if let Some(client) = &plan.client {
        let client = client.config([]).map_err(|why| Wrong::new("client", why))?;
        if client.common.copies > 1 || client.common.within.is_some() {
            return Err(Wrong::new("client", "there is one client, and it is within nothing else"));
        }
        if plan.address.is_none() && plan.environments.iter().any(|it| !it.is_elsewhere()) {
            let message =
                "say by `address` how it reaches this machine: the plan's servers are here";
            return Err(Wrong::new("client", message));
        }
    }
    let names: Vec<&str> = plan.environments.iter().map(|it| it.name.as_str()).collect();
    for cell in &plan.cells {
        let key = format!("environment.{}", cell.environment);
        let config = plan.config(cell).map_err(|why| Wrong::new(key.clone(), why))?;
        if let Some(outer) = config.common.within.filter(|outer| !names.contains(&outer.as_str())) {
            let all = names.join(", ");
            let message = format!("there is no environment `{outer}` to be within, but {all}");
            return Err(Wrong::new(format!("{key}.within"), message));
        }
    }
    let outer = |name: &str| {
        let it = plan.environments.iter().find(|it| it.name == name)?;
        it.table.get("within")?.as_str()
    };
    for (index, environment) in plan.environments.iter().enumerate() {
        // As many steps outwards as there are environments come back to one of them.
        let steps = (0..=names.len()).try_fold(environment.name.as_str(), |at, _| outer(at));
        if steps.is_some() {
            let message =
                format!("`{}` is within itself, by way of others or not", environment.name);
            return Err(Wrong::new(format!("environment.{index}.within"), message));
        }
    }
    Ok(())
}

/// All names are known ones.
fn known(names: &[String], known: &[&str]) -> Result<(), String> {
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("`{name}` is not in the plan, but {}", known.join(", "))),
    }
}
