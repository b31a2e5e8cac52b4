//! What is due when: pure, and the same for the same plan.

use std::time::Duration;

use nightwatt_model::arrivals::{Arrivals, Times};

use super::Plan;
use super::mix::{Choices, Mix};

/// When sending is over: at a time, after so many requests, or at whichever comes first. Without
/// either, when the arrivals end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Until {
    /// Requests due later than this are not sent.
    pub time: Option<Duration>,
    /// So many are sent.
    pub requests: Option<u64>,
}

/// A request that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its number, from 0.
    pub number: u64,
    /// When, since the start.
    pub at: Duration,
    /// Which of the mix.
    pub wanted: u32,
}

/// All requests of a plan, in order of time.
#[derive(Debug, Clone)]
pub struct Schedule {
    times: Times,
    choices: Choices,
    until: Until,
    number: u64,
}

impl Schedule {
    /// Requests at `arrivals`, each for one of `mix`.
    pub fn new(arrivals: &Arrivals, mix: &Mix, seed: u64, until: Until) -> Self {
        Self { times: arrivals.times(seed), choices: mix.choices(seed), until, number: 0 }
    }
}

impl Iterator for Schedule {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        if self.until.requests.is_some_and(|most| self.number >= most) {
            return None;
        }
        // What lies beyond the 584 years of a Duration does not come.
        let at = Duration::try_from_secs_f64(self.times.next()?).ok()?;
        if self.until.time.is_some_and(|end| at >= end) {
            return None;
        }
        let wanted = self.choices.next()?;
        let number = self.number;
        self.number += 1;
        Some(Due { number, at, wanted })
    }
}

/// The time that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Requests due from here on count.
    pub from: Duration,
    /// And those due before this; all if that is not known.
    pub to: Option<Duration>,
}

impl Window {
    /// What the plan's warm-up and cool-down leave. Where the end is not known beforehand, it is found
    /// by going through all requests; arrivals without an end have no cool-down.
    pub fn of(plan: &Plan) -> Self {
        let has_last = plan.until.requests.is_some() || matches!(plan.arrivals, Arrivals::Trace(_));
        // The last request still counts.
        let after = |due: Due| due.at + Duration::from_nanos(1);
        let end = if has_last {
            Some(plan.schedule().last().map_or(Duration::ZERO, after))
        } else {
            plan.until.time
        };
        Self { from: plan.warm_up, to: end.map(|end| end.saturating_sub(plan.cool_down)) }
    }

    /// Does a request count that is due at this time?
    pub fn holds(&self, at: Duration) -> bool {
        at >= self.from && self.to.is_none_or(|to| at < to)
    }

    /// Its length, if the run lasts as long as planned; less if it ended at `ended`.
    pub fn length(&self, ended: Duration) -> Duration {
        let to = self.to.map_or(ended, |to| to.min(ended));
        to.saturating_sub(self.from)
    }
}
