//! The published SLA: at most a share of requests waits, in a rolling window.

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_energy::zone::Zone;

use super::RequestShare;
use super::day::Today;

/// The window forgets in steps of this part of itself (24 h: 5 minutes).
const BUCKETS: u32 = 288;

const DAY: Duration = Duration::from_hours(24);

/// Traffic is reckoned from no less than this.
const FIRST_WATCH: Duration = Duration::from_hours(1);

/// What is left of today is reckoned with this share of what the same hours saw yesterday.
const CAUTION: f64 = 0.1;

/// How many requests were seen and delayed in the last window.
///
/// Counts are kept in 288 buckets, so a request is forgotten up to 1/288 of the window late; memory
/// is bounded whatever the traffic.
///
/// A window of 24 hours is kept on each calendar day too. The rolling window alone would let a quiet
/// day inherit the delays that yesterday's traffic has paid for, and people look at days.
#[derive(Debug, Clone)]
pub struct SlaWindow {
    sla: RequestShare,
    buckets: VecDeque<Bucket>,
    seen: u64,
    delayed: u64,
    today: Today,
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

impl SlaWindow {
    /// An empty window.
    pub fn new(sla: RequestShare) -> Self {
        Self {
            sla,
            buckets: VecDeque::new(),
            seen: 0,
            delayed: 0,
            today: Today::default(),
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
        self.today.at(now).seen += 1;
    }

    /// One of those that arrived was delayed, since `then`.
    pub fn delayed(&mut self, now: Now, then: Now) {
        self.bucket(now.mono).delayed += 1;
        self.delayed += 1;
        self.today.delayed(now, then);
    }

    /// Requests seen and requests delayed within the window.
    pub fn counts(&mut self, now: Now) -> (u64, u64) {
        self.forget(now.mono);
        (self.seen, self.delayed)
    }

    /// Delays that the SLA allows in a window at the present traffic. While less than a window was
    /// watched, the rest is taken to be like it; an hour at least, since the first visitors come in a
    /// burst.
    pub fn allowed(&mut self, now: Now) -> f64 {
        let (seen, _) = self.counts(now);
        let window = self.sla.window;
        let watched = self.began.map_or(window, |began| now.mono.since(began));
        let part = watched.max(FIRST_WATCH).min(window);
        self.sla.share * seen as f64 * (window.as_secs_f64() / part.as_secs_f64().max(1e-3))
    }

    /// How much of what the SLA allows would be used if `more` requests were delayed: the delayed
    /// over `share` of the seen, (D + K) / (share x (N + K)). Up to 1 the SLA is kept.
    ///
    /// For a window of 24 hours the same is reckoned for the calendar day, with a tenth of what the
    /// remaining hours saw yesterday added to N, and the larger of both counts.
    pub fn used(&mut self, now: Now, more: f64) -> f64 {
        let (seen, delayed) = self.counts(now);
        let used = |delayed: u64, seen: f64| {
            (delayed as f64 + more) / (self.sla.share * (seen + more)).max(f64::MIN_POSITIVE)
        };
        let rolling = used(delayed, seen as f64);
        if self.sla.window != DAY {
            return rolling;
        }
        let today = *self.today.at(now);
        let rest = seen.saturating_sub(today.seen) as f64;
        rolling.max(used(today.delayed, today.seen as f64 + CAUTION * rest))
    }

    /// When more may be allowed without anything being seen: at midnight, or when something is
    /// forgotten.
    pub fn changes_at(&self, now: Now, zone: &Zone) -> Mono {
        if self.sla.window != DAY || self.today.delayed == 0 {
            return self.forgets;
        }
        self.forgets.min(self.today.ends(now, zone))
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
        assert!(!allows(&mut window, now, 2.0));
        window.saw(now);
        window.delayed(now, now);
        assert!(!allows(&mut window, now, 1.0), "(1 + 1) / (10 + 1) > 0.1");
    }

    #[test]
    fn a_day_later_all_is_forgotten() {
        let mut window = a_tenth_in_a_day();
        let noon = 43_200;
        window.saw(at(noon));
        window.delayed(at(noon), at(noon));
        assert_eq!(window.counts(at(noon + 86_399)), (1, 1));
        assert_eq!(window.counts(at(noon + 86_700)), (0, 0));
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

    #[test]
    fn a_calendar_day_pays_for_its_own_delays() {
        // 1,000 requests in the evening before, none delayed: the rolling window would allow 111
        // delays right after midnight, the new day a tenth of that.
        let mut window = a_tenth_in_a_day();
        for n in 0..1000 {
            window.saw(at(80_000 + n));
        }
        let midnight = at(86_400);
        assert!((window.used(midnight, 10.0) - 10.0 / (0.1 * 110.0)).abs() < 1e-9);
        assert!(allows(&mut window, midnight, 11.0) && !allows(&mut window, midnight, 12.0));
        // 20 were delayed, and only 100 have come by the evening: no more today. At midnight that is
        // over.
        for n in 0..100 {
            window.saw(at(90_000 + n));
            if n < 20 {
                window.delayed(at(90_000 + n), at(90_000 + n));
            }
        }
        let evening = at(86_400 + 82_000);
        assert!(!allows(&mut window, evening, 1.0));
        assert_eq!(window.changes_at(evening, &Zone::default()), Mono::from_secs(2 * 86_400));
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
