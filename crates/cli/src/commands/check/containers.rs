//! What becomes of the containers that there are now.

use nightwatt_clock::Clock;
use nightwatt_gateway::Config;
use nightwatt_gateway::containers;
use nightwatt_gateway::status::{ContainerOutcome, ContainersStatus};

use super::row;
use crate::commands::status::containers::{lacking, refused};

/// Asks the daemon of the configuration, if it has one.
pub(super) fn look(config: &Config) -> Option<ContainersStatus> {
    config.containers.as_ref()?;
    let clock = Clock::real();
    clock.runtime().ok()?.block_on(containers::look_over(config, &clock))
}

/// The daemon, and what becomes of its containers.
pub(super) fn rows(text: &mut String, it: &ContainersStatus) {
    row(text, "containers", &format!("those of {} with labels become sites", it.daemon));
    if let Some(why) = &it.problem {
        row(text, "careful", &format!("no containers are known: {why}"));
    }
    for site in it.containers.iter().filter(|it| it.outcome == ContainerOutcome::Site) {
        row(text, "container", &format!("{}: a site for {}", site.name, site.hosts.join(", ")));
    }
    for (name, why) in refused(it) {
        row(text, "careful", &format!("the container {name} gets no site: {why}"));
    }
    for (name, why) in lacking(it) {
        row(text, "careful", &format!("the container {name}: {why}"));
    }
}
