//! What can go wrong.

use std::path::PathBuf;

use nightwatt_host::ConfigError;

use crate::plan::CommandLineError;

/// Why jobs could not be run side by side.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] ConfigError),
    /// Commands of the command line are wrong.
    #[error(transparent)]
    CommandLine(#[from] CommandLineError),
    /// Runs, meters, environments and the folder of results.
    #[error(transparent)]
    Run(#[from] nightwatt_compare::Error),
    /// Results that no batches follow from.
    #[error("no batches follow from the results in {}: {why}", folder.display())]
    Profile {
        /// Of the results.
        folder: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A list of jobs is wrong.
    #[error("{name}:{line}: {why}")]
    JobList {
        /// The list, as users call it.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The least energy is asked for, and the results have none.
    #[error("the results have no energy of every job alone; `--goal time` needs none")]
    NoEnergy,
    /// The machine has no such CPUs.
    #[error("cannot place the jobs: {0}")]
    Placement(String),
    /// Earlier runs were on other CPUs.
    #[error(
        "the runs in {} were made on CPUs {then}, and now jobs would run on {now}; `--fresh` forgets these runs, and \
         `--output` names another folder", folder.display()
    )]
    OtherCpus {
        /// Of the results.
        folder: PathBuf,
        /// CPUs of the earlier runs.
        then: String,
        /// CPUs of the next ones.
        now: String,
    },
}

impl Error {
    /// Whether the command line, the plan or the folder is wrong, and nothing was done.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Run(error) => error.is_usage(),
            Self::Plan(_)
            | Self::CommandLine(_)
            | Self::Profile { .. }
            | Self::JobList { .. }
            | Self::NoEnergy
            | Self::Placement(_)
            | Self::OtherCpus { .. } => true,
        }
    }

    /// What to try next, where the message does not have it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Run(error) => error.hint(),
            Self::Profile { .. } => Some(
                "measure the kinds of jobs with `nightwatt corun PLAN`, which writes PLAN.results",
            ),
            Self::Plan(_)
            | Self::CommandLine(_)
            | Self::JobList { .. }
            | Self::NoEnergy
            | Self::Placement(_)
            | Self::OtherCpus { .. } => None,
        }
    }

    /// Whether the user ended it.
    pub const fn is_interrupted(&self) -> bool {
        matches!(self, Self::Run(nightwatt_compare::Error::Interrupted))
    }
}
