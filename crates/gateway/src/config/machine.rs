//! `[[machine]]`: what servers run on, and what sleeps when all of them may.

use std::collections::HashSet;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_policy::scenario::Server;
use nightwatt_power::ControllerConfig;
use nightwatt_power::probe;
use serde::Deserialize;

use super::{
    MeterConfig, Wrong, cache, check_name, check_waits, default_good_bye, default_grace,
    default_sleep_timeout, default_wake_timeout, default_watch, watch_asleep, wrong,
};

/// A machine that carries servers, or other machines: a host of guests, a guest with containers, or
/// one machine with several sites.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineConfig {
    /// In logs, status and file names; sites and machines name it in `on`.
    pub name: String,
    /// The machine that it runs on itself.
    pub on: Option<String>,
    /// How it is woken and put to sleep.
    pub power: ControllerConfig,
    /// How to tell that it is awake.
    pub probe: probe::Config,
    /// It is put to sleep this long after the last server on it.
    #[serde(default = "default_linger", with = "duration_text")]
    pub linger: Duration,
    /// A wake command without an answer by then is given again.
    #[serde(default = "default_wake_timeout", with = "duration_text")]
    pub wake_timeout: Duration,
    /// A sleep command that has not silenced it by then has failed.
    #[serde(default = "default_sleep_timeout", with = "duration_text")]
    pub sleep_timeout: Duration,
    /// Between two looks at a machine believed awake; `0`: never look.
    #[serde(default = "default_watch", with = "duration_text")]
    pub watch: Duration,
    /// The same while it sleeps; see [`SiteConfig::watch_asleep`](super::SiteConfig::watch_asleep).
    #[serde(default, deserialize_with = "cache::given")]
    pub watch_asleep: Option<Duration>,
    /// If it was woken, and not through the proxy, it is to be used: awake at least this long then.
    #[serde(default = "default_grace", with = "duration_text")]
    pub grace: Duration,
    /// How long a machine whose agent said good-bye may still answer.
    #[serde(default = "default_good_bye", with = "duration_text")]
    pub good_bye: Duration,
    /// What it draws; default: the server of the file's `[scenario]`.
    pub server: Option<Server>,
    /// A meter of it; default: none, and what it draws is modelled.
    pub meter: Option<MeterConfig>,
}

fn default_linger() -> Duration {
    Duration::from_mins(1)
}

/// A server on it that wakes must have the time to say so.
const SHORTEST_LINGER: Duration = Duration::from_secs(2);

impl MachineConfig {
    /// Between two looks at it while it sleeps; zero: none.
    pub fn watch_asleep(&self) -> Duration {
        watch_asleep(self.watch_asleep, self.watch, Some(&self.power), Some(&self.probe))
    }

    pub(super) fn check(&self, taken: &mut HashSet<String>) -> Result<(), Wrong> {
        check_name(&self.name, taken)?;
        if self.linger < SHORTEST_LINGER {
            let message = format!(
                "`linger` is {}: between a server's request for the machine and that server's start, \
                 nothing keeps the machine awake; make it {} or more",
                duration_text::format(self.linger),
                duration_text::format(SHORTEST_LINGER)
            );
            return wrong("linger", message);
        }
        check_waits(self.wake_timeout, self.sleep_timeout)?;
        self.server.as_ref().map_or(Ok(()), Server::check)?;
        self.meter.as_ref().map_or(Ok(()), |meter| meter.check("meter"))
    }
}

/// Machines in an order in which each comes after the one that it runs on.
pub(crate) fn bottom_up(machines: &[MachineConfig]) -> Vec<usize> {
    let mut order = Vec::new();
    while order.len() < machines.len() {
        let stands =
            |name: &String| order.iter().any(|&below: &usize| machines[below].name == *name);
        let next = (0..machines.len())
            .find(|at| !order.contains(at) && machines[*at].on.as_ref().is_none_or(stands));
        let Some(next) = next else { break };
        order.push(next);
    }
    order
}

/// What is wrong with who stands on whom.
pub(super) fn check_all(machines: &[MachineConfig]) -> Result<(), Wrong> {
    for (index, machine) in machines.iter().enumerate() {
        check_on(machine.on.as_deref(), machines)
            .map_err(|it| it.within(format_args!("machine.{index}")))?;
    }
    let order = bottom_up(machines);
    match (0..machines.len()).find(|at| !order.contains(at)) {
        Some(at) => wrong(
            format!("machine.{at}.on"),
            format!(
                "`{}` stands on itself, by way of others perhaps: one must stand on none",
                machines[at].name
            ),
        ),
        None => Ok(()),
    }
}

/// Is there a machine of this name?
pub(super) fn check_on(on: Option<&str>, machines: &[MachineConfig]) -> Result<(), Wrong> {
    let Some(name) = on else { return Ok(()) };
    if machines.iter().any(|machine| machine.name == name) {
        return Ok(());
    }
    let names: Vec<_> = machines.iter().map(|machine| format!("`{}`", machine.name)).collect();
    let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    wrong("on", format!("there is no `[[machine]]` called `{name}`; there are: {there_are}"))
}
