//! Services of datagrams: the first one of a client wakes the server, and all are passed through unchanged in both
//! directions.
//!
//! ```text
//! port ──> whose session? (policy::datagrams) ──> session: admitted, held, forwarded, answered
//! ```
//!
//! Each session has a socket of its own to the service, so that the service's answers find their client, as behind a
//! router that translates addresses.

mod session;
mod socket;
pub(crate) mod tally;
mod wireguard;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nightwatt_energy::time::Mono;
use nightwatt_policy::datagrams::{Entry, Refusal, Server, Table};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_traffic::ClientKey;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use self::session::{Datagram, Session};
pub(crate) use self::socket::Socket;
use self::socket::{LONGEST, Received};
use self::tally::{Dropped, Tally};
use crate::config::{Config, UdpConfig, UdpWakeOn};
use crate::error::StartError;
use crate::listen::Fronts;
use crate::machine::Machine;
use crate::passthrough::{Ground, Stopped};
use crate::site::Site;
use crate::supervisor::Supervisor;

/// Where datagrams of one session come in: the socket's address, and the client's.
type Source = (SocketAddr, SocketAddr);

/// The way to a session. Once it is dropped, the session ends.
#[derive(Debug)]
struct Inbox {
    datagrams: mpsc::Sender<Datagram>,
    _alive: oneshot::Sender<Infallible>,
}

/// A service whose datagrams are passed through.
pub(crate) struct Service {
    pub(crate) config: UdpConfig,
    pub(crate) tally: Arc<Tally>,
    table: Arc<Mutex<Table<Source, Inbox>>>,
    ground: Ground,
}

/// All services of a configuration.
pub(crate) struct Services {
    /// In the order of the configuration.
    pub(crate) all: Vec<Arc<Service>>,
    /// The addresses where it listens for them.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Service {
    /// The services of a configuration, in its order. Counters and sessions of those `before` continue.
    pub(crate) fn all(
        config: &Config,
        sites: &[Arc<Site>],
        machines: &[Arc<Machine>],
        before: Option<&Services>,
    ) -> Vec<Arc<Self>> {
        let open = |udp: &UdpConfig| {
            let was = before.and_then(|it| it.all.iter().find(|it| it.config.name == udp.name));
            let table = was.map(|it| Arc::clone(&it.table));
            let table = table.unwrap_or_else(|| Arc::new(Mutex::new(Table::new(udp.strangers))));
            lock(&table).turn_to(udp.strangers);
            let tally = was.map(|it| Arc::clone(&it.tally)).unwrap_or_default();
            let ground = Ground::of(&udp.on, sites, machines);
            Arc::new(Self { config: udp.clone(), tally, table, ground })
        };
        config.udp.iter().map(open).collect()
    }

    /// Sessions now.
    pub(crate) fn sessions(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> MutexGuard<'_, Table<Source, Inbox>> {
        lock(&self.table)
    }

    fn supervisor(&self) -> Option<&Arc<Supervisor>> {
        self.ground.supervisor()
    }

    /// Whether this is what wakes the server.
    fn wakes(&self, datagram: &[u8]) -> bool {
        match self.config.wake_on {
            UdpWakeOn::Datagram => true,
            UdpWakeOn::Wireguard => {
                wireguard::is_initiation(datagram, self.config.wireguard_key.as_ref())
            }
        }
    }

    /// What happens to a datagram that begins or resumes a session. In shadow mode no server sleeps.
    fn entry(
        &self,
        now: Mono,
        client: IpAddr,
        datagram: &[u8],
        observe: bool,
    ) -> Result<Entry, Refusal> {
        let server = match self.supervisor().filter(|_| !observe).map(|it| it.phase_now()) {
            None | Some(Phase::Awake) => Server::Awake,
            Some(Phase::Waking) => Server::Waking,
            Some(_) => Server::Down,
        };
        let wakes = server == Server::Awake || self.wakes(datagram);
        self.table().entry(now, ClientKey::from(client).number(), server, wakes)
    }

    /// Passes a datagram to its session, if there is memory for it.
    fn put(&self, inbox: &mpsc::Sender<Datagram>, datagram: Option<Datagram>) {
        if datagram.is_none_or(|datagram| inbox.try_send(datagram).is_err()) {
            self.tally.drops(Dropped::Held);
        }
    }

    /// Memory for a datagram, and its bytes in it. There is `1 / part` of all memory for it.
    fn keep(&self, bytes: &[u8], here: Option<IpAddr>, part: usize) -> Option<Datagram> {
        let (most, most_bytes) = (self.config.held.div_ceil(part), self.config.held_bytes / part);
        let keeps = self.tally.keeps(bytes.len(), most, most_bytes);
        keeps.then(|| Datagram { bytes: bytes.into(), here, tally: Arc::clone(&self.tally) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The addresses of all services, each once.
pub(crate) fn addresses(config: &Config) -> Vec<SocketAddr> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in config.udp.iter().flat_map(|udp| &udp.listen) {
        if !addresses.contains(address) {
            addresses.push(*address);
        }
    }
    addresses
}

/// A socket where datagrams of clients come in.
pub(crate) struct BoundPort {
    /// The configured address, whose port may be 0.
    pub(crate) configured: SocketAddr,
    /// The actual address.
    pub(crate) address: SocketAddr,
    socket: Socket,
}

impl BoundPort {
    /// Listens at an address, which is one of `all`.
    pub(crate) fn bind(configured: SocketAddr, all: &[SocketAddr]) -> Result<Self, StartError> {
        let has_v4 = all.iter().any(|it| it.is_ipv4() && it.port() == configured.port());
        let failed = |source| StartError::Listen { address: configured, source };
        let socket = Socket::bind(configured, has_v4).map_err(failed)?;
        let address = socket.address().map_err(failed)?;
        Ok(Self { configured, address, socket })
    }
}

/// A socket that is being served.
pub(crate) struct Port {
    pub(crate) configured: SocketAddr,
    pub(crate) address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Port {
    /// Serves it.
    pub(crate) fn serve(bound: BoundPort, live: &Fronts) -> Self {
        let BoundPort { configured, address, socket } = bound;
        let stop = watch::Sender::new(false);
        let open = OpenPort { configured, address, socket: Arc::new(socket) };
        let task = tokio::spawn(open.run(live.clone(), stop.subscribe()));
        Self { configured, address, stop, task }
    }

    /// Ends it, with its sessions.
    pub(crate) fn close(&self) {
        self.stop.send_replace(true);
    }

    /// After closing: returns when it has ended.
    pub(crate) async fn ended(self) {
        let _ = self.task.await;
    }

    /// Whether its task still runs.
    pub(crate) fn is_served(&self) -> bool {
        !self.task.is_finished()
    }
}

/// What the task of a port has.
struct OpenPort {
    configured: SocketAddr,
    address: SocketAddr,
    socket: Arc<Socket>,
}

impl OpenPort {
    async fn run(self, mut live: Fronts, mut stopped: Stopped) {
        let mut buffer = vec![0; LONGEST];
        loop {
            let received = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                received = self.socket.receive(&mut buffer) => received,
            };
            match received {
                Ok(received) => {
                    self.takes(&mut live, received, &buffer[..received.length], &stopped)
                }
                Err(error) => live.serving.now().cannot_accept("datagrams of", error).await,
            }
        }
    }

    /// Passes a datagram to its session, and begins one if it has none.
    fn takes(&self, live: &mut Fronts, received: Received, bytes: &[u8], stopped: &Stopped) {
        let Received { source, here, .. } = received;
        let front = live.front.now();
        let at = |it: &&Arc<Service>| it.config.listen.contains(&self.configured);
        let Some(service) = front.datagrams.all.iter().find(at) else { return };
        let key = (self.address, source);
        let inbox = service.table().get(&key).map(|it| it.datagrams.clone());
        if let Some(inbox) = inbox {
            service.put(&inbox, service.keep(bytes, here, 1));
            return;
        }
        if !service.config.lets_in(source.ip()) || source.port() == 0 {
            service.tally.drops(Dropped::Network);
            return;
        }
        let serving = &front.serving;
        let entry = service.entry(serving.clock.now().mono, source.ip(), bytes, serving.observe);
        let entry = match entry {
            Ok(entry) => entry,
            Err(refusal) => return service.tally.drops(refusal.into()),
        };
        // Strangers that wait leave room for others.
        let Some(datagram) = service.keep(bytes, here, if entry == Entry::Wait { 2 } else { 1 })
        else {
            return service.tally.drops(Dropped::Held);
        };
        let (datagrams, outbox) = mpsc::channel(service.config.held_of_one());
        let (alive, displaced) = oneshot::channel();
        let inbox = Inbox { datagrams: datagrams.clone(), _alive: alive };
        let session = Session::new(&front, Arc::clone(service), Arc::clone(&self.socket), key);
        let client = ClientKey::from(source.ip()).number();
        let limits = service.config.limits();
        let opened = service.table().open(key, client, session.number(), inbox, limits);
        match opened {
            // The session that made room for it ends.
            Ok(_) => {
                service.put(&datagrams, Some(datagram));
                tokio::spawn(session.run(entry, outbox, displaced, stopped.clone()));
            }
            Err(refusal) => service.tally.drops(refusal.into()),
        }
    }
}
