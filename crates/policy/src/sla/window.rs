//! The published SLA: at most a share of requests waits, on each day or in a rolling window.

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_energy::zone::Zone;

use super::RequestShare;
use super::day::Today;

/// The window forgets in steps of this part of itself (24 h: 5 minutes).
const BUCKETS: u32 = 288;

const DAY: Duration = Duration::from_hours(24);

/// Traffic is extrapolated from no less than this.
const FIRST_WATCH: Duration = Duration::from_hours(1);

/// The rest of today is expected to bring this share of what the same hours brought yesterday.
const EXPECTED_OF_YESTERDAY: f64 = 0.18;

/// Days that are remembered, and how many of them may have exceeded the share before nightwatt is careful.
const DAYS_REMEMBERED: u32 = 28;
const DAYS_OVER_ALLOWED: u32 = 2;

/// A sleep is expected to delay at most this share of what a day allows, or one request: one burst may not end the sleep
/// of a week.
const MOST_OF_A_DAY: f64 = 0.1;

/// A careful sleep is expected to delay this many times as many requests as recent ones did.
const CAREFUL: f64 = 2.0;

/// How many requests were seen and delayed in the last window.
///
/// Counts are kept in 288 buckets, so a request is forgotten up to 1/288 of the window late; memory
/// is bounded whatever the traffic.
///
/// A window of 24 hours is the calendar day, because people look at days. Delays of yesterday evening then do not
/// forbid sleeps this morning, and a quiet day does not inherit what yesterday's traffic has paid for.
#[derive(Debug, Clone)]
pub struct SlaWindow {
    sla: RequestShare,
    buckets: VecDeque<Bucket>,
    seen: u64,
    delayed: u64,
    today: Today,
    seen_yesterday: u64,
    days_over: DaysOver,
    /// When something is forgotten next.
    forgets: Mono,
    /// The first request was seen.
    began: Option<Mono>,
    /// When the newest bucket ends.
    newest_ends: Mono,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    ends: Mono,
    seen: u64,
    delayed: u64,
}

/// Which of the last days exceeded the share: a bit for each, the newest lowest.
#[derive(Debug, Clone, Copy, Default)]
struct DaysOver(u32);

impl DaysOver {
    /// A day ended, this many days ago.
    fn add(&mut self, was_over: bool, days_ago: u32) {
        let days = (u64::from(self.0) << 1 | u64::from(was_over))
            .checked_shl(days_ago.saturating_sub(1))
            .unwrap_or(0);
        self.0 = (days & ((1 << DAYS_REMEMBERED) - 1)) as u32;
    }

    const fn are_too_many(self) -> bool {
        self.0.count_ones() > DAYS_OVER_ALLOWED
    }
}

impl SlaWindow {
    /// An empty window.
    pub fn new(sla: RequestShare) -> Self {
        Self {
            sla,
            buckets: VecDeque::new(),
            seen: 0,
            delayed: 0,
            today: Today::default(),
            seen_yesterday: 0,
            days_over: DaysOver::default(),
            forgets: Mono::NEVER,
            began: None,
            newest_ends: Mono::ZERO,
        }
    }

    /// The SLA kept here.
    pub const fn sla(&self) -> &RequestShare {
        &self.sla
    }

    /// An admitted request arrived.
    pub fn saw(&mut self, now: Now) {
        self.began.get_or_insert(now.mono);
        self.bucket(now.mono).seen += 1;
        self.seen += 1;
        self.today(now).seen += 1;
    }

    /// One of those that arrived was delayed, since `then`.
    pub fn delayed(&mut self, now: Now, then: Now) {
        self.bucket(now.mono).delayed += 1;
        self.delayed += 1;
        self.today(now).delayed(now, then);
    }

    /// Requests seen and requests delayed within the window: today, if it is 24 h.
    pub fn counts(&mut self, now: Now) -> (u64, u64) {
        if self.is_of_days() {
            let today = self.today(now);
            return (today.seen, today.delayed);
        }
        self.rolling(now)
    }

    /// The same in the time until now of the window's length.
    fn rolling(&mut self, now: Now) -> (u64, u64) {
        self.forget(now.mono);
        (self.seen, self.delayed)
    }

    fn is_of_days(&self) -> bool {
        self.sla.window == DAY
    }

    /// Today. Whether a day that has ended exceeded the share is remembered.
    fn today(&mut self, now: Now) -> &mut Today {
        let before = self.today;
        let today = *self.today.at(now);
        let days_ago = today.day().saturating_sub(before.day());
        if let Ok(days_ago @ 1..) = u32::try_from(days_ago) {
            let was_over = before.delayed as f64 > self.sla.share * before.seen as f64;
            self.days_over.add(was_over, days_ago);
            self.seen_yesterday = if days_ago == 1 { before.seen } else { 0 };
        }
        &mut self.today
    }

    /// Delays that the promise allows in a window at the present traffic. While less than a window was
    /// watched, the rest is taken to be like it; an hour at least, since the first visitors come in a
    /// burst.
    pub fn allowed(&mut self, now: Now) -> f64 {
        let (seen, _) = self.rolling(now);
        let window = self.sla.window;
        let watched = self.began.map_or(window, |began| now.mono.since(began));
        let part = watched.max(FIRST_WATCH).min(window);
        self.sla.share * seen as f64 * (window.as_secs_f64() / part.as_secs_f64().max(1e-3))
    }

    /// How much of what the promise allows would be used if another sleep delayed requests, of which recent sleeps
    /// delayed `more`: the delayed over `share` of the seen, (D + K) / (share x (N + K)). Up to 1 the promise is kept.
    ///
    /// In a rolling window K is `more`. On a calendar day it is `more` too, but at most a tenth of what the day allows or
    /// 1, and N includes what is still expected today. After more than two days over the share in 28, K is twice
    /// `more`, and N only what was seen.
    pub fn used(&mut self, now: Now, more: f64) -> f64 {
        let (seen, delayed) = self.counts(now);
        let (more, all) = if !self.is_of_days() {
            (more, seen as f64)
        } else if self.days_over.are_too_many() {
            (CAREFUL * more, seen as f64)
        } else {
            let all = seen as f64 + self.expected_today(now);
            (more.min((MOST_OF_A_DAY * self.sla.share * all).max(1.0)), all)
        };
        (delayed as f64 + more) / (self.sla.share * (all + more)).max(f64::MIN_POSITIVE)
    }

    /// Requests that the rest of today is expected to bring: 0.2 of what the same hours brought yesterday, and less in
    /// the measure in which today has been quieter until now.
    fn expected_today(&mut self, now: Now) -> f64 {
        let (in_a_day, _) = self.rolling(now);
        let today = self.today(now).seen;
        let rest_of_yesterday = in_a_day.saturating_sub(today);
        let until_now = self.seen_yesterday.saturating_sub(rest_of_yesterday);
        let busier = (today as f64 + 1.0) / (until_now as f64 + 1.0);
        EXPECTED_OF_YESTERDAY * rest_of_yesterday as f64 * busier.min(1.0)
    }

    /// When more may be allowed without anything being seen: at midnight, or when something is forgotten.
    pub fn changes_at(&self, now: Now, zone: &Zone) -> Mono {
        if self.is_of_days() { self.today.ends(now, zone) } else { self.forgets }
    }

    fn step(&self) -> Duration {
        (self.sla.window / BUCKETS).max(Duration::from_millis(1))
    }

    /// The bucket of this moment. Time is divided only where a bucket begins.
    fn bucket(&mut self, now: Mono) -> &mut Bucket {
        self.forget(now);
        if now >= self.newest_ends || self.buckets.is_empty() {
            let step = self.step();
            let into = (now.0.as_nanos() % step.as_nanos()) as u64;
            self.newest_ends = now + step.saturating_sub(Duration::from_nanos(into));
            self.buckets.push_back(Bucket { ends: self.newest_ends, seen: 0, delayed: 0 });
            self.plan_forgetting();
        }
        let last = self.buckets.len() - 1;
        &mut self.buckets[last]
    }

    fn plan_forgetting(&mut self) {
        let oldest = self.buckets.front();
        self.forgets = oldest.map_or(Mono::NEVER, |oldest| oldest.ends + self.sla.window);
    }

    fn forget(&mut self, now: Mono) {
        while self.forgets <= now {
            let Some(old) = self.buckets.pop_front() else { break };
            self.seen -= old.seen;
            self.delayed -= old.delayed;
            self.plan_forgetting();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nightwatt_energy::time::Wall;

    fn a_tenth_in_a_day() -> SlaWindow {
        let window = Duration::from_hours(24);
        SlaWindow::new(RequestShare { share: 0.1, delay: Duration::from_millis(50), window })
    }

    fn at(second: u64) -> Now {
        let wall = Wall::from_secs(second.cast_signed());
        Now { mono: Mono::from_secs(second), wall, utc_offset: 0 }
    }

    fn allows(window: &mut SlaWindow, now: Now, more: f64) -> bool {
        window.used(now, more) <= 1.0
    }

    #[test]
    fn nothing_seen_allows_no_delay() {
        assert!(!allows(&mut a_tenth_in_a_day(), at(0), 1.0));
    }

    #[test]
    fn nine_seen_allow_the_tenth_to_wait_and_no_other() {
        let mut window = a_tenth_in_a_day();
        for second in 0..9 {
            window.saw(at(second));
        }
        let now = at(10);
        assert!(allows(&mut window, now, 1.0), "(0 + 1) / (9 + 1) = 0.1");
        window.saw(now);
        window.delayed(now, now);
        assert!(!allows(&mut window, now, 1.0), "(1 + 1) / (10 + 1) > 0.1");
    }

    #[test]
    fn a_burst_in_one_sleep_does_not_forbid_the_next_ones() {
        let mut window = a_tenth_in_a_day();
        for second in 0..99 {
            window.saw(at(second));
        }
        let used = window.used(at(100), 50.0);
        assert!(
            (used - 0.1).abs() < 1e-9,
            "K is 1, a tenth of 9.9: 1 / (0.1 x 100), and not {used}"
        );
    }

    #[test]
    fn a_day_later_all_is_forgotten() {
        let mut window = a_tenth_in_a_day();
        let noon = 43_200;
        window.saw(at(noon));
        window.delayed(at(noon), at(noon));
        assert_eq!(window.counts(at(86_399)), (1, 1));
        assert_eq!(window.counts(at(86_400)), (0, 0), "another day");
        assert_eq!(window.rolling(at(noon + 86_399)), (1, 1));
        assert_eq!(window.rolling(at(noon + 86_700)), (0, 0));
        assert_eq!(window.forgets, Mono::NEVER);
    }

    #[test]
    fn the_first_hours_stand_for_the_window_until_it_was_watched() {
        let mut window = a_tenth_in_a_day();
        assert!(window.allowed(at(0)).abs() < 1e-9);
        for n in 0..60 {
            window.saw(at(n * 60));
        }
        assert!((window.allowed(at(600)) - 0.1 * 60.0 * 24.0).abs() < 1e-9, "an hour at least");
        assert!((window.allowed(at(6 * 3600)) - 0.1 * 60.0 * 4.0).abs() < 1e-9);
        assert!((window.allowed(at(86_399)) - 6.0).abs() < 1e-3);
    }

    /// Lets `delayed` of `seen` requests wait at noon of this day.
    fn day(window: &mut SlaWindow, day: u64, seen: u64, delayed: u64) {
        for n in 0..seen {
            let noon = at(day * 86_400 + 43_200 + n);
            window.saw(noon);
            if n < delayed {
                window.delayed(noon, noon);
            }
        }
    }

    #[test]
    fn a_calendar_day_pays_for_its_own_delays() {
        // 1,000 requests in the evening before, all delayed. The new day expects 0.2 of them: 1 / (0.1 x (200 + 1)).
        let mut window = a_tenth_in_a_day();
        for n in 0..1000 {
            window.saw(at(80_000 + n));
            window.delayed(at(80_000 + n), at(80_000 + n));
        }
        let midnight = at(86_400);
        assert!((window.used(midnight, 1.0) - 1.0 / 20.1).abs() < 1e-9);
        // 20 were delayed, and only 100 have come by the evening: no more today. At midnight that is
        // over.
        day(&mut window, 1, 100, 20);
        let evening = at(86_400 + 82_000);
        assert!(!allows(&mut window, evening, 1.0));
        assert_eq!(window.changes_at(evening, &Zone::default()), Mono::from_secs(2 * 86_400));
    }

    #[test]
    fn after_three_days_over_the_share_in_four_weeks_it_is_careful() {
        let mut window = a_tenth_in_a_day();
        for (number, delayed) in [(1, 11), (2, 10), (3, 11), (9, 11)] {
            day(&mut window, number, 100, delayed);
            assert!(!window.days_over.are_too_many(), "day {number} has not ended");
        }
        // Else K would be 1, and N would include 30 of the 100 requests of the day before.
        let next = |number: u64| at(number * 86_400);
        assert!((window.used(next(10), 5.0) - 5.0 / 0.5).abs() < 1e-9, "5 of no others");
        // Day 1 leaves the 28 days with the end of day 29.
        day(&mut window, 28, 100, 0);
        assert!(window.days_over.are_too_many());
        window.saw(next(30));
        assert!(!window.days_over.are_too_many());
        let used = window.used(at(30 * 86_400 + 1), 5.0);
        assert!((used - 1.0 / 0.2).abs() < 1e-9, "1 of 2, and not {used}");
    }

    #[test]
    fn a_day_that_is_quieter_than_yesterday_expects_less_of_its_rest() {
        // 99 requests at noon yesterday, and 40 in its evening. 49 until the evening of today: half as many.
        let mut window = a_tenth_in_a_day();
        day(&mut window, 1, 99, 0);
        for n in 0..40 {
            window.saw(at(86_400 + 80_000 + n));
        }
        day(&mut window, 2, 49, 0);
        let used = window.used(at(2 * 86_400 + 79_000), 1.0);
        assert!((used - 1.0 / (0.1 * (49.0 + 0.2 * 40.0 * 0.5 + 1.0))).abs() < 1e-9, "{used}");
    }

    #[test]
    fn a_clock_that_jumps_from_1970_begins_with_no_day() {
        let mut window = a_tenth_in_a_day();
        day(&mut window, 0, 10, 10);
        day(&mut window, 20_000, 1, 0);
        assert_eq!(window.days_over.0, 0);
    }

    #[test]
    fn clocks_that_go_back_over_midnight_do_not_begin_the_day_again() {
        let mut window = a_tenth_in_a_day();
        let local = |second: u64, utc_offset| Now { utc_offset, ..at(second) };
        for (second, utc_offset) in [(86_400, 0), (86_410, -3600), (86_420, 0)] {
            window.saw(local(second, utc_offset));
            window.delayed(local(second, utc_offset), local(second, utc_offset));
        }
        assert_eq!((window.today.seen, window.today.delayed), (3, 3));
        // 23:00 UTC is midnight an hour east.
        window.saw(local(2 * 86_400 - 3600, 3600));
        assert_eq!((window.today.seen, window.today.delayed), (1, 0));
    }

    #[test]
    fn a_window_of_another_length_knows_no_days() {
        let window = Duration::from_hours(6);
        let mut window = SlaWindow::new(RequestShare { share: 0.1, delay: Duration::ZERO, window });
        for n in 0..9 {
            window.saw(at(86_300 + n));
        }
        assert!(allows(&mut window, at(86_400), 1.0));
    }
}
