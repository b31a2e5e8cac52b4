//! The published policy: sleep when the mean gap between the last requests says that it pays.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Idle, Observation, SleepPolicy, Verdict};
use nightwatt_energy::time::{Mono, Now};

/// Gaps that the mean is taken over.
const GAPS: usize = 10;

/// Takes the mean of the last ten gaps between requests that need the server as the expected idle
/// time, and sleeps when that exceeds the break-even time.
///
/// The gap that is running now counts as one of the ten, else a burst of requests would keep the
/// server up for ever.
#[derive(Debug, Clone)]
pub struct Window {
    break_even: Duration,
    /// Completed gaps, the running one not among them: at most nine.
    gaps: VecDeque<Duration>,
    total: Duration,
    last: Option<Mono>,
}

impl Window {
    /// For a server whose sleeps pay after `break_even`.
    pub const fn new(break_even: Duration) -> Self {
        Self { break_even, gaps: VecDeque::new(), total: Duration::ZERO, last: None }
    }

    /// When the running gap will have made the mean long enough.
    fn pays_at(&self, began: Mono) -> Mono {
        let count = u32::try_from(self.gaps.len() + 1).unwrap_or(u32::MAX);
        began + self.break_even.saturating_mul(count).saturating_sub(self.total)
    }
}

impl SleepPolicy for Window {
    fn observe(&mut self, now: Now, seen: &Observation) {
        if !seen.needs_server {
            return;
        }
        if let Some(last) = self.last.replace(now.mono) {
            let gap = now.mono.since(last);
            self.gaps.push_back(gap);
            self.total += gap;
            if self.gaps.len() >= GAPS {
                self.total -= self.gaps.pop_front().unwrap_or_default();
            }
        }
    }

    fn verdict(&mut self, now: Now, idle: &Idle) -> Verdict {
        let pays_at = self.pays_at(self.last.unwrap_or(idle.since));
        if now.mono > pays_at {
            return Verdict::Sleep;
        }
        // The mean must exceed the break-even time, so ask just after they are equal.
        Verdict::AskAgainAt(pays_at + Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::admission::ClientClass;
    use crate::visit::Visitor;

    const REQUEST: Observation = Observation {
        visitor: Visitor(1),
        class: ClientClass::Human,
        needs_server: true,
        delayed: false,
    };

    fn at(seconds: f64) -> Now {
        Now { mono: Mono(Duration::from_secs_f64(seconds)), ..Now::default() }
    }

    fn idle(since: f64) -> Idle {
        let (since, wake_time) = (at(since).mono, Duration::from_secs(5));
        Idle { since, awake_since: Mono::ZERO, sla: None, wake_time }
    }

    #[test]
    fn ten_gaps_of_five_seconds_pay_and_of_three_do_not() {
        for (gap, pays) in [(5.0, true), (3.0, false)] {
            let mut policy = Window::new(Duration::from_secs_f64(4.09));
            let mut last = 0.0;
            for n in 0..20 {
                last = f64::from(n) * gap;
                policy.observe(at(last), &REQUEST);
            }
            let verdict = policy.verdict(at(last + gap), &idle(last));
            assert_eq!(verdict == Verdict::Sleep, pays, "gaps of {gap} s: {verdict:?}");
        }
    }

    #[test]
    fn after_a_burst_the_running_gap_alone_must_make_the_mean() {
        let mut policy = Window::new(Duration::from_secs(4));
        for n in 0..50 {
            policy.observe(at(f64::from(n) * 0.01), &REQUEST);
        }
        // Nine gaps of 10 ms and the running one: mean > 4 s when that exceeds 40 - 0.09 s.
        let last = 0.49;
        assert_ne!(policy.verdict(at(last + 39.90), &idle(last)), Verdict::Sleep);
        assert_eq!(policy.verdict(at(last + 39.92), &idle(last)), Verdict::Sleep);
    }

    #[test]
    fn what_the_cache_can_answer_is_no_gap() {
        let mut policy = Window::new(Duration::from_secs(4));
        policy.observe(at(0.0), &REQUEST);
        let before = policy.verdict(at(1.0), &idle(0.0));
        policy.observe(at(1.0), &Observation { needs_server: false, ..REQUEST });
        assert_eq!(policy.verdict(at(1.0), &idle(0.0)), before);
    }

    proptest! {
        /// The closed form agrees with taking the mean literally.
        #[test]
        fn the_verdict_is_the_mean_of_the_last_ten_gaps(
            gaps in proptest::collection::vec(1_u32..20_000, 0..30),
            running in 1_u32..60_000,
        ) {
            let break_even = 4.09;
            let mut policy = Window::new(Duration::from_secs_f64(break_even));
            let mut now = 0.0;
            policy.observe(at(now), &REQUEST);
            for gap in &gaps {
                now += f64::from(*gap) / 1000.0;
                policy.observe(at(now), &REQUEST);
            }
            let running = f64::from(running) / 1000.0;
            let recent: Vec<f64> =
                gaps.iter().rev().take(9).map(|gap| f64::from(*gap) / 1000.0).collect();
            let mean = (recent.iter().sum::<f64>() + running) / (recent.len() + 1) as f64;
            prop_assume!((mean - break_even).abs() > 1e-6);
            let sleeps = policy.verdict(at(now + running), &idle(now)) == Verdict::Sleep;
            prop_assert_eq!(sleeps, mean > break_even);
        }

        /// Asking again when the policy says so gets a yes.
        #[test]
        fn the_time_to_ask_again_is_right(gaps in proptest::collection::vec(1_u32..9_000, 1..30)) {
            let mut policy = Window::new(Duration::from_secs_f64(4.09));
            let mut now = 0.0;
            for gap in &gaps {
                now += f64::from(*gap) / 1000.0;
                policy.observe(at(now), &REQUEST);
            }
            if let Verdict::AskAgainAt(then) = policy.verdict(at(now), &idle(now)) {
                let then = Now { mono: then, ..Now::default() };
                prop_assert_eq!(policy.verdict(then, &idle(now)), Verdict::Sleep);
            }
        }
    }
}
