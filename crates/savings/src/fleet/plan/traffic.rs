//! What arrives at simulated pools.

use std::path::PathBuf;

use nightwatt_policy::arrivals::{Arrivals, Counts};
use nightwatt_traffic::{PerSecond, Reading};

use crate::fleet::Error;
use crate::warnings::skipped;

const DAY: usize = 86_400;
/// Copies are shifted by up to this, besides whole days.
const MOST_SHIFT: usize = 1800;
/// What copies are shifted by, each by so much more than the one before, modulo [`MOST_SHIFT`] + 1:
/// prime to it, so that shifts repeat as late as they can.
const STRIDE: usize = 1103;

/// One stream of arrivals.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// As tables call it.
    pub name: String,
    /// Mean requests a second.
    pub rate: f64,
    /// The process.
    pub arrivals: Arrivals,
    /// Whether it ends: then all of it is played, and all of it counts.
    pub ends: bool,
    /// Lines of its logs that were skipped, with the first of them.
    pub skipped: Option<String>,
}

/// How a log is multiplied and shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// Number of copies on top of each other.
    pub copies: u32,
    /// Only this many first days of the sum.
    pub days: Option<u32>,
}

/// Requests of logs, second by second, in as many copies, each shifted by whole days and up to half an
/// hour.
pub fn of_logs(files: &[PathBuf], reading: &Reading, copies: Copies) -> Result<Traffic, Error> {
    let mut seconds = PerSecond::default();
    for file in files {
        seconds.add_file(file, reading)?;
    }
    if seconds.requests() == 0 {
        let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(crate::Error::nothing_in(reading, &names, &seconds.lines).into());
    }
    let skipped = skipped(&seconds.lines);
    let counts = superposed(&Counts::new(seconds.counts, 1.0)?, copies)?;
    let names: Vec<_> = files.iter().filter_map(|it| it.file_name()).collect();
    let mut name = names.iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(", ");
    if copies.copies > 1 {
        name = format!("{} x {name}", copies.copies);
    }
    let rate = counts.mean_rate();
    Ok(Traffic { name, rate, arrivals: Arrivals::Counts(counts), ends: true, skipped })
}

/// Whole days are kept whole: what is left of a last one would meet the first one's hours otherwise.
fn superposed(counts: &Counts, Copies { copies, days }: Copies) -> Result<Counts, Error> {
    let steps = counts.counts().len();
    let whole = if copies > 1 && steps >= DAY { steps - steps % DAY } else { steps };
    let nothing = || Error::Arrivals(nightwatt_policy::arrivals::ArrivalsError::Nothing);
    let counts = counts.part(0, whole).ok_or_else(nothing)?;
    let shift = |copy: usize| copy * DAY + copy * STRIDE % (MOST_SHIFT + 1);
    let shifts: Vec<usize> = (0..copies as usize).map(shift).collect();
    let played = days.map_or(whole, |days| days as usize * DAY);
    counts.superposed(&shifts).part(0, played).ok_or_else(nothing)
}

#[cfg(test)]
mod tests {
    use nightwatt_host::explained::Explained;
    use nightwatt_traffic::Format;

    use super::*;

    /// As `analyze` says it: the first line, where it leaves the format, and what to do.
    #[test]
    fn a_log_without_requests_is_refused_with_its_first_line() {
        const LINE: &str = r#"203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "Mozilla/5.0 (X11; rv:1)""#;
        const TLS: &str = r#"203.0.113.9 - - [10/Nov/2022:00:00:01 +0000] "\x16\x03\x01" 400 1"#;
        let own = Reading { pattern: Some("%h|%t|%r|%>s".parse().unwrap()), ..Reading::default() };
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        for (reading, line, why, hint) in [
            (
                own,
                LINE,
                "line 1 (the client's address and then `|` is expected at column 1)",
                "--log-format",
            ),
            (Format::Squid.into(), LINE, "line 1 (", "--format"),
            (Format::Combined.into(), TLS, "line 1 (", "name an access log"),
            (Reading::default(), TLS, "line 1 (", "name an access log"),
        ] {
            std::fs::write(&log, format!("{line}\n").repeat(3)).unwrap();
            let copies = Copies { copies: 1, days: None };
            let error = of_logs(std::slice::from_ref(&log), &reading, copies).unwrap_err();
            let Error::Logs(inner) = &error else { panic!("{error}") };
            assert!(inner.hint().is_some_and(|it| it.contains(hint)), "{:?}", inner.hint());
            let told = Explained::of(&error);
            assert_eq!(told.hint, None, "{told}");
            assert!(
                told.what.contains(why) && told.what.ends_with(&format!("is `{line}`")),
                "{told}"
            );
        }
    }

    #[test]
    fn copies_are_shifted_by_whole_days_and_less_than_half_an_hour_more() {
        // Three days and a bit; one request in the first second.
        let mut counts = vec![0; 3 * DAY + 500];
        counts[0] = 1;
        let counts = Counts::new(counts, 1.0).unwrap();
        let three = superposed(&counts, Copies { copies: 4, days: None }).unwrap();
        let at: Vec<usize> =
            (0..three.counts().len()).filter(|it| three.counts()[*it] > 0).collect();
        // 3 x 1103 = 3309 = 1508 beyond 1801, on the fourth day, which is the first.
        assert_eq!(at, [0, 1508, DAY + 1103, 2 * DAY + 405]);
        assert_eq!((three.total(), three.counts().len()), (4, 3 * DAY));
        let first = superposed(&counts, Copies { copies: 4, days: Some(1) }).unwrap();
        assert_eq!((first.total(), first.counts().len()), (2, DAY));
        let plain = superposed(&counts, Copies { copies: 1, days: None }).unwrap();
        assert_eq!(plain.counts().len(), 3 * DAY + 500, "a log alone is played to its end");
    }
}
