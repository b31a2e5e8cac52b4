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

/// All of a log but the few requests that lie years before or after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MainPart {
    /// The last of those before it.
    pub(super) after: Option<Mono>,
    /// The first of those after it.
    pub(super) before: Option<Mono>,
}

/// The pauses of years in a log.
#[derive(Debug, Default)]
pub(super) struct Apart {
    requests: u64,
    last: Mono,
    pauses: Vec<YearsApart>,
    /// The first request that does not count, because it comes days after the first one.
    ends_before: Option<Mono>,
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

    /// The log is read no further than to this request, which is too many days after the first one.
    pub(super) fn ends_before(&mut self, at: Mono) {
        self.ends_before = Some(at);
    }

    /// `None` if there are no such few.
    pub(super) fn main_part(&self) -> Option<MainPart> {
        let has_begun_years_later = self.ends_before.is_some_and(|it| it.since(self.last) >= LEAST)
            && self.requests <= MOST;
        if has_begun_years_later {
            return Some(MainPart { after: Some(self.last), before: None });
        }
        let few = MOST.min(self.requests / ONE_IN);
        let after = self.pauses.iter().rfind(|it| it.requests <= few).map(|it| it.after);
        let before = self.pauses.iter().find(|it| self.requests - it.requests <= few);
        let before = before.map(|it| it.before);
        (after.is_some() || before.is_some()).then_some(MainPart { after, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86_400;

    fn main_part(times: impl IntoIterator<Item = u64>) -> Option<MainPart> {
        let mut apart = Apart::default();
        times.into_iter().for_each(|at| apart.request(Mono::from_secs(at)));
        apart.main_part()
    }

    fn part(after: Option<u64>, before: Option<u64>) -> MainPart {
        MainPart { after: after.map(Mono::from_secs), before: before.map(Mono::from_secs) }
    }

    #[test]
    fn a_few_requests_years_away_are_apart_and_a_part_of_the_log_is_not() {
        let hours = |from: u64, count: u64| (0..count).map(move |hour| from + hour * 3600);
        let late = 170 * YEAR;
        assert_eq!(main_part(hours(0, 200)), None);
        assert_eq!(main_part(hours(0, 200).chain([late])), Some(part(None, Some(late))));
        let both = [0].into_iter().chain(hours(60 * YEAR, 200)).chain([late]);
        assert_eq!(main_part(both), Some(part(Some(0), Some(late))));
        let several = hours(0, 200).chain([2 * YEAR, 4 * YEAR, late]);
        assert_eq!(main_part(several), Some(part(None, Some(2 * YEAR))));
        // A second part of the log, a pause of less than a year, and a log of which one in three would be left out.
        assert_eq!(main_part(hours(0, 200).chain(hours(2 * YEAR, 11))), None);
        assert_eq!(main_part(hours(0, 200).chain([YEAR])), None);
        assert_eq!(main_part([0, 3600, late]), None);
        assert_eq!(main_part([]), None);
    }

    #[test]
    fn a_wrong_date_before_the_days_that_are_asked_for_is_apart() {
        for (next, expected) in [(60 * YEAR, Some(part(Some(0), None))), (2 * 86_400, None)] {
            let mut apart = Apart::default();
            apart.request(Mono::ZERO);
            apart.ends_before(Mono::from_secs(next));
            assert_eq!(apart.main_part(), expected);
        }
    }
}
