//! The savings of fixed time-outs since the start, and the clients they would have delayed: the frontier on
//! which an operator chooses.
//!
//! It sees only the requests that need the server. It doesn't see what else keeps a server awake (long
//! exchanges, its agent, hours in which it must not sleep), so it shows what the traffic alone allows.

use std::time::Duration;

use crate::sleep::Constraints;
pub use crate::sleep::timeouts::UnderTimeout;
use crate::sleep::timeouts::{DelayedUnder, Timeouts};
use crate::visit::{OpenVisits, Visitor};
use nightwatt_energy::time::Mono;

/// The time-outs, as an operator would set them. (The first is the least that `quiet` allows by default.)
const IDLE_S: [u64; 16] =
    [5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 604_800];

/// The frontier of one server.
#[derive(Debug)]
pub struct Frontier {
    begun: Mono,
    last: Mono,
    requests: u64,
    timeouts: Timeouts,
    visits: OpenVisits<DelayedUnder>,
}

impl Frontier {
    /// Begins now, with servers that are awake. A request that waits longer than `delay` counts as delayed.
    pub fn new(now: Mono, rules: Constraints, delay: Duration) -> Self {
        let idle = IDLE_S.iter().copied().map(Duration::from_secs).collect();
        Self {
            begun: now,
            last: now,
            requests: 0,
            timeouts: Timeouts::new(idle, rules, delay),
            visits: OpenVisits::default(),
        }
    }

    /// A request that only the server can answer. (Of two that come at once either may be reported first.)
    pub fn request(&mut self, at: Mono, visitor: Visitor) {
        self.last = self.last.max(at);
        self.requests += 1;
        let since = Mono(self.last.since(self.begun));
        self.timeouts.request(since, self.visits.of(self.last, visitor));
    }

    /// Requests it has seen.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// What each time-out came to by now.
    pub fn points(&self, now: Mono) -> Vec<UnderTimeout> {
        self.timeouts.finish(Mono(now.max(self.last).since(self.begun)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    const HOUR: u64 = 3600;

    /// A client comes once an hour, for a day, from an hour after the proxy's start at some time.
    fn of_a_day() -> (Frontier, Mono) {
        let scenario = Scenario::default();
        let begun = Mono::from_secs(77_777);
        let mut frontier = Frontier::new(begun, scenario.constraints(), scenario.sla.delay);
        for hour in 1..=23 {
            frontier.request(begun + Duration::from_secs(hour * HOUR), Visitor(hour % 2));
        }
        (frontier, begun + Duration::from_secs(24 * HOUR))
    }

    #[test]
    fn whoever_comes_once_an_hour_waits_under_every_time_out_below_an_hour() {
        let (frontier, end) = of_a_day();
        let points = frontier.points(end);
        assert_eq!((points.len(), frontier.requests()), (16, 23));
        for point in &points {
            let sleeps = point.idle < Duration::from_hours(1);
            let (delayed, cycles) = if sleeps { (23, 24) } else { (0, 0) };
            // A time-out of exactly an hour ends as the client comes: either outcome is correct.
            if point.idle != Duration::from_hours(1) {
                assert_eq!(point.delayed_requests, delayed, "{:?}", point.idle);
                assert_eq!(point.delayed_visits, delayed, "{:?}: an hour apart", point.idle);
                assert_eq!(point.bill.cycles, cycles, "{:?}", point.idle);
            }
            assert_eq!(point.bill.span(), Duration::from_hours(24));
        }
    }

    #[test]
    fn who_waits_twice_in_a_visit_is_one_delayed_visit() {
        let scenario = Scenario::default();
        let mut frontier = Frontier::new(Mono::ZERO, scenario.constraints(), scenario.sla.delay);
        let [ann, ben] = [Visitor(1), Visitor(2)];
        for (at, who) in [(600, ann), (1_200, ann), (1_800, ben), (9_000, ann)] {
            frontier.request(Mono::from_secs(at), who);
        }
        let points = frontier.points(Mono::from_secs(9_060));
        let minute = points.iter().find(|it| it.idle == Duration::from_mins(1)).unwrap();
        assert_eq!((minute.delayed_requests, minute.delayed_visits), (4, 3));
        let half_an_hour = points.iter().find(|it| it.idle == Duration::from_mins(30)).unwrap();
        assert_eq!((half_an_hour.delayed_requests, half_an_hour.delayed_visits), (1, 1));
    }

    #[test]
    fn who_is_told_late_is_taken_to_come_with_the_last() {
        let scenario = Scenario::default();
        let mut frontier = Frontier::new(Mono::ZERO, scenario.constraints(), scenario.sla.delay);
        frontier.request(Mono::from_secs(1_000), Visitor(1));
        frontier.request(Mono::from_secs(999), Visitor(2));
        let points = frontier.points(Mono::from_secs(500));
        assert!(points.iter().all(|it| it.bill.span() == Duration::from_secs(1_000)));
    }
}
