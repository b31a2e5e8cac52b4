//! Reads a scenario from a file of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nightwatt_host::ConfigError;
use nightwatt_policy::scenario::{BadValue, Scenario};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Why a file is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is missing or may not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It has something else in it.
    #[error("{} is not a scenario\n{place}", path.display())]
    NoScenario {
        /// Which.
        path: PathBuf,
        /// What is wrong, with the line.
        place: String,
    },
}

impl Error {
    /// What to do next.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => {
                "`--scenario FILE` says where it is; without it the default is taken"
            }
            Self::NoScenario { .. } => {
                "write what a configuration has under `[scenario]`: tables as `[server]`"
            }
        }
    }
}

/// A file with the table that a configuration has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Headed {
    scenario: Scenario,
}

/// Whether `[scenario]` is all that the file has: it is a scenario, under the name that it has in a configuration.
pub fn is_headed(text: &str) -> bool {
    let table: toml::Table = text.parse().unwrap_or_default();
    table.keys().eq(["scenario"])
}

/// Reads a scenario, with or without `[scenario]` around it. Values that cannot be true are for [`Scenario::check`].
pub fn read(path: &Path) -> Result<Scenario, Error> {
    let text =
        fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    if is_headed(&text) {
        return parse(path, &text, |it: Headed| it.scenario);
    }
    parse(path, &text, |it: Scenario| it)
}

fn parse<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    scenario: fn(T) -> Scenario,
) -> Result<Scenario, Error> {
    toml::from_str(text).map(scenario).map_err(|error| Error::NoScenario {
        path: path.to_owned(),
        place: ConfigError::syntax::<T>(&path.display().to_string(), text, &error).to_string(),
    })
}

/// A value of a file that cannot be true, with its line.
pub fn bad_value(path: &Path, bad: &BadValue) -> ConfigError {
    // A file that is gone by now has no line to show.
    let text = fs::read_to_string(path).unwrap_or_default();
    let key = if is_headed(&text) { format!("scenario.{}", bad.key) } else { bad.key.to_owned() };
    ConfigError::value(&path.display().to_string(), &text, &key, bad.to_string())
}
