//! What can go wrong with an examination.

/// Why a machine could not be examined.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine does not do what it is told.
    #[error("{what}{cause}")]
    Driven {
        /// What it does not do.
        what: &'static str,
        /// What its controller says, if anything.
        cause: String,
    },
    /// The controller cannot be built.
    #[error("the server's controller cannot be built: {0}")]
    Power(#[from] nightwatt_power::ConfigError),
    /// The server cannot be started or stopped.
    #[error("the server cannot be controlled: {0}")]
    Control(#[from] nightwatt_power::Error),
    /// The runtime or a socket.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Driven { .. } => Some(
                "try the controller by itself: `nightwatt sleep` and `nightwatt wake` while `serve` runs",
            ),
            Self::Power(error) => Some(error.hint()),
            Self::Control(error) => Some(error.hint()),
            Self::System { .. } => None,
        }
    }
}
