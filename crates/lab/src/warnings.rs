//! What a reader of a log's figures has to know of the reading.

use nightwatt_traffic::counts::Counts;
use nightwatt_traffic::format::Format;
use nightwatt_traffic::scan::Scan;

/// What went wrong, and what is odd. `format` is what all logs were to be read as, if that was said;
/// `wrong_if_changed` says what is wrong if the log's times were changed.
pub(crate) fn warnings(scan: &Scan, format: Option<Format>, wrong_if_changed: &str) -> Vec<String> {
    let mut warnings: Vec<String> = scan.failures.iter().map(ToString::to_string).collect();
    let Counts { lines, malformed, .. } = scan.counts;
    if let Some(format) = format.filter(|_| malformed.saturating_mul(10) > lines.saturating_mul(9))
    {
        warnings.push(format!(
            "{malformed} of {lines} lines are not in the format `{format}`: `--format` is the likely \
             cause; without it each log is told by its first lines"
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
