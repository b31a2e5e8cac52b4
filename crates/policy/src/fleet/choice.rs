//! The policies on offer, as they are written.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use nightwatt_energy::duration_text;

/// What can be chosen, for messages.
const CHOICES: &str =
    "`predictive`, `baseline`, `always-on 3`, `delayed-off 10s` or `hybrid 3 10s`";

/// Which policy, as configured: one line of text, as in `policy = "hybrid 3 10s"`.
///
/// All but the predictive one switch a server on when a request finds no place, and off once it was
/// idle for some time, down to a number that stays on; they differ in that time and that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FleetChoice {
    /// On ahead of need by a forecast; off when the past says that it pays.
    #[default]
    Predictive,
    /// Off at once; one stays on.
    Baseline,
    /// Off at once; this many stay on.
    AlwaysOn {
        /// How many.
        servers: u32,
    },
    /// Off after an idle time; one stays on.
    DelayedOff {
        /// That time.
        delay: Duration,
    },
    /// Off after an idle time; this many stay on.
    Hybrid {
        /// How many.
        servers: u32,
        /// That time.
        delay: Duration,
    },
}

impl FleetChoice {
    /// How many stay on, and after which idle time others go off; `None` for the predictive policy.
    pub(super) const fn keeps(&self) -> Option<(u32, Duration)> {
        match *self {
            Self::Predictive => None,
            Self::Baseline => Some((1, Duration::ZERO)),
            Self::AlwaysOn { servers } => Some((servers, Duration::ZERO)),
            Self::DelayedOff { delay } => Some((1, delay)),
            Self::Hybrid { servers, delay } => Some((servers, delay)),
        }
    }
}

impl std::fmt::Display for FleetChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Predictive => f.write_str("predictive"),
            Self::Baseline => f.write_str("baseline"),
            Self::AlwaysOn { servers } => write!(f, "always-on {servers}"),
            Self::DelayedOff { delay } => {
                write!(f, "delayed-off {}", duration_text::format(delay))
            }
            Self::Hybrid { servers, delay } => {
                write!(f, "hybrid {servers} {}", duration_text::format(delay))
            }
        }
    }
}

impl From<FleetChoice> for String {
    fn from(choice: FleetChoice) -> Self {
        choice.to_string()
    }
}

impl TryFrom<String> for FleetChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for FleetChoice {
    type Err = String;

    /// Reads what [`Display`](std::fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a fleet policy: choose {CHOICES}");
        let number = |word: &str| word.parse::<u32>().map_err(|_| wrong());
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["predictive"] => Ok(Self::Predictive),
            ["baseline"] => Ok(Self::Baseline),
            ["always-on", servers] => Ok(Self::AlwaysOn { servers: number(servers)? }),
            ["delayed-off", delay] => Ok(Self::DelayedOff { delay: duration_text::parse(delay)? }),
            ["hybrid", servers, delay] => {
                let delay = duration_text::parse(delay)?;
                Ok(Self::Hybrid { servers: number(servers)?, delay })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named_as_they_are_written() {
        let delay = Duration::from_secs(10);
        for choice in [
            FleetChoice::Predictive,
            FleetChoice::Baseline,
            FleetChoice::AlwaysOn { servers: 3 },
            FleetChoice::DelayedOff { delay },
            FleetChoice::DelayedOff { delay: Duration::from_millis(10) },
            FleetChoice::Hybrid { servers: 3, delay },
        ] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for bad in ["", "always-on", "always-on -1", "hybrid 3", "hybrid 3 soon", "baseline 1"] {
            assert!(bad.parse::<FleetChoice>().is_err(), "{bad}");
        }
    }
}
