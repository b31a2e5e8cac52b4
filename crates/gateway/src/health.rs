//! The health of one site or machine: what monitors see, from what the proxy knows about its server.

use std::time::Duration;

use nightwatt_policy::lifecycle::Phase;
use serde::Serialize;

use crate::machine::Machine;
use crate::site::Site;

/// The health of one site or machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Health {
    #[serde(flatten)]
    pub(crate) of: Of,
    pub(crate) state: &'static str,
    pub(crate) healthy: bool,
    /// The verdict in words.
    pub(crate) text: String,
    /// Seconds until a server that failed is tried again.
    retry_after_s: u64,
}

/// What the health is about, by name; in JSON the name is under its kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Of {
    Site(String),
    Machine(String),
}

impl Of {
    pub(crate) fn name(&self) -> &str {
        let (Self::Site(name) | Self::Machine(name)) = self;
        name
    }

    /// What wakes, or fails to.
    const fn sleeper(&self) -> &'static str {
        match self {
            Self::Site(_) => "server",
            Self::Machine(_) => "machine",
        }
    }
}

impl Health {
    /// The health of a machine in `phase`, or of a site whose server is in it; blocked for that long if it failed. In
    /// shadow mode the proxy wakes no server that is down.
    pub(crate) fn of(of: Of, phase: Phase, blocked_for: Duration, observe: bool) -> Self {
        let state = phase.as_str();
        let name = state.replace('-', " ");
        let sleeper = of.sleeper();
        let (healthy, text) = match phase {
            Phase::Failed => {
                (false, format!("failed: the {sleeper} does not wake. It will be tried again."))
            }
            Phase::Awake => (true, "awake, healthy".to_owned()),
            Phase::Unknown => {
                (true, format!("healthy: just started, the {sleeper} is being looked at"))
            }
            _ if observe => (false, format!("{name}: shadow mode (--observe) wakes nothing")),
            _ => (true, format!("{name}, healthy: wakes on demand")),
        };
        let retry_after_s = blocked_for.as_secs() + u64::from(blocked_for.subsec_nanos() > 0);
        Self { of, state, healthy, text, retry_after_s }
    }

    /// How long to wait before asking again, if it is not healthy.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        (!self.healthy).then(|| Duration::from_secs(self.retry_after_s.max(1)))
    }
}

impl Site {
    /// The health of this site.
    pub(crate) fn health(&self, observe: bool) -> Health {
        let server = self.supervisor.status();
        let of = Of::Site(self.name.to_string());
        Health::of(of, server.phase, server.blocked_for, observe)
    }
}

impl Machine {
    /// The health of this machine. (In shadow mode there are no machines.)
    pub(crate) fn health(&self) -> Health {
        let machine = self.supervisor.status();
        let of = Of::Machine(self.name.to_string());
        Health::of(of, machine.phase, machine.blocked_for, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, phase: Phase) -> Health {
        Health::of(Of::Site(name.to_owned()), phase, Duration::ZERO, false)
    }

    #[test]
    fn only_a_server_that_does_not_wake_is_ill() {
        for phase in Phase::ALL {
            assert_eq!(site("blog", phase).healthy, phase != Phase::Failed, "{phase:?}");
        }
    }

    #[test]
    fn in_shadow_mode_a_server_that_is_away_is_ill_since_nobody_wakes_it() {
        for phase in Phase::ALL {
            let health = Health::of(Of::Site("blog".to_owned()), phase, Duration::ZERO, true);
            let well = matches!(phase, Phase::Awake | Phase::Unknown);
            assert_eq!((health.healthy, health.text.contains("wakes on demand")), (well, false));
        }
    }
}
