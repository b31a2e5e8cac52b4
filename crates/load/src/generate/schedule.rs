//! What is due when: pure, and the same for the same plan.

use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_policy::arrivals::{Arrivals, Times};

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

impl Plan {
    /// When the last request has had its share of the time: so that requests over that time are the
    /// rate, it is when the next one would have been due, which is not sent. Where arrivals end, it is
    /// the mean of their gaps after the last one.
    ///
    /// It may take going through all requests, until `stop` is told. `None` where nothing says when:
    /// without an end, or if all are due at once.
    pub fn end(&self, stop: &Stop) -> Option<Duration> {
        let Until { time, requests } = self.until;
        if requests.is_none() && !matches!(self.arrivals, Arrivals::Trace(_)) {
            return time;
        }
        let until = Until { time: None, requests: requests.map(|sent| sent.saturating_add(1)) };
        let dues = Schedule::new(&self.arrivals, &self.mix, self.seed, until);
        let mut ends = (Duration::MAX, Duration::ZERO);
        let mut count = 0_u64;
        for due in dues.take_while(|_| !stop.is_stopped()) {
            if time.is_some_and(|time| due.at >= time) {
                return time;
            }
            if requests == Some(count) && due.at > ends.1 {
                return Some(due.at);
            }
            ends = (ends.0.min(due.at), due.at);
            count += 1;
        }
        let span = ends.1.saturating_sub(ends.0);
        let gap = Some(span).filter(|span| !span.is_zero())?.div_f64((count - 1) as f64);
        let end = ends.1 + gap;
        Some(time.map_or(end, |time| time.min(end)))
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
    /// What the plan's warm-up and cool-down leave, if it ends at `end`; without an end there is no
    /// cool-down.
    pub fn of(plan: &Plan, end: Option<Duration>) -> Self {
        Self { from: plan.warm_up, to: end.map(|end| end.saturating_sub(plan.cool_down)) }
    }

    /// Does a request count that is due at this time?
    pub fn holds(&self, at: Duration) -> bool {
        at >= self.from && self.to.is_none_or(|to| at < to)
    }

    /// Its length, where the last request was over at `elapsed`, and no more were sent from `stopped`
    /// on if it was stopped.
    pub fn length(&self, elapsed: Duration, stopped: Option<Duration>) -> Duration {
        let to = self.to.unwrap_or(elapsed).min(stopped.unwrap_or(Duration::MAX));
        to.saturating_sub(self.from)
    }
}
