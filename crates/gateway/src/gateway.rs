//! The gateway: all sites, and what they share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use nightwatt_clock::Clock;
use nightwatt_http1::Limits;
use nightwatt_httpcache::Timestamp;
use nightwatt_model::time::Now;
use nightwatt_power::Controller;

use crate::access::AccessLog;
use crate::admin::Guard;
use crate::authority::host_name;
use crate::client_limits::ClientLimits;
use crate::config::Config;
use crate::disk_cache::DiskCache;
use crate::error::StartError;
use crate::facts::Facts;
use crate::forwarded::Unreadable;
use crate::listen;
use crate::machine::Machine;
use crate::metering::{Feed, Metering};
use crate::metrics::{ConnectionTally, RequestTally};
use crate::opening::Opening;
use crate::passthrough::{self, Door, Service};
use crate::repeats::Repeats;
use crate::secrets;
use crate::site::{Site, look_over_servers, waiting_page};
use crate::state_dir;
use crate::status::ReloadStatus;
use crate::store::Store;
use crate::tls::Tls;
use crate::webhooks;

/// How to run.
#[derive(Debug)]
pub struct Options {
    /// Shadow mode: never sleep, report what sleeping would save.
    pub observe: bool,
    /// Wait for the disk at each ledger record.
    pub durable: bool,
    /// Controllers in the place of the configured ones, by site name.
    pub controllers: HashMap<String, Box<dyn Controller>>,
    /// Feeds in the place of the configured meters: of servers by site name, of the proxy by the
    /// empty name.
    pub meters: HashMap<String, Feed>,
}

impl Default for Options {
    fn default() -> Self {
        Self { observe: false, durable: true, controllers: HashMap::new(), meters: HashMap::new() }
    }
}

/// The last reload, which all gateways of a process share.
pub(crate) type LastReload = Arc<Mutex<Option<ReloadStatus>>>;

/// A gateway that is running, as one configuration has it. After a reload another one stands in its
/// place, which shares with it what did not change.
pub struct Gateway {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// What servers run on.
    pub(crate) machines: Vec<Arc<Machine>>,
    pub(crate) sites: Vec<Arc<Site>>,
    /// What is passed through.
    pub(crate) services: Vec<Service>,
    /// Where it listens for them.
    pub(crate) tcp_addresses: Vec<SocketAddr>,
    /// What is behind each address at which connections for services come in.
    pub(crate) doors: Vec<(SocketAddr, Arc<Door>)>,
    /// Connections for no service.
    pub(crate) unclaimed: Arc<passthrough::Tally>,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Behind the memory of all caches.
    pub(crate) disk: Option<Arc<DiskCache>>,
    pub(crate) observe: bool,
    pub(crate) client_limits: Arc<ClientLimits>,
    /// Bounds on clients' connections.
    pub(crate) http_limits: Arc<Limits>,
    pub(crate) connections: Arc<ConnectionTally>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) unreadable_clients: Arc<Unreadable>,
    /// Requests to no site.
    pub(crate) unsited: Arc<RequestTally>,
    pub(crate) started: Now,
    /// Meters that are being read, by the name of what they measure; each is let go with the last
    /// gateway that has it.
    pub(crate) metering: HashMap<String, Arc<Metering>>,
    pub(crate) last_reload: LastReload,
    /// Tests compare what both paths answer.
    pub(crate) has_fast_path: AtomicBool,
    /// Warnings that can repeat with every request.
    pub(crate) repeats: Repeats,
    hosts: HashMap<String, usize>,
    default_site: Option<usize>,
}

impl Gateway {
    /// Opens the log, the machines and the sites, whose drivers begin at once; what the gateway before
    /// had and the configuration still has is taken over.
    pub(crate) fn open(
        config: Config,
        clock: &Clock,
        opening: &mut Opening<'_>,
        before: Option<&Self>,
    ) -> Result<Self, StartError> {
        let tls = config.tls.as_ref();
        let tls = tls.map(|it| Tls::open(it, clock, before.and_then(|it| it.tls.as_deref())));
        let tls = tls.transpose()?.map(Arc::new);
        config.webhook.iter().try_for_each(webhooks::look_over)?;
        let repeats = before.map(|it| it.repeats.clone()).unwrap_or_default();
        let access_log = match (&config.access_log, before.and_then(|it| it.access_log.as_ref())) {
            (Some(_), Some(log)) => Some(Arc::clone(log)),
            (Some(path), None) => Some(Arc::new(
                AccessLog::open(path, clock, &repeats).map_err(StartError::file(path))?,
            )),
            (None, _) => None,
        };
        let (machines, sites) = opening.all()?;
        let same_limits = |it: &&Self| {
            let Config { limits, trusted_proxies, .. } = &it.config;
            *limits == config.limits && *trusted_proxies == config.trusted_proxies
        };
        let client_limits = before.filter(same_limits).map(|it| Arc::clone(&it.client_limits));
        Ok(Self {
            hosts: hosts(&config),
            default_site: config.site.iter().position(|site| site.hosts.is_empty()),
            observe: opening.observes(),
            client_limits: client_limits.unwrap_or_else(|| Arc::new(ClientLimits::new(&config))),
            http_limits: Arc::new(listen::limits(&config)),
            connections: before.map(|it| Arc::clone(&it.connections)).unwrap_or_default(),
            unreadable_clients: before
                .map(|it| Arc::clone(&it.unreadable_clients))
                .unwrap_or_default(),
            unsited: before.map(|it| Arc::clone(&it.unsited)).unwrap_or_default(),
            started: before.map_or_else(|| clock.now(), |it| it.started),
            services: Service::all(&config, &sites, &machines, before.map(|it| &*it.services)),
            // Known to the listeners.
            tcp_addresses: Vec::new(),
            doors: Door::all(&config),
            unclaimed: before.map(|it| Arc::clone(&it.unclaimed)).unwrap_or_default(),
            metering: opening.metering(),
            last_reload: before.map(|it| Arc::clone(&it.last_reload)).unwrap_or_default(),
            has_fast_path: AtomicBool::new(before.is_none_or(|it| it.has_fast_path.load(Relaxed))),
            repeats,
            clock: clock.clone(),
            tls,
            access_log,
            disk: opening.disk().cloned(),
            machines,
            sites,
            config,
        })
    }

    /// Reads the files that a configuration names, as [`start`](Self::start) would, and lets go of them: all
    /// that it would not start for. (Controllers tell of theirs by themselves.)
    pub fn look_over(config: &Config, clock: &Clock) -> Vec<StartError> {
        let tls = config.tls.iter().map(|it| Ok(Tls::open(it, clock, None).map(drop)?));
        let hooks = config.webhook.iter().map(|it| Ok(webhooks::look_over(it)?));
        let admin = config.admin.iter().map(|it| Guard::open(Some(it)).map(drop));
        let pages = config.site.iter().map(|site| waiting_page(site).map(drop));
        let servers = config.site.iter().map(|site| look_over_servers(site, config, clock));
        let all = tls.chain(hooks).chain(admin).chain(pages).chain(servers);
        all.filter_map(Result::err).collect()
    }

    /// Whether requests may be answered on the fast path: for tests, which compare it with the slow path.
    #[doc(hidden)]
    pub fn allow_fast_path(&self, is_allowed: bool) {
        self.has_fast_path.store(is_allowed, Relaxed);
    }

    /// Settings and files that let others on this machine read secrets, or harm the gateway, in words.
    pub fn risks(config: &Config) -> Vec<String> {
        [state_dir::risks(&config.state_dir), secrets::risks(config)].concat()
    }

    /// The site that answers for a host.
    pub(crate) fn site_of(&self, host: &str) -> Option<usize> {
        self.hosts.get(host).copied().or(self.default_site)
    }

    /// The site that answers for a request.
    pub(crate) fn site_for(&self, facts: &Facts) -> Option<usize> {
        if !facts.authority.is_empty() {
            return self.site_of(&facts.host());
        }
        // A request of HTTP/1.0 need not name a host. It is clear whom it is for where there is one site.
        self.default_site.or_else(|| (self.sites.len() == 1).then_some(0))
    }

    /// The site of this name, and its number.
    pub(crate) fn site_named(&self, name: &str) -> Option<(usize, &Arc<Site>)> {
        self.sites.iter().enumerate().find(|(_, site)| *site.name == *name)
    }

    /// What is stored of each site.
    pub(crate) fn stores(&self) -> Vec<Arc<Store>> {
        self.sites.iter().map(|site| Arc::clone(&site.store)).collect()
    }

    /// Now, as the cache counts it.
    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(u64::try_from(self.clock.now().wall.0).unwrap_or(0))
    }
}

fn hosts(config: &Config) -> HashMap<String, usize> {
    let named = config.site.iter().enumerate();
    named
        .flat_map(|(index, site)| site.hosts.iter().map(move |host| (host_name(host), index)))
        .collect()
}
