//! A running gateway: starts, inspects and stops it.

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_policy::lifecycle::Handed;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::admin::{self, Guard};
use crate::common::Common;
use crate::config::Config;
use crate::containers::Applied;
use crate::containers::watch::{self, Watched};
use crate::control::{self, Demand, Socket};
use crate::disk_cache::{self, DiskCache};
use crate::error::StartError;
use crate::gateway::{Gateway, Options, Present};
use crate::hand_over::Predecessor;
use crate::listen::{self, Bound, Inherited, Post, Spoken};
use crate::live::Live;
use crate::opening::{Addresses, Jobs, Opening};
use crate::passthrough::OpenAddress;
use crate::ports::{self, Port};
use crate::retiring::Retiring;
use crate::state_dir;
use crate::supervisor::end;
use crate::tls::Tls;
use crate::{acme, gate, in_use, job_runner, magic_packets, mirror, refresh, warm_up, webhooks};

/// The handle of a running gateway, to inspect, change and stop it.
pub struct Running {
    /// The present gateway.
    pub gateway: Arc<Gateway>,
    /// The addresses where it listens.
    pub addresses: Vec<SocketAddr>,
    /// The addresses where it listens for TLS.
    pub tls_addresses: Vec<SocketAddr>,
    /// The addresses where it listens for services that are passed through: each address of `[[tcp]]` once.
    pub tcp_addresses: Vec<SocketAddr>,
    /// The addresses where it listens for datagrams: each address of `[[udp]]` once.
    pub udp_addresses: Vec<SocketAddr>,
    /// The addresses of the gate, in the order of the configuration.
    pub gate_addresses: Vec<SocketAddr>,
    /// The address of the admin listener.
    pub admin: Option<SocketAddr>,
    /// Orders from the control socket for the process as a whole.
    pub demands: mpsc::Receiver<Demand>,
    pub(crate) present: Present,
    pub(crate) posts: Vec<Post>,
    /// Sockets for datagrams.
    pub(crate) ports: Vec<Port>,
    /// Listeners that are not in the configuration any more, and still have connections.
    pub(crate) closing: Vec<Post>,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) jobs: Jobs,
    /// Background tasks of sites, by name.
    pub(crate) tending: Jobs,
    pub(crate) retiring: Vec<Retiring>,
    pub(crate) log_job: Option<JoinHandle<()>>,
    pub(crate) disk_job: Option<JoinHandle<()>>,
    /// Background tasks that belong to no site.
    pub(crate) side_jobs: Vec<JoinHandle<()>>,
    /// The configuration without sites of containers.
    pub(crate) base: Box<Config>,
    pub(crate) watched: Watched,
    pub(crate) control: control::Post,
    pub(crate) admin_post: Option<AdminPost>,
    pub(crate) lock: Option<File>,
    pub(crate) durable: bool,
}

/// The admin listener.
pub(crate) struct AdminPost {
    pub(crate) configured: SocketAddr,
    pub(crate) guard: Arc<Guard>,
    /// A duplicate of the socket.
    pub(crate) socket: OwnedFd,
    task: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Listens, opens ledgers and logs, probes every server, and serves. Does not touch what another gateway uses.
    pub fn start(config: Config, clock: Clock, options: Options) -> Result<Running, StartError> {
        Self::start_from(config, clock, options, Inherited::default(), None)
    }

    /// As [`start`](Self::start), with sockets that listen already, and as the successor of another process if there is
    /// one: that process is asked to release everything as soon as only its ledgers are missing here, and may end when
    /// this one serves.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a clock is a handle, and each gateway gets one of its own"
    )]
    pub fn start_from(
        config: Config,
        clock: Clock,
        options: Options,
        mut inherited: Inherited,
        mut predecessor: Option<Predecessor>,
    ) -> Result<Running, StartError> {
        let (base, found) = (config, options.found.clone());
        let Applied { config, outcomes } = found.apply(&base);
        found.note(&base, outcomes);
        prepare(&config)?;
        look_for_zone(&config, &clock);
        let (bound, admin_bound) = bind(&config, &mut inherited)?;
        let udp_bound = ports::bind(&config, &[], &mut inherited)?;
        close_rest(inherited);
        let guard = Arc::new(Guard::open(config.admin.as_ref())?);
        // Errors are found before another process has released anything.
        config.tls.as_ref().map(|tls| Tls::open(tls, &clock, None)).transpose()?;
        let handed = predecessor.as_mut().map(Predecessor::take).transpose()?.unwrap_or_default();
        let (lock, socket) = claim(&config, &mut predecessor)?;
        let room = listen::room(&config);
        let durable = options.durable;
        let addresses = Addresses::of(&bound, &udp_bound);
        let (gateway, jobs) = open(config, &clock, options, &handed, &addresses)?;
        if let Some(it) = &predecessor {
            it.rest_ports(&gateway);
        }
        let gateway = Arc::new(gateway);
        let present = Present::new(&gateway);
        let (here, fronts) = (present.gateway(), present.fronts());
        let admin_post =
            admin_bound.map(|bound| AdminPost::open(bound, guard, &here)).transpose()?;
        let posts = bound.into_iter().map(|(it, spoken)| Post::man(it, spoken, &fronts, &room));
        let posts = posts.collect::<Result<Vec<_>, _>>()?;
        let (demand, demands) = mpsc::channel(8);
        let udp_ports = udp_bound.into_iter().map(|it| Port::serve(it, &fronts)).collect();
        let disk_job = drive_disk(&here);
        let watched = Watched { found, demand: demand.clone(), failures: Arc::default() };
        let side_jobs = side_jobs(&here, &watched);
        let control = socket.serve(here, demand)?;
        let mut running = Running {
            admin: admin_post.as_ref().map(|(_, address)| *address),
            admin_post: admin_post.map(|(post, _)| post),
            addresses: Vec::new(),
            tls_addresses: Vec::new(),
            tcp_addresses: Vec::new(),
            udp_addresses: Vec::new(),
            gate_addresses: Vec::new(),
            log_job: gateway.serving.access_log.clone().map(|log| tokio::spawn(log.run())),
            gateway,
            demands,
            present,
            posts,
            ports: udp_ports,
            closing: Vec::new(),
            room,
            jobs,
            tending: Jobs::new(),
            retiring: Vec::new(),
            disk_job,
            side_jobs,
            base: Box::new(base),
            watched,
            control,
            lock: Some(lock),
            durable,
        };
        running.begin(predecessor);
        Ok(running)
    }
}

/// Closes the sockets that no address of the configuration names.
fn close_rest(inherited: Inherited) {
    for address in inherited.rest() {
        tracing::warn!(%address, "a socket was handed to us that no address of the configuration names");
    }
    drop(inherited);
}

/// The lock of the state folder and the control socket: those of another process, if it gives them.
fn claim(
    config: &Config,
    predecessor: &mut Option<Predecessor>,
) -> Result<(File, Socket), StartError> {
    let lock = predecessor.as_mut().and_then(Predecessor::lock);
    let lock = state_dir::lock(&config.state_dir, lock)?;
    let path = config.control_socket();
    let socket = predecessor.as_mut().and_then(|it| it.control(&path));
    let socket = socket.map_or_else(|| Socket::bind(path), Ok)?;
    Ok((lock, socket))
}

/// Warns if there are hours, and nothing names the zone in which they are.
fn look_for_zone(config: &Config, clock: &Clock) {
    let has_hours = |site| config.scenario_of(site).has_hours();
    if let Some(error) = clock.zone_name().err().filter(|_| config.site.iter().any(has_hours)) {
        tracing::warn!(
            error,
            "the time zone of this machine cannot be read, and the hours of `[scenario]` are UTC: set `TZ` to a name as \
             in `TZ=Europe/Berlin`, or correct `/etc/localtime` (Debian: install tzdata)"
        );
    }
}

/// Creates the state folder, and warns of what other users of this machine could do.
fn prepare(config: &Config) -> Result<(), StartError> {
    state_dir::make(&config.state_dir)?;
    for risk in Gateway::risks(config) {
        tracing::warn!("{risk}");
    }
    Ok(())
}

/// After a hand-over, answers to datagrams that were forwarded before still come within this time.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// While sessions wait for a server that the other process wakes, they are looked at after this time.
const LOOK_AT_HELD: Duration = Duration::from_millis(250);

/// The listeners, and the admin listener.
type AllBound = (Vec<(Bound, Spoken)>, Option<Bound>);

impl Addresses {
    fn of(bound: &[(Bound, Spoken)], ports: &[ports::BoundPort]) -> Self {
        let of = |wanted: Spoken| {
            let bound = bound.iter().filter(|it| it.1 == wanted).map(|it| &it.0);
            bound.map(|it| OpenAddress { configured: it.configured, actual: it.address }).collect()
        };
        let udp = ports.iter();
        let udp = udp.map(|it| OpenAddress { configured: it.configured, actual: it.address });
        Self { tls: of(Spoken::Https), tcp: of(Spoken::Anything), udp: udp.collect() }
    }
}

/// Starts the tasks that belong to no site: certificates by ACME, jobs, webhooks, and a look at containers.
pub(crate) fn side_jobs(live: &Live<Gateway>, watched: &Watched) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(acme::run(live.clone())),
        tokio::spawn(job_runner::run(live.clone())),
        tokio::spawn(magic_packets::run(live.clone())),
        tokio::spawn(webhooks::run(live.clone())),
        tokio::spawn(watch::run(live.clone(), watched.clone())),
    ]
}

/// Starts writing to the disk behind the caches, if there is one.
pub(crate) fn drive_disk(live: &Live<Gateway>) -> Option<JoinHandle<()>> {
    let mut live = live.clone();
    let disk = live.now().disk.clone()?;
    Some(tokio::spawn(disk.drive(move || live.now().stores())))
}

/// Listens at every address of a configuration: for clients, and for monitors.
fn bind(config: &Config, inherited: &mut Inherited) -> Result<AllBound, StartError> {
    let all = listen::all(config);
    let mut bound = Vec::new();
    for (address, spoken) in listen::posts(config) {
        bound.push((listen::bind(spoken.key(), address, &all, inherited)?, spoken));
    }
    // In the order of a hand-over: addresses with port 0 cannot be distinguished otherwise.
    let admin = config.admin.as_ref().map(|it| listen::bind(it.key(), it.listen, &all, inherited));
    Ok((bound, admin.transpose()?))
}

fn open(
    config: Config,
    clock: &Clock,
    mut options: Options,
    handed: &HashMap<String, Handed>,
    addresses: &Addresses,
) -> Result<(Gateway, Jobs), StartError> {
    let controllers = std::mem::take(&mut options.controllers);
    let own = config.clone();
    let disk = own.cache.disk.as_ref();
    let disk = disk.map(|it| DiskCache::open(it, &own.state_dir, clock)).transpose()?;
    let disk = disk.as_ref();
    let Options { observe, durable, .. } = options;
    let common = Common { config: &own, clock, observe, durable, handed, disk };
    let mut opening = Opening::new(common, controllers, &options.meters, Vec::new());
    let mut gateway = opening.gateway(config, addresses)?;
    gateway.found = options.found;
    gateway.share_out_proxy();
    Ok((gateway, opening.commit()))
}

impl AdminPost {
    fn open(
        bound: Bound,
        guard: Arc<Guard>,
        live: &Live<Gateway>,
    ) -> Result<(Self, SocketAddr), StartError> {
        let Bound { configured, address, listener } = bound;
        let socket = listener.as_fd().try_clone_to_owned();
        let failed = |source| StartError::Listen { key: "admin", address, source };
        let socket = socket.map_err(failed)?;
        let task = Some(admin::serve(live, Arc::clone(&guard), listener));
        Ok((Self { configured, guard, socket, task }, address))
    }

    /// Leaves connections in the kernel from now on, and closes open ones.
    pub(crate) async fn pause(&mut self) {
        if let Some(task) = self.task.take() {
            end(task).await;
        }
    }

    /// Serves again.
    pub(crate) fn go_on(&mut self, live: &Live<Gateway>) -> std::io::Result<()> {
        let listener = std::net::TcpListener::from(self.socket.try_clone()?);
        let listener = TcpListener::from_std(listener)?;
        self.task = Some(admin::serve(live, Arc::clone(&self.guard), listener));
        Ok(())
    }
}

impl Running {
    /// Starts what sites need in the background; another process may end then.
    fn begin(&mut self, predecessor: Option<Predecessor>) {
        self.publish_addresses();
        let serving = Arc::clone(&self.gateway.serving);
        serving.sites.iter().for_each(|it| self.tend(&it.name));
        if let Some(predecessor) = predecessor {
            predecessor.keep_awake(&self.gateway);
            predecessor.done();
        }
    }

    /// Starts the background tasks of a new site with this name.
    pub(crate) fn tend(&mut self, name: &Arc<str>) {
        let Some((_, site)) = self.gateway.serving.site_named(name) else { return };
        let (live, phase) = (self.present.serving(), site.supervisor.phase());
        let renewing = refresh::run(live.clone(), Arc::clone(name), phase.clone());
        let warming = warm_up::run(live.clone(), Arc::clone(name), phase.clone());
        let mirroring = mirror::crawl::run(live.clone(), Arc::clone(name), phase);
        let using = in_use::watch::run(live.clone(), Arc::clone(name));
        let watching = gate::watch(live, Arc::clone(name), Arc::clone(&site.presence));
        let (renewing, warming) = (tokio::spawn(renewing), tokio::spawn(warming));
        let (mirroring, watching) = (tokio::spawn(mirroring), tokio::spawn(watching));
        let jobs = vec![renewing, warming, mirroring, watching, tokio::spawn(using)];
        self.tending.insert(name.to_string(), jobs);
    }

    pub(crate) fn publish_addresses(&mut self) {
        let of = |spoken: Spoken| {
            let posts = self.posts.iter().filter(move |post| post.spoken == spoken);
            posts.map(|post| post.address).collect()
        };
        let (http, https) = (of(Spoken::Http), of(Spoken::Https));
        let (tcp, gate) = (of(Spoken::Anything), of(Spoken::Questions));
        (self.addresses, self.tcp_addresses, self.gate_addresses) = (http, tcp, gate);
        self.tls_addresses = https;
        self.udp_addresses = self.ports.iter().map(|it| it.address).collect();
    }

    /// Returns when all tasks have shown that they run: every driver has answered, and every listener is there. False
    /// if one has ended that should not.
    pub async fn is_well(&self) -> bool {
        let gateway = &self.gateway;
        for supervisor in gateway.supervisors() {
            if !supervisor.is_driven().await {
                return false;
            }
        }
        let are_served =
            self.posts.iter().all(Post::is_manned) && self.ports.iter().all(Port::is_served);
        are_served && !self.control.is_over()
    }

    /// Stops in good order: accepts no new connections, lets running exchanges end, writes ledgers, ends jobs. Servers
    /// keep their state.
    pub async fn stop(mut self) {
        self.gateway.jobs.abort().await;
        self.posts.iter_mut().chain(&mut self.closing).for_each(Post::close_now);
        self.end().await;
    }

    /// Stops after another process has taken over: existing clients are served, idle connections for a while too, held
    /// requests wait for the other process to wake the server, and jobs run to their end.
    pub async fn leave(mut self) {
        self.posts.iter_mut().chain(&mut self.closing).for_each(Post::close);
        self.last_answers().await;
        self.ports.iter().for_each(Port::close);
        for port in std::mem::take(&mut self.ports) {
            port.ended().await;
        }
        self.gateway.jobs.finish().await;
        self.end().await;
    }

    /// What sessions of datagrams have asked is answered here; the other process reads what clients send now. Sessions
    /// that wait for the server are forwarded when it is awake.
    async fn last_answers(&self) {
        let (serving, all) = (&self.gateway.serving, &self.gateway.front.datagrams.all);
        let clock = &serving.clock;
        let deadline = clock.now().mono + serving.config.limits.hold;
        while all.iter().any(|it| it.is_holding()) && clock.now().mono < deadline {
            clock.sleep(LOOK_AT_HELD).await;
        }
        if all.iter().any(|it| it.sessions() > 0) {
            clock.sleep(LAST_ANSWERS).await;
        }
    }

    async fn end(self) {
        self.ports.iter().for_each(Port::close);
        for port in self.ports {
            port.ended().await;
        }
        for post in self.posts.into_iter().chain(self.closing) {
            post.ended().await;
        }
        for retiring in self.retiring {
            retiring.end().await;
        }
        for job in self.tending.into_values().flatten() {
            end(job).await;
        }
        // Machines first: they keep their state, and must not learn that what runs on them is gone.
        let mut jobs = self.jobs;
        let machines = self.gateway.machines.iter();
        let machines: Vec<_> = machines.filter_map(|it| jobs.remove(&*it.name)).collect();
        let jobs = machines.into_iter().chain(jobs.into_values()).flatten();
        for job in jobs.chain(self.log_job).chain(self.disk_job).chain(self.side_jobs) {
            end(job).await;
        }
        if let Some(log) = &self.gateway.serving.access_log {
            log.flush();
        }
        if let Some(disk) = &self.gateway.disk {
            disk_cache::write_back(disk, &self.gateway.stores()).await;
            disk.close().await;
        }
        if let Some(mut admin) = self.admin_post {
            admin.pause().await;
        }
        // Last, since another gateway may start as soon as the socket is gone.
        self.control.end().await;
    }
}
