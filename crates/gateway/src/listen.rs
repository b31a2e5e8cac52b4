//! Where connections come in, and how many.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use nightwatt_http1::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::error::StartError;
use crate::facts::Peer;
use crate::gateway::Gateway;
use crate::passthrough::{self, Door};
use crate::proxy_protocol;
use crate::quick::Client;

/// Connections that wait in the kernel.
const BACKLOG: u32 = 1024;

/// Connections that are passed through end by themselves when `limits.drain` is over; for that they have
/// so long.
const LAST_WORD: Duration = Duration::from_secs(1);

/// An address, and the socket that listens there.
pub(crate) type Bound = (SocketAddr, TcpListener);

/// Listens on every address. Connections wait in the kernel until they are served.
pub(crate) fn bind(addresses: &[SocketAddr]) -> Result<Vec<Bound>, StartError> {
    // Linux lets a socket for all of IPv6 take IPv4 as well, unless that has one of its own.
    let has_v4 = |port| addresses.iter().any(|it| it.is_ipv4() && it.port() == port);
    let bind = |&address: &SocketAddr| {
        let listener = bind_one(address, has_v4(address.port()))
            .map_err(|source| StartError::Listen { address, source })?;
        Ok((listener.local_addr().unwrap_or(address), listener))
    };
    addresses.iter().map(bind).collect()
}

/// What is spoken at an address.
#[derive(Clone)]
enum Spoken {
    Http(Arc<Limits>),
    /// HTTP within TLS.
    Https(Arc<Limits>),
    /// Whatever the services behind this door speak.
    Anything(Arc<Door>),
}

/// Serves what connects there: HTTP at the first, without TLS and with it; services that are passed
/// through at the second.
pub(crate) fn serve(
    gateway: &Arc<Gateway>,
    (bound, tls_bound): (Vec<Bound>, Vec<Bound>),
    doors: Vec<(Bound, Arc<Door>)>,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let room = Arc::new(Semaphore::new(places(gateway.config.limits.connections)));
    let limits = Arc::new(limits(gateway));
    let http = bound.into_iter().map(|(_, it)| (it, Spoken::Http(Arc::clone(&limits))));
    let https = tls_bound.into_iter().map(|(_, it)| (it, Spoken::Https(Arc::clone(&limits))));
    let others = doors.into_iter().map(|((_, it), door)| (it, Spoken::Anything(door)));
    let serve =
        |at| tokio::spawn(accept(Arc::clone(gateway), at, Arc::clone(&room), stopped.clone()));
    http.chain(https).chain(others).map(serve).collect()
}

/// Places for clients: as configured, but no more than there are descriptors for. A quarter of these
/// stays for servers, files, probes and orders.
fn places(configured: usize) -> usize {
    let descriptors = descriptors();
    let most = descriptors.saturating_sub((descriptors / 4).max(128)).max(16);
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

/// How many descriptors this process may have. The soft limit is raised to the hard one: it is low for
/// programs of old, which would break with more.
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
    // A restarted proxy must not wait for the connections of the old one to be forgotten.
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() && only_v6 {
        SockRef::from(&socket).set_only_v6(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts until stopped, then lets running exchanges end.
async fn accept(
    gateway: Arc<Gateway>,
    (listener, spoken): (TcpListener, Spoken),
    room: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
) {
    let mut stopping = stopped.clone();
    let mut failing = false;
    // Every connection holds one end: once all are gone, nothing comes from the other.
    let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
    loop {
        // Room is looked for second: a listener that nobody connects to must not keep a place.
        let next = async {
            let connected = listener.accept().await?;
            let place = Arc::clone(&room).acquire_owned().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>((connected, place))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            _ = stopping.wait_for(|stopped| *stopped) => break,
        };
        match accepted {
            Ok(((stream, peer), place)) => {
                failing = false;
                let held = (place, alive.clone());
                let (gateway, stopped) = (Arc::clone(&gateway), stopped.clone());
                match spoken.clone() {
                    Spoken::Http(limits) => tokio::spawn(async move {
                        connection(gateway, (stream, peer), (limits, false), stopped).await;
                        drop(held);
                    }),
                    Spoken::Https(limits) => tokio::spawn(async move {
                        connection(gateway, (stream, peer), (limits, true), stopped).await;
                        drop(held);
                    }),
                    Spoken::Anything(door) => tokio::spawn(async move {
                        passthrough::connection(gateway, door, (stream, peer), stopped).await;
                        drop(held);
                    }),
                };
            }
            Err(error) => {
                // Out of descriptors, mostly: let some connections end before the next attempt.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept connections; it is tried on");
                }
                gateway.clock.sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop((listener, alive));
    let drain = match spoken {
        Spoken::Http(_) | Spoken::Https(_) => gateway.config.limits.drain,
        // They look at the same clock themselves, so that both their ends are told.
        Spoken::Anything(_) => gateway.config.limits.drain + LAST_WORD,
    };
    if gateway.clock.timeout(drain, all_gone.recv()).await.is_err() {
        tracing::warn!(?drain, "some connections did not end in time");
    }
}

fn limits(gateway: &Gateway) -> Limits {
    let limits = &gateway.config.limits;
    Limits {
        head_bytes: limits.header_bytes,
        fields: limits.headers,
        head_timeout: limits.header_timeout,
        idle_timeout: limits.idle_timeout,
        body_timeout: limits.body_timeout,
        send_timeout: limits.send_timeout,
    }
}

/// One client's connection, from its first byte to its end.
async fn connection(
    gateway: Arc<Gateway>,
    (mut stream, peer): (TcpStream, SocketAddr),
    (limits, secure): (Arc<Limits>, bool),
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let (mut client, mut read_ahead) = (peer.ip(), BytesMut::new());
    if gateway.config.proxy_protocol.iter().any(|network| network.contains(client)) {
        let header = Box::pin(proxy_protocol::read(&mut stream, peer));
        let header = gateway.clock.timeout(limits.head_timeout, header).await;
        (client, read_ahead) = match header.unwrap_or(Err(proxy_protocol::Wrong::Ended)) {
            Ok(header) => header,
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection was not taken");
                return;
            }
        };
    }
    // Whom a balancer speaks for is known only now.
    let Some(_place) = gateway.client_limits.connect(client) else {
        gateway.connections.refuse();
        return;
    };
    let _open = gateway.connections.accept();
    let service = Client::new(&gateway, Peer { ip: client, secure });
    let clock = gateway.clock.clone();
    if secure {
        // Apart, so that connections without TLS are no larger for it.
        Box::pin(async move {
            let limit = gateway.config.limits.handshake_timeout;
            let Some(tls) = &gateway.tls else { return };
            let Some(stream) = tls.accept((stream, read_ahead), &clock, limit).await else {
                return;
            };
            drop(gateway);
            let nothing = BytesMut::new();
            nightwatt_http1::serve((stream, nothing), service, limits, clock, stopped).await;
        })
        .await;
        return;
    }
    drop(gateway);
    nightwatt_http1::serve((stream, read_ahead), service, limits, clock, stopped).await;
}
