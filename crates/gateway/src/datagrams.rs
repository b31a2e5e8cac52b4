//! Services of datagrams: the first one of a client wakes the server, and all are passed through unchanged in both
//! directions.
//!
//! ```text
//! port ──> whose session? (policy::datagrams) ──> session: admitted, held, forwarded, answered
//! ```
//!
//! Each session has a socket of its own to the service, so that the service's answers find their client, as behind a
//! router that translates addresses.

mod held;
mod look_up;
mod names;
mod server_socket;
mod session;
mod socket;
pub(crate) mod tally;
mod wireguard;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use nightwatt_energy::time::Mono;
use nightwatt_host::lock;
use nightwatt_policy::datagrams::{Entry, Refusal, Server, Table};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_traffic::ClientKey;
use tokio::sync::{mpsc, oneshot};

use self::held::{Datagram, Place};
use self::names::Names;
pub(crate) use self::server_socket::Ports;
use self::session::{Client, Session};
pub(crate) use self::socket::{LONGEST, Received, Socket};
use self::tally::{Dropped, Tally};
use crate::config::{Config, UdpConfig, UdpWakeOn};
use crate::machine::Machine;
use crate::passthrough::{Ground, OpenAddress, Stopped};
use crate::serving::Serving;
use crate::site::Site;
use crate::supervisor::Supervisor;

/// Where datagrams of one session come in: the socket's address, and the client's.
type Source = (SocketAddr, SocketAddr);

/// The way to a session. Once it is dropped, the session ends.
#[derive(Debug)]
struct Inbox {
    datagrams: mpsc::Sender<Datagram>,
    /// Whether it is a stranger's that waits for the server.
    waits: Arc<AtomicBool>,
    _alive: oneshot::Sender<Infallible>,
}

/// A service whose datagrams are passed through.
pub(crate) struct Service {
    pub(crate) config: UdpConfig,
    pub(crate) tally: Arc<Tally>,
    /// The addresses where it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    table: Arc<Mutex<Table<Source, Inbox>>>,
    ground: Ground,
    /// Where it is.
    names: Arc<Names>,
    /// The local ports of its sessions, and of those of other services.
    ports: Arc<Ports>,
}

/// All services of a configuration.
pub(crate) struct Services {
    /// In the order of the configuration.
    pub(crate) all: Vec<Arc<Service>>,
    /// The addresses where it listens for them.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The local ports of all sessions.
    pub(crate) ports: Arc<Ports>,
}

impl Services {
    /// The services of a configuration, which listen at these addresses. Counters and sessions of those `before`
    /// continue.
    pub(crate) fn open(
        config: &Config,
        sites: &[Arc<Site>],
        machines: &[Arc<Machine>],
        before: Option<&Self>,
        addresses: &[OpenAddress],
    ) -> Self {
        let ports = before.map(|it| Arc::clone(&it.ports)).unwrap_or_default();
        let before = before.map_or(&[][..], |it| &it.all);
        let open = |udp: &UdpConfig| {
            let was = before.iter().find(|it| it.config.name == udp.name);
            let ground = Ground::of(&udp.on, sites, machines);
            let here = OpenAddress::actual_of(&udp.listen, addresses);
            Arc::new(Service::open(udp, was.map(|it| &**it), ground, here, &ports))
        };
        let all = config.udp.iter().map(open).collect();
        let addresses = addresses.iter().map(|it| it.actual).collect();
        Self { all, addresses, ports }
    }
}

impl Service {
    /// A service of the configuration, which listens at these addresses. Counters and sessions of the one before
    /// continue.
    fn open(
        udp: &UdpConfig,
        was: Option<&Self>,
        ground: Ground,
        addresses: Vec<SocketAddr>,
        ports: &Arc<Ports>,
    ) -> Self {
        let table = was.map(|it| Arc::clone(&it.table));
        let table = table.unwrap_or_else(|| Arc::new(Mutex::new(Table::new(udp.strangers))));
        lock(&table).turn_to(udp.strangers);
        let at = udp.origin.at(ground.site().map_or("", |site| site.origin.authority()));
        if let Some(was) = was {
            // Those of another service or with other rules, and of clients that may not use it any more, end.
            let is_same = was.names.authority() == at && has_rules_of(&was.config, udp);
            lock(&table).retain(|(_, client)| is_same && udp.lets_in(client.ip()));
        }
        let tally = was.map(|it| Arc::clone(&it.tally)).unwrap_or_default();
        let names = was.map(|it| Arc::clone(&it.names)).filter(|it| it.authority() == at);
        let names = names.unwrap_or_else(|| Arc::new(Names::new(at)));
        let (config, ports) = (udp.clone(), Arc::clone(ports));
        Self { config, tally, addresses, table, ground, names, ports }
    }

    /// Sessions now.
    pub(crate) fn sessions(&self) -> usize {
        self.table().len()
    }

    /// Whether a session waits for the server.
    pub(crate) fn is_holding(&self) -> bool {
        self.tally.held.load(Ordering::Relaxed) > 0
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

    /// The state of the server. In shadow mode no server sleeps.
    fn server(&self, observe: bool) -> Server {
        match self.supervisor().filter(|_| !observe).map(|it| it.phase_now()) {
            None | Some(Phase::Awake) => Server::Awake,
            Some(Phase::Waking) => Server::Waking,
            Some(_) => Server::Down,
        }
    }

    /// What happens to a datagram that begins or resumes a session.
    fn entry(
        &self,
        now: Mono,
        client: IpAddr,
        datagram: &[u8],
        observe: bool,
    ) -> Result<Entry, Refusal> {
        let server = self.server(observe);
        let wakes = server == Server::Awake || self.wakes(datagram);
        self.table().entry(now, ClientKey::from(client).number(), server, wakes)
    }

    /// What happens to a datagram that begins a session, and memory for it. The rate of strangers comes last, since the
    /// others may refuse.
    fn enters(
        &self,
        now: Mono,
        arrival: &Arrival<'_>,
        observe: bool,
    ) -> Result<(Entry, Datagram), Dropped> {
        let Received { source, here, .. } = arrival.received;
        let client = ClientKey::from(source.ip()).number();
        let server = self.server(observe);
        let wakes = server == Server::Awake || self.wakes(arrival.bytes);
        let mut table = self.table();
        let entry = table.look(client, server, wakes)?;
        table.fits(client, self.config.limits())?;
        let datagram = self.keep(arrival.bytes, here, part(entry == Entry::Wait));
        let datagram = datagram.ok_or(Dropped::Held)?;
        Ok((table.entry(now, client, server, wakes)?, datagram))
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
        let place = || Place { tally: Arc::clone(&self.tally), length: bytes.len() };
        keeps.then(|| Datagram { bytes: bytes.into(), here, place: place() })
    }
}

/// Whether sessions of one configuration go on as they are in another one.
fn has_rules_of(was: &UdpConfig, udp: &UdpConfig) -> bool {
    was.on == udp.on
        && was.pace() == udp.pace()
        && (was.wake_on, was.wireguard_key) == (udp.wake_on, udp.wireguard_key)
}

/// The part of the memory for what waits that a session may use. Strangers that wait leave room for others.
const fn part(waits: bool) -> usize {
    if waits { 2 } else { 1 }
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
    if received.is_for_several {
        service.tally.drops(Dropped::Network);
        return;
    }
    let key = (address, source);
    let inbox = service.table().get(&key).map(|it| (it.datagrams.clone(), Arc::clone(&it.waits)));
    if let Some((inbox, waits)) = inbox {
        let part = part(waits.load(Ordering::Relaxed));
        service.put(&inbox, service.keep(bytes, here, part));
        return;
    }
    if !service.config.lets_in(source.ip()) || source.port() == 0 {
        service.tally.drops(Dropped::Network);
        return;
    }
    let entered = service.enters(serving.clock.now().mono, arrival, serving.observe);
    let (entry, datagram) = match entered {
        Ok(entered) => entered,
        Err(why) => return service.tally.drops(why),
    };
    let (datagrams, outbox) = mpsc::channel(service.config.held_of_one());
    let (alive, displaced) = oneshot::channel();
    let waits = Arc::new(AtomicBool::new(entry == Entry::Wait));
    let inbox = Inbox { datagrams: datagrams.clone(), waits: Arc::clone(&waits), _alive: alive };
    let socket = Arc::clone(socket);
    let client = Client { service: Arc::clone(service), socket, key, waits };
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
