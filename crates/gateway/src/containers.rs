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
            match engine.containers(&[]).await {
                Ok(all) => drop(found.set(all)),
                Err(error) => {
                    tracing::warn!(%error, hint = error.hint(), "no containers can be found yet");
                }
            }
        }
        found
    }

    fn all(&self) -> Vec<Described> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces them. Returns whether any is new, changed or gone.
    fn set(&self, all: Vec<Described>) -> bool {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = in_turn(&found, all);
        let changed = *found != all;
        *found = all;
        changed
    }

    /// The configuration with their sites. What is wrong with a container is logged, and the others stay.
    pub fn apply(&self, config: Config) -> Config {
        let Some(containers) = &config.containers else { return config };
        let Some((daemon, address)) = containers.daemon() else { return config };
        let all = self.all();
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

/// Of two containers with the same host, the first gets the site: those that are as they were come first, as they
/// came, then changed ones, and new ones last.
fn in_turn(earlier: &[Described], mut all: Vec<Described>) -> Vec<Described> {
    all.sort_by_cached_key(|it| {
        let at = earlier.iter().position(|known| known.name == it.name);
        (at.is_none(), at.is_some_and(|at| earlier[at] != *it), at)
    });
    all
}

/// The daemon of a configuration.
fn engine(config: &Config, clock: &Clock) -> Option<Engine> {
    let (name, address) = config.containers.as_ref()?.daemon()?;
    Some(Engine::new(name, address.clone(), clock.clone()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn container(name: &str, host: &str) -> Described {
        let labels = [("enable", "true"), ("hosts", host), ("port", "80")];
        let labels = labels.map(|(key, value)| (format!("nightwatt.{key}"), value.to_owned()));
        Described {
            name: name.to_owned(),
            labels: labels.into_iter().collect(),
            published: BTreeMap::from([(80, (String::new(), Some(18_080)))]),
            on_host_network: false,
        }
    }

    #[test]
    fn a_new_container_takes_no_site_from_one_that_has_it() {
        let text = "listen = [\"127.0.0.1:0\"]\n[containers]\ndocker = \"/a\"\n";
        let config = Config::parse(text, "x").unwrap();
        let found = Found::default();
        let sites = |all: &[Described]| {
            let changed = found.set(all.to_vec());
            let sites = found.apply(config.clone()).site;
            (changed, sites.into_iter().map(|it| it.name).collect::<Vec<_>>().join(" "))
        };
        let [aaa, wiki, blog] = ["aaa", "wiki", "blog"]
            .map(|name| container(name, if name == "blog" { "blog.lan" } else { "wiki.lan" }));
        assert_eq!(sites(std::slice::from_ref(&wiki)), (true, "wiki".to_owned()));
        let all = [aaa.clone(), blog.clone(), wiki.clone()];
        assert_eq!(sites(&all), (true, "wiki blog".to_owned()));
        assert_eq!(sites(&all), (false, "wiki blog".to_owned()), "nothing has changed");
        // One that has its site already, and wants another one's too.
        let greedy = container("blog", "wiki.lan");
        assert_eq!(sites(&[greedy, wiki]), (true, "wiki".to_owned()));
        assert_eq!(sites(&[aaa]), (true, "aaa".to_owned()));
    }
}
