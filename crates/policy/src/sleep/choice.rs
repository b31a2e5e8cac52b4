//! The policies that can be configured: all that a new one has to be listed in.

use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::time::Now;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{AlwaysOn, Learned, Lessons, SleepPolicy, Terms, Timeout, Window};

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
        f.write_str(self.name())?;
        match self {
            Self::Timeout { idle } => write!(f, " {}", duration_text::format(*idle)),
            Self::Learned | Self::AlwaysOn | Self::Window | Self::SkiRental => Ok(()),
        }
    }
}

impl std::str::FromStr for PolicyChoice {
    type Err = String;

    /// Reads what [`Display`](std::fmt::Display) writes: `window`, `timeout 5s`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once([' ', '=', ':']) {
            Some(("timeout", idle)) => Ok(Self::Timeout { idle: duration_text::parse(idle)? }),
            _ => Self::EXAMPLES
                .into_iter()
                .find(|policy| policy.to_string() == text)
                .ok_or_else(|| format!("`{text}` is not a policy: choose {}", choices())),
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

    /// The policy without its settings: `timeout`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Learned => "learned",
            Self::AlwaysOn => "always-on",
            Self::Timeout { .. } => "timeout",
            Self::Window => "window",
            Self::SkiRental => "ski-rental",
        }
    }

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

/// What can be chosen, for messages.
fn choices() -> String {
    let policies = PolicyChoice::EXAMPLES.map(|policy| format!("`{policy}`"));
    let [others @ .., last] = &policies;
    format!("{} or {last}", others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named_as_they_are_written() {
        for choice in PolicyChoice::EXAMPLES {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert!("timeout".parse::<PolicyChoice>().is_err());
        assert!("timeout soon".parse::<PolicyChoice>().is_err());
        let error = "sleepy".parse::<PolicyChoice>().unwrap_err();
        let all = "`learned`, `window`, `ski-rental`, `timeout 5s` or `always-on`";
        assert_eq!(error, format!("`sleepy` is not a policy: choose {all}"));
    }
}
