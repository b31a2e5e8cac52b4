//! What can go wrong with a comparison.

use std::io;
use std::path::PathBuf;

use nightwatt_clock::meter::Stop;
use nightwatt_host::ConfigError;

use crate::pure::experiment::ExperimentError;

/// Why a comparison could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] ConfigError),
    /// Its runs cannot be put in an order.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A meter cannot be used.
    #[error(transparent)]
    Meter(#[from] nightwatt_meters::MeterError),
    /// An environment or setting that all runs need, or what is left of one.
    #[error(transparent)]
    Environment(#[from] nightwatt_environments::Error),
    /// No meter has the channel that the plan reads energy from.
    #[error("no meter has the channel `{wanted}`; there are {}", names.join(", "))]
    NoChannel {
        /// As the plan has it.
        wanted: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// The folder of results.
    #[error("cannot {what} {}: {source}", path.display())]
    Results {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process writes to the folder.
    #[error(
        "{} is in use by another nightwatt; wait for its end, or name another folder by `--output`",
        .0.display()
    )]
    InUse(PathBuf),
    /// Another comparison runs, and this one changes settings.
    #[error(
        "another `nightwatt compare` runs on this machine, and this plan changes its settings: wait for its end"
    )]
    NotAlone,
    /// Another comparison changes settings.
    #[error(
        "another `nightwatt compare` changes settings of this machine while it runs: wait for its end"
    )]
    SettingsChange,
    /// Files of others are there.
    #[error(
        "{} is no folder of results: {why}; name another by `--output`, which need not be there yet", folder.display()
    )]
    NotResults {
        /// Which one.
        folder: PathBuf,
        /// What speaks against it.
        why: &'static str,
    },
    /// Results of another plan are there.
    #[error(
        "{} has results of another plan (or this one was changed since); `--output` names another folder, and \
         `--fresh` forgets what is there", .0.display()
    )]
    OtherPlan(PathBuf),
    /// A line is no run of this plan.
    #[error(
        "line {line} of {} is no run of this plan: {why}; `--fresh` forgets all runs", path.display()
    )]
    BadRun {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A run went wrong: it is kept with the reason, and others go on.
    #[error("{0}")]
    RunFailed(String),
    /// A command cannot be started.
    #[error("cannot start `{program}`: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A thread or the like.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// What goes wrong with an environment or a setting is a run that failed, unless the user stops us, or nothing
    /// would be undone any more.
    pub fn of_run(error: nightwatt_environments::Error, stop: &Stop) -> Self {
        use nightwatt_environments::Error as Why;
        match error {
            _ if stop.is_stopped() => Self::Interrupted,
            Why::Guardian(_) | Why::Journal { .. } | Why::Busy(_) => Self::Environment(error),
            _ => Self::RunFailed(error.to_string()),
        }
    }

    /// Whether the command line or the plan is wrong, and nothing was done.
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Plan(_)
                | Self::NoChannel { .. }
                | Self::NotResults { .. }
                | Self::OtherPlan(_)
                | Self::BadRun { .. }
        )
    }

    /// What to try next, where the message does not say it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Meter(error) => error.hint(),
            Self::Results { what: "read", .. } => {
                Some("name the folder that `nightwatt compare` printed")
            }
            Self::Results { .. } => Some("`--output` names a folder that you may write to"),
            Self::Spawn { .. } => Some("is it installed? `--dry-run` shows what would be run"),
            _ => None,
        }
    }
}
