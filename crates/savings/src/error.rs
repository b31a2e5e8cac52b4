//! What can go wrong with an analysis.

use nightwatt_traffic::scan::Scan;
use nightwatt_traffic::{Counts, Reading};

use crate::warnings::excerpt;

/// Why a log could not be analysed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] nightwatt_traffic::error::Error),
    /// There is nothing to analyse.
    #[error(
        "{logs} holds no request: {lines} {}, {malformed} malformed, {bad} without one{}{first}",
        if *lines == 1 { "line" } else { "lines" },
        of_another_time(*outside)
    )]
    NothingAsked {
        /// The logs.
        logs: String,
        /// The option that set their format, if one did.
        option: Option<&'static str>,
        /// The first line that could not be used, and why, as the end of a sentence.
        first: String,
        /// Lines in them.
        lines: u64,
        /// Lines that could not be read.
        malformed: u64,
        /// Lines that hold no HTTP request.
        bad: u64,
        /// Lines of another time than was asked for.
        outside: u64,
    },
    /// The caller stopped it.
    #[error("the logs were not read to their end: the caller stopped it")]
    Stopped,
    /// The scenario cannot be true.
    #[error("the scenario is wrong: {0}")]
    Scenario(#[from] nightwatt_policy::scenario::BadValue),
}

fn of_another_time(outside: u64) -> String {
    if outside == 0 { String::new() } else { format!(", {outside} of another time") }
}

impl Error {
    /// Why there was nothing in these logs.
    pub(crate) fn nothing_asked(reading: &Reading, scan: Scan) -> Self {
        if let Some(failure) = scan.failures.into_iter().next() {
            return failure.into();
        }
        let names: Vec<String> = scan.logs.into_iter().map(|log| log.name).collect();
        Self::nothing_in(reading, &names, &scan.counts)
    }

    /// Likewise, of logs that could be opened.
    pub(crate) fn nothing_in(reading: &Reading, logs: &[String], counts: &Counts) -> Self {
        let samples = counts.malformed_samples.first().or(counts.bad_request_samples.first());
        let first = samples.map_or_else(String::new, |sample| {
            let why = reading.explain(&sample.excerpt).unwrap_or_else(|| sample.reason.to_string());
            // Back quotes around it keep its semicolons apart from advice.
            format!(": line {} ({why}) is `{}`", sample.line, excerpt(sample).replace('`', "'"))
        });
        Self::NothingAsked {
            logs: logs.join(", "),
            option: reading.named().map(|(option, _)| option),
            first,
            lines: counts.lines,
            malformed: counts.malformed,
            bad: counts.bad_requests,
            outside: counts.outside,
        }
    }

    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NothingAsked { outside: 1.., .. } => Some(
                "`--from` and `--until` choose the time, in UTC: the log has requests of another",
            ),
            Self::NothingAsked { option: Some("--log-format"), malformed: 1.., .. } => Some(
                "`--log-format` is the likely cause: compare it with the line, or leave it out, and \
                 the format is detected from the first lines of each log",
            ),
            Self::NothingAsked { option: Some(_), malformed: 1.., .. } => Some(
                "`--format` is the likely cause: leave it out, and the format is detected from the first lines of each log",
            ),
            Self::NothingAsked { .. } => {
                Some("name an access log of a web server; `--format` says how it is written")
            }
            _ => None,
        }
    }
}
