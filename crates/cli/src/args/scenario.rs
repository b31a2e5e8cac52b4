//! The scenario: that of a file or the default one, with the options applied.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_gateway::config::{OddEvents, read_holidays};
use nightwatt_policy::scenario::{Scenario, SlaRule};
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_savings::analyze::Tables;
use nightwatt_savings::scenario_file;

use super::{ConfigArgs, SiteScenario};
use crate::commands::init::sla;
use crate::errors::Failure;
use crate::{control, values};

/// What a command is to take for granted.
#[derive(Debug, clap::Args)]
pub(crate) struct ScenarioArgs {
    #[arg(long, value_name = "POLICY", help = policy_help())]
    pub(crate) policy: Option<PolicyChoice>,
    /// Set no SLA: sleep even if requests have to wait
    #[arg(long)]
    pub(crate) no_sla: bool,
    /// SLA: visits a day that may wait (3), longest wait (10s), both ('3 10s'), tenth (of all requests) or any
    #[arg(long, value_name = "SLA", value_parser = sla::rule, conflicts_with = "no_sla")]
    pub(crate) sla: Option<SlaRule>,
    /// Server, proxy, SLA, cache and policy: a file with what a configuration has in `[scenario]`, or a
    /// whole configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: Option<PathBuf>,
}

fn policy_help() -> String {
    format!("When the server sleeps: {}", values::as_words(PolicyChoice::EXAMPLES))
}

impl ScenarioArgs {
    /// Where the figures stand, if the file is a whole configuration.
    pub(crate) fn tables(&self) -> Option<Tables> {
        let path = self.scenario.as_deref().filter(|path| is_configuration(path))?;
        let config = control::load(&ConfigArgs { config: path.to_owned() }).ok()?;
        SiteScenario::of(&config, None).ok()?.named(path).tables()
    }

    /// Reads the file, if one is named, and applies the options.
    pub(crate) fn resolve(&self) -> Result<Scenario, Failure> {
        let scenario = self.scenario.as_deref().map_or_else(|| Ok(Scenario::default()), read)?;
        self.applied_to(scenario)
    }

    /// A scenario with the options.
    pub(crate) fn applied_to(&self, mut scenario: Scenario) -> Result<Scenario, Failure> {
        read_holidays(&mut scenario, OddEvents::Refuse)
            .map_err(|why| Failure::new(format!("`holidays`: {why}")).into_usage())?;
        if let Some(policy) = &self.policy {
            scenario.policy = policy.clone();
        }
        if self.no_sla {
            scenario.sla.enabled = false;
        }
        if let Some(sla) = self.sla.clone() {
            let SlaRule { delay, window, .. } = scenario.sla;
            scenario.sla = SlaRule { delay, window, ..sla };
        }
        scenario.check().map_err(|bad| match &self.scenario {
            Some(path) => Failure::usage(&scenario_file::bad_value(path, &bad)),
            None => Failure::usage(&bad),
        })?;
        Ok(scenario)
    }
}

/// Reads a file with a scenario, which may also be a whole configuration.
fn read(path: &Path) -> Result<Scenario, Failure> {
    if is_configuration(path) {
        let config = control::load(&ConfigArgs { config: path.to_owned() })?;
        return Ok(SiteScenario::of(&config, None)?.scenario);
    }
    scenario_file::read(path).map_err(|error| Failure::usage(&error).hint(error.hint()))
}

/// Whether a file has tables of a configuration. What cannot be read is no configuration, and left to its reader.
fn is_configuration(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let table: toml::Table = text.parse().unwrap_or_default();
    !scenario_file::is_headed(&text)
        && ["site", "scenario", "listen", "machine", "tcp"]
            .iter()
            .any(|key| table.contains_key(*key))
}
