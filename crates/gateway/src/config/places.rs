//! Where a gateway is to be found.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Config;
use crate::error::ConfigError;

impl Config {
    /// Where the gateway answers that runs with this file, even if the file cannot be used any more but
    /// still says that.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn find_control_socket(path: &Path) -> Result<PathBuf, ConfigError> {
        #[derive(Deserialize)]
        struct Places {
            #[serde(default = "super::default_state_dir")]
            state_dir: PathBuf,
            control_socket: Option<PathBuf>,
        }

        Self::load(path).map(|config| config.control_socket()).or_else(|error| {
            let text = std::fs::read_to_string(path).ok();
            let places = text.and_then(|text| toml::from_str::<Places>(&text).ok());
            let places = places.ok_or(error)?;
            Ok(places.control_socket.unwrap_or_else(|| places.state_dir.join("control.sock")))
        })
    }

    /// The path of the control socket.
    pub fn control_socket(&self) -> PathBuf {
        self.control_socket.clone().unwrap_or_else(|| self.state_dir.join("control.sock"))
    }
}
