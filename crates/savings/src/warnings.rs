//! What a reader of a log's figures has to know of the reading.

use nightwatt_traffic::Reading;
use nightwatt_traffic::counts::{Counts, Sample};
use nightwatt_traffic::scan::{LogReport, Scan};

/// Characters of a skipped line that a warning shows.
const EXCERPT: usize = 100;

/// Lines that could not be read, with the first of them; `None` where all could.
pub fn skipped(counts: &Counts) -> Option<String> {
    let first = counts.malformed_samples.first()?;
    Some(format!(
        "{} of {} lines could not be read and were skipped; the first is line {} of {} ({}): `{}`",
        counts.malformed,
        counts.lines,
        first.line,
        first.file,
        first.reason,
        excerpt(first)
    ))
}

/// What [`skipped`] shows of a line.
pub(crate) fn excerpt(sample: &Sample) -> String {
    sample.excerpt.chars().take(EXCERPT).collect()
}

/// The logs without a line that were read to their end. A sum of logs has nothing to report of them: an empty one adds
/// nothing to it.
pub(crate) fn empty(scan: &Scan) -> impl Iterator<Item = String> {
    let has_failed = |log: &LogReport| {
        scan.failures.iter().any(|failure| failure.to_string().contains(&log.name))
    };
    let is_empty = move |log: &&LogReport| log.lines == 0 && !scan.stopped && !has_failed(log);
    scan.logs.iter().filter(is_empty).map(|log| format!("{}: no request", log.name))
}

/// What went wrong, and what is odd. `reading` is how all logs were to be read;
/// `wrong_if_changed` says what is wrong if the log's times were changed.
pub(crate) fn warnings(scan: &Scan, reading: &Reading, wrong_if_changed: &str) -> Vec<String> {
    let mut warnings: Vec<String> = scan.failures.iter().map(ToString::to_string).collect();
    let Counts { lines, malformed, .. } = scan.counts;
    let most = malformed.saturating_mul(10) > lines.saturating_mul(9);
    if let Some((option, format)) = reading.named().filter(|_| most) {
        warnings.push(format!(
            "{malformed} of {lines} lines are not in the format `{format}`: `{option}` is the likely \
             cause; without it the format is detected from the first lines of each log"
        ));
    }
    let unsorted = scan.unsorted();
    if unsorted > scan.counts.requests / 20 {
        warnings.push(format!(
            "{unsorted} lines are earlier than the line before them: if the log's times were \
             changed, {wrong_if_changed}"
        ));
    }
    if scan.late > 0 {
        warnings.push(format!(
            "{} requests came too late in the log to be put where they belong; they count at the \
             time of their neighbours",
            scan.late
        ));
    }
    warnings
}
