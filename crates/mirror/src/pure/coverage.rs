//! How many requests a mirror could have answered, by day.

use std::collections::VecDeque;

use nightwatt_httpcache::Timestamp;
use serde::{Deserialize, Serialize};

const DAY_MS: u64 = 86_400_000;

/// Days that count, today among them.
const DAYS: u64 = 7;

/// Requests of the last seven days, and those of them that the mirror could have answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The oldest first.
    days: VecDeque<Day>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Day {
    /// Days since 1970.
    number: u64,
    requests: u64,
    covered: u64,
}

impl Coverage {
    /// Counts requests, and whether the mirror could have answered them.
    pub fn count(&mut self, requests: u64, is_covered: bool, now: Timestamp) {
        let number = now.as_millis() / DAY_MS;
        // A clock that was set back counts for the newest day.
        if self.days.back().is_none_or(|newest| newest.number < number) {
            self.days.push_back(Day { number, requests: 0, covered: 0 });
        }
        self.days.retain(|day| day.number + DAYS > number);
        if let Some(today) = self.days.back_mut() {
            today.requests += requests;
            today.covered += if is_covered { requests } else { 0 };
        }
    }

    /// Number of requests.
    pub fn requests(&self, now: Timestamp) -> u64 {
        self.sum(now, |day| day.requests)
    }

    /// Share of the requests that the mirror could have answered; `None` if there were none.
    pub fn share(&self, now: Timestamp) -> Option<f64> {
        let requests = self.requests(now);
        (requests > 0).then(|| self.sum(now, |day| day.covered) as f64 / requests as f64)
    }

    fn sum(&self, now: Timestamp, of: impl Fn(&Day) -> u64) -> u64 {
        let today = now.as_millis() / DAY_MS;
        self.days.iter().filter(|day| day.number + DAYS > today).map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

    fn days(days: u64) -> Timestamp {
        NOW.plus(Duration::from_hours(24 * days))
    }

    #[test]
    fn a_week_counts_and_what_is_older_does_not() {
        let mut coverage = Coverage::default();
        assert_eq!((coverage.share(NOW), coverage.requests(NOW)), (None, 0));
        coverage.count(6, false, NOW);
        coverage.count(2, true, NOW);
        assert_eq!(coverage.share(NOW), Some(0.25));
        coverage.count(16, true, days(1));
        assert_eq!((coverage.share(days(1)), coverage.requests(days(1))), (Some(0.75), 24));
        assert_eq!(coverage.requests(days(6)), 24);
        assert_eq!((coverage.share(days(7)), coverage.requests(days(7))), (Some(1.0), 16));
        assert_eq!(coverage.share(days(8)), None);
        coverage.count(1, true, days(9));
        assert_eq!(coverage.days.len(), 1, "old days are forgotten");
    }

    #[test]
    fn a_clock_that_was_set_back_loses_nothing() {
        let mut coverage = Coverage::default();
        coverage.count(1, true, days(3));
        coverage.count(1, false, NOW);
        assert_eq!((coverage.share(days(3)), coverage.days.len()), (Some(0.5), 1));
    }
}
