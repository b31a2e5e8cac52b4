//! The gateway: all sites, and what they share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use nightwatt_clock::Clock;
use nightwatt_httpcache::Timestamp;
use nightwatt_power::Controller;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::access::AccessLog;
use crate::config::Config;
use crate::control;
use crate::error::StartError;
use crate::listen;
use crate::refresh;
use crate::site::{Common, Site};

/// How to run.
#[derive(Debug)]
pub struct Options {
    /// Shadow mode: never sleep, report what sleeping would save.
    pub observe: bool,
    /// Wait for the disk at each ledger record.
    pub durable: bool,
    /// Controllers in the place of the configured ones, by site name.
    pub controllers: HashMap<String, Box<dyn Controller>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { observe: false, durable: true, controllers: HashMap::new() }
    }
}

/// A gateway that is running.
pub struct Gateway {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) sites: Vec<Site>,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    pub(crate) observe: bool,
    hosts: HashMap<String, usize>,
    default_site: Option<usize>,
}

/// The handle by which a running gateway is looked at and stopped.
pub struct Running {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    drivers: Vec<JoinHandle<()>>,
    control: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Opens ledgers and logs, looks at every server, and listens.
    pub fn start(
        config: Config,
        clock: Clock,
        mut options: Options,
    ) -> Result<Running, StartError> {
        make_dir(&config.state_dir)?;
        let access_log = match &config.access_log {
            Some(path) => Some(Arc::new(AccessLog::open(path).map_err(file(path))?)),
            None => None,
        };
        let mut controllers = std::mem::take(&mut options.controllers);
        let common = Common { config: &config, clock: &clock, options: &options };
        let mut drivers = Vec::new();
        let mut sites = Vec::new();
        for site in &config.site {
            let controller = controllers.remove(&site.name);
            sites.push(Site::open(site, &common, controller, &mut drivers)?);
        }
        let (stop, stopped) = watch::channel(false);
        let gateway = Arc::new(Self {
            hosts: hosts(&config),
            default_site: config.site.iter().position(|site| site.hosts.is_empty()),
            observe: options.observe,
            access_log,
            clock,
            sites,
            config,
        });
        let renewing =
            (0..gateway.sites.len()).map(|site| refresh::run(Arc::clone(&gateway), site));
        drivers.extend(renewing.map(tokio::spawn));
        let (addresses, listeners) = listen::start(&gateway, &stopped)?;
        let control = control::start(&gateway, stopped)?;
        Ok(Running { gateway, addresses, stop, listeners, drivers, control })
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
        if let Some(control) = self.control {
            control.abort();
            let _ = std::fs::remove_file(self.gateway.config.control_socket());
        }
        for driver in self.drivers {
            driver.abort();
            let _ = driver.await;
        }
    }
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

fn make_dir(path: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(path).map_err(file(path))
}
