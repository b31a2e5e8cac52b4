//! Listens for connections, and limits their number.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use nightwatt_clock::Clock;
use nightwatt_http1::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::{self, Config};
use crate::error::StartError;
use crate::facts::Peer;
use crate::fast_path::Client;
use crate::front::Front;
use crate::gate;
use crate::http2;
use crate::live::Live;
use crate::passthrough::{self, PassthroughListener};
use crate::proxy_protocol;
use crate::serving::Serving;
use crate::tls::Accepted;

/// Length of the kernel's queue of connections.
const BACKLOG: u32 = 1024;

/// Connections that are passed through end by themselves after `limits.drain`; this is the additional time they get for
/// that.
const LAST_WORD: Duration = Duration::from_secs(1);

/// When a listener closes, idle connections may send one more request within this time: it may be on its way. After
/// that they are closed.
const LINGER: Duration = Duration::from_secs(5);

/// A listening socket.
pub(crate) struct Bound {
    /// The configured address, whose port may be 0.
    pub(crate) configured: SocketAddr,
    /// The actual address.
    pub(crate) address: SocketAddr,
    pub(crate) listener: TcpListener,
}

/// Sockets that were listening before this gateway started, by configured address: from the previous process, or from
/// systemd. Clients that connect meanwhile wait in the kernel.
#[derive(Debug, Default)]
pub struct Inherited {
    listening: Vec<(SocketAddr, std::net::TcpListener)>,
    datagrams: Vec<(SocketAddr, std::net::UdpSocket)>,
}

impl Inherited {
    /// Sockets, each with its configured address.
    pub fn new(sockets: Vec<(SocketAddr, std::net::TcpListener)>) -> Self {
        Self { listening: sockets, datagrams: Vec::new() }
    }

    /// Besides, these sockets for datagrams.
    #[must_use]
    pub fn with_datagrams(self, datagrams: Vec<(SocketAddr, std::net::UdpSocket)>) -> Self {
        Self { datagrams, ..self }
    }

    fn take(&mut self, configured: SocketAddr) -> Option<std::net::TcpListener> {
        let at = self.listening.iter().position(|(address, _)| *address == configured)?;
        Some(self.listening.remove(at).1)
    }

    /// The socket for datagrams with this address.
    pub(crate) fn take_datagrams(&mut self, configured: SocketAddr) -> Option<std::net::UdpSocket> {
        let at = self.datagrams.iter().position(|(address, _)| *address == configured)?;
        Some(self.datagrams.remove(at).1)
    }

    /// Addresses that were not used.
    pub(crate) fn rest(&self) -> Vec<SocketAddr> {
        let listening = self.listening.iter().map(|it| it.0);
        listening.chain(self.datagrams.iter().map(|it| it.0)).collect()
    }
}

/// The addresses of a configuration, except that of the admin listener, in the order of a hand-over, and the protocol
/// of each.
pub(crate) fn posts(config: &Config) -> Vec<(SocketAddr, Spoken)> {
    let http = config.listen.iter().map(|it| (*it, Spoken::Http));
    let https = config.tls.iter().flat_map(|tls| &tls.listen);
    let https = https.map(|it| (*it, Spoken::Https));
    let services = PassthroughListener::all(config)
        .into_iter()
        .map(|(address, _)| (address, Spoken::Anything));
    let gates = config.gate.iter().flat_map(|gate| &gate.listen);
    let gates = gates.map(|it| (*it, Spoken::Questions));
    http.chain(https).chain(services).chain(gates).collect()
}

/// All addresses of a configuration, of any protocol.
pub(crate) fn all(config: &Config) -> Vec<SocketAddr> {
    let admin = config.admin.as_ref().map(|it| it.listen);
    posts(config).into_iter().map(|it| it.0).chain(admin).collect()
}

/// Listens at an address, which is one of `all` of the configuration. Connections wait in the kernel until they are
/// served. Errors name the key of the address.
pub(crate) fn bind(
    key: &'static str,
    configured: SocketAddr,
    all: &[SocketAddr],
    inherited: &mut Inherited,
) -> Result<Bound, StartError> {
    // On Linux an IPv6 wildcard socket accepts IPv4 as well, unless IPv4 has a socket of its own.
    let has_v4 = all.iter().any(|it| it.is_ipv4() && it.port() == configured.port());
    let listener = match inherited.take(configured) {
        Some(socket) => adopt(socket),
        None => bind_one(configured, has_v4),
    };
    let failed = |source| StartError::Listen { key, address: configured, source };
    let listener = listener.map_err(failed)?;
    let address = listener.local_addr().unwrap_or(configured);
    Ok(Bound { configured, address, listener })
}

fn adopt(socket: std::net::TcpListener) -> std::io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// The protocol at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http,
    /// HTTP within TLS.
    Https,
    /// Any protocol of the services behind its address.
    Anything,
    /// Other proxies' questions, over HTTP.
    Questions,
}

/// The state of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Orders {
    Accept,
    /// Leave connections in the kernel: another process may accept them.
    Wait,
    /// Stop accepting. Idle connections may send one more request.
    Close,
    /// Stop accepting, and let only what is under way end.
    CloseNow,
}

impl Orders {
    const fn is_end(self) -> bool {
        matches!(self, Self::Close | Self::CloseNow)
    }
}

/// Where listeners find what they need to serve connections.
#[derive(Clone)]
pub(crate) struct Fronts {
    pub(crate) front: Live<Front>,
    /// The part that connections keep.
    pub(crate) serving: Live<Serving>,
}

impl Spoken {
    /// The key of the configuration that names addresses for it.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Http => "listen",
            Self::Https => "tls.listen",
            Self::Anything => "tcp.listen",
            Self::Questions => "gate.listen",
        }
    }
}

/// A socket that is being served.
pub(crate) struct Post {
    pub(crate) spoken: Spoken,
    pub(crate) configured: SocketAddr,
    pub(crate) address: SocketAddr,
    /// A duplicate of the socket, for another process; none once it closes.
    socket: Option<OwnedFd>,
    orders: watch::Sender<Orders>,
    task: JoinHandle<()>,
}

impl Post {
    /// Serves connections: HTTP, services that are passed through, or proxies that ask whether a request may go to its
    /// server.
    pub(crate) fn man(
        bound: Bound,
        spoken: Spoken,
        live: &Fronts,
        room: &Arc<Semaphore>,
    ) -> Result<Self, StartError> {
        let Bound { configured, address, listener } = bound;
        let socket = listener.as_fd().try_clone_to_owned();
        let failed = |source| StartError::Listen { key: spoken.key(), address, source };
        let socket = socket.map_err(failed)?;
        let (orders, ordered) = watch::channel(Orders::Accept);
        let at = Listening { listener, spoken, configured };
        let task = tokio::spawn(accept(live.clone(), at, Arc::clone(room), ordered));
        Ok(Self { spoken, configured, address, socket: Some(socket), orders, task })
    }

    /// The socket, for another process.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Leaves connections in the kernel from now on.
    pub(crate) fn pause(&self) {
        self.orders.send_replace(Orders::Wait);
    }

    /// Accepts connections again.
    pub(crate) fn go_on(&self) {
        self.orders.send_replace(Orders::Accept);
    }

    /// Stops accepting, but serves existing clients: what is passed through to its end, held clients, and idle ones for
    /// a while too.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.orders.send_replace(Orders::Close);
    }

    /// Stops accepting, and lets only what is under way end.
    pub(crate) fn close_now(&mut self) {
        self.socket = None;
        self.orders.send_replace(Orders::CloseNow);
    }

    /// After closing: returns when all connections are gone, or `limits.drain` is over.
    pub(crate) async fn ended(self) {
        let _ = self.task.await;
    }

    /// Whether its task still runs.
    pub(crate) fn is_manned(&self) -> bool {
        !self.task.is_finished()
    }
}

/// The limit of connections of all clients together.
pub(crate) fn room(config: &Config) -> Arc<Semaphore> {
    // A connection that is passed through needs a second one to its service.
    let each = if config.tcp.is_empty() { 1 } else { 2 };
    // A session of datagrams needs a socket.
    let sessions: usize = config.udp.iter().map(|it| it.sessions).sum();
    Arc::new(Semaphore::new(places(config.limits.connections, each, sessions)))
}

/// The number of connections: as configured, but no more than descriptors allow, of which each connection needs `each`.
/// A quarter of the descriptors is reserved for servers, files, probes and orders, and `others` for sessions of
/// datagrams.
fn places(configured: usize, each: usize, others: usize) -> usize {
    let descriptors = descriptors();
    let most = (descriptors.saturating_sub((descriptors / 4).max(128) + others) / each).max(16);
    if configured > most {
        tracing::warn!(
            connections = configured,
            possible = most,
            "fewer connections than configured: the limit of descriptors is {descriptors}; raise \
             LimitNOFILE or `ulimit -n`"
        );
    }
    configured.min(most)
}

/// How many descriptors this process may have. Raises the soft limit to the hard one: it is low for old programs, which
/// would break with more.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

fn bind_one(address: SocketAddr, only_v6: bool) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted proxy must not wait for the old one's connections to time out.
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() && only_v6 {
        SockRef::from(&socket).set_only_v6(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A socket, its protocol, and its configured address.
struct Listening {
    listener: TcpListener,
    spoken: Spoken,
    configured: SocketAddr,
}

/// Accepts until it is closed, then lets running exchanges end.
async fn accept(
    mut live: Fronts,
    at: Listening,
    room: Arc<Semaphore>,
    mut orders: watch::Receiver<Orders>,
) {
    let clock = live.serving.now().clock.clone();
    let ends = Ends { leaving: Arc::default(), stop: watch::Sender::new(false) };
    // Every connection holds one end: once all are gone, the other end is closed.
    let (alive, all_gone) = mpsc::channel::<Infallible>(1);
    at.accept(&mut live, &room, &mut orders, &ends, &alive).await;
    let spoken = at.spoken;
    drop((at, alive));
    ends.leaving.store(true, Ordering::Relaxed);
    let limits = live.serving.now().config.limits.clone();
    let mut closing = Closing { clock, spoken, orders, all_gone };
    if !closing.are_served_on().await {
        ends.stop.send_replace(true);
        if !closing.end(&limits).await {
            tracing::warn!(drain = ?limits.drain, "some connections did not end in time");
        }
    }
}

/// A listener that is closed, and the clients that are still connected.
struct Closing {
    clock: Clock,
    spoken: Spoken,
    orders: watch::Receiver<Orders>,
    all_gone: mpsc::Receiver<Infallible>,
}

impl Closing {
    /// Serves existing clients normally, until there is a hurry. Returns whether all of them are gone.
    async fn are_served_on(&mut self) -> bool {
        let Self { clock, spoken, orders, all_gone } = self;
        let served_on = async {
            match spoken {
                // What is passed through has no end of its own: it ends when its two ends do.
                Spoken::Anything => all_gone.recv().await.is_none(),
                _ => clock.timeout(LINGER, all_gone.recv()).await.is_ok(),
            }
        };
        tokio::select! {
            biased;
            _ = orders.wait_for(|now| *now == Orders::CloseNow) => false,
            gone = served_on => gone,
        }
    }

    /// Lets what is under way end. Returns whether all clients are gone.
    async fn end(&mut self, limits: &config::Limits) -> bool {
        let Self { clock, spoken, orders, all_gone } = self;
        // Held clients wait, and exchanges continue, for the longest configured time; unless there is a hurry.
        tokio::select! {
            biased;
            _ = orders.wait_for(|now| *now == Orders::CloseNow) => {}
            _ = all_gone.recv() => return true,
        }
        let drain = match spoken {
            // They watch the same deadline themselves, so that both their ends are notified.
            Spoken::Anything => limits.drain + LAST_WORD,
            _ => limits.drain,
        };
        clock.timeout(drain, all_gone.recv()).await.is_ok()
    }
}

/// How the connections of a listener learn that it closes.
struct Ends {
    /// Set when the next answer is the last one of its connection.
    leaving: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
}

impl Listening {
    /// Accepts until it is closed.
    async fn accept(
        &self,
        live: &mut Fronts,
        room: &Arc<Semaphore>,
        orders: &mut watch::Receiver<Orders>,
        ends: &Ends,
        alive: &mpsc::Sender<Infallible>,
    ) {
        loop {
            let now = *orders.borrow_and_update();
            let accepted = tokio::select! {
                biased;
                changed = orders.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    continue;
                }
                accepted = self.listener.accept(), if now == Orders::Accept => accepted,
                () = std::future::ready(()), if now.is_end() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // Acquired after `accept`: a listener without connections must not hold a permit. A client that
                    // waits for a permit when the listener closes is still served.
                    if room.available_permits() == 0 {
                        live.serving.now().no_room();
                    }
                    let place = tokio::select! {
                        biased;
                        place = Arc::clone(room).acquire_owned() => place.ok(),
                        _ = orders.wait_for(|now| now.is_end()) => None,
                    };
                    self.serve(live, stream, peer, ends, (place, alive.clone()));
                }
                Err(error) => {
                    live.serving.now().cannot_accept("client", error).await;
                }
            }
        }
    }

    fn serve<H: Send + 'static>(
        &self,
        live: &Fronts,
        stream: TcpStream,
        peer: SocketAddr,
        ends: &Ends,
        held: H,
    ) {
        let mut live = live.clone();
        let (leaving, stopped) = (Arc::clone(&ends.leaving), ends.stop.subscribe());
        match self.spoken {
            Spoken::Http => tokio::spawn(async move {
                connection(live, stream, peer, leaving, false, stopped).await;
                drop(held);
            }),
            Spoken::Https => tokio::spawn(async move {
                connection(live, stream, peer, leaving, true, stopped).await;
                drop(held);
            }),
            Spoken::Questions => tokio::spawn(async move {
                gate::connection(live.serving, stream, peer, leaving, stopped).await;
                drop(held);
            }),
            Spoken::Anything => {
                let front = live.front.now();
                let mut listeners = front.passthrough_listeners.iter();
                let listener = listeners.find(|(address, _)| *address == self.configured);
                let Some((_, listener)) = listener else { return };
                let listener = Arc::clone(listener);
                let (serving, services) = (Arc::clone(&front.serving), Arc::clone(&front.services));
                tokio::spawn(async move {
                    passthrough::connection(serving, services, listener, stream, peer, stopped)
                        .await;
                    drop(held);
                })
            }
        };
    }
}

/// A client that shuts down its sending side within this time of its request still waits for the answer; later, it
/// counts as gone.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Limits of clients' connections.
pub(crate) fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        head_bytes: limits.header_bytes,
        fields: limits.headers,
        head_timeout: limits.header_timeout,
        idle_timeout: limits.idle_timeout,
        body_timeout: limits.body_timeout,
        send_timeout: limits.send_timeout,
        half_closed: HALF_CLOSED,
    }
}

/// One client's connection, from its first byte to its end.
async fn connection(
    mut live: Fronts,
    mut stream: TcpStream,
    peer: SocketAddr,
    leaving: Arc<AtomicBool>,
    secure: bool,
    stopped: watch::Receiver<bool>,
) {
    let front = live.front.now();
    let serving = &front.serving;
    let limits = Arc::clone(&serving.http_limits);
    let _ = stream.set_nodelay(true);
    let (mut client, mut read_ahead) = (peer.ip(), BytesMut::new());
    if serving.config.proxy_protocol.iter().any(|network| network.contains(client)) {
        let header = Box::pin(proxy_protocol::read(&mut stream, peer));
        let header = serving.clock.timeout(limits.head_timeout, header).await;
        (client, read_ahead) = match header.unwrap_or(Err(proxy_protocol::HeaderError::Ended)) {
            Ok((address, behind)) => (address.ip(), behind),
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection was not taken");
                return;
            }
        };
    }
    // Only now the client behind a balancer is known.
    let Some(_place) = serving.client_limits.connect(client) else {
        serving.refuse_connection();
        return;
    };
    let _open = serving.connections.accept();
    let clock = serving.clock.clone();
    let peer = Peer { ip: client, secure, vouchers: None };
    if secure {
        // Boxed, so that connections without TLS are no larger because of it.
        Box::pin(async move {
            let limit = front.serving.config.limits.handshake_timeout;
            let Some(tls) = &front.tls else { return };
            let accepted = tls.accept(stream, read_ahead, &clock, limit).await;
            let Some(Accepted { stream, is_http2, vouchers }) = accepted else { return };
            drop(front);
            let peer = Peer { vouchers, ..peer };
            let service = Client::new(live.serving, peer, Arc::clone(&leaving));
            if is_http2 {
                http2::serve(stream, service, limits, clock, leaving, stopped).await;
                return;
            }
            let nothing = BytesMut::new();
            nightwatt_http1::serve(stream, nothing, service, limits, clock, stopped).await;
        })
        .await;
        return;
    }
    drop(front);
    let service = Client::new(live.serving, peer, Arc::clone(&leaving));
    nightwatt_http1::serve(stream, read_ahead, service, limits, clock, stopped).await;
}
