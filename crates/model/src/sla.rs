//! The promise: at most a share of requests waits, in a rolling window.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Mono;

/// At most `share` of the requests in `window` may wait longer than `delay` because of a sleep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sla {
    /// 0 ..= 1.
    pub share: f64,
    /// What counts as waiting.
    pub delay: Duration,
    /// Length of the rolling window.
    pub window: Duration,
}

/// The window forgets in steps of this part of itself (24 h: 5 minutes).
const BUCKETS: u32 = 288;

/// How many requests were seen and delayed in the last window.
///
/// Counts are kept in 288 buckets, so a request is forgotten up to 1/288 of the window late; memory
/// is bounded whatever the traffic.
#[derive(Debug, Clone)]
pub struct SlaWindow {
    sla: Sla,
    buckets: VecDeque<Bucket>,
    seen: u64,
    delayed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    index: u64,
    seen: u64,
    delayed: u64,
}

impl SlaWindow {
    /// An empty window.
    pub const fn new(sla: Sla) -> Self {
        Self { sla, buckets: VecDeque::new(), seen: 0, delayed: 0 }
    }

    /// The promise kept here.
    pub const fn sla(&self) -> &Sla {
        &self.sla
    }

    /// An admitted request arrived.
    pub fn saw(&mut self, now: Mono) {
        self.bucket(now).seen += 1;
        self.seen += 1;
    }

    /// One of those that arrived was delayed.
    pub fn delayed(&mut self, now: Mono) {
        self.bucket(now).delayed += 1;
        self.delayed += 1;
    }

    /// Requests seen and requests delayed within the window.
    pub fn counts(&mut self, now: Mono) -> (u64, u64) {
        self.forget(now);
        (self.seen, self.delayed)
    }

    /// May `more` requests be delayed without breaking the promise: (D + K) / (N + K) <= share?
    pub fn allows(&mut self, now: Mono, more: f64) -> bool {
        let (seen, delayed) = self.counts(now);
        delayed as f64 + more <= self.sla.share * (seen as f64 + more)
    }

    /// When something will be forgotten next, if there is anything to forget.
    pub fn forgets_at(&self) -> Option<Mono> {
        let oldest = self.buckets.front()?;
        let step = self.step().as_secs_f64();
        Duration::try_from_secs_f64(
            (oldest.index + 1) as f64 * step + self.sla.window.as_secs_f64(),
        )
        .ok()
        .map(Mono)
    }

    fn step(&self) -> Duration {
        (self.sla.window / BUCKETS).max(Duration::from_millis(1))
    }

    fn index(&self, now: Mono) -> u64 {
        (now.as_secs_f64() / self.step().as_secs_f64()) as u64
    }

    fn bucket(&mut self, now: Mono) -> &mut Bucket {
        self.forget(now);
        let index = self.index(now);
        if self.buckets.back().is_none_or(|last| last.index < index) {
            self.buckets.push_back(Bucket { index, seen: 0, delayed: 0 });
        }
        let last = self.buckets.len() - 1;
        &mut self.buckets[last]
    }

    fn forget(&mut self, now: Mono) {
        while self.forgets_at().is_some_and(|at| at <= now) {
            if let Some(old) = self.buckets.pop_front() {
                self.seen -= old.seen;
                self.delayed -= old.delayed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_tenth_in_a_day() -> SlaWindow {
        let window = Duration::from_hours(24);
        SlaWindow::new(Sla { share: 0.1, delay: Duration::from_millis(50), window })
    }

    #[test]
    fn nothing_seen_allows_no_delay() {
        assert!(!a_tenth_in_a_day().allows(Mono::ZERO, 1.0));
    }

    #[test]
    fn nine_seen_allow_the_tenth_to_wait_and_no_other() {
        let mut window = a_tenth_in_a_day();
        for second in 0..9 {
            window.saw(Mono::from_secs(second));
        }
        let now = Mono::from_secs(10);
        assert!(window.allows(now, 1.0), "(0 + 1) / (9 + 1) = 0.1");
        assert!(!window.allows(now, 2.0));
        window.saw(now);
        window.delayed(now);
        assert!(!window.allows(now, 1.0), "(1 + 1) / (10 + 1) > 0.1");
    }

    #[test]
    fn a_day_later_all_is_forgotten() {
        let mut window = a_tenth_in_a_day();
        let noon = Mono::from_secs(43_200);
        window.saw(noon);
        window.delayed(noon);
        assert_eq!(window.counts(noon + Duration::from_secs(86_399)), (1, 1));
        assert_eq!(window.counts(noon + Duration::from_mins(1445)), (0, 0));
        assert_eq!(window.forgets_at(), None);
    }
}
