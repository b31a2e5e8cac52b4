//! How long servers took to wake, as their ledgers have it.

use std::path::Path;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::stats::percentile;
use nightwatt_gateway::ledger_file::{self, Record};
use nightwatt_policy::lifecycle::Change;
use serde::Serialize;

use crate::figures::{counted, time};

/// Wake-ups that count: the last ones.
const LAST: usize = 256;

/// With fewer wake-ups, one in twenty says nothing.
const ENOUGH: usize = 5;

/// A clock that was set meanwhile makes longer ones.
const LONGEST: Duration = Duration::from_hours(1);

/// The times of a server's last wake-ups, from the wake command to the first answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct WakeTimes {
    wakeups: usize,
    p50_s: f64,
    p95_s: f64,
}

/// Reads the ledger of a server; nothing without one, without permission, and after few wake-ups.
pub(super) fn read(state_dir: &Path, name: &str) -> Option<WakeTimes> {
    let path = state_dir.join(format!("{name}.ledger.jsonl"));
    let mut records = ledger_file::read(&path.with_extension("jsonl.1")).unwrap_or_default();
    records.extend(ledger_file::read(&path).unwrap_or_default());
    of(&records)
}

fn of(records: &[Record]) -> Option<WakeTimes> {
    let mut began = None;
    let mut took = Vec::new();
    for Record { at, change, .. } in records {
        match change {
            Some(Change::Waking) => began = Some(*at),
            Some(Change::Woke) => {
                let millis = began.take().and_then(|began| u64::try_from(at.0 - began.0).ok());
                took.extend(millis.map(Duration::from_millis).filter(|it| *it <= LONGEST));
            }
            Some(_) => began = None,
            None => {}
        }
    }
    let mut seconds: Vec<f64> = took.iter().rev().take(LAST).map(Duration::as_secs_f64).collect();
    seconds.sort_by(f64::total_cmp);
    (seconds.len() >= ENOUGH).then(|| WakeTimes {
        wakeups: seconds.len(),
        p50_s: percentile(&seconds, 50.0),
        p95_s: percentile(&seconds, 95.0),
    })
}

impl WakeTimes {
    /// Beside the configured time.
    pub(super) fn in_words(&self) -> String {
        let Self { wakeups, p50_s, p95_s } = *self;
        format!(
            "its last {}: half within {}, 95 % within {} (measured)",
            counted(wakeups as u64, "wake-up"),
            time(Duration::from_secs_f64(p50_s)),
            time(Duration::from_secs_f64(p95_s))
        )
    }

    /// What is wrong with the configured time: shorter than what was measured.
    pub(super) fn complaint(&self, configured: Duration) -> Option<String> {
        let measured = Duration::from_secs_f64(self.p95_s);
        // To the next tenth of a second: a time that passes this check.
        let better = Duration::from_millis(measured.as_millis().div_ceil(100) as u64 * 100);
        (measured > configured).then(|| {
            format!(
                "`server.wake_time` is {}, but one in twenty of its last {} took longer than {}: write \
                 `wake_time = \"{}\"`",
                time(configured),
                counted(self.wakeups as u64, "wake-up"),
                time(measured),
                duration_text::format(better)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Wall;
    use nightwatt_policy::manager::Memory;

    use super::*;

    fn record(at: i64, change: Change) -> Record {
        let memory = Memory::default();
        Record { v: 1, at: Wall(at), change: Some(change), cause: None, hour: None, memory }
    }

    fn woken_in(seconds: &[i64]) -> Vec<Record> {
        let each = seconds.iter().zip(0..).flat_map(|(seconds, number)| {
            let begins = number * 3_600_000;
            [record(begins, Change::Waking), record(begins + seconds * 1000, Change::Woke)]
        });
        each.collect()
    }

    #[test]
    fn half_and_95_percent_are_nearest_ranks() {
        let times = of(&woken_in(&(1..=20).collect::<Vec<_>>())).unwrap();
        assert_eq!(times, WakeTimes { wakeups: 20, p50_s: 10.0, p95_s: 19.0 });
        assert_eq!(of(&woken_in(&[5, 5, 5, 5])), None, "too few");
    }

    #[test]
    fn a_wake_up_that_failed_has_no_time() {
        let mut records = woken_in(&[3, 3, 3, 3, 3]);
        records.extend([record(90_000_000, Change::Waking), record(90_001_000, Change::Failed)]);
        records.push(record(99_000_000, Change::Woke));
        assert_eq!(of(&records), Some(WakeTimes { wakeups: 5, p50_s: 3.0, p95_s: 3.0 }));
    }

    #[test]
    fn a_configured_time_below_what_was_measured_is_complained_of() {
        let times = of(&woken_in(&[4, 4, 4, 9, 9])).unwrap();
        let said = times.complaint(Duration::from_secs(5)).unwrap();
        assert!(said.contains("is 5s") && said.contains("`wake_time = \"9s\"`"), "{said}");
        assert_eq!(times.complaint(Duration::from_secs(9)), None);
        assert!(times.in_words().contains("half within 4s, 95 % within 9s"));
    }
}
