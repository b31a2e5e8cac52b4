//! Policies with lists of parameters, as plans have them.

use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_policy::fleet::FleetChoice;

/// What can be written, for messages.
const FORMS: &str = "`predictive`, `baseline`, `always-on 1..10`, `delayed-off 10ms 1s 100s`, \
                     `hybrid 2 4 1s 10s` (every number with every time), or `oracle`";

/// Most policies that one line may stand for.
const MOST: usize = 1000;

/// What a plan may have a pool run by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// What a live pool can have, too.
    Live(FleetChoice),
    /// The yardstick: a schedule made from the very requests that are to come, for like servers.
    Oracle {
        /// Number of servers that stay on.
        always_on: u32,
    },
}

impl Policy {
    /// Does it know what is to come? Then it is nothing to choose.
    pub const fn foresees(&self) -> bool {
        matches!(self, Self::Oracle { .. })
    }
}

impl From<FleetChoice> for Policy {
    fn from(choice: FleetChoice) -> Self {
        Self::Live(choice)
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Live(choice) => choice.fmt(f),
            Self::Oracle { always_on } => write!(f, "oracle {always_on}"),
        }
    }
}

/// A policy, or several that differ in their parameters: `always-on 1..10`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyList(pub Vec<Policy>);

impl PolicyList {
    /// One of each form, for help.
    pub const EXAMPLES: [&str; 6] = [
        "predictive",
        "baseline",
        "always-on 1..10",
        "delayed-off 1s 10s",
        "hybrid 2 4 1s",
        "oracle",
    ];
}

impl std::str::FromStr for PolicyList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a fleet policy: choose {FORMS}");
        let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let name = words.next().ok_or_else(wrong)?;
        let (mut numbers, mut delays) = (Vec::new(), Vec::new());
        for word in words {
            if let Some(more) = whole_numbers(word) {
                numbers.extend(more);
            } else {
                delays.push(duration_text::parse(word).map_err(|_| wrong())?);
            }
            if numbers.len() * delays.len().max(1) > MOST || delays.len() > MOST {
                return Err(format!("`{text}` stands for more than {MOST} policies"));
            }
        }
        let list = of(name, &numbers, &delays).filter(|list| !list.is_empty());
        list.map(Self).ok_or_else(wrong)
    }
}

fn of(name: &str, numbers: &[u32], delays: &[Duration]) -> Option<Vec<Policy>> {
    let always_on = |servers: &u32| FleetChoice::AlwaysOn { servers: *servers };
    let delayed = |delay: &Duration| FleetChoice::DelayedOff { delay: *delay };
    let hybrid = |servers: &u32| {
        let servers = *servers;
        delays.iter().map(move |delay| FleetChoice::Hybrid { servers, delay: *delay })
    };
    let choices: Vec<FleetChoice> = match (name, numbers, delays) {
        // As many stay on as under the others that do not say.
        ("oracle", [], []) => return Some(vec![Policy::Oracle { always_on: 1 }]),
        ("oracle", _, []) => {
            return Some(numbers.iter().map(|it| Policy::Oracle { always_on: *it }).collect());
        }
        ("predictive", [], []) => vec![FleetChoice::Predictive],
        ("baseline", [], []) => vec![FleetChoice::Baseline],
        ("always-on", _, []) => numbers.iter().map(always_on).collect(),
        ("delayed-off", [], _) => delays.iter().map(delayed).collect(),
        ("hybrid", _, _) => numbers.iter().flat_map(hybrid).collect(),
        _ => return None,
    };
    Some(choices.into_iter().map(Policy::from).collect())
}

/// `3`, or `1..10`; a bare 0 is a number.
fn whole_numbers(word: &str) -> Option<Vec<u32>> {
    if let Some((first, last)) = word.split_once("..") {
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        let most = first.saturating_add(MOST as u32);
        return (first <= last).then(|| (first..=last.min(most)).collect());
    }
    Some(vec![word.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<String> {
        let PolicyList(list) = text.parse().unwrap();
        list.iter().map(Policy::to_string).collect()
    }

    #[test]
    fn a_line_stands_for_every_parameter_in_it() {
        assert_eq!(
            listed("always-on 1..3 7"),
            ["always-on 1", "always-on 2", "always-on 3", "always-on 7"]
        );
        assert_eq!(listed("delayed-off 10ms, 1s"), ["delayed-off 10ms", "delayed-off 1s"]);
        let hybrids = ["hybrid 2 1s", "hybrid 2 10s", "hybrid 4 1s", "hybrid 4 10s"];
        assert_eq!(listed("hybrid 2 4 1s 10s"), hybrids);
        assert_eq!(listed("predictive"), ["predictive"]);
        assert_eq!(listed("baseline"), ["baseline"]);
        assert_eq!(listed("oracle"), ["oracle 1"]);
        assert_eq!(listed("oracle 0 2..3"), ["oracle 0", "oracle 2", "oracle 3"]);
    }

    #[test]
    fn examples_are_policies() {
        for example in PolicyList::EXAMPLES {
            assert!(!listed(example).is_empty(), "{example}");
        }
    }

    #[test]
    fn what_is_no_policy_says_what_is() {
        for bad in [
            "",
            "always-on",
            "always-on 3..1",
            "delayed-off 3",
            "hybrid 1s",
            "predictive 1",
            "oracle 1s",
        ] {
            let said = bad.parse::<PolicyList>().unwrap_err();
            assert!(said.contains("always-on 1..10"), "{said}");
        }
        assert!("always-on 1..4000000000".parse::<PolicyList>().unwrap_err().contains("more than"));
    }
}
