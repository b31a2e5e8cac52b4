//! A site whose configuration changes while it is served: it keeps its server's supervisor, with all that wait and all
//! that is under way, and the rest where it still applies.

use std::sync::{Arc, Mutex};

use nightwatt_httpcache::Rules;
use nightwatt_policy::frontier::Frontier;
use nightwatt_policy::scenario::Scenario;
use nightwatt_power::Controller;

use super::{AnyPolicy, Site, scenario, server_control, settings, waiting_page};
use crate::admittance::Admittance;
use crate::common::Common;
use crate::compress::Compressor;
use crate::config::{AccessConfig, Limits, SiteConfig};
use crate::error::StartError;
use crate::https;
use crate::in_use::InUse;
use crate::machine::{Machine, MachineUse};
use crate::mirror::Mirror;
use crate::origin::OriginPool;
use crate::paths::Paths;
use crate::supervisor::{Learns, Retuning};

impl Site {
    /// The site with the new configuration, and how its supervisor has to change.
    pub(crate) fn changed(
        &self,
        site: &SiteConfig,
        common: &Common<'_>,
        controller: Option<Box<dyn Controller>>,
        machine: Option<&Machine>,
    ) -> Result<(Self, Retuning, Option<MachineUse>), StartError> {
        let old = &self.config;
        let scenario = scenario(site, common, self.pool.as_deref());
        let waiting_page = waiting_page(site)?;
        let is_elsewhere = controller.is_some()
            || (&old.power, &old.on, &old.probe) != (&site.power, &site.on, &site.probe)
            || old.origin != site.origin;
        let (server_control, guest) = if is_elsewhere && self.pool.is_none() {
            let (server_control, guest) = server_control(site, common, controller, machine)?;
            (Some(server_control), guest)
        } else {
            (None, None)
        };
        let settings = settings(site, &scenario, common.clock);
        let supervisor = Arc::clone(&self.supervisor);
        let (policy, learns) = self.next_policy(site, common);
        let new_probes = !self.asks_alike(site);
        let retuning =
            Retuning { supervisor, settings, policy, learns, server_control, new_probes };
        let connects_alike = self.connects_alike(site, common);
        let origin =
            if connects_alike { Arc::clone(&self.origin) } else { self.new_origin(site, common)? };
        // Answers stored under other rules might reach the wrong clients now, or have keys that mean something else.
        let rules = site.cache_rules(&scenario);
        let keeps_store =
            self.rules == rules && self.scenario.cache == scenario.cache && old.path == site.path;
        let (store, prefetch_queue) = if keeps_store {
            (Arc::clone(&self.store), Arc::clone(&self.prefetch_queue))
        } else {
            (super::store(site, &scenario, common), Arc::default())
        };
        let changed = Self {
            name: Arc::clone(&self.name),
            supervisor: Arc::clone(&retuning.supervisor),
            shadow: None,
            origin,
            pool: self.pool.clone(),
            store,
            refresher: Arc::clone(&self.refresher),
            prefetch_queue,
            mirror: self.next_mirror(site, &rules, common),
            rules,
            shared_fetches: Arc::clone(&self.shared_fetches),
            classifier: self.next_classifier(site),
            presence: Arc::clone(&self.presence),
            admittance: self.next_admittance(site)?,
            doorkeeper: self.doorkeeper.clone(),
            paths: self.next_paths(site, common)?,
            in_use: self.next_in_use(site, common)?,
            compressor: Compressor::of(site, self.compressor.as_ref()),
            waiting_page,
            counters: Arc::clone(&self.counters),
            frontier: self.next_frontier(site, &scenario, common),
            hsts: https::hsts(site),
            meters: self.meters.clone(),
            mark: self.mark.clone(),
            probes_http: self.pool.is_none()
                && matches!(site.probe_config(), super::probe::Config::Http(_)),
            config: site.clone(),
            limits: site.limits.over(&common.config.limits),
            scenario,
        };
        Ok((changed, retuning, guest))
    }

    /// Other rules begin with no client known.
    fn next_classifier(&self, site: &SiteConfig) -> Arc<Mutex<super::Classifier>> {
        if self.config.clients == site.clients {
            return Arc::clone(&self.classifier);
        }
        Arc::new(Mutex::new(super::Classifier::new(site.clients.clone())))
    }

    /// A mirror with other rules opens again, and checks its pages by them before it serves them.
    fn next_mirror(
        &self,
        site: &SiteConfig,
        rules: &Rules,
        common: &Common<'_>,
    ) -> Option<Arc<Mirror>> {
        let old = &self.config;
        let is_kept = self.rules == *rules
            && old.mirror == site.mirror
            && (old.kind, &old.hosts) == (site.kind, &site.hosts)
            && old.path == site.path
            && self.mirror.as_ref().is_none_or(|it| {
                it.server == common.config.scenario_of(site).server
                    && it.url == common.config.mirror_url(site)
            });
        if is_kept {
            return self.mirror.clone();
        }
        Mirror::of(site, common, rules, self.mirror.as_deref())
    }

    /// Tables by path, with their connections, unless something changed.
    fn next_paths(
        &self,
        site: &SiteConfig,
        common: &Common<'_>,
    ) -> Result<Option<Arc<Paths>>, StartError> {
        let old = &self.config;
        // Error pages are read again.
        let is_kept = old.path == site.path
            && old.error_pages.is_empty()
            && site.error_pages.is_empty()
            && old.origin == site.origin
            && old.origin_tls == site.origin_tls
            && site.limits.over(&common.config.limits) == self.limits;
        if is_kept {
            return Ok(self.paths.clone());
        }
        super::open_paths(site, common, &self.supervisor)
    }

    /// Log-ins and wrong passwords are remembered, unless the rules or the users have changed.
    fn next_admittance(&self, site: &SiteConfig) -> Result<Option<Arc<Admittance>>, StartError> {
        // The file of a service's authorities is read again.
        let has_file = |it: &AccessConfig| it.forward.as_ref().is_some_and(|it| it.ca.is_some());
        let is_kept =
            self.config.access == site.access && !site.access.as_ref().is_some_and(has_file);
        if is_kept { Ok(self.admittance.clone()) } else { Admittance::of(site) }
    }

    /// Probes keep what they have found, unless something changed.
    fn next_in_use(
        &self,
        site: &SiteConfig,
        common: &Common<'_>,
    ) -> Result<Option<Arc<InUse>>, StartError> {
        let is_kept = self.asks_alike(site);
        if is_kept { Ok(self.in_use.clone()) } else { InUse::of(site, common.clock) }
    }

    /// Whether its probes are configured as before.
    fn asks_alike(&self, site: &SiteConfig) -> bool {
        let old = &self.config;
        old.in_use == site.in_use
            && old.origin == site.origin
            && old.origin_tls == site.origin_tls
            && old.power == site.power
            && old.access == site.access
    }

    /// Whether connections to its server are configured as before.
    fn connects_alike(&self, site: &SiteConfig, common: &Common<'_>) -> bool {
        let timeouts = |limits: &Limits| (limits.connect_timeout, limits.origin_timeout);
        let old = &self.config;
        old.origin == site.origin
            && old.origin_tls == site.origin_tls
            && timeouts(&site.limits.over(&common.config.limits)) == timeouts(&self.limits)
    }

    /// Results computed with other rules cannot be continued.
    fn next_frontier(
        &self,
        site: &SiteConfig,
        scenario: &Scenario,
        common: &Common<'_>,
    ) -> Option<Arc<Mutex<Frontier>>> {
        let frontier = self.frontier.as_ref()?;
        let same = super::binding(&self.config, &self.scenario) == super::binding(site, scenario);
        Some(if same {
            Arc::clone(frontier)
        } else {
            super::frontier(site, scenario, common.clock)
        })
    }

    fn new_origin(
        &self,
        site: &SiteConfig,
        common: &Common<'_>,
    ) -> Result<Arc<OriginPool>, StartError> {
        let origin = super::origin(site, common)?;
        tokio::spawn(OriginPool::drop_stale(Arc::downgrade(&origin), self.supervisor.phase()));
        Ok(origin)
    }

    /// A new policy if its parameters have changed, and where that stores its lessons if the place has changed. What
    /// was learned is kept.
    fn next_policy(&self, site: &SiteConfig, common: &Common<'_>) -> (Option<AnyPolicy>, Learns) {
        let next = scenario(site, common, self.pool.as_deref());
        let (was, terms) = (&self.scenario, next.terms());
        let same = was.policy == next.policy
            && was.server == next.server
            && was.sla == next.sla
            && was.proxy == next.proxy
            && was.delay_price().0.to_bits() == next.delay_price().0.to_bits();
        if same || self.pool.is_some() && !site.pool.sleeps {
            return (None, Learns::AsBefore);
        }
        match (was.policy.learns(), next.policy.learns()) {
            (_, false) => (Some(next.policy.build(&terms)), Learns::Elsewhere(None)),
            (true, true) => {
                let lessons = self.supervisor.lessons();
                (Some(next.policy.resume(&terms, lessons, common.clock.now())), Learns::AsBefore)
            }
            (false, true) => {
                let (policy, place) = super::policy(site, &next, common);
                (Some(policy), Learns::Elsewhere(place))
            }
        }
    }
}
