//! Whether the service is up: the health of all sites and machines, for monitors.

use std::fmt::Write;
use std::time::Duration;

use nightwatt_policy::lifecycle::Phase;
use serde::Serialize;

use crate::gateway::Gateway;
use crate::health::Health;

/// The health of the whole service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Overview {
    pub(crate) healthy: bool,
    sites: Vec<Health>,
    /// Services that are passed through may run on a machine alone, which can fail without any site.
    machines: Vec<Health>,
}

impl Gateway {
    /// The health of all sites and machines.
    pub(crate) fn health(&self) -> Overview {
        let sites = self.serving.sites.iter().map(|site| site.health(self.serving.observe));
        let machines = self.machines.iter().map(|machine| machine.health());
        Overview::of(sites.collect(), machines.collect())
    }

    /// The health of the site with this name, or else of the machine.
    pub(crate) fn health_of(&self, name: &str) -> Option<Health> {
        let site = self.serving.site_named(name).map(|(_, site)| site.health(self.serving.observe));
        site.or_else(|| {
            let machine = self.machines.iter().find(|it| *it.name == *name)?;
            Some(machine.health())
        })
    }
}

impl Overview {
    fn of(sites: Vec<Health>, machines: Vec<Health>) -> Self {
        let healthy = sites.iter().chain(&machines).all(|it| it.healthy);
        Self { healthy, sites, machines }
    }

    fn all(&self) -> impl Iterator<Item = &Health> {
        self.sites.iter().chain(&self.machines)
    }

    /// One line for the whole, then one for each site and machine.
    pub(crate) fn text(&self) -> String {
        let ill: Vec<&str> = self.all().filter(|it| !it.healthy).map(|it| it.of.name()).collect();
        let all_asleep = self.all().all(|it| it.state == Phase::Asleep.as_str());
        let mut text = match (self.healthy, all_asleep) {
            (true, true) => "asleep, healthy\n".to_owned(),
            (true, false) => "healthy\n".to_owned(),
            (false, _) => format!("not healthy: {}\n", ill.join(", ")),
        };
        for it in self.all() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}: {}", it.of.name(), it.text);
        }
        text
    }

    /// As for one site: the time until all may be healthy.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.all().filter_map(Health::retry_after).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Of;

    fn site(name: &str, phase: Phase) -> Health {
        Health::of(Of::Site(name.to_owned()), phase, Duration::ZERO, false)
    }

    fn machine(name: &str, phase: Phase) -> Health {
        Health::of(Of::Machine(name.to_owned()), phase, Duration::from_secs(30), false)
    }

    fn of_sites(sites: Vec<Health>) -> Overview {
        Overview::of(sites, Vec::new())
    }

    #[test]
    fn the_whole_is_as_well_as_its_worst_site() {
        let asleep = of_sites(vec![site("blog", Phase::Asleep), site("shop", Phase::Asleep)]);
        assert!(asleep.healthy);
        assert_eq!(
            asleep.text(),
            "asleep, healthy\nblog: asleep, healthy: wakes on demand\n\
             shop: asleep, healthy: wakes on demand\n"
        );
        let mixed = of_sites(vec![site("blog", Phase::Asleep), site("shop", Phase::Awake)]);
        assert!(mixed.text().starts_with("healthy\nblog: asleep"), "{}", mixed.text());
        let failed = Health::of(
            Of::Site("shop".to_owned()),
            Phase::Failed,
            Duration::from_millis(59_001),
            false,
        );
        let ill = of_sites(vec![site("blog", Phase::Asleep), failed]);
        assert!(!ill.healthy);
        assert!(ill.text().starts_with("not healthy: shop\nblog: asleep"), "{}", ill.text());
        assert_eq!(ill.retry_after(), Some(Duration::from_mins(1)));
    }

    #[test]
    fn a_machine_makes_the_whole_ill_as_a_site_does() {
        let of = |sites, phase| Overview::of(sites, vec![machine("metal", phase)]);
        let alone = of(Vec::new(), Phase::Asleep);
        let text = "asleep, healthy\nmetal: asleep, healthy: wakes on demand\n";
        assert_eq!((alone.text().as_str(), alone.retry_after()), (text, None));
        let lingers = of(vec![site("blog", Phase::Asleep)], Phase::Awake);
        assert!(lingers.text().starts_with("healthy\nblog: asleep"), "{}", lingers.text());
        let ill = of(vec![site("blog", Phase::Asleep)], Phase::Failed);
        assert_eq!(
            ill.text(),
            "not healthy: metal\nblog: asleep, healthy: wakes on demand\n\
             metal: failed: the machine does not wake. It will be tried again.\n"
        );
        assert_eq!((ill.healthy, ill.retry_after()), (false, Some(Duration::from_secs(30))));
    }
}
