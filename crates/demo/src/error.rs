//! What can go wrong with the demo.

use std::path::PathBuf;

/// Why the demo could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] nightwatt_traffic::error::Error),
    /// There is nothing to replay.
    #[error("{0} holds no request that could be replayed")]
    Empty(String),
    /// The scenario cannot be true.
    #[error("the scenario is wrong: {0}")]
    Scenario(#[from] nightwatt_policy::scenario::BadValue),
    /// A file or folder.
    #[error("cannot use {path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The runtime or a socket.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The proxy's configuration: a bug of the demo.
    #[error("the demo's own configuration is wrong: {0}")]
    Config(#[from] nightwatt_gateway::ConfigError),
    /// The proxy would not start.
    #[error("the proxy would not start: {0}")]
    Gateway(#[from] nightwatt_gateway::StartError),
    /// The controller cannot be built.
    #[error("the server's controller cannot be built: {0}")]
    Power(#[from] nightwatt_power::ConfigError),
    /// The server cannot be started or stopped.
    #[error("the server cannot be controlled: {0}")]
    Control(#[from] nightwatt_power::Error),
    /// The server ended, or never listened.
    #[error("the demo's server did not come up: what it said is in {0}")]
    NoServer(PathBuf),
    /// The replay.
    #[error(transparent)]
    Replay(#[from] nightwatt_load::Error),
}

impl Error {
    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty(_) => Some(
                "name an access log in the Combined or Common format, or leave `--log` out for a generated day",
            ),
            Self::File { .. } => Some("choose another folder with `--output`"),
            Self::Gateway(error) => error.hint(),
            Self::Power(error) => Some(error.hint()),
            Self::Control(error) => Some(error.hint()),
            Self::NoServer(_) => Some("with `--output DIR` that file is kept"),
            _ => None,
        }
    }
}
