//! When to sleep: the policies on offer, behind one trait.

mod learned;
mod oracle;
pub mod timeouts;
mod window;

use std::time::Duration;

use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::learned::{Learned, Lessons};
pub use self::oracle::{Busy, BusyTimes, Constraints, Oracle, Plan, Waking, plan};
pub use self::window::Window;
use super::admission::ClientClass;
use crate::visit::Visitor;
use nightwatt_energy::duration_text;
use nightwatt_energy::energy::PowerStates;
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

/// How much of the operator's promise (SLA) is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    /// Share of the delays it allows that would be used after one more sleep; 1 is all.
    pub used: f64,
    /// Delayed requests that it allows in its window, at the present traffic.
    pub delays: f64,
    /// Length of its window.
    pub window: Duration,
}

/// How long the server has had nothing to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// Since the last request to it ended.
    pub since: Mono,
    /// It is awake since.
    pub awake_since: Mono,
    /// The promise that a sleep has to keep, if one was made.
    pub promise: Option<Promise>,
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
/// on time over, promise kept.
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

/// What can be chosen, for messages.
fn choices() -> String {
    let [learned, window, ski_rental, timeout, always_on] = PolicyChoice::EXAMPLES;
    format!("`{learned}`, `{window}`, `{ski_rental}`, `{timeout}` or `{always_on}`")
}

/// Which policy, as configured: one line of text, as in `policy = "timeout 5s"`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PolicyChoice {
    /// Weighs what a sleep saves against whom it delays, by what the past has taught.
    #[default]
    Learned,
    /// Never sleeps.
    AlwaysOn,
    /// Sleeps after a fixed idle time.
    Timeout {
        /// That time.
        idle: Duration,
    },
    /// Sleeps when the mean of the last gaps says that it pays (published).
    Window,
    /// Sleeps after idling for the break-even time: never worse than twice the optimum.
    SkiRental,
}

impl std::fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Learned => f.write_str("learned"),
            Self::AlwaysOn => f.write_str("always-on"),
            Self::Timeout { idle } => write!(f, "timeout {}", duration_text::format(*idle)),
            Self::Window => f.write_str("window"),
            Self::SkiRental => f.write_str("ski-rental"),
        }
    }
}

impl std::str::FromStr for PolicyChoice {
    type Err = String;

    /// Reads what [`Display`](std::fmt::Display) writes: `window`, `timeout 5s`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once([' ', '=', ':']) {
            None if text == "learned" => Ok(Self::Learned),
            None if text == "always-on" => Ok(Self::AlwaysOn),
            None if text == "window" => Ok(Self::Window),
            None if text == "ski-rental" => Ok(Self::SkiRental),
            Some(("timeout", idle)) => Ok(Self::Timeout { idle: duration_text::parse(idle)? }),
            _ => Err(format!("`{text}` is not a policy: choose {}", choices())),
        }
    }
}

impl Serialize for PolicyChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PolicyChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Line;

        impl de::Visitor<'_> for Line {
            type Value = PolicyChoice;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a policy: {}", choices())
            }

            fn visit_str<E: de::Error>(self, line: &str) -> Result<PolicyChoice, E> {
                line.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Line)
    }
}

impl PolicyChoice {
    /// Each policy once, for help and messages.
    pub const EXAMPLES: [Self; 5] = [
        Self::Learned,
        Self::Window,
        Self::SkiRental,
        Self::Timeout { idle: Duration::from_secs(5) },
        Self::AlwaysOn,
    ];

    /// Builds the policy.
    pub fn build(&self, terms: &Terms) -> Box<dyn SleepPolicy + Send> {
        let states = &terms.states;
        match self {
            Self::Learned => Box::new(Learned::new(*terms)),
            Self::AlwaysOn => Box::new(AlwaysOn),
            Self::Timeout { idle } => Box::new(Timeout { idle: *idle }),
            Self::Window => Box::new(Window::new(states.break_even())),
            Self::SkiRental => Box::new(Timeout { idle: states.break_even() }),
        }
    }

    /// Does it learn, so that there are [`Lessons`] to be stored?
    pub const fn learns(&self) -> bool {
        matches!(self, Self::Learned)
    }

    /// Builds the policy, going on with what it has learned before (if it learns).
    pub fn resume(
        &self,
        terms: &Terms,
        lessons: Option<Lessons>,
        now: Now,
    ) -> Box<dyn SleepPolicy + Send> {
        match (self, lessons) {
            (Self::Learned, Some(lessons)) => Box::new(Learned::resume(*terms, lessons, now)),
            _ => self.build(terms),
        }
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
    fn policies_are_named_as_they_are_written() {
        for choice in [
            PolicyChoice::Learned,
            PolicyChoice::AlwaysOn,
            PolicyChoice::Window,
            PolicyChoice::SkiRental,
            PolicyChoice::Timeout { idle: Duration::from_secs(5) },
        ] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert!("timeout".parse::<PolicyChoice>().is_err());
        assert!("timeout soon".parse::<PolicyChoice>().is_err());
    }

    #[test]
    fn a_timeout_says_when_to_ask_again() {
        let mut policy = Timeout { idle: Duration::from_secs(5) };
        let (since, wake_time) = (Mono::from_secs(100), Duration::from_secs(5));
        let idle = Idle { since, awake_since: Mono::ZERO, promise: None, wake_time };
        let at = |secs| Now { mono: Mono::from_secs(secs), ..Now::default() };
        assert_eq!(policy.verdict(at(104), &idle), Verdict::AskAgainAt(Mono::from_secs(105)));
        assert_eq!(policy.verdict(at(105), &idle), Verdict::Sleep);
    }
}
