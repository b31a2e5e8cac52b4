//! What is varied beside the environment.

use nightwatt_environments::settings::Setting;
use serde::Deserialize;
use toml::Value;

use super::{EnvironmentPlan, Workload, Wrong, word};
use crate::lines;

/// Something that is varied, as the plan file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactorFile {
    /// As tables call it, and `{name}` in lines.
    pub name: String,
    /// What it takes.
    pub values: Vec<Value>,
    /// A setting of this machine; else the value stands for `{name}` in lines.
    pub setting: Option<toml::Table>,
    /// A key of environments; else as above.
    pub option: Option<String>,
    /// Only in these environments (of `option`); default: in all.
    #[serde(default)]
    pub environments: Vec<String>,
    /// Only with these workloads; default: with all (of a mere `{name}`: with those whose lines have it).
    #[serde(default)]
    pub workloads: Vec<String>,
}

/// Something that is varied.
#[derive(Debug, Clone)]
pub struct Factor {
    /// As tables call it.
    pub name: String,
    /// What it takes, as lines and tables have it.
    pub values: Vec<String>,
    /// The same, as the plan has it.
    pub raw: Vec<Value>,
    /// What a value does.
    pub kind: FactorKind,
    /// Environments in which it is varied, by their places.
    pub environments: Vec<usize>,
    /// Workloads with which it is varied, by their places.
    pub workloads: Vec<usize>,
}

/// What a value does.
#[derive(Debug, Clone, PartialEq)]
pub enum FactorKind {
    /// It stands for `{name}` in lines.
    Word,
    /// It is a setting of this machine.
    Setting(Setting),
    /// It is a key of environments.
    Option(String),
}

impl Factor {
    /// Of a table of the plan.
    pub(super) fn of(
        file: &FactorFile,
        environments: &[EnvironmentPlan],
        workloads: &[Workload],
    ) -> Result<Self, Wrong> {
        if file.values.is_empty() {
            return Err(Wrong::new("values", "it has no values: name two or more"));
        }
        let kind = match (&file.setting, &file.option) {
            (Some(_), Some(_)) => {
                let why = "a factor is a `setting` of this machine or an `option` of environments";
                return Err(Wrong::new("option", why));
            }
            (Some(table), None) => {
                let setting = Setting::deserialize(table.clone());
                FactorKind::Setting(setting.map_err(|why| Wrong::new("setting", why.message()))?)
            }
            (None, Some(key)) => FactorKind::Option(key.clone()),
            (None, None) => FactorKind::Word,
        };
        let values: Option<Vec<String>> = file.values.iter().map(word).collect();
        let values = match (values, &kind) {
            (Some(values), _) => values,
            // Options may be lists; tables show them as TOML has them.
            (None, FactorKind::Option(_)) => file.values.iter().map(ToString::to_string).collect(),
            (None, _) => {
                return Err(Wrong::new("values", "values are text, numbers, or true and false"));
            }
        };
        if let Some(again) = (1..values.len()).find(|at| values[..*at].contains(&values[*at])) {
            return Err(Wrong::new("values", format!("`{}` is there twice", values[again])));
        }
        let named = |wanted: &[String], name: &str| wanted.iter().any(|it| it == name);
        let is_in = |environment: &EnvironmentPlan| {
            file.environments.is_empty() || named(&file.environments, &environment.name)
        };
        let is_with = |workload: &Workload| match (&kind, file.workloads.is_empty()) {
            (_, false) => named(&file.workloads, &workload.name),
            (FactorKind::Word, true) => {
                workload.lines().any(|(_, line)| lines::has(line, &file.name))
            }
            (_, true) => true,
        };
        let environments = places(environments, is_in);
        let workloads = places(workloads, is_with);
        if workloads.is_empty() {
            let name = &file.name;
            let why = format!("no line of a workload has `{{{name}}}`: what is it to change?");
            return Err(Wrong::new("name", why));
        }
        Ok(Self {
            name: file.name.clone(),
            values,
            raw: file.values.clone(),
            kind,
            environments,
            workloads,
        })
    }

    /// Is it varied with this workload?
    pub(super) fn applies_to(&self, workload: usize) -> bool {
        self.workloads.contains(&workload)
    }
}

fn places<T>(all: &[T], is_wanted: impl Fn(&T) -> bool) -> Vec<usize> {
    all.iter().enumerate().filter(|(_, it)| is_wanted(it)).map(|(place, _)| place).collect()
}
