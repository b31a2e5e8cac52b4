//! The gateway: all sites, and what they share.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use nightwatt_clock::Clock;
use nightwatt_httpcache::Timestamp;
use nightwatt_model::time::Now;
use nightwatt_power::Controller;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::access::AccessLog;
use crate::admin::{self, Guard};
use crate::client_limits::ClientLimits;
use crate::config::{Config, MeterConfig, bottom_up};
use crate::control::Socket;
use crate::error::StartError;
use crate::listen;
use crate::machine::Machine;
use crate::metering::{self, Feed, Metering};
use crate::metrics::{ConnectionTally, RequestTally};
use crate::passthrough::{self, Door, Service};
use crate::pool::Fittings;
use crate::refresh;
use crate::site::{Common, Site};
use crate::tls::Tls;
use crate::warm_up;

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

/// A gateway that is running.
pub struct Gateway {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// What servers run on.
    pub(crate) machines: Vec<Machine>,
    pub(crate) sites: Vec<Site>,
    /// What is passed through.
    pub(crate) services: Vec<Service>,
    /// Connections for no service.
    pub(crate) unclaimed: passthrough::Tally,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    pub(crate) observe: bool,
    pub(crate) client_limits: Arc<ClientLimits>,
    pub(crate) connections: Arc<ConnectionTally>,
    pub(crate) tls: Option<Tls>,
    /// Requests to no site.
    pub(crate) unsited: RequestTally,
    pub(crate) started: Now,
    /// Meters that are being read; they are let go with the gateway.
    _metering: Vec<Metering>,
    hosts: HashMap<String, usize>,
    default_site: Option<usize>,
}

/// The handle by which a running gateway is looked at and stopped.
pub struct Running {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// Where it listens for TLS.
    pub tls_addresses: Vec<SocketAddr>,
    /// Where it listens for services that are passed through: each address of `[[tcp]]` once.
    pub tcp_addresses: Vec<SocketAddr>,
    /// Where it tells how it is.
    pub admin: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    drivers: Vec<JoinHandle<()>>,
    control: JoinHandle<()>,
    admin_task: Option<JoinHandle<()>>,
    _lock: File,
}

impl Gateway {
    /// Listens, opens ledgers and logs, looks at every server, and serves. What another gateway has
    /// in use is not touched.
    pub fn start(config: Config, clock: Clock, options: Options) -> Result<Running, StartError> {
        make_dir(&config.state_dir)?;
        let bound = listen::bind(&config.listen)?;
        let tls_bound = listen::bind(config.tls.as_ref().map_or(&[][..], |it| &it.listen))?;
        let admin_bound = listen::bind(config.admin.as_ref().map(|it| it.listen).as_slice())?.pop();
        let (at, doors): (Vec<_>, Vec<_>) = Door::all(&config).into_iter().unzip();
        let tcp_bound = listen::bind(&at)?;
        let guard = Guard::open(config.admin.as_ref())?;
        let lock = lock(&config.state_dir)?;
        let addresses = bound.iter().map(|(address, _)| *address).collect();
        let tls_addresses = tls_bound.iter().map(|(address, _)| *address).collect();
        let tcp_addresses = tcp_bound.iter().map(|(address, _)| *address).collect();
        let socket = Socket::bind(config.control_socket())?;
        let mut drivers = Vec::new();
        let gateway = Self::open(config, clock, options, &mut drivers)
            .inspect_err(|_| drivers.iter().for_each(JoinHandle::abort))?;
        let gateway = Arc::new(gateway);
        let renewing =
            (0..gateway.sites.len()).map(|site| refresh::run(Arc::clone(&gateway), site));
        drivers.extend(renewing.map(tokio::spawn));
        let warmed = (0..gateway.sites.len()).filter(|&site| gateway.sites[site].warms_up());
        let warming = warmed.map(|site| warm_up::run(Arc::clone(&gateway), site));
        drivers.extend(warming.map(tokio::spawn));
        drivers.extend(gateway.access_log.iter().map(|log| tokio::spawn(Arc::clone(log).run())));
        let (stop, stopped) = watch::channel(false);
        let doors = tcp_bound.into_iter().zip(doors).collect();
        let listeners = listen::serve(&gateway, (bound, tls_bound), doors, &stopped);
        let control = socket.serve(Arc::clone(&gateway));
        let admin = admin_bound.as_ref().map(|(address, _)| *address);
        let admin_task = admin_bound.map(|(_, listener)| admin::serve(&gateway, guard, listener));
        Ok(Running {
            gateway,
            addresses,
            tls_addresses,
            tcp_addresses,
            admin,
            stop,
            listeners,
            drivers,
            control,
            admin_task,
            _lock: lock,
        })
    }

    /// Opens the log and the sites, whose drivers begin at once.
    fn open(
        config: Config,
        clock: Clock,
        mut options: Options,
        drivers: &mut Vec<JoinHandle<()>>,
    ) -> Result<Self, StartError> {
        let tls = config.tls.as_ref().map(|it| Tls::open(it, &clock)).transpose()?;
        let access_log = match &config.access_log {
            Some(path) => Some(Arc::new(AccessLog::open(path).map_err(file(path))?)),
            None => None,
        };
        let mut controllers = std::mem::take(&mut options.controllers);
        let mut metering = Vec::new();
        let proxy_meter = feed("", config.meter.as_ref(), &options, &clock, &mut metering)?;
        let common = Common { config: &config, clock: &clock, options: &options };
        let mut machines: Vec<Machine> = Vec::new();
        // In shadow mode all of them are left alone.
        let bottom_up = if options.observe { Vec::new() } else { bottom_up(&config.machine) };
        for machine in bottom_up.into_iter().map(|at| &config.machine[at]) {
            let controller = controllers.remove(&machine.name);
            let meter =
                feed(&machine.name, machine.meter.as_ref(), &options, &clock, &mut metering)?;
            let below = called(machine.on.as_deref(), &machines);
            machines.push(Machine::open(machine, &common, (controller, meter), below, drivers)?);
        }
        let mut sites = Vec::new();
        for site in &config.site {
            let controller = controllers.remove(&site.name);
            let meter = feed(&site.name, site.meter.as_ref(), &options, &clock, &mut metering)?;
            let meters = [meter, proxy_meter.clone()];
            let machine = called(site.on.as_deref(), &machines);
            let mut servers = Vec::new();
            for server in &site.server {
                let controller = controllers.remove(&server.name);
                let meter =
                    feed(&server.name, server.meter.as_ref(), &options, &clock, &mut metering)?;
                let machine = called(server.on.as_deref(), &machines);
                servers.push(Fittings { controller, meter, machine });
            }
            let own = (controller, meters);
            sites.push(Site::open(site, &common, own, machine, servers, drivers)?);
        }
        Ok(Self {
            hosts: hosts(&config),
            default_site: config.site.iter().position(|site| site.hosts.is_empty()),
            observe: options.observe,
            client_limits: Arc::new(ClientLimits::new(&config)),
            connections: Arc::default(),
            tls,
            unsited: RequestTally::default(),
            started: clock.now(),
            services: Service::all(&config, &sites, &machines),
            unclaimed: passthrough::Tally::default(),
            _metering: metering,
            access_log,
            clock,
            machines,
            sites,
            config,
        })
    }

    /// The site that answers for a host.
    pub(crate) fn site_of(&self, host: &str) -> Option<usize> {
        self.hosts.get(host).copied().or(self.default_site)
    }

    /// Now, as the cache counts it.
    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(u64::try_from(self.clock.now().wall.0).unwrap_or(0))
    }
}

impl Running {
    /// Stops in good order: no new connections, running exchanges get their time, ledgers are
    /// written. Servers stay as they are.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for listener in self.listeners {
            let _ = listener.await;
        }
        for driver in self.drivers {
            driver.abort();
            let _ = driver.await;
        }
        if let Some(log) = &self.gateway.access_log {
            log.flush();
        }
        if let Some(admin) = self.admin_task {
            admin.abort();
            let _ = admin.await;
        }
        // Last, since another gateway may begin as soon as the socket is gone.
        self.control.abort();
        let _ = self.control.await;
    }
}

/// What the meter of a site says, or of the proxy, which has the empty name; if there is one.
fn feed(
    name: &str,
    meter: Option<&MeterConfig>,
    options: &Options,
    clock: &Clock,
    metering: &mut Vec<Metering>,
) -> Result<Option<Feed>, StartError> {
    if let Some(feed) = options.meters.get(name) {
        return Ok(Some(feed.clone()));
    }
    let Some(meter) = meter else { return Ok(None) };
    let (feed, reading) =
        metering::begin(meter, clock).map_err(|source| StartError::Meter { source })?;
    metering.push(reading);
    Ok(Some(feed))
}

/// The machine of this name, once it is open.
fn called<'a>(name: Option<&str>, machines: &'a [Machine]) -> Option<&'a Machine> {
    machines.iter().find(|machine| Some(&*machine.name) == name)
}

fn hosts(config: &Config) -> HashMap<String, usize> {
    let named = config.site.iter().enumerate();
    named
        .flat_map(|(index, site)| {
            site.hosts.iter().map(move |host| (host.to_ascii_lowercase(), index))
        })
        .collect()
}

pub(crate) fn file(path: &Path) -> impl Fn(std::io::Error) -> StartError + '_ {
    |source| StartError::File { path: path.to_owned(), source }
}

/// Two gateways must not write the same ledgers. The lock goes with the process, however it ends.
fn lock(state_dir: &Path) -> Result<File, StartError> {
    let path = state_dir.join("lock");
    let failed = file(&path);
    let lock =
        File::options().write(true).create(true).truncate(false).open(&path).map_err(&failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::Locked { path: state_dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn make_dir(path: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(path).map_err(file(path))
}
