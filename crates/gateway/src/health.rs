//! Is the service up? What monitors are told, from what the proxy knows of its servers.

use std::fmt::Write;
use std::time::Duration;

use nightwatt_model::policy::lifecycle::Phase;
use serde::Serialize;

use crate::gateway::Gateway;
use crate::site::Site;

/// How one site is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Health {
    site: String,
    state: &'static str,
    pub(crate) healthy: bool,
    /// The verdict in words.
    pub(crate) text: String,
    /// Seconds until a server that failed is tried again.
    retry_after_s: u64,
}

impl Health {
    /// Of a site whose server is in `phase`, and blocked for that long if it failed. In shadow mode
    /// nobody wakes a server that is away.
    fn of(site: &str, phase: Phase, blocked_for: Duration, observe: bool) -> Self {
        let state = phase.as_str();
        let name = state.replace('-', " ");
        let (healthy, text) = match phase {
            Phase::Failed => {
                (false, "failed: the server does not wake. It will be tried again.".to_owned())
            }
            Phase::Awake => (true, "awake, healthy".to_owned()),
            Phase::Unknown => (true, "healthy: just started, the server is being looked at".into()),
            _ if observe => (false, format!("{name}: shadow mode (--observe) wakes nothing")),
            _ => (true, format!("{name}, healthy: wakes on demand")),
        };
        let retry_after_s = blocked_for.as_secs() + u64::from(blocked_for.subsec_nanos() > 0);
        Self { site: site.to_owned(), state, healthy, text, retry_after_s }
    }

    /// How long to wait before it is worth asking again: if it is not healthy.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        (!self.healthy).then(|| Duration::from_secs(self.retry_after_s.max(1)))
    }
}

impl Site {
    /// How this site is.
    pub(crate) fn health(&self, observe: bool) -> Health {
        let server = self.supervisor.status();
        Health::of(&self.name, server.phase, server.blocked_for, observe)
    }
}

/// How the whole service is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Overview {
    pub(crate) healthy: bool,
    sites: Vec<Health>,
}

impl Gateway {
    /// How all sites are.
    pub(crate) fn health(&self) -> Overview {
        let sites = self.sites.iter().map(|site| site.health(self.observe));
        Overview::of(sites.collect())
    }
}

impl Overview {
    fn of(sites: Vec<Health>) -> Self {
        Self { healthy: sites.iter().all(|site| site.healthy), sites }
    }

    /// A line for the whole, then one for each site.
    pub(crate) fn text(&self) -> String {
        let names = |state: bool| {
            let some = self.sites.iter().filter(|site| site.healthy == state);
            some.map(|site| site.site.as_str()).collect::<Vec<_>>().join(", ")
        };
        let all_asleep = self.sites.iter().all(|site| site.state == Phase::Asleep.as_str());
        let mut text = match (self.healthy, all_asleep) {
            (true, true) => "asleep, healthy\n".to_owned(),
            (true, false) => "healthy\n".to_owned(),
            (false, _) => format!("not healthy: {}\n", names(false)),
        };
        for site in &self.sites {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}: {}", site.site, site.text);
        }
        text
    }

    /// As for one site: until all may be well.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.sites.iter().filter_map(Health::retry_after).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, phase: Phase) -> Health {
        Health::of(name, phase, Duration::ZERO, false)
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
            let health = Health::of("blog", phase, Duration::ZERO, true);
            let well = matches!(phase, Phase::Awake | Phase::Unknown);
            assert_eq!((health.healthy, health.text.contains("wakes on demand")), (well, false));
        }
    }

    #[test]
    fn the_whole_is_as_well_as_its_worst_site() {
        let asleep = Overview::of(vec![site("blog", Phase::Asleep), site("shop", Phase::Asleep)]);
        assert!(asleep.healthy);
        assert_eq!(
            asleep.text(),
            "asleep, healthy\nblog: asleep, healthy: wakes on demand\n\
             shop: asleep, healthy: wakes on demand\n"
        );
        let mixed = Overview::of(vec![site("blog", Phase::Asleep), site("shop", Phase::Awake)]);
        assert!(mixed.text().starts_with("healthy\nblog: asleep"), "{}", mixed.text());
        let failed = Health::of("shop", Phase::Failed, Duration::from_millis(59_001), false);
        let ill = Overview::of(vec![site("blog", Phase::Asleep), failed]);
        assert!(!ill.healthy);
        assert!(ill.text().starts_with("not healthy: shop\nblog: asleep"), "{}", ill.text());
        assert_eq!(ill.retry_after(), Some(Duration::from_mins(1)));
    }
}
