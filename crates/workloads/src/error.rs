//! Why an output gives no figures.

use crate::output::Output;
use crate::quote;

/// Why the output of a tool gives no figures.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no reader for this tool.
    #[error(
        "there is no reader for `{name}`: it is one of {known}; anything else is read by `regex` or \
         `json`"
    )]
    NoTool {
        /// As given.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Not a word.
    #[error("it printed nothing: does the command run by hand, and is its output caught?")]
    Silent,
    /// What all such outputs have is not in this one.
    #[error(
        "there is no {what} in the output; its last words are `{last}`: was it cut off, did it fail, \
         or is this the output of something else?"
    )]
    Missing {
        /// What was looked for.
        what: String,
        /// The last line of the errors, or else of the output.
        last: String,
    },
    /// The tool itself says so.
    #[error("it failed, and said `{said}`: run it by hand until it succeeds")]
    Failed {
        /// In its own words.
        said: String,
    },
    /// It ran, and did nothing.
    #[error(
        "it did no {what}, so there is no energy for each; its last words are `{last}`: run it by hand, \
         and longer"
    )]
    NoOperations {
        /// What it did none of.
        what: &'static str,
        /// The last line of the errors, or else of the output.
        last: String,
    },
    /// Not a number.
    #[error(
        "`{text}` is no finite number, and {what} should be one: a comma comes from the locale (run \
         it with LC_ALL=C), `nan` and `inf` from a run in which nothing was done"
    )]
    Number {
        /// What it should be.
        what: String,
        /// What is there.
        text: String,
    },
    /// A number in an unknown unit.
    #[error(
        "{what} is in `{unit}`, which is no unit known here: have the tool say it in another, or read \
         it by `regex` with a unit of your own"
    )]
    Unit {
        /// What is in that unit.
        what: String,
        /// The unit.
        unit: String,
    },
    /// Figures of one output that cannot all be true.
    #[error("{what}, which cannot be: the output is damaged, or of a version unknown here")]
    Contradiction {
        /// What contradicts what.
        what: String,
    },
    /// Not JSON, or not whole.
    #[error("no JSON could be read from `{text}`: {source}; was it cut off, or written elsewhere?")]
    Json {
        /// Its beginning.
        text: String,
        /// What is wrong, and where.
        #[source]
        source: serde_json::Error,
    },
    /// The key has two values: which one is meant can't be known.
    #[error("`{key}` is there twice in the JSON, with different values: one of them would be lost")]
    Doubled {
        /// Where, as a pointer.
        key: String,
    },
    /// One of the reports is of the whole run, and which one can't be known.
    #[error(
        "there are several reports in the output: have the tool print the last one alone, without \
         reports in between"
    )]
    Several,
    /// A pointer that leads nowhere.
    #[error("{why}; correct the pointer (RFC 6901: `/jobs/0/read/iops`)")]
    Pointer {
        /// Which, and what is there instead.
        why: String,
    },
    /// An invalid pattern.
    #[error("the pattern `{pattern}` cannot be used: {source}")]
    Pattern {
        /// As given.
        pattern: String,
        /// What is wrong, and where.
        #[source]
        source: Box<regex::Error>,
    },
    /// A pattern that is nowhere, or in too many places.
    #[error(
        "the pattern `{pattern}` matches {found} times: try it on the output by hand{advice}; the \
         output's last words are `{last}`"
    )]
    Matches {
        /// As given.
        pattern: String,
        /// How often.
        found: usize,
        /// What helps against too many.
        advice: &'static str,
        /// The last line of the output.
        last: String,
    },
    /// A reader of one's own that cannot work.
    #[error("the reader cannot be made: {why}")]
    Plan {
        /// What is wrong, and what would be right.
        why: String,
    },
}

impl ReadError {
    /// What all outputs of the tool have, and this one has not.
    pub(crate) fn missing(what: impl Into<String>, output: &Output<'_>) -> Self {
        if output.is_silent() {
            return Self::Silent;
        }
        Self::Missing { what: what.into(), last: quote::last_words(output) }
    }

    pub(crate) fn no_operations(what: &'static str, output: &Output<'_>) -> Self {
        Self::NoOperations { what, last: quote::last_words(output) }
    }

    pub(crate) fn number(what: impl Into<String>, found: &str) -> Self {
        Self::Number { what: what.into(), text: quote::short(found) }
    }

    pub(crate) fn unit(what: impl Into<String>, found: &str) -> Self {
        Self::Unit { what: what.into(), unit: quote::short(found) }
    }

    pub(crate) fn failed(said: &str) -> Self {
        Self::Failed { said: quote::short(said) }
    }
}
