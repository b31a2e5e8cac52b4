//! Opens what a configuration names: machines from the bottom up, then sites. What the gateway before
//! had is taken over: whole if nothing of it changed, else as much of it as can be kept.

use std::collections::HashMap;
use std::sync::Arc;

use nightwatt_power::Controller;
use tokio::task::JoinHandle;

use crate::common::Common;
use crate::config::{Config, MachineConfig, MeterConfig, SiteConfig, bottom_up};
use crate::disk_cache::DiskCache;
use crate::error::StartError;
use crate::gateway::Gateway;
use crate::machine::{Guest, Machine};
use crate::metering::{self, Feed, Metering};
use crate::pool::Fittings;
use crate::site::{Site, waiting_page};
use crate::supervisor::{Retuning, Supervisor};

/// What goes on by itself, by the name of the site or machine that it is for.
pub(crate) type Jobs = HashMap<String, Vec<JoinHandle<()>>>;

/// Machines and sites.
type Opened = (Vec<Arc<Machine>>, Vec<Arc<Site>>);

/// The opening of one configuration. Nothing of what is taken over is touched before
/// [`commit`](Self::commit).
pub(crate) struct Opening<'a> {
    common: Common<'a>,
    /// In the place of the configured ones.
    controllers: HashMap<String, Box<dyn Controller>>,
    meters: &'a HashMap<String, Feed>,
    /// What may be gone on with: the gateway before, and those from which sites or machines come back.
    before: Vec<&'a Gateway>,
    metering: HashMap<String, Arc<Metering>>,
    jobs: Jobs,
    retunings: Vec<Retuning>,
    guests: Vec<(Guest, Arc<Supervisor>)>,
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

    pub(crate) fn observes(&self) -> bool {
        self.common.observe
    }

    /// The disk behind the caches, if there is one.
    pub(crate) const fn disk(&self) -> Option<&Arc<DiskCache>> {
        self.common.disk
    }

    /// Meters that are being read.
    pub(crate) fn metering(&mut self) -> HashMap<String, Arc<Metering>> {
        std::mem::take(&mut self.metering)
    }

    /// All machines and sites of the configuration.
    pub(crate) fn all(&mut self) -> Result<Opened, StartError> {
        let config = self.common.config;
        let proxy_meter = self.feed("", config.meter.as_ref())?;
        let mut machines = Vec::new();
        // In shadow mode all of them are left alone.
        let bottom_up = if self.observes() { Vec::new() } else { bottom_up(&config.machine) };
        for machine in bottom_up.into_iter().map(|at| &config.machine[at]) {
            // Where the last site goes while all runs, machines have the proxy by its power from then on.
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
            let config = gateway.config.machine.iter().find(|it| it.name == machine.name)?;
            Some((gateway.machines.iter().find(|it| *it.name == *machine.name)?, config, gateway))
        });
        let below = called(machine.on.as_deref(), machines);
        let meter = self.feed(&machine.name, machine.meter.as_ref())?;
        let Some((old, was, gateway)) = old else {
            let controller = self.controllers.remove(&machine.name);
            let mut jobs = Vec::new();
            let own = (controller, [meter, proxy_meter.cloned()]);
            let opened = Machine::open(machine, &self.common, own, below, &mut jobs);
            self.jobs.insert(machine.name.clone(), jobs);
            return Ok(Arc::new(opened?));
        };
        let (scenario, before) = (&self.common.config.scenario, &gateway.config.scenario);
        if was == machine
            && (&before.server, &before.proxy, &before.never_sleep)
                == (&scenario.server, &scenario.proxy, &scenario.never_sleep)
        {
            return Ok(Arc::clone(old));
        }
        let controller = self.controllers.remove(&machine.name);
        let (changed, retuning, guest) =
            old.changed((was, machine), &self.common, controller, below)?;
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
            self.before.iter().find_map(|it| Some((*it, it.site_named(&site.name)?.1)))
        {
            if is_same(&gateway.config, old, self.common.config, site) && has_same_page(old, site)?
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
        let own = (controller, [meter, proxy_meter.cloned()]);
        let mut jobs = Vec::new();
        let opened = Site::open(site, &self.common, own, machine, servers, &mut jobs);
        self.jobs.insert(site.name.clone(), jobs);
        Ok(Arc::new(opened?))
    }

    /// What the meter of a site says, or of the proxy, which has the empty name; if there is one.
    fn feed(
        &mut self,
        name: &str,
        meter: Option<&MeterConfig>,
    ) -> Result<Option<Feed>, StartError> {
        if let Some(feed) = self.meters.get(name) {
            return Ok(Some(feed.clone()));
        }
        let Some(meter) = meter else { return Ok(None) };
        // (A meter does not change by a reload.)
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

    /// Puts in place what changed. Gives what now goes on by itself for what is new.
    pub(crate) fn commit(mut self) -> Jobs {
        self.retunings.drain(..).for_each(Retuning::commit);
        for (guest, supervisor) in self.guests.drain(..) {
            // It ends with the way to the server that it belongs to.
            tokio::spawn(guest.follow(supervisor));
        }
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for Opening<'_> {
    /// What was begun and not committed ends, and nothing has changed.
    fn drop(&mut self) {
        self.jobs.drain().flat_map(|(_, jobs)| jobs).for_each(|job| job.abort());
    }
}

/// Is a site what it was, with all that it depends on?
fn is_same(was: &Config, old: &Site, config: &Config, site: &SiteConfig) -> bool {
    old.config == *site
        && was.scenario_of(&old.config) == config.scenario_of(site)
        && old.limits == site.limits.over(&config.limits)
}

/// Does its own page to wait on still say what it did? (The built-in one is made of the configuration alone.)
fn has_same_page(old: &Site, site: &SiteConfig) -> Result<bool, StartError> {
    Ok(site.waiting_page_file.is_none() || waiting_page(site)? == old.waiting_page)
}

/// The machine of this name, once it is open.
fn called<'a>(name: Option<&str>, machines: &'a [Arc<Machine>]) -> Option<&'a Machine> {
    machines.iter().find(|machine| Some(&*machine.name) == name).map(|it| &**it)
}
