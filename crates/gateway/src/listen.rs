//! Where connections come in, and how many.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use nightwatt_http1::Limits;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::error::StartError;
use crate::gateway::Gateway;
use crate::proxy_protocol;
use crate::quick::Client;

/// Connections that wait in the kernel.
const BACKLOG: u32 = 1024;

/// An address, and the socket that listens there.
pub(crate) type Bound = (SocketAddr, TcpListener);

/// Listens on every address. Connections wait in the kernel until they are served.
pub(crate) fn bind(addresses: &[SocketAddr]) -> Result<Vec<Bound>, StartError> {
    let bind = |&address: &SocketAddr| {
        let listener =
            bind_one(address).map_err(|source| StartError::Listen { address, source })?;
        Ok((listener.local_addr().unwrap_or(address), listener))
    };
    addresses.iter().map(bind).collect()
}

/// Serves what connects there.
pub(crate) fn serve(
    gateway: &Arc<Gateway>,
    bound: Vec<Bound>,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let room = Arc::new(Semaphore::new(gateway.config.limits.connections));
    let serve = |(_, listener)| {
        tokio::spawn(accept(Arc::clone(gateway), listener, Arc::clone(&room), stopped.clone()))
    };
    bound.into_iter().map(serve).collect()
}

fn bind_one(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted proxy must not wait for the connections of the old one to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts until stopped, then lets running exchanges end.
async fn accept(
    gateway: Arc<Gateway>,
    listener: TcpListener,
    room: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
) {
    let limits = Arc::new(limits(&gateway));
    let mut stopping = stopped.clone();
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
                let held = (place, alive.clone());
                let served = connection(
                    Arc::clone(&gateway),
                    (stream, peer),
                    Arc::clone(&limits),
                    stopped.clone(),
                );
                tokio::spawn(async move {
                    served.await;
                    drop(held);
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: let some connections end before the next attempt.
                tracing::warn!(%error, "cannot accept a connection");
                gateway.clock.sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
    drop((listener, alive));
    let drain = gateway.config.limits.drain;
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
    limits: Arc<Limits>,
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
    let service = Client::new(&gateway, client);
    let clock = gateway.clock.clone();
    drop(gateway);
    nightwatt_http1::serve((stream, read_ahead), service, limits, clock, stopped).await;
}
