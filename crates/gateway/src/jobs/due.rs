//! When a job is due. Pure.

use nightwatt_energy::time::Now;
use nightwatt_energy::zone::Zone;
use serde::{Deserialize, Serialize};

use crate::config::At;

const DAY: i64 = 86_400;

/// What is known of a job over all starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The local day, counted from 1970, whose run was the last to begin, or from which on it is known.
    pub(crate) day: Option<i64>,
    /// When the last run began, ms since 1970.
    pub(crate) begun_ms: Option<i64>,
    /// When it ended: not if it was interrupted.
    pub(crate) ended_ms: Option<i64>,
    /// When the last run that succeeded ended.
    pub(crate) succeeded_ms: Option<i64>,
    /// For how long that one ran, s.
    pub(crate) took_s: Option<f64>,
    /// Runs that failed since then.
    pub(crate) failures: u32,
    /// Why the last one failed.
    pub(crate) problem: Option<String>,
    /// Whether the run that began last makes up for one that was interrupted.
    pub(crate) made_up: bool,
    /// The times for which `day` is known, as in the configuration.
    pub(crate) at: Option<String>,
    /// `day` before the clock was put back behind it.
    pub(crate) ahead: Option<i64>,
}

/// What to do about a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// The run of this day is to begin.
    pub(crate) run: Option<i64>,
    /// When the next one is, s since 1970.
    pub(crate) next: i64,
}

impl Record {
    /// A run that was missed, because the gateway did not run, or that was interrupted, is made up for once. A time that
    /// clocks skip is when they skip it; of one that comes twice, the first counts.
    pub(crate) fn due(&mut self, at: At, zone: &Zone, now: Now) -> Due {
        let wall = now.wall.secs();
        let local = wall + i64::from(zone.offset_at(now.wall, now.utc_offset));
        let today = local.div_euclid(DAY);
        let of = |day: i64| zone.first_at(day * DAY + at.second(), now.utc_offset).secs();
        let next = (today..=today + 7).filter(|day| at.is_on(*day)).map(of).find(|it| *it > wall);
        let next = next.unwrap_or(wall + DAY);
        let Some(last) = (today - 7..=today).rev().find(|day| at.is_on(*day) && of(*day) <= wall)
        else {
            return Due { run: None, next };
        };
        // Of a new job, the past counts as done, and of one that has other times now.
        let shown = at.shown();
        if self.at.as_ref().is_some_and(|before| *before != shown) {
            self.day = Some(last);
        }
        self.at = Some(shown);
        let mut known = *self.day.get_or_insert(last);
        if known > today {
            // The clock was wrong then, or is wrong now, as after a start without a battery.
            self.ahead = self.ahead.max(Some(known));
            self.day = Some(last);
            return Due { run: None, next };
        }
        if let Some(ahead) = self.ahead.take_if(|ahead| *ahead <= today) {
            known = known.max(ahead);
            self.day = Some(known);
        }
        Due { run: (last > known || self.is_interrupted()).then_some(last), next }
    }

    pub(crate) fn begin(&mut self, day: i64, now_ms: i64) {
        self.made_up = self.is_interrupted() && self.day == Some(day);
        // By the clock as it is now.
        (self.day, self.ahead) = (Some(day), None);
        (self.begun_ms, self.ended_ms) = (Some(now_ms), None);
    }

    /// No run may be under way. Gives whether the last one was interrupted, and was the second: that one failed.
    pub(crate) fn give_up(&mut self, now_ms: i64) -> bool {
        let gives_up = self.made_up && self.is_interrupted();
        if gives_up {
            self.end(now_ms, Err("it was interrupted twice".to_owned()));
        }
        gives_up
    }

    pub(crate) fn end(&mut self, now_ms: i64, result: Result<(), String>) {
        (self.ended_ms, self.made_up) = (Some(now_ms), false);
        match result {
            Ok(()) => {
                self.succeeded_ms = Some(now_ms);
                self.took_s = self.begun_ms.map(|begun| (now_ms - begun).max(0) as f64 * 1e-3);
                (self.failures, self.problem) = (0, None);
            }
            Err(why) => (self.failures, self.problem) = (self.failures + 1, Some(why)),
        }
    }

    /// Whether the last run has begun and not ended. Only one that is not under way was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.begun_ms.is_some() && self.ended_ms.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nightwatt_energy::time::{Mono, Wall};
    use nightwatt_energy::zone::OffsetChange;

    use super::*;

    /// A Friday.
    const FRIDAY: i64 = 20_784;

    fn now(day: i64, hour: i64) -> Now {
        let secs = day * DAY + hour * 3600 - 3600;
        Now { mono: Mono(Duration::ZERO), wall: Wall::from_secs(secs), utc_offset: 3600 }
    }

    fn at(text: &str) -> At {
        text.parse().unwrap()
    }

    /// Always the offset of `now`.
    fn fixed() -> Zone {
        Zone::default()
    }

    /// Central European time in 2027.
    fn berlin() -> Zone {
        let change = |at, utc_offset| OffsetChange { at: Wall::from_secs(at), utc_offset };
        Zone::new(vec![
            change(0, 3600),
            change(1_806_195_600, 7200), // 2027-03-28 01:00 UTC
            change(1_824_944_400, 3600), // 2027-10-31 01:00 UTC
        ])
    }

    #[test]
    fn a_new_job_waits_for_its_time_and_runs_once_a_day() {
        let (mut record, at) = (Record::default(), at("03:00"));
        let due = record.due(at, &fixed(), now(FRIDAY, 12));
        // 3 o'clock an hour east of UTC.
        assert_eq!(due, Due { run: None, next: (FRIDAY + 1) * DAY + 2 * 3600 });
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 1, 2)).run, None);
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 1, 3)).run, Some(FRIDAY + 1));
        record.begin(FRIDAY + 1, 5);
        record.end(6, Err("no".to_owned()));
        assert_eq!(
            record.due(at, &fixed(), now(FRIDAY + 1, 4)).run,
            None,
            "what failed waits for the next night"
        );
        assert_eq!((record.failures, record.problem.as_deref()), (1, Some("no")));
        // The clock is put back by an hour in summer time's end: still the same day.
        let earlier = Now { utc_offset: 0, ..now(FRIDAY + 1, 4) };
        assert_eq!(record.due(at, &fixed(), earlier).run, None);
    }

    #[test]
    fn what_was_missed_or_interrupted_is_made_up_for_once() {
        let (mut record, at) = (Record::default(), at("sat,sun 03:00"));
        record.due(at, &fixed(), now(FRIDAY, 12));
        // The gateway was off over the weekend.
        let due = record.due(at, &fixed(), now(FRIDAY + 3, 9));
        assert_eq!(due, Due { run: Some(FRIDAY + 2), next: (FRIDAY + 8) * DAY + 2 * 3600 });
        record.begin(FRIDAY + 2, 1000);
        assert_eq!(
            record.due(at, &fixed(), now(FRIDAY + 3, 10)).run,
            Some(FRIDAY + 2),
            "it was interrupted"
        );
        record.end(31_000, Ok(()));
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 3, 10)).run, None);
        assert_eq!((record.succeeded_ms, record.took_s), (Some(31_000), Some(30.0)));
    }

    /// One that takes the gateway down with it must not do so for ever.
    #[test]
    fn what_was_interrupted_twice_has_failed() {
        let (mut record, at) = (Record::default(), at("03:00"));
        record.due(at, &fixed(), now(FRIDAY, 12));
        record.begin(FRIDAY + 1, 1000);
        assert!(!record.give_up(1500));
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 1, 4)).run, Some(FRIDAY + 1));
        record.begin(FRIDAY + 1, 2000);
        assert!(record.give_up(2500));
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 1, 5)).run, None);
        assert_eq!(record.problem.as_deref(), Some("it was interrupted twice"));
        assert_eq!(
            record.due(at, &fixed(), now(FRIDAY + 2, 4)).run,
            Some(FRIDAY + 2),
            "the next night's"
        );
        record.begin(FRIDAY + 2, 3000);
        assert!(!record.give_up(3500), "it is the first of its night");
    }

    /// The fault of a review: at noon, a time that had passed was taken for one that was missed.
    #[test]
    fn another_time_begins_with_its_next() {
        let mut record = Record::default();
        record.due(at("22:00"), &fixed(), now(FRIDAY, 12));
        record.begin(FRIDAY, 5);
        record.end(6, Ok(()));
        let due = record.due(at("03:00"), &fixed(), now(FRIDAY + 1, 12));
        assert_eq!(due, Due { run: None, next: (FRIDAY + 2) * DAY + 2 * 3600 });
        assert_eq!(record.due(at("03:00"), &fixed(), now(FRIDAY + 2, 4)).run, Some(FRIDAY + 2));
        // The other way round, the day that has run already runs once more.
        record.begin(FRIDAY + 2, 7);
        record.end(8, Ok(()));
        assert_eq!(record.due(at("22:00"), &fixed(), now(FRIDAY + 2, 12)).run, None);
        assert_eq!(record.due(at("22:00"), &fixed(), now(FRIDAY + 2, 23)).run, Some(FRIDAY + 2));
    }

    /// A board without a battery starts in 1970, until it has asked a time server.
    #[test]
    fn a_clock_that_is_put_back_and_right_again_runs_nothing_twice() {
        let (mut record, at) = (Record::default(), at("03:00"));
        record.due(at, &fixed(), now(FRIDAY, 12));
        record.begin(FRIDAY + 1, 5);
        record.end(6, Ok(()));
        assert_eq!(record.due(at, &fixed(), now(0, 12)).run, None);
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 1, 4)).run, None, "it ran that night");
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 2, 4)).run, Some(FRIDAY + 2));
        // Back over midnight by an hour, at the end of summer time.
        let (mut record, at) = (Record::default(), super::tests::at("00:00"));
        record.due(at, &fixed(), now(FRIDAY, 12));
        record.begin(FRIDAY + 1, 5);
        record.end(6, Ok(()));
        assert_eq!(record.due(at, &fixed(), now(FRIDAY, 23)).run, None);
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 1, 0)).run, None, "it ran an hour ago");
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 2, 0)).run, Some(FRIDAY + 2));
    }

    #[test]
    fn a_day_in_the_future_was_of_a_wrong_clock() {
        let (mut record, at) = (Record { day: Some(40_000), ..Record::default() }, at("03:00"));
        assert_eq!(record.due(at, &fixed(), now(FRIDAY, 12)).run, None);
        assert_eq!(record.due(at, &fixed(), now(FRIDAY + 1, 4)).run, Some(FRIDAY + 1));
    }

    #[test]
    fn over_a_change_of_the_clock_a_job_is_due_when_clocks_show_its_time() {
        let at_utc = |day: i64, minute: i64, utc_offset: i32| Now {
            wall: Wall::from_secs(day * DAY + minute * 60),
            utc_offset,
            ..now(0, 0)
        };
        // 2027-03-28 is day 20,905. From 19:00 UTC the evening before, 20:00 by the clock.
        for (text, next) in [
            ("01:30", 20_905 * DAY + 1800), // 00:30 UTC
            ("02:30", 1_806_195_600),       // it is skipped, at 01:00 UTC
            ("04:00", 20_905 * DAY + 7200), // 02:00 UTC: in 7 h, not in 8
        ] {
            let due = Record::default().due(at(text), &berlin(), at_utc(20_904, 1140, 3600));
            assert_eq!(due, Due { run: None, next }, "{text}");
        }
        let (mut record, at) = (Record::default(), at("02:30"));
        record.due(at, &berlin(), at_utc(20_904, 1140, 3600));
        // The offset of `now` is looked up now and then only.
        let due = record.due(at, &berlin(), at_utc(20_905, 60, 3600));
        assert_eq!(due, Due { run: Some(20_905), next: 20_906 * DAY + 1800 });
    }

    #[test]
    fn a_time_that_clocks_show_twice_is_due_once() {
        // 2027-10-31 is day 21,122: 02:30 comes at 00:30 and at 01:30 UTC.
        let (mut record, at) = (Record::default(), at("02:30"));
        let mut due = |day: i64, minute: i64, utc_offset: i32| {
            let wall = Wall::from_secs(day * DAY + minute * 60);
            let due = record.due(at, &berlin(), Now { wall, utc_offset, ..now(0, 0) });
            if let Some(day) = due.run {
                record.begin(day, wall.0);
                record.end(wall.0 + 1000, Ok(()));
            }
            due
        };
        let (first, next_night) = (21_122 * DAY + 1800, 21_123 * DAY + 5400);
        assert_eq!(due(21_121, 1140, 7200), Due { run: None, next: first });
        assert_eq!(due(21_122, 30, 7200), Due { run: Some(21_122), next: next_night });
        // 02:10 for the second time, then 02:30.
        assert_eq!(due(21_122, 70, 3600), Due { run: None, next: next_night });
        assert_eq!(due(21_122, 90, 3600), Due { run: None, next: next_night });
        assert_eq!(due(21_123, 90, 3600).run, Some(21_123));
    }
}
