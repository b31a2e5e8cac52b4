//! Why there is nothing to be said about mining.

use std::path::PathBuf;

use crate::pure::MiningError;

/// Why a question about mining could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value that cannot be.
    #[error(transparent)]
    Mining(#[from] MiningError),
    /// A file that cannot be read.
    #[error("cannot read {path}: {source}; check that it is there and may be read")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A table with something wrong in it.
    #[error("line {line} of {name}: {why}")]
    Line {
        /// The file.
        name: String,
        /// From 1.
        line: usize,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A table without anything in it.
    #[error("{name} holds {what}; {hint}")]
    Empty {
        /// The file.
        name: String,
        /// What it lacks.
        what: &'static str,
        /// What would be right.
        hint: &'static str,
    },
    /// Coins that cannot be.
    #[error("{name}: {why}")]
    Coins {
        /// The file.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A coin that is not there.
    #[error(
        "there is no coin `{name}`: there are {known}; `--coins FILE` adds others by their rules"
    )]
    NoCoin {
        /// As asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A device that is not there.
    #[error(
        "there is no device `{name}`: there are {known}; `--devices FILE` reads a table of your own"
    )]
    NoDevice {
        /// As asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A day that no history has.
    #[error("no history has a difficulty for {day}; {hint}")]
    NoDay {
        /// As asked for.
        day: String,
        /// From when to when they go.
        hint: String,
    },
    /// A moment without a difficulty.
    #[error("the history has no difficulty for {day}; give one with `--difficulty` or `--bits`")]
    NoDifficulty {
        /// Which day.
        day: String,
    },
    /// Only one coin has a published example.
    #[error(
        "the published example is bitcoin's, and there is no usual difficulty of {coin}; give one with \
         `--difficulty` or `--bits`, or a history"
    )]
    NoUsualDifficulty {
        /// Of which.
        coin: String,
    },
    /// Text on the command line that means nothing.
    #[error("{0}")]
    Text(String),
    /// Two histories of the same kind.
    #[error(
        "{first} and {second} are both histories {kind}; give one by day and one by height at most"
    )]
    TwoHistories {
        /// The first.
        first: String,
        /// The second.
        second: String,
        /// By day or by height.
        kind: &'static str,
    },
}
