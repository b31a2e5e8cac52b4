//! Arguments that several functions share, checked as the command line checks its options.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nightwatt_host::explained::Explained;
use nightwatt_policy::scenario::Scenario;
use nightwatt_savings::scenario_file;
use nightwatt_traffic::Reading;
use pyo3::prelude::*;

use crate::failure::{Kind, raised, usage};

/// Logs: where each is read, and what it is called if that is not its path.
pub(crate) type Logs = Vec<(PathBuf, Option<String>)>;

/// What logs are called that have another name than their path.
pub(crate) fn names(logs: &Logs) -> BTreeMap<PathBuf, String> {
    logs.iter().filter_map(|(path, name)| Some((path.clone(), name.clone()?))).collect()
}

/// The paths alone.
pub(crate) fn paths(logs: Logs) -> Vec<PathBuf> {
    logs.into_iter().map(|(path, _)| path).collect()
}

/// How logs are to be read.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReadingArgs {
    format: Option<String>,
    log_format: Option<String>,
    client_from: Option<String>,
}

impl ReadingArgs {
    pub(crate) fn reading(&self, py: Python<'_>) -> PyResult<Reading> {
        if self.format.is_some() && self.log_format.is_some() {
            let both = Explained::new("`format` cannot be used with `log_format`");
            return Err(raised(py, Kind::Usage, &both));
        }
        let client_from = self.client_from.as_deref().map(parsed(py)).transpose()?;
        Ok(Reading {
            format: self.format.as_deref().map(parsed(py)).transpose()?,
            pattern: self.log_format.as_deref().map(parsed(py)).transpose()?,
            client_from: client_from.unwrap_or_default(),
        })
    }
}

fn parsed<T: std::str::FromStr<Err = nightwatt_traffic::Error>>(
    py: Python<'_>,
) -> impl Fn(&str) -> PyResult<T> {
    move |text| text.parse().map_err(|error| usage(py, &error, None))
}

/// Server, proxy, SLA, cache and policy.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ScenarioArgs {
    /// A file.
    path: Option<PathBuf>,
    /// What would be in that file, as JSON.
    json: Option<String>,
    policy: Option<String>,
    sla: bool,
}

impl ScenarioArgs {
    pub(crate) fn scenario(&self, py: Python<'_>) -> PyResult<Scenario> {
        let mut scenario = match (&self.path, &self.json) {
            (Some(path), _) => scenario_file::read(path)
                .map_err(|error| usage(py, &error, Some(error.hint())))?,
            (None, Some(json)) => serde_json::from_str(json).map_err(|error| {
                let what = Explained::because("`scenario` is not a scenario", &error);
                let hint = "write what a configuration has under `[scenario]`: a dict for each table, as `server`";
                raised(py, Kind::Usage, &what.maybe_hint(Some(hint)))
            })?,
            (None, None) => Scenario::default(),
        };
        if let Some(policy) = &self.policy {
            scenario.policy = policy
                .parse()
                .map_err(|error: String| raised(py, Kind::Usage, &Explained::new(error)))?;
        }
        scenario.sla.enabled &= self.sla;
        let hint = self.path.as_ref().map(|path| format!("correct it in {}", path.display()));
        scenario.check().map_err(|bad| usage(py, &bad, hint.as_deref()))?;
        Ok(scenario)
    }
}
