//! What can go wrong between a log and its requests.

use std::io;

use crate::decompress::Foreign;
use crate::format::Format;

/// Why a log cannot be read (on). Malformed lines are no errors: they are counted and sampled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is missing or may not be read.
    #[error(
        "cannot open log {name}: {source}; check the path and its permissions, \
         or pipe the log in and name it `-`"
    )]
    Open {
        /// Path as given.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A folder, not a file.
    #[error("log {name} is a folder: name the logs in it, as in `{name}/*.log`")]
    Folder {
        /// Path as given.
        name: String,
    },
    /// Reading failed part-way; what came before was delivered.
    #[error(
        "reading log {name} failed after {lines} lines: {source}; \
         those lines were read, try again from a local copy to get the rest"
    )]
    Read {
        /// Path as given.
        name: String,
        /// Whole lines delivered before.
        lines: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// Not text, and not packed in a way that is unpacked here.
    #[error("log {name} is {foreign}")]
    Foreign {
        /// Path as given.
        name: String,
        /// What it is, and how to get at the log.
        foreign: String,
    },
    /// A compressed log ends early or is damaged; what came before was delivered.
    #[error(
        "log {name} is compressed and cut off or damaged after {lines} lines: {source}; \
         those lines were read, test the file with `gzip -t` (`zstd -t`, `bzip2 -t`, `xz -t`) \
         and copy it again"
    )]
    Damaged {
        /// Path as given.
        name: String,
        /// Whole lines delivered before.
        lines: u64,
        /// The decompressor's answer.
        source: io::Error,
    },
    /// No line of the log's beginning is in a format that is read here.
    #[error(
        "log {name} is in none of the formats that are read ({formats}): its first line is \
         `{excerpt}`; is it an access log? If only its first megabytes are odd, name the format with \
         --format"
    )]
    NoFormat {
        /// Path as given.
        name: String,
        /// Beginning of its first line.
        excerpt: String,
        /// Names of all formats.
        formats: String,
    },
    /// A file of counts with something else in it.
    #[error(
        "{name} begins like a file of counts, and number {place} is none; write whole numbers with white \
         space between them, one for each second"
    )]
    NoCounts {
        /// Path as given.
        name: String,
        /// Which number, from 1.
        place: u64,
    },
    /// Longer than can be counted second by second.
    #[error(
        "{name} has requests more than 400 days from the others; is a date in it wrong? Else count a \
         shorter part"
    )]
    TooLong {
        /// Path as given.
        name: String,
    },
    /// No entry of a chain of forwarded addresses is called so.
    #[error(
        "`{text}` names no entry of a chain of addresses; write `public`, `first`, `last`, or a \
         number from 1, counted from the left"
    )]
    NoSuchEntry {
        /// As written.
        text: String,
    },
    /// No format has this name.
    #[error("there is no log format `{0}`; try one of {formats}", formats = format_names())]
    NoSuchFormat(String),
}

impl Error {
    /// What an error of reading a log says, after so many lines.
    pub(crate) fn reading(name: String, lines: u64, source: io::Error, is_damaged: bool) -> Self {
        match source.get_ref().and_then(|inner| inner.downcast_ref::<Foreign>()) {
            Some(foreign) => Self::Foreign { name, foreign: foreign.to_string() },
            None if is_damaged => Self::Damaged { name, lines, source },
            None => Self::Read { name, lines, source },
        }
    }
}

/// Names of all formats, for people.
pub(crate) fn format_names() -> String {
    Format::names().collect::<Vec<_>>().join(", ")
}

/// A folder's path without the slash at its end, so that more can be put behind it.
pub(crate) fn folder_name(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}
