//! Opens what a configuration names: machines from the bottom up, then sites. Takes over from the previous gateway what
//! did not change, and as much as possible of the rest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use nightwatt_clock::Clock;
use nightwatt_power::Controller;
use tokio::task::JoinHandle;

use crate::access_log::AccessLog;
use crate::client_limits::ClientLimits;
use crate::common::Common;
use crate::config::{Config, MachineConfig, MeterConfig, SiteConfig, bottom_up};
use crate::datagrams;
use crate::error::StartError;
use crate::front::Front;
use crate::gateway::Gateway;
use crate::listen;
use crate::machine::{Machine, MachineUse};
use crate::metering::{self, Feed, Metering};
use crate::passthrough::{OpenAddress, PassthroughListener, Service, Services};
use crate::pool::Fittings;
use crate::proofs::Proofs;
use crate::repeated_warnings::Repeats;
use crate::serving::{Serving, SiteNames};
use crate::site::{Site, waiting_page};
use crate::supervisor::{Retuning, Supervisor};
use crate::tls::Tls;
use crate::webhooks;

/// Background tasks, by the name of their site or machine.
pub(crate) type Jobs = HashMap<String, Vec<JoinHandle<()>>>;

/// Machines and sites.
type Opened = (Vec<Arc<Machine>>, Vec<Arc<Site>>);

/// Where it listens for TLS, and for services that are passed through.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    pub(crate) tls: Vec<OpenAddress>,
    pub(crate) tcp: Vec<OpenAddress>,
    pub(crate) udp: Vec<OpenAddress>,
}

/// Opens one configuration. Does not touch anything that it takes over before [`commit`](Self::commit).
pub(crate) struct Opening<'a> {
    common: Common<'a>,
    /// Replacements for the configured ones.
    controllers: HashMap<String, Box<dyn Controller>>,
    meters: &'a HashMap<String, Feed>,
    /// What can be taken over: the previous gateway, and those from which sites or machines come back.
    before: Vec<&'a Gateway>,
    metering: HashMap<String, Arc<Metering>>,
    jobs: Jobs,
    retunings: Vec<Retuning>,
    guests: Vec<(MachineUse, Arc<Supervisor>)>,
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        common: Common<'a>,
        controllers: HashMap<String, Box<dyn Controller>>,
        meters: &'a HashMap<String, Feed>,
        before: Vec<&'a Gateway>,
    ) -> Self {
        Self {
            common,
            controllers,
            meters,
            before,
            metering: HashMap::new(),
            jobs: Jobs::new(),
            retunings: Vec::new(),
            guests: Vec::new(),
        }
    }

    fn observes(&self) -> bool {
        self.common.observe
    }

    /// The gateway of the configuration, which listens at these addresses. Starts the drivers of new parts.
    pub(crate) fn gateway(
        &mut self,
        config: Config,
        addresses: &Addresses,
    ) -> Result<Gateway, StartError> {
        let (clock, before) = (self.common.clock, self.before.first().copied());
        let tls_before = before.and_then(|it| it.front.tls.as_deref());
        let tls = config.tls.as_ref().map(|it| Tls::open(it, clock, tls_before));
        let secure = addresses.tls.iter().map(|it| it.actual).collect();
        let tls = tls.transpose()?.map(|it| Arc::new(it.listening_at(secure)));
        config.webhook.iter().try_for_each(webhooks::look_over)?;
        let served_before = before.map(|it| &*it.serving);
        let repeats = served_before.map(|it| it.repeats.clone()).unwrap_or_default();
        let access_log = access_log(&config, clock, &repeats, served_before)?;
        let (machines, sites) = self.all()?;
        let services_before = before.map(|it| &*it.front.services);
        let services = Services {
            all: Service::all(
                &config,
                &sites,
                &machines,
                services_before.map(|it| &*it.all),
                &addresses.tcp,
            ),
            addresses: addresses.tcp.iter().map(|it| it.actual).collect(),
            unclaimed: services_before.map(|it| Arc::clone(&it.unclaimed)).unwrap_or_default(),
        };
        let datagrams_before = before.map(|it| &*it.front.datagrams);
        let datagrams =
            datagrams::Services::open(&config, &sites, &machines, datagrams_before, &addresses.udp);
        let passthrough_listeners = PassthroughListener::all(&config);
        let proofs = tls.as_ref().map(|tls| Arc::clone(&tls.proofs));
        let log = Log { access_log, repeats };
        let serving = Arc::new(self.serving(config, sites, log, proofs, served_before));
        let front = Front {
            serving: Arc::clone(&serving),
            tls,
            services: Arc::new(services),
            datagrams: Arc::new(datagrams),
            passthrough_listeners,
        };
        Ok(Gateway {
            serving,
            front: Arc::new(front),
            machines,
            disk: self.common.disk.cloned(),
            started: before.map_or_else(|| clock.now(), |it| it.started),
            metering: std::mem::take(&mut self.metering),
            last_reload: before.map(|it| Arc::clone(&it.last_reload)).unwrap_or_default(),
            magic_packets: before.map(|it| Arc::clone(&it.magic_packets)).unwrap_or_default(),
            jobs: before.map(|it| Arc::clone(&it.jobs)).unwrap_or_default(),
            found: before.map(|it| it.found.clone()).unwrap_or_default(),
        })
    }

    /// What is needed to serve requests; counters continue.
    fn serving(
        &self,
        config: Config,
        sites: Vec<Arc<Site>>,
        log: Log,
        proofs: Option<Arc<Proofs>>,
        before: Option<&Serving>,
    ) -> Serving {
        let same_limits = |it: &&Serving| {
            let Config { limits, trusted_proxies, .. } = &it.config;
            *limits == config.limits && *trusted_proxies == config.trusted_proxies
        };
        let client_limits = before.filter(same_limits).map(|it| Arc::clone(&it.client_limits));
        Serving {
            clock: self.common.clock.clone(),
            sites,
            names: SiteNames::of(&config),
            access_log: log.access_log,
            observe: self.observes(),
            client_limits: client_limits.unwrap_or_else(|| Arc::new(ClientLimits::new(&config))),
            http_limits: Arc::new(listen::limits(&config)),
            connections: before.map(|it| Arc::clone(&it.connections)).unwrap_or_default(),
            proofs,
            unreadable_clients: before
                .map(|it| Arc::clone(&it.unreadable_clients))
                .unwrap_or_default(),
            unsited: before.map(|it| Arc::clone(&it.unsited)).unwrap_or_default(),
            has_fast_path: AtomicBool::new(before.is_none_or(|it| it.has_fast_path.load(Relaxed))),
            repeats: log.repeats,
            config,
        }
    }

    /// Opens all machines and sites of the configuration.
    fn all(&mut self) -> Result<Opened, StartError> {
        let config = self.common.config;
        let proxy_meter = self.feed("", config.meter.as_ref())?;
        let mut machines = Vec::new();
        // In shadow mode no machine is touched.
        let bottom_up = if self.observes() { Vec::new() } else { bottom_up(&config.machine) };
        for machine in bottom_up.into_iter().map(|at| &config.machine[at]) {
            // When a reload removes the last site, machines are billed for the proxy by its modelled power from then
            // on.
            let proxy_meter = proxy_meter.as_ref().filter(|_| config.site.is_empty());
            machines.push(self.machine(machine, &machines, proxy_meter)?);
        }
        let mut sites = Vec::new();
        for site in &config.site {
            sites.push(self.site(site, &machines, proxy_meter.as_ref())?);
        }
        Ok((machines, sites))
    }

    fn machine(
        &mut self,
        machine: &MachineConfig,
        machines: &[Arc<Machine>],
        proxy_meter: Option<&Feed>,
    ) -> Result<Arc<Machine>, StartError> {
        let old = self.before.iter().find_map(|&gateway| {
            let config =
                gateway.serving.config.machine.iter().find(|it| it.name == machine.name)?;
            Some((gateway.machines.iter().find(|it| *it.name == *machine.name)?, config, gateway))
        });
        let below = called(machine.on.as_deref(), machines);
        let meter = self.feed(&machine.name, machine.meter.as_ref())?;
        let Some((old, was, gateway)) = old else {
            let controller = self.controllers.remove(&machine.name);
            let mut jobs = Vec::new();
            let meters = [meter, proxy_meter.cloned()];
            let opened = Machine::open(machine, &self.common, controller, meters, below, &mut jobs);
            self.jobs.insert(machine.name.clone(), jobs);
            return Ok(Arc::new(opened?));
        };
        let (scenario, before) = (&self.common.config.scenario, &gateway.serving.config.scenario);
        let has_same_hours = before.never_sleep == scenario.never_sleep
            && before.awake == scenario.awake
            && before.days_off == scenario.days_off;
        if was == machine
            && has_same_hours
            && (&before.server, &before.proxy) == (&scenario.server, &scenario.proxy)
        {
            return Ok(Arc::clone(old));
        }
        let controller = self.controllers.remove(&machine.name);
        let (changed, retuning, guest) =
            old.changed(was, machine, &self.common, controller, below)?;
        self.guests.extend(guest.map(|guest| (guest, Arc::clone(&changed.supervisor))));
        self.retunings.push(retuning);
        Ok(Arc::new(changed))
    }

    fn site(
        &mut self,
        site: &SiteConfig,
        machines: &[Arc<Machine>],
        proxy_meter: Option<&Feed>,
    ) -> Result<Arc<Site>, StartError> {
        let meter = self.feed(&site.name, site.meter.as_ref())?;
        let feeds = site.server.iter().map(|it| self.feed(&it.name, it.meter.as_ref()));
        let feeds: Vec<_> = feeds.collect::<Result<_, _>>()?;
        let machine = called(site.on.as_deref(), machines);
        let controller = self.controllers.remove(&site.name);
        if let Some((gateway, old)) =
            self.before.iter().find_map(|it| Some((*it, it.serving.site_named(&site.name)?.1)))
        {
            if is_same(&gateway.serving.config, old, self.common.config, site)
                && has_same_page(old, site)?
            {
                return Ok(Arc::clone(old));
            }
            let changed = old.changed(site, &self.common, controller, machine)?;
            let (changed, retuning, guest) = changed;
            self.guests.extend(guest.map(|guest| (guest, Arc::clone(&changed.supervisor))));
            self.retunings.push(retuning);
            return Ok(Arc::new(changed));
        }
        let mut servers = Vec::new();
        for (server, meter) in site.server.iter().zip(feeds) {
            let controller = self.controllers.remove(&server.name);
            let machine = called(server.on.as_deref(), machines);
            servers.push(Fittings { controller, meter, machine });
        }
        let meters = [meter, proxy_meter.cloned()];
        let mut jobs = Vec::new();
        let opened =
            Site::open(site, &self.common, controller, meters, machine, servers, &mut jobs);
        self.jobs.insert(site.name.clone(), jobs);
        Ok(Arc::new(opened?))
    }

    /// The meter of a site, or of the proxy, which has the empty name; if there is one.
    fn feed(
        &mut self,
        name: &str,
        meter: Option<&MeterConfig>,
    ) -> Result<Option<Feed>, StartError> {
        if let Some(feed) = self.meters.get(name) {
            return Ok(Some(feed.clone()));
        }
        let Some(meter) = meter else { return Ok(None) };
        // (A reload cannot change a meter.)
        let kept = self.before.iter().find_map(|it| it.metering.get(name));
        let metering = if let Some(metering) = kept {
            Arc::clone(metering)
        } else {
            let begun = metering::begin(meter, self.common.clock);
            Arc::new(begun.map_err(|source| StartError::Meter { source })?)
        };
        let feed = metering.feed().clone();
        self.metering.insert(name.to_owned(), metering);
        Ok(Some(feed))
    }

    /// Applies the changes. Returns the background tasks of new parts.
    pub(crate) fn commit(mut self) -> Jobs {
        self.retunings.drain(..).for_each(Retuning::commit);
        for (guest, supervisor) in self.guests.drain(..) {
            // It ends with the controller that it belongs to.
            tokio::spawn(guest.follow(supervisor));
        }
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for Opening<'_> {
    /// Without a commit, new tasks end, and nothing has changed.
    fn drop(&mut self) {
        self.jobs.drain().flat_map(|(_, jobs)| jobs).for_each(|job| job.abort());
    }
}

/// The logs of requests.
struct Log {
    access_log: Option<Arc<AccessLog>>,
    /// Warnings that can repeat with every request.
    repeats: Repeats,
}

/// The access log, if configured: an existing one continues.
fn access_log(
    config: &Config,
    clock: &Clock,
    repeats: &Repeats,
    before: Option<&Serving>,
) -> Result<Option<Arc<AccessLog>>, StartError> {
    let Some(path) = &config.access_log else { return Ok(None) };
    if let Some(log) = before.and_then(|it| it.access_log.as_ref()) {
        return Ok(Some(Arc::clone(log)));
    }
    let log = AccessLog::open(path, clock, repeats).map_err(StartError::file(path))?;
    Ok(Some(Arc::new(log)))
}

/// Whether a site and all that it depends on are unchanged.
fn is_same(was: &Config, old: &Site, config: &Config, site: &SiteConfig) -> bool {
    old.config == *site
        && was.scenario_of(&old.config) == config.scenario_of(site)
        && old.limits == site.limits.over(&config.limits)
}

/// Whether its own waiting page is unchanged. (The built-in one depends on the configuration only.)
fn has_same_page(old: &Site, site: &SiteConfig) -> Result<bool, StartError> {
    Ok(site.waiting_page_file.is_none() || waiting_page(site)? == old.waiting_page)
}

/// The machine with this name, once it is open.
fn called<'a>(name: Option<&str>, machines: &'a [Arc<Machine>]) -> Option<&'a Machine> {
    machines.iter().find(|machine| Some(&*machine.name) == name).map(|it| &**it)
}
