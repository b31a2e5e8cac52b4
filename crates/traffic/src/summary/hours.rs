//! Requests of each hour, and what is usual at an hour of the day or the week.

use std::collections::BTreeMap;

use nightwatt_energy::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

/// Hours kept: thirty years of them.
const KEPT: usize = 1 << 18;

/// Requests of an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hour {
    /// Requests.
    pub requests: u64,
    /// Local time minus UTC, in seconds.
    pub utc_offset: i32,
}

/// Requests by hour of local time.
///
/// Hours are told apart by when they begin in UTC, so where clocks go back the two hours of one
/// name stay two, and where they go forward none is missing. Of more than 2^18 hours with requests
/// the latest are kept, which merging does not change; the rest is counted in [`Hours::forgotten`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hours {
    /// By beginning, in seconds since 1970, UTC.
    hours: BTreeMap<i64, Hour>,
    forgotten: u64,
}

/// What is usual at one hour of the day or the week.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Typical {
    /// Such hours from the first to the last request, those without any request included.
    pub hours: u64,
    /// Mean of requests in such an hour.
    pub mean: f64,
    /// Median of requests in such an hour.
    pub median: f64,
}

/// When the local hour of a time begins, in seconds since 1970, UTC.
pub(crate) const fn beginning(at: Wall, utc_offset: i32) -> i64 {
    let offset = utc_offset as i64;
    (at.secs() + offset).div_euclid(3600) * 3600 - offset
}

impl Hours {
    /// Counts requests at a time.
    pub fn add(&mut self, at: Wall, utc_offset: i32, requests: u64) {
        self.add_hour(beginning(at, utc_offset), Hour { requests, utc_offset });
    }

    /// Adds another's requests.
    pub fn merge(&mut self, other: &Self) {
        self.forgotten += other.forgotten;
        for (&begins, &hour) in &other.hours {
            self.add_hour(begins, hour);
        }
    }

    /// Hours with requests, by their beginning in seconds since 1970, UTC.
    pub fn iter(&self) -> impl Iterator<Item = (i64, Hour)> {
        self.hours.iter().map(|(&begins, &hour)| (begins, hour))
    }

    /// Requests of hours that there was no room for.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// By hour of the local day, 0 ..= 23.
    pub fn of_day(&self) -> [Typical; 24] {
        self.typical(|now| (now.second_of_day() / 3600) as usize)
    }

    /// By hour of the local week, 0 ..= 167; 0 begins on Monday at midnight.
    pub fn of_week(&self) -> [Typical; 168] {
        self.typical(|now| now.hour_of_week() as usize)
    }

    pub(crate) fn clear(&mut self) {
        self.hours.clear();
        self.forgotten = 0;
    }

    fn add_hour(&mut self, begins: i64, hour: Hour) {
        if hour.requests == 0 {
            return;
        }
        if let Some(known) = self.hours.get_mut(&begins) {
            known.requests += hour.requests;
            // Two logs of one site may differ in this; the larger wins, in whatever order.
            known.utc_offset = known.utc_offset.max(hour.utc_offset);
            return;
        }
        self.hours.insert(begins, hour);
        if self.hours.len() > KEPT
            && let Some((_, earliest)) = self.hours.pop_first()
        {
            self.forgotten += earliest.requests;
        }
    }

    fn typical<const N: usize>(&self, bin_of: impl Fn(&Now) -> usize) -> [Typical; N] {
        let bin_at = |begins: i64, utc_offset| {
            bin_of(&Now { mono: Mono::ZERO, wall: Wall::from_secs(begins), utc_offset })
        };
        let mut busy: [Vec<u64>; N] = std::array::from_fn(|_| Vec::new());
        let mut empty = [0_u64; N];
        let mut before: Option<(i64, i32)> = None;
        for (begins, hour) in self.iter() {
            if let Some((last, utc_offset)) = before {
                // Whole hours between the two. Where clocks changed, the moment is not known: we take the
                // middle, so that the hours next to either end have that end's offset.
                let between = ((begins - last) / 3600 - 1).max(0);
                for empty in &mut empty {
                    *empty += between.unsigned_abs() / 168 * (168 / N as u64);
                }
                let rest = between % 168;
                for nth in 1..=rest {
                    let bin = if nth <= rest / 2 {
                        bin_at(last + nth * 3600, utc_offset)
                    } else {
                        bin_at(begins - (rest + 1 - nth) * 3600, hour.utc_offset)
                    };
                    empty[bin] += 1;
                }
            }
            busy[bin_at(begins, hour.utc_offset)].push(hour.requests);
            before = Some((begins, hour.utc_offset));
        }
        std::array::from_fn(|bin| typical(&mut busy[bin], empty[bin]))
    }
}

/// Of hours with requests, and this many without.
fn typical(busy: &mut [u64], empty: u64) -> Typical {
    let hours = busy.len() as u64 + empty;
    if hours == 0 {
        return Typical::default();
    }
    busy.sort_unstable();
    let ranked = |rank: u64| {
        rank.checked_sub(empty).and_then(|rank| busy.get(rank as usize)).map_or(0.0, |&n| n as f64)
    };
    Typical {
        hours,
        mean: busy.iter().sum::<u64>() as f64 / hours as f64,
        median: f64::midpoint(ranked((hours - 1) / 2), ranked(hours / 2)),
    }
}

#[cfg(test)]
#[path = "hours_tests.rs"]
mod tests;
