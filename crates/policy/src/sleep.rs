//! When to sleep: the policies on offer, behind one trait.

mod choice;
mod learned;
mod oracle;
pub mod timeouts;
mod window;

use std::time::Duration;

pub use self::choice::PolicyChoice;
pub use self::learned::{Learned, Lessons};
pub use self::oracle::{Busy, BusyTimes, Constraints, Oracle, Plan, Waking, plan};
pub use self::window::Window;
use super::admission::ClientClass;
use crate::visit::Visitor;
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::{Mono, Now};

/// What a policy learns of a request that deserves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The visitor that asked.
    pub visitor: Visitor,
    /// What kind of client that is.
    pub class: ClientClass,
    /// Could only the server answer (no cache, not even a stale one)?
    pub needs_server: bool,
    /// Does it wait, or was it sent away, because the server sleeps?
    pub delayed: bool,
}

/// What a policy weighs, beside what it has learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Of the server.
    pub states: PowerStates,
    /// What the operator would pay to spare one visit its delay.
    pub delay_price: Joules,
    /// The server stays awake for at least this time once it woke.
    pub min_on: Duration,
}

/// How much of the SLA is used: of the form of which most is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlaBudget {
    /// Share of the delays it allows that would be used after one more sleep; 1 is all.
    pub used: f64,
    /// Delays that it allows in its window, at the present traffic.
    pub delays: f64,
    /// Length of its window.
    pub window: Duration,
    /// What is delayed.
    pub unit: Unit,
}

/// What an SLA counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Every request that waits.
    Request,
    /// Every visit in which a request waits, once.
    Visit,
}

/// How long the server has had nothing to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// Since the last request to it ended.
    pub since: Mono,
    /// It is awake since.
    pub awake_since: Mono,
    /// The SLA that a sleep has to keep, if there is one.
    pub sla: Option<SlaBudget>,
    /// How long the next wake-up is expected to take, by those seen so far.
    pub wake_time: Duration,
}

/// What a policy says of an idle server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Sleep now.
    Sleep,
    /// Not yet: ask again then, unless a request comes first.
    AskAgainAt(Mono),
    /// Stay awake until something happens.
    Stay,
}

/// Says when an idle server is to sleep.
///
/// A driver calls [`observe`](Self::observe) for every request of people and programs, and
/// [`verdict`](Self::verdict) whenever the server could sleep: nothing in flight, quiet and minimum
/// on time over, SLA kept.
pub trait SleepPolicy {
    /// A request arrived.
    fn observe(&mut self, now: Now, seen: &Observation);

    /// The server could sleep: should it?
    fn verdict(&mut self, now: Now, idle: &Idle) -> Verdict;

    /// When to wake the sleeping server without a request. Most policies never do.
    fn wake_at(&self) -> Option<Mono> {
        None
    }

    /// What was learned until now, to be stored and gone on with after a restart. Nothing for most,
    /// and before the first request.
    fn lessons(&self, _now: Now) -> Option<Lessons> {
        None
    }
}

impl<P: SleepPolicy + ?Sized> SleepPolicy for Box<P> {
    fn observe(&mut self, now: Now, seen: &Observation) {
        (**self).observe(now, seen);
    }

    fn verdict(&mut self, now: Now, idle: &Idle) -> Verdict {
        (**self).verdict(now, idle)
    }

    fn wake_at(&self) -> Option<Mono> {
        (**self).wake_at()
    }

    fn lessons(&self, now: Now) -> Option<Lessons> {
        (**self).lessons(now)
    }
}

/// Never sleeps.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysOn;

impl SleepPolicy for AlwaysOn {
    fn observe(&mut self, _: Now, _: &Observation) {}

    fn verdict(&mut self, _: Now, _: &Idle) -> Verdict {
        Verdict::Stay
    }
}

/// Sleeps after a fixed idle time. With the break-even time this is the ski-rental rule: whatever
/// the future brings, its energy is at most twice the least possible (rent until you have paid the
/// price of buying).
#[derive(Debug, Clone, Copy)]
pub struct Timeout {
    /// That time.
    pub idle: Duration,
}

impl SleepPolicy for Timeout {
    fn observe(&mut self, _: Now, _: &Observation) {}

    fn verdict(&mut self, now: Now, idle: &Idle) -> Verdict {
        let due = idle.since + self.idle;
        if now.mono >= due { Verdict::Sleep } else { Verdict::AskAgainAt(due) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_says_when_to_ask_again() {
        let mut policy = Timeout { idle: Duration::from_secs(5) };
        let (since, wake_time) = (Mono::from_secs(100), Duration::from_secs(5));
        let idle = Idle { since, awake_since: Mono::ZERO, sla: None, wake_time };
        let at = |secs| Now { mono: Mono::from_secs(secs), ..Now::default() };
        assert_eq!(policy.verdict(at(104), &idle), Verdict::AskAgainAt(Mono::from_secs(105)));
        assert_eq!(policy.verdict(at(105), &idle), Verdict::Sleep);
    }
}
