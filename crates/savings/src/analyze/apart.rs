//! Finds requests that lie years apart from all others: of a wrong clock, or of a line that is no part of the log.

use std::time::Duration;

use nightwatt_energy::time::Mono;

/// What lies no further from the others is a part of the log.
const LEAST: Duration = Duration::from_hours(365 * 24);

/// No more requests than this are left out, and no more than one in so many.
const MOST: u64 = 10;
const ONE_IN: u64 = 20;

/// A pause of years. Dates have four digits, so that there are few.
#[derive(Debug, Clone, Copy)]
struct YearsApart {
    after: Mono,
    before: Mono,
    /// Requests up to it.
    requests: u64,
}

/// The pauses of years in a log.
#[derive(Debug, Default)]
pub(super) struct Apart {
    requests: u64,
    last: Mono,
    pauses: Vec<YearsApart>,
}

impl Apart {
    /// A request, not before the last one.
    pub(super) fn request(&mut self, at: Mono) {
        if self.requests > 0 && at.since(self.last) >= LEAST {
            let (after, requests) = (self.last, self.requests);
            self.pauses.push(YearsApart { after, before: at, requests });
        }
        self.requests += 1;
        self.last = at;
    }

    /// The first and the last request of all but the few that lie years before or after them; none if there are no
    /// such few.
    pub(super) fn main_part(&self) -> Option<(Mono, Mono)> {
        let few = MOST.min(self.requests / ONE_IN);
        let first = self.pauses.iter().rfind(|it| it.requests <= few).map(|it| it.before);
        let last = self.pauses.iter().find(|it| self.requests - it.requests <= few);
        let last = last.map(|it| it.after);
        if first.is_none() && last.is_none() {
            return None;
        }
        Some((first.unwrap_or(Mono::ZERO), last.unwrap_or(self.last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86_400;

    fn main_part(times: impl IntoIterator<Item = u64>) -> Option<(u64, u64)> {
        let mut apart = Apart::default();
        times.into_iter().for_each(|at| apart.request(Mono::from_secs(at)));
        apart.main_part().map(|(first, last)| (first.0.as_secs(), last.0.as_secs()))
    }

    #[test]
    fn a_few_requests_years_away_are_apart_and_a_part_of_the_log_is_not() {
        let hours = |from: u64, count: u64| (0..count).map(move |hour| from + hour * 3600);
        let late = 170 * YEAR;
        assert_eq!(main_part(hours(0, 200)), None);
        assert_eq!(main_part(hours(0, 200).chain([late])), Some((0, 199 * 3600)));
        let both = [0].into_iter().chain(hours(60 * YEAR, 200)).chain([late]);
        assert_eq!(main_part(both), Some((60 * YEAR, 60 * YEAR + 199 * 3600)));
        let several = hours(0, 200).chain([2 * YEAR, 4 * YEAR, late]);
        assert_eq!(main_part(several), Some((0, 199 * 3600)));
        // A second part of the log, a pause of less than a year, and a log of which one in three would be left out.
        assert_eq!(main_part(hours(0, 200).chain(hours(2 * YEAR, 11))), None);
        assert_eq!(main_part(hours(0, 200).chain([YEAR])), None);
        assert_eq!(main_part([0, 3600, late]), None);
        assert_eq!(main_part([]), None);
    }
}
