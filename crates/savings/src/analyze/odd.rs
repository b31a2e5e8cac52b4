//! What is odd in a log as a whole: its dates, and that it was given twice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::civil::to_minute;
use nightwatt_energy::time::Wall;
use nightwatt_traffic::scan::{Between, Scan};

use super::AnalyzeOptions;
use super::amounts::counted;
use super::pass::Pass;

/// A log may be this far ahead of the clock of this machine: it may be written in local time without saying so.
const AHEAD_MS: i64 = 86_400_000;

/// Logs with as many lines, and the same first and last time, are the same, packed or not.
const LINES: u64 = 100;

/// Of shorter ones, so many bytes are compared.
const BYTES: u64 = 1 << 16;

/// Pairs of equal logs that are named.
const NAMED: usize = 3;

/// The time of all requests but the few that lie years before or after them. `None` if there are no such few, if the
/// user chose the time, or if a log cannot be read a second time.
pub(super) fn main_part(options: &AnalyzeOptions, pass: &Pass) -> Option<Between> {
    let is_chosen = options.between != Between::default();
    if is_chosen || options.logs.iter().any(|log| opens_once(log)) {
        return None;
    }
    let part = pass.pauses.apart.main_part()?;
    let all = Between::default();
    let from = part.after.map(|it| pass.start + it.0 + Duration::from_millis(1));
    let until = part.before.map(|it| pass.start + it.0);
    Some(Between { from: from.unwrap_or(all.from), until: until.unwrap_or(all.until) })
}

/// Standard input, or a pipe.
fn opens_once(log: &Path) -> bool {
    log == Path::new("-") || fs::metadata(log).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

/// What was left out of the `whole` of the logs: all that is not in `between`.
pub(super) fn left_out(scan: &Scan, whole: &Scan, between: &Between) -> Option<String> {
    let (first, last) = whole.summary.span?;
    let ends = [first, last].into_iter().filter(|it| !between.has(*it));
    let ends: Vec<String> = ends.map(|it| to_minute(it.secs())).collect();
    let outside = scan.counts.outside;
    let are = if outside == 1 { "is" } else { "are" };
    Some(format!(
        "{} more than a year from all others {are} left out, as if the date were wrong ({} UTC); with `--from` and \
         `--until` you choose what is analysed",
        counted(outside, "line"),
        ends.join(" and ")
    ))
}

/// The log ends later than now.
pub(super) fn later_than_now(options: &AnalyzeOptions, scan: &Scan) -> Option<String> {
    let (now, (_, last)) = (options.now?, scan.summary.span?);
    (last.0.saturating_sub(now.0) > AHEAD_MS).then(|| {
        format!(
            "the last request is of {} UTC, which is later than now ({} UTC): the clock of the server, or of this \
             machine, is wrong",
            to_minute(last.secs()),
            to_minute(now.secs())
        )
    })
}

/// Logs that are the same as one before them.
pub(super) fn same_twice(logs: &[PathBuf], scan: &Scan) -> Option<String> {
    if scan.stopped {
        return None;
    }
    let mut known: BTreeMap<(u64, Wall, Wall), usize> = BTreeMap::new();
    let mut same = Vec::new();
    for (index, log) in scan.logs.iter().enumerate() {
        let Some((first, last)) = log.ends else { continue };
        match known.entry((log.lines, first, last)) {
            Entry::Vacant(place) => {
                place.insert(index);
            }
            Entry::Occupied(before) => {
                let before = *before.get();
                if log.lines >= LINES || is_same(logs.get(before), logs.get(index)) {
                    same.push(format!("{} and {}", scan.logs[before].name, log.name));
                }
            }
        }
    }
    let more = same.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    same.truncate(NAMED);
    (!same.is_empty()).then(|| {
        format!(
            "two logs seem to be the same, so its requests count twice: {}{more}",
            same.join("; ")
        )
    })
}

/// Whether two files begin in the same way and have the same length.
fn is_same(one: Option<&PathBuf>, other: Option<&PathBuf>) -> bool {
    let beginning = |log: &PathBuf| {
        let length = fs::metadata(log).ok().filter(fs::Metadata::is_file)?.len();
        let mut bytes = Vec::new();
        File::open(log).ok()?.take(BYTES).read_to_end(&mut bytes).ok()?;
        Some((length, bytes))
    };
    let beginnings = one.and_then(beginning).zip(other.and_then(beginning));
    beginnings.is_some_and(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use crate::analyze::{Analysis, run};

    use super::*;

    /// One request an hour from 2026-03-02 on, and then these lines.
    fn log(folder: &Path, name: &str, more: &[String]) -> PathBuf {
        let hourly = (0..300).map(|hour: u32| {
            let (day, hour) = (2 + hour / 24, hour % 24);
            line(&format!("{day:02}/Mar/2026:{hour:02}:00:00"))
        });
        let path = folder.join(name);
        fs::write(&path, hourly.chain(more.iter().cloned()).collect::<String>()).unwrap();
        path
    }

    fn line(time: &str) -> String {
        format!(
            "198.51.100.7 - - [{time} +0000] \"GET /a HTTP/1.1\" 200 500 \"-\" \"Firefox/115.0\"\n"
        )
    }

    fn analyzed(options: &AnalyzeOptions) -> Analysis {
        run(options, |_| ControlFlow::Continue(())).unwrap()
    }

    fn of(logs: Vec<PathBuf>) -> AnalyzeOptions {
        AnalyzeOptions { logs, ..AnalyzeOptions::default() }
    }

    #[test]
    fn lines_of_another_century_change_nothing_and_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let plain = analyzed(&of(vec![log(folder.path(), "plain", &[])]));
        let wrong = ["01/Jan/1970:00:00:00", "02/Mar/2199:12:00:00"].map(line);
        let odd = analyzed(&of(vec![log(folder.path(), "odd", &wrong)]));
        assert_eq!((odd.requests, odd.lines, odd.outside), (300, 302, 2));
        assert_eq!((odd.span_s, odd.from), (plain.span_s, plain.from));
        assert_eq!((&odd.policies, &odd.hours), (&plain.policies, &plain.hours));
        assert_eq!(odd.holes, []);
        let told = odd.warnings.iter().find(|it| it.contains("left out")).unwrap();
        assert!(told.starts_with("2 lines more than a year from all others are"), "{told}");
        assert!(told.contains("(1970-01-01 00:00 and 2199-03-02 12:00 UTC)"), "{told}");
        // Who chooses the time is given all of it.
        let options = of(vec![log(folder.path(), "near", &[line("02/Mar/2028:12:00:00")])]);
        assert_eq!(analyzed(&options).requests, 300);
        let between = Between { until: Wall(i64::MAX - 1), ..Between::default() };
        let chosen = analyzed(&AnalyzeOptions { between, ..options });
        assert_eq!((chosen.requests, chosen.outside), (301, 0));
    }

    #[test]
    fn a_part_of_a_log_is_that_of_the_time_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let options = of(vec![log(folder.path(), "plain", &[])]);
        // 2026-03-03 and 2026-03-05, 00:00 UTC.
        let days = [1_772_496_000, 1_772_668_800].map(Wall::from_secs);
        let between = Between { from: days[0], until: days[1] };
        let part = analyzed(&AnalyzeOptions { between, ..options.clone() });
        assert_eq!((part.requests, part.outside, part.from), (48, 252, days[0]));
        let text = part.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("; 252 are of another time."), "{text}");
        let between = Between { from: Wall::from_secs(2_000_000_000), ..Between::default() };
        let none = run(&AnalyzeOptions { between, ..options }, |_| ControlFlow::Continue(()));
        let error = none.unwrap_err();
        assert!(error.to_string().contains("300 of another time"), "{error}");
        assert!(error.hint().unwrap().contains("`--from` and `--until`"), "{:?}", error.hint());
    }

    #[test]
    fn a_log_of_the_future_is_told_by_the_clock_of_the_caller() {
        let folder = tempfile::tempdir().unwrap();
        let options = of(vec![log(folder.path(), "plain", &[])]);
        // The log ends at 2026-03-14 11:00 UTC.
        let warned = |now: i64| {
            let now = Some(Wall::from_secs(now));
            let analysis = analyzed(&AnalyzeOptions { now, ..options.clone() });
            analysis.warnings.iter().any(|it| it.contains("later than now"))
        };
        let end = 1_773_486_000;
        assert!(warned(end - 2 * 86_400) && !warned(end - 3600) && !warned(end));
        assert_eq!(analyzed(&options).warnings, [""; 0], "the time is not known");
    }

    #[test]
    fn a_log_that_is_given_twice_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let [one, copy] = ["one", "copy"].map(|name| log(folder.path(), name, &[]));
        let short = folder.path().join("short");
        let other = folder.path().join("other");
        let at = "02/Mar/2026:12:00:00";
        fs::write(&short, line(at)).unwrap();
        fs::write(&other, line(at).replace("/a", "/b")).unwrap();
        let warned = |logs: [&PathBuf; 2]| {
            let analysis = analyzed(&of(logs.map(Clone::clone).to_vec()));
            analysis.warnings.into_iter().find(|it| it.contains("twice"))
        };
        for pair in [[&one, &one], [&one, &copy], [&short, &short]] {
            let told = warned(pair).unwrap();
            let names = format!("{} and {}", pair[0].display(), pair[1].display());
            assert!(told.ends_with(&names), "{told}");
        }
        assert_eq!(warned([&short, &other]), None);
        assert_eq!(warned([&one, &short]), None);
    }
}
