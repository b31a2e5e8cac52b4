//! The scenario: that of a file or the default one, with the options applied.

use std::path::PathBuf;

use clap::ValueHint;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_savings::scenario_file;

use crate::errors::Failure;
use crate::written;

/// What a command is to take for granted.
#[derive(Debug, clap::Args)]
pub(crate) struct ScenarioArgs {
    #[arg(long, value_name = "POLICY", help = policy_help())]
    pub(crate) policy: Option<PolicyChoice>,
    /// Set no SLA: sleep even if requests have to wait
    #[arg(long)]
    pub(crate) no_sla: bool,
    /// Server, proxy, SLA, cache and policy, as in `[scenario]` of a configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: Option<PathBuf>,
}

fn policy_help() -> String {
    format!("When the server sleeps: {}", written::as_words(PolicyChoice::EXAMPLES))
}

impl ScenarioArgs {
    /// Reads the file, if one is named, and applies the options.
    pub(crate) fn resolve(&self) -> Result<Scenario, Failure> {
        let mut scenario = match &self.scenario {
            None => Scenario::default(),
            Some(path) => scenario_file::read(path)
                .map_err(|error| Failure::usage(&error).hint(error.hint()))?,
        };
        nightwatt_gateway::config::read_holidays(&mut scenario)
            .map_err(|why| Failure::saying(format!("`holidays`: {why}")).into_usage())?;
        if let Some(policy) = &self.policy {
            scenario.policy = policy.clone();
        }
        if self.no_sla {
            scenario.sla.enabled = false;
        }
        let named = self.scenario.as_ref().map(|path| format!("correct it in {}", path.display()));
        scenario.check().map_err(|bad| Failure::usage(&bad).maybe_hint(named.as_deref()))?;
        Ok(scenario)
    }
}
