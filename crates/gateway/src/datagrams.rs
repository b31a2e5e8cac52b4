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
use tokio::sync::{mpsc, oneshot};

use self::session::{Client, Datagram, Session};
pub(crate) use self::socket::{LONGEST, Received, Socket};
use self::tally::{Dropped, Tally};
use crate::config::{Config, UdpConfig, UdpWakeOn};
use crate::machine::Machine;
use crate::passthrough::{Ground, Stopped};
use crate::serving::Serving;
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

/// A datagram that came in.
pub(crate) struct Arrival<'a> {
    /// Where it came in: the configured address, and the actual one.
    pub(crate) configured: SocketAddr,
    pub(crate) address: SocketAddr,
    pub(crate) socket: &'a Arc<Socket>,
    pub(crate) received: Received,
    pub(crate) bytes: &'a [u8],
}

/// Passes a datagram to its session, and begins one if it has none.
pub(crate) fn takes(
    serving: &Arc<Serving>,
    services: &Services,
    arrival: &Arrival<'_>,
    stopped: &Stopped,
) {
    let Arrival { configured, address, socket, received, bytes } = *arrival;
    let Received { source, here, .. } = received;
    let at = |it: &&Arc<Service>| it.config.listen.contains(&configured);
    let Some(service) = services.all.iter().find(at) else { return };
    let key = (address, source);
    let inbox = service.table().get(&key).map(|it| it.datagrams.clone());
    if let Some(inbox) = inbox {
        service.put(&inbox, service.keep(bytes, here, 1));
        return;
    }
    if !service.config.lets_in(source.ip()) || source.port() == 0 {
        service.tally.drops(Dropped::Network);
        return;
    }
    let entry = service.entry(serving.clock.now().mono, source.ip(), bytes, serving.observe);
    let entry = match entry {
        Ok(entry) => entry,
        Err(refusal) => return service.tally.drops(refusal.into()),
    };
    // Strangers that wait leave room for others.
    let part = if entry == Entry::Wait { 2 } else { 1 };
    let Some(datagram) = service.keep(bytes, here, part) else {
        return service.tally.drops(Dropped::Held);
    };
    let (datagrams, outbox) = mpsc::channel(service.config.held_of_one());
    let (alive, displaced) = oneshot::channel();
    let inbox = Inbox { datagrams: datagrams.clone(), _alive: alive };
    let client = Client { service: Arc::clone(service), socket: Arc::clone(socket), key };
    let session = Session::new(serving, client, services.addresses.clone());
    let client = ClientKey::from(source.ip()).number();
    let opened =
        service.table().open(key, client, session.number(), inbox, service.config.limits());
    match opened {
        // The session that made room for it ends.
        Ok(_) => {
            service.put(&datagrams, Some(datagram));
            tokio::spawn(session.run(entry, outbox, displaced, stopped.clone()));
        }
        Err(refusal) => service.tally.drops(refusal.into()),
    }
}
