//! What can go wrong with the laboratory of TCP.

use std::io;

/// Why links could not be made, or connections not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A table of scenarios cannot be read.
    #[error("{table}, line {line}: {why}")]
    Table {
        /// Which.
        table: String,
        /// From 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// There is no such scenario.
    #[error("there is no scenario `{name}`; the table has {known}, and `all` is all of them")]
    NoScenario {
        /// As it was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// What is asked for cannot be run.
    #[error("{0}")]
    Options(String),
    /// It takes root.
    #[error("networks of their own take root (CAP_NET_ADMIN, CAP_SYS_ADMIN): run it as root")]
    NeedsRoot,
    /// Programs are missing at an end.
    #[error(
        "cannot {what}: {place} has no {programs}; run `apt-get install --no-install-recommends {packages}` there"
    )]
    Missing {
        /// What they are needed for.
        what: &'static str,
        /// Where.
        place: String,
        /// Which, each with its Debian package.
        programs: String,
        /// The packages, for the command line.
        packages: String,
    },
    /// The ends, or what is left of them.
    #[error(transparent)]
    Environment(#[from] nightwatt_environments::Error),
    /// A meter cannot be used.
    #[error(transparent)]
    Meter(#[from] nightwatt_meters::MeterError),
    /// Power of a run.
    #[error(transparent)]
    Compare(#[from] nightwatt_compare::Error),
    /// A command at an end failed.
    #[error("cannot {what}: `{command}` failed: {output}")]
    Command {
        /// What it was to do.
        what: String,
        /// The line of the shell.
        command: String,
        /// What it has printed.
        output: String,
    },
    /// An end that is another machine does not answer any more.
    #[error(
        "the {end} does not answer any more: it was restarted, or its connection by ssh has broken; what was \
         measured so far is told, and what was changed on it is undone where it can be reached; if it is up \
         again, start this again"
    )]
    Gone {
        /// Which.
        end: String,
    },
    /// A program says something else than it should.
    #[error("{program} says what cannot be understood ({why}): {output}")]
    UnexpectedOutput {
        /// Which.
        program: &'static str,
        /// What is wrong with it.
        why: String,
        /// The beginning of its output.
        output: String,
    },
    /// A counter of the kernel cannot be read.
    #[error(transparent)]
    Counter(#[from] nightwatt_measure::counters::CounterError),
    /// The link is not what it should be.
    #[error(
        "the link of scenario `{scenario}` is not what it should be: {found}; a quieter or faster machine may carry it, and `--accept-link` goes on all the same, and says so in the result"
    )]
    Link {
        /// Which.
        scenario: String,
        /// What is not as it should be.
        found: String,
    },
    /// The system refuses something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// Connections ended before what was counted of them.
    #[error(
        "the connections had ended before the last look at the counters, so that look says too little: this machine \
         was held up"
    )]
    TooLate,
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Did the user interrupt the run?
    pub const fn is_interrupted(&self) -> bool {
        use nightwatt_environments::Error::Stopped;
        matches!(self, Self::Interrupted | Self::Environment(Stopped(_)))
    }

    /// Whether the command line is wrong, and nothing was done.
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Table { .. } | Self::NoScenario { .. } | Self::Options(_) | Self::NeedsRoot
        )
    }

    /// Is an end no longer there?
    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// The reason of one that concerns a single run, while others may go well.
    pub(crate) fn of_one_run(self) -> Result<String, Self> {
        match self {
            Self::Command { what, output, .. } => Ok(format!("{what}: {output}")),
            late @ Self::TooLate => Ok(late.to_string()),
            error => Err(error),
        }
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
