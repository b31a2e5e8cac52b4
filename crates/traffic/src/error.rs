//! What can go wrong between a log and its requests.

use std::io;

use crate::formats::Format;

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
         {}try again from a local copy to get the rest",
        were_read(*lines)
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
         {}test the file with `gzip -t` (`zstd -t`, `bzip2 -t`, `xz -t`) and copy it again",
        were_read(*lines)
    )]
    Damaged {
        /// Path as given.
        name: String,
        /// Whole lines delivered before.
        lines: u64,
        /// The decompressor's answer.
        source: io::Error,
    },
    /// It is a program, a picture or the like.
    #[error("log {name} is not text, and not packed text: name an access log of a web server")]
    NotText {
        /// Its name.
        name: String,
    },
    /// It has lines, and nothing in them.
    #[error(
        "log {name} holds no request: all its lines are empty; name an access log of a web server"
    )]
    Blank {
        /// Its name.
        name: String,
    },
    /// No line of the log's beginning is in a format that is read here.
    #[error(
        "log {name} is in none of the formats that are read; of line {line}, `{excerpt}`, {closest}. \
         Describe it with --log-format 'STRING', as nginx's log_format or Apache's LogFormat does; or \
         name its format with --format, one of {formats}"
    )]
    NoFormat {
        /// Path as given.
        name: String,
        /// Number of its first line that is not empty, from 1.
        line: u64,
        /// Beginning of that line.
        excerpt: String,
        /// Which formats it comes closest to, and where it leaves them.
        closest: String,
        /// Names of all formats.
        formats: String,
    },
    /// Nearly a format, with the agents where it has none.
    #[error(
        "most lines of log {name} have what looks like a user agent where no format has one; if it \
         is, describe them with --log-format '{format}'; else name their format with --format"
    )]
    Misfit {
        /// Path as given.
        name: String,
        /// How to describe its lines.
        format: String,
    },
    /// Most lines have the same word where the client should be.
    #[error(
        "most lines of log {name} have the word `{word}` in the place of the client; if it is no host, \
         describe the lines with --log-format; else name their format with --format"
    )]
    NoClient {
        /// Path as given.
        name: String,
        /// The word.
        word: String,
    },
    /// An entry of a chain was asked for, and no line has a chain.
    #[error(
        "no line of log {name} has a chain of forwarded addresses, of which `--client-from {entry}` \
         could take one; leave it out, or describe where the lines have the chain with --log-format, as \
         in '\"$http_x_forwarded_for\" $remote_addr [$time_local] \"$request\" $status'"
    )]
    NoChain {
        /// Path as given.
        name: String,
        /// The entry.
        entry: String,
    },
    /// A format string that describes no log.
    #[error(
        "the log format `{text}` cannot be used: {why}; write it as nginx's log_format or Apache's \
         LogFormat has it, as in '$remote_addr [$time_local] \"$request\" $status' or '%h %t \"%r\" %>s'"
    )]
    Pattern {
        /// As written.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// A file of counts with something else in it.
    #[error(
        "{name} begins like a file of counts, but entry {place} is not one; write whole numbers with white \
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
    pub(crate) fn no_chain(name: String, entry: impl std::fmt::Display) -> Self {
        Self::NoChain { name, entry: entry.to_string() }
    }
}

/// What became of the lines before a failure.
const fn were_read(lines: u64) -> &'static str {
    if lines == 0 { "" } else { "those lines were read, " }
}

/// Names of all formats, for people.
pub(crate) fn format_names() -> String {
    Format::names().collect::<Vec<_>>().join(", ")
}

/// A folder's path without the slash at its end, so that more can be put behind it.
pub(crate) fn folder_name(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}
