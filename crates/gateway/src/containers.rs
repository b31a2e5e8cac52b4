//! Sites that labels of containers describe: they come and go with their containers.
//!
//! ```text
//! list, events (the daemon's socket)  ->  labels (pure): a table for each site  ->  the configuration, checked  ->  reload
//! ```

pub mod labels;
pub(crate) mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use nightwatt_clock::Clock;
use nightwatt_power::engine::{Described, Engine};

use crate::config::Config;

/// The containers that were found last, shared by the task that watches them and by reloads.
#[derive(Debug, Clone, Default)]
pub struct Found(Arc<Mutex<Vec<Described>>>);

impl Found {
    /// Looks once, before the gateway starts. Without an answer, sites come later.
    pub async fn look(config: &Config, clock: &Clock) -> Self {
        let found = Self::default();
        if let Some(engine) = engine(config, clock) {
            match engine.containers().await {
                Ok(all) => drop(found.set(all)),
                Err(error) => {
                    tracing::warn!(%error, hint = error.hint(), "no containers can be found yet");
                }
            }
        }
        found
    }

    /// Replaces them. Returns whether any is new, changed or gone.
    fn set(&self, all: Vec<Described>) -> bool {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *found != all;
        *found = all;
        changed
    }

    /// The configuration with their sites. What is wrong with a container is logged, and the others stay.
    pub fn apply(&self, config: Config) -> Config {
        let Some(containers) = &config.containers else { return config };
        let Some((daemon, address)) = containers.daemon() else { return config };
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let socket = address.to_string();
        let mut whole = config.clone();
        for described in &all {
            let container = &*described.name;
            let labelled = match labels::site(described, &all, &containers.site, daemon, &socket) {
                Ok(Some(labelled)) => labelled,
                Ok(None) => continue,
                Err(labels::Wrong { label, value, why }) => {
                    tracing::error!(container, label, value, why, "a container gets no site");
                    continue;
                }
            };
            match containers.site_of(labelled, &config).and_then(|site| whole.with_site(site)) {
                Ok(with) => whole = with,
                Err(why) => tracing::error!(container, why, "a container gets no site"),
            }
        }
        whole
    }
}

/// The daemon of a configuration.
fn engine(config: &Config, clock: &Clock) -> Option<Engine> {
    let (name, address) = config.containers.as_ref()?.daemon()?;
    Some(Engine::new(name, address.clone(), clock.clone()))
}
