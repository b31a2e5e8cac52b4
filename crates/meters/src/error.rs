//! What can go wrong with meters.

use std::io;
use std::path::PathBuf;

/// Why a meter cannot be used, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    /// There is no driver of that name.
    #[error("there is no meter `{name}`: there are {known}")]
    NoDriver {
        /// As asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// What the user said of the meter is wrong.
    #[error("meter `{meter}`: {why}")]
    Spec {
        /// Its name.
        meter: String,
        /// What is wrong, and what is right.
        why: String,
    },
    /// The machine has no such meter.
    #[error("meter `{meter}`: {why}")]
    Absent {
        /// Its name.
        meter: String,
        /// What was looked for, and not found.
        why: String,
    },
    /// It is there, and may not be read.
    #[error("meter `{meter}`: {what} may not be read")]
    Denied {
        /// Its name.
        meter: String,
        /// What may not be read.
        what: String,
        /// What helps.
        hint: String,
    },
    /// A file, device or connection failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// The meter said what its protocol does not allow.
    #[error("meter `{meter}` gave an answer that cannot be used: {what}")]
    Nonsense {
        /// Its name.
        meter: String,
        /// A short piece of it, and why it is wrong.
        what: String,
    },
    /// It said nothing for too long.
    #[error("meter `{meter}` said nothing for {seconds} s")]
    Silent {
        /// Its name.
        meter: String,
        /// How long.
        seconds: u64,
    },
}

impl MeterError {
    /// A file that could not be read.
    pub fn reading(path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::Io { what: format!("read {}", path.into().display()), error }
    }

    /// What to try next.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Denied { hint, .. } => Some(hint),
            Self::NoDriver { .. } | Self::Absent { .. } => Some(
                "`nightwatt meters` lists what is there, and how to enable what is not; `-m model` \
                     estimates",
            ),
            Self::Silent { .. } => Some("is it plugged in, and is it the right device?"),
            Self::Spec { .. } | Self::Io { .. } | Self::Nonsense { .. } => None,
        }
    }
}
