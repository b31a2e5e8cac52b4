//! Services other than HTTP: their connections wake the server as requests do, and are then passed through unchanged in
//! both directions.
//!
//! ```text
//! listener ──> whose? (client_hello) ──> connecting: admitted, held, connected ──> line: bytes both ways
//! ```
//!
//! The model's [`passage`](nightwatt_policy::passage) decides when a connection keeps its server awake.

pub(crate) mod accounting;
mod connecting;
pub(crate) mod line;
mod tally;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use nightwatt_energy::time::Now;
use nightwatt_policy::admission::{self, Cached, ClientClass, Want};
use nightwatt_policy::manager::AdmissionRequest;
use nightwatt_policy::passage::KeepAwake;
use nightwatt_policy::visit::Visitor;
use nightwatt_traffic::ClientKey;
use tokio::io::Interest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use self::accounting::Ended;
use self::connecting::Connecting;
use self::line::Line;
pub(crate) use self::tally::{Outcome, Tally};
use crate::access_log::Answered;
use crate::client_hello::{self, Hello};
use crate::config::{Config, TcpConfig, UNKNOWN};
use crate::machine::Machine;
use crate::proxy_protocol;
use crate::request_body::Spooling;
use crate::serving::Serving;
use crate::site::Site;
use crate::supervisor::Supervisor;
use crate::tunnel::watch_over;

/// A service whose connections are passed through.
pub(crate) struct Service {
    pub(crate) config: TcpConfig,
    /// What is configured now: a reload may shut out a client whose connection began before it.
    newest: watch::Sender<TcpConfig>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) keep_awake: KeepAwake,
    /// The addresses where it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    ground: Ground,
}

/// An address where a gateway listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenAddress {
    /// As configured: its port may be 0.
    pub(crate) configured: SocketAddr,
    pub(crate) actual: SocketAddr,
}

impl OpenAddress {
    /// The actual addresses of these configured ones.
    pub(crate) fn actual_of(configured: &[SocketAddr], open: &[Self]) -> Vec<SocketAddr> {
        let of = |at: &SocketAddr| open.iter().find(|it| it.configured == *at);
        configured.iter().filter_map(of).map(|it| it.actual).collect()
    }
}

/// The server that a service runs on.
pub(crate) enum Ground {
    Site(Arc<Site>),
    Machine(Arc<Supervisor>),
    /// A machine in shadow mode, which is not touched.
    Untouched,
}

impl Service {
    /// The services of a configuration, in its order, which listen at these addresses. Counters of those `before`
    /// continue.
    pub(crate) fn all(
        config: &Config,
        sites: &[Arc<Site>],
        machines: &[Arc<Machine>],
        before: Option<&[Self]>,
        open: &[OpenAddress],
    ) -> Vec<Self> {
        let before = before.unwrap_or_default();
        let service = |tcp: &TcpConfig| {
            let ground = Ground::of(&tcp.on, sites, machines);
            let is_pool = ground.site().is_some_and(|site| site.pool.is_some());
            let was = before.iter().find(|it| it.config.name == tcp.name);
            let newest = was.map(|it| it.newest.clone());
            Self {
                keep_awake: tcp.keeps(is_pool),
                config: tcp.clone(),
                newest: newest.unwrap_or_else(|| watch::Sender::new(tcp.clone())),
                tally: was.map(|it| Arc::clone(&it.tally)).unwrap_or_default(),
                addresses: OpenAddress::actual_of(&tcp.listen, open),
                ground,
            }
        };
        config.tcp.iter().map(service).collect()
    }

    /// Ends connections of clients that this configuration does not let in.
    pub(crate) fn shuts_out(&self) {
        self.newest.send_replace(self.config.clone());
    }

    fn site(&self) -> Option<&Site> {
        self.ground.site()
    }

    fn supervisor(&self) -> Option<&Arc<Supervisor>> {
        self.ground.supervisor()
    }
}

impl Ground {
    /// The site or machine of this name.
    pub(crate) fn of(name: &str, sites: &[Arc<Site>], machines: &[Arc<Machine>]) -> Self {
        let site = sites.iter().find(|site| *site.name == *name);
        let machine = machines.iter().find(|machine| *machine.name == *name);
        let machine = machine.map(|it| Self::Machine(Arc::clone(&it.supervisor)));
        site.map(|it| Self::Site(Arc::clone(it))).or(machine).unwrap_or(Self::Untouched)
    }

    pub(crate) fn site(&self) -> Option<&Site> {
        match self {
            Self::Site(site) => Some(site),
            _ => None,
        }
    }

    pub(crate) fn supervisor(&self) -> Option<&Arc<Supervisor>> {
        match self {
            Self::Site(site) => Some(&site.supervisor),
            Self::Machine(machine) => Some(machine),
            Self::Untouched => None,
        }
    }
}

/// All services of a configuration.
pub(crate) struct Services {
    /// In the order of the configuration.
    pub(crate) all: Vec<Service>,
    /// The addresses where it listens for them.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Connections for no service.
    pub(crate) unclaimed: Arc<Tally>,
}

/// An address at which connections for services come in.
#[derive(Debug)]
pub(crate) struct PassthroughListener {
    /// Configured names, each with the index of its service.
    names: Vec<(String, usize)>,
    /// The service for all other names.
    default: Option<usize>,
}

impl PassthroughListener {
    /// The addresses of all services, each once, with the services behind them.
    pub(crate) fn all(config: &Config) -> Vec<(SocketAddr, Arc<Self>)> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in config.tcp.iter().flat_map(|tcp| &tcp.listen) {
            if !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        let listener = |address: SocketAddr| {
            let here =
                config.tcp.iter().enumerate().filter(|(_, tcp)| tcp.listen.contains(&address));
            let mut listener = Self { names: Vec::new(), default: None };
            for (service, tcp) in here {
                if tcp.sni.is_empty() {
                    listener.default = Some(service);
                }
                listener.names.extend(tcp.sni.iter().map(|it| (it.to_ascii_lowercase(), service)));
            }
            (address, Arc::new(listener))
        };
        addresses.into_iter().map(listener).collect()
    }

    /// Whether a client must name the service first.
    fn asks(&self) -> bool {
        !self.names.is_empty()
    }

    /// The service for a name. An exact name takes precedence over one with a star, which stands for one label, as in
    /// certificates.
    fn service(&self, name: Option<&str>) -> Option<usize> {
        let of = |wanted: &str| self.names.iter().find(|(name, _)| name == wanted).map(|it| it.1);
        let Some(name) = name else { return self.default };
        let above = || name.split_once('.').and_then(|(_, above)| of(&format!("*.{above}")));
        of(name).or_else(above).or(self.default)
    }
}

/// A client's connection, and the data read from it that is not yet passed on.
#[derive(Debug)]
struct Ahead {
    stream: TcpStream,
    bytes: BytesMut,
    room: usize,
    ended: bool,
}

impl Spooling for Ahead {
    async fn fill(&mut self) -> bool {
        while self.bytes.len() < self.room && !self.ended {
            let room = self.room - self.bytes.len();
            let mut part = bytes::BufMut::limit(&mut self.bytes, room);
            match self.stream.read_buf(&mut part).await {
                Ok(length) => self.ended = length == 0,
                Err(_) => return false,
            }
        }
        true
    }

    async fn gone(&self) {
        broken_off(&self.stream).await;
    }
}

/// True from the moment the gateway has to stop.
pub(crate) type Stopped = watch::Receiver<bool>;

/// Returns when the gateway has to stop.
pub(crate) async fn stops(stopped: &Stopped) {
    let mut stopped = stopped.clone();
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Returns when the kernel reports that the peer has reset the connection, or has vanished. It reads no data, which may
/// be for the service.
async fn broken_off(stream: &TcpStream) {
    // Without readiness nothing is known: wait on.
    if stream.ready(Interest::ERROR).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// One client's connection, from its first byte to its end.
pub(crate) async fn connection(
    serving: Arc<Serving>,
    services: Arc<Services>,
    listener: Arc<PassthroughListener>,
    mut stream: TcpStream,
    peer: SocketAddr,
    stopped: Stopped,
) {
    let _ = stream.set_nodelay(true);
    // A client that vanished must not be held, nor keep a server awake.
    watch_over(&stream);
    let arrived = serving.clock.now();
    let (mut client, mut bytes) = (peer, BytesMut::new());
    if serving.config.proxy_protocol.iter().any(|network| network.contains(peer.ip())) {
        let header = Box::pin(proxy_protocol::read(&mut stream, peer));
        let header = serving.clock.timeout(serving.config.limits.header_timeout, header);
        let header = tokio::select! {
            header = header => header,
            () = stops(&stopped) => return,
        };
        match header.unwrap_or(Err(proxy_protocol::HeaderError::Ended)) {
            Ok(header) => (client, bytes) = header,
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection was not taken");
                line::reset(&stream);
                return;
            }
        }
    }
    let Some(_place) = serving.client_limits.connect(client.ip()) else {
        serving.refuse_connection();
        line::reset(&stream);
        return;
    };
    let _open = serving.connections.accept();
    let mut ahead = Ahead { stream, bytes, room: 0, ended: false };
    let (service, name) = if listener.asks() {
        let whom = tokio::select! {
            whom = whom(&serving, &listener, &mut ahead) => whom,
            () = stops(&stopped) => Err((Outcome::Stopped, None)),
        };
        match whom {
            Ok(whom) => whom,
            Err((outcome, name)) => {
                close(ahead.stream, Some(outcome)).await;
                services.unclaimed.count(outcome);
                unclaimed(&serving, client, arrived, outcome, name.as_deref());
                return;
            }
        }
    } else {
        (listener.default.unwrap_or_default(), None)
    };
    let Some(service) = services.all.get(service) else { return };
    ahead.room = service.config.held_bytes.max(ahead.bytes.len());
    let connecting = Connecting::new(&serving, service, &services.addresses, client, name);
    // Boxed, since it is large.
    Box::pin(connecting.run(ahead, listener.asks(), &stopped)).await;
}

impl Connecting<'_> {
    /// Handles the whole connection; accounts for it at its end.
    async fn run(&self, mut ahead: Ahead, is_tls: bool, stopped: &Stopped) {
        let number = Supervisor::next_id();
        let mut held = false;
        let reach = self.reach(number, &mut ahead, &mut held);
        let reached = tokio::select! {
            biased;
            () = self.shut_out() => Err(Outcome::Network),
            reached = reach => reached,
            () = stops(stopped) => Err(Outcome::Stopped),
        };
        let settled = self.serving.clock.now().mono;
        let was_put_through = reached.is_ok();
        let (outcome, bytes) = match reached {
            Ok((server, exchange)) => {
                let line = Line::new(self, exchange);
                let Ahead { stream, bytes, .. } = ahead;
                let outcome = Box::pin(line.run(stream, bytes, server, stopped)).await;
                (outcome, line.sent())
            }
            Err(Outcome::Answered) => {
                // A reset could overtake the answer.
                let _ = ahead.stream.shutdown().await;
                (Outcome::Answered, 0)
            }
            Err(outcome) => {
                close(ahead.stream, is_tls.then_some(outcome)).await;
                (outcome, 0)
            }
        };
        let (config, through) =
            (&self.service.config, if held { Answered::Held } else { Answered::Server });
        self.service.tally.count(outcome);
        let ended = Ended {
            number,
            client: self.client,
            arrived: self.arrived,
            method: "TCP",
            service: (&config.name, &config.on),
            name: self.name.as_deref(),
            outcome: outcome.as_str(),
            refused: outcome.in_log(),
            settled,
            through: was_put_through.then_some(through),
            bytes,
            would: self.would.get().copied(),
        };
        ended.write_down(self.serving);
    }
}

/// A request of the client at this address, for the manager. Without an agent, the same address is the same visitor.
pub(crate) fn admission_request(number: u64, client: IpAddr) -> AdmissionRequest {
    let address = client.to_canonical();
    let key = ClientKey::from(address);
    AdmissionRequest {
        id: number,
        visitor: Visitor::new(&address.to_string(), None),
        client: key.number(),
        network: key.network(),
        request: admission::Request {
            class: ClientClass::Api,
            want: Want::Other,
            cached: Cached::Nothing,
        },
        recognised: true,
        may_wake: true,
    }
}

/// Accounts for a connection that is for no service.
fn unclaimed(
    serving: &Serving,
    client: SocketAddr,
    arrived: Now,
    outcome: Outcome,
    name: Option<&str>,
) {
    let ended = Ended {
        number: Supervisor::next_id(),
        client,
        arrived,
        method: "TCP",
        service: (UNKNOWN, "-"),
        name,
        outcome: outcome.as_str(),
        refused: outcome.in_log(),
        settled: serving.clock.now().mono,
        through: None,
        bytes: 0,
        would: None,
    };
    ended.write_down(serving);
}

/// Reads until it is known which service the client wants, and by which name; also if no service has that name.
async fn whom(
    serving: &Serving,
    listener: &PassthroughListener,
    ahead: &mut Ahead,
) -> Result<(usize, Option<String>), (Outcome, Option<String>)> {
    let deadline = serving.clock.now().mono + serving.config.limits.header_timeout;
    let name = loop {
        match client_hello::read(&ahead.bytes) {
            Ok(Hello::Whole(name)) => break name,
            Err(client_hello::HelloError::NotTls) => return Err((Outcome::NotTls, None)),
            Err(_) => return Err((Outcome::BadHello, None)),
            Ok(Hello::Incomplete) => {}
        }
        let mut part = bytes::BufMut::limit(&mut ahead.bytes, client_hello::LONGEST);
        let read = ahead.stream.read_buf(&mut part);
        match serving.clock.until(deadline, read).await {
            Ok(Ok(length)) if length > 0 => {}
            Ok(_) => return Err((Outcome::Left, None)),
            Err(_) => return Err((Outcome::SlowHello, None)),
        }
    };
    match listener.service(name.as_deref()) {
        Some(service) => Ok((service, name)),
        None => Err((Outcome::UnknownName, name)),
    }
}

/// Closes a connection that was not put through in a way that its client understands: with an alert for TLS, otherwise
/// with a reset, since an orderly end would look like the service's own.
async fn close(mut stream: TcpStream, tls: Option<Outcome>) {
    if let Some(outcome) = tls.filter(|outcome| *outcome != Outcome::NotTls) {
        // A fatal alert (RFC 8446, 6). What cannot be sent at once is dropped.
        let alert = [21, 3, 3, 0, 2, 2, outcome.alert()];
        let _ = stream.try_write(&alert);
        let _ = stream.shutdown().await;
        return;
    }
    line::reset(&stream);
}

#[cfg(test)]
mod tests;
