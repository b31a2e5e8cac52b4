//! The gateway: everything that one configuration has opened.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use nightwatt_energy::time::Now;
use nightwatt_power::Controller;
use tokio::sync::watch;

use crate::config::Config;
use crate::containers::Found;
use crate::disk_cache::DiskCache;
use crate::front::Front;
use crate::jobs::Jobs;
use crate::listen::Fronts;
use crate::live::Live;
use crate::machine::Machine;
use crate::magic_packets::tally::MagicPackets;
use crate::metering::{Feed, Metering};
use crate::serving::Serving;
use crate::status::ReloadStatus;
use crate::store::Store;
use crate::supervisor::Supervisor;

/// How to run.
#[derive(Debug)]
pub struct Options {
    /// Shadow mode: never sleep, report what sleeping would save.
    pub observe: bool,
    /// Wait for the disk at each ledger record.
    pub durable: bool,
    /// Containers that were found before the start.
    pub found: Found,
    /// Controllers that replace the configured ones, by site name.
    pub controllers: HashMap<String, Box<dyn Controller>>,
    /// Feeds that replace the configured meters: of servers by site name, of the proxy by the empty name.
    pub meters: HashMap<String, Feed>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            observe: false,
            durable: true,
            found: Found::default(),
            controllers: HashMap::new(),
            meters: HashMap::new(),
        }
    }
}

/// The last reload, shared by all gateways of a process.
pub(crate) type LastReload = Arc<Mutex<Option<ReloadStatus>>>;

/// A running gateway for one configuration. A reload replaces it with another one, which shares what did not change.
pub struct Gateway {
    pub(crate) serving: Arc<Serving>,
    pub(crate) front: Arc<Front>,
    /// The machines that servers run on.
    pub(crate) machines: Vec<Arc<Machine>>,
    /// The disk behind the memory of all caches.
    pub(crate) disk: Option<Arc<DiskCache>>,
    pub(crate) started: Now,
    /// Meters that are being read, by the name of what they measure; each is closed with the last gateway that uses it.
    pub(crate) metering: HashMap<String, Arc<Metering>>,
    pub(crate) last_reload: LastReload,
    pub(crate) jobs: Arc<Jobs>,
    /// Containers whose labels describe sites.
    pub(crate) found: Found,
    pub(crate) magic_packets: Arc<MagicPackets>,
}

impl Gateway {
    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.serving.config
    }

    /// Whether requests may be answered on the fast path: for tests, which compare it with the slow path.
    #[doc(hidden)]
    pub fn allow_fast_path(&self, is_allowed: bool) {
        self.serving.has_fast_path.store(is_allowed, Relaxed);
    }

    /// The stores of all sites.
    pub(crate) fn stores(&self) -> Vec<Arc<Store>> {
        self.serving.sites.iter().map(|site| Arc::clone(&site.store)).collect()
    }

    /// The supervisors of all servers and machines.
    pub(crate) fn supervisors(&self) -> impl Iterator<Item = &Arc<Supervisor>> {
        let machines = self.machines.iter().map(|it| &it.supervisor);
        let pools = self.serving.sites.iter().filter_map(|it| it.pool.as_ref());
        let servers = pools.flat_map(|pool| pool.servers.iter().map(|it| &it.supervisor));
        machines.chain(servers).chain(self.serving.sites.iter().map(|it| &it.supervisor))
    }

    /// Puts the proxy on the bills of its sites, or of its machines if there is no site: an equal part on each, so that
    /// the sum counts it once.
    pub(crate) fn share_out_proxy(&self) {
        let part = |count: usize| if count == 0 { 0.0 } else { 1.0 / count as f64 };
        let of_site = part(self.serving.sites.len());
        let of_machine =
            if self.serving.sites.is_empty() { part(self.machines.len()) } else { 0.0 };
        for site in &self.serving.sites {
            site.supervisor.share_proxy(of_site);
            if let Some(shadow) = &site.shadow {
                shadow.supervisor.share_proxy(of_site);
            }
        }
        for machine in &self.machines {
            machine.supervisor.share_proxy(of_machine);
        }
    }

    /// How the last reload went, if there was one.
    pub(crate) fn last_reload(&self) -> Option<ReloadStatus> {
        self.last_reload.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how a reload went.
    pub(crate) fn note_reload(&self, refused: Option<String>) {
        let at_ms = self.serving.clock.now().wall.0;
        let mut last = self.last_reload.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(ReloadStatus { at_ms, refused });
    }
}

/// Publishes each new gateway and its parts.
pub(crate) struct Present {
    gateway: watch::Sender<Arc<Gateway>>,
    front: watch::Sender<Arc<Front>>,
    serving: watch::Sender<Arc<Serving>>,
}

impl Present {
    /// The first one.
    pub(crate) fn new(gateway: &Arc<Gateway>) -> Self {
        Self {
            gateway: watch::Sender::new(Arc::clone(gateway)),
            front: watch::Sender::new(Arc::clone(&gateway.front)),
            serving: watch::Sender::new(Arc::clone(&gateway.serving)),
        }
    }

    /// Publishes this gateway as the present one.
    pub(crate) fn turn_to(&self, gateway: &Arc<Gateway>) {
        self.serving.send_replace(Arc::clone(&gateway.serving));
        self.front.send_replace(Arc::clone(&gateway.front));
        self.gateway.send_replace(Arc::clone(gateway));
    }

    /// A handle to the present gateway.
    pub(crate) fn gateway(&self) -> Live<Gateway> {
        Live::of(&self.gateway)
    }

    /// A handle to what requests are served with at present.
    pub(crate) fn serving(&self) -> Live<Serving> {
        Live::of(&self.serving)
    }

    /// What listeners need.
    pub(crate) fn fronts(&self) -> Fronts {
        Fronts { front: Live::of(&self.front), serving: self.serving() }
    }
}
