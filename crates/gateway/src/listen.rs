//! Where connections come in. Everything about HTTP/1.1 framing is behind this boundary: what comes
//! out is a whole head and a body that streams.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::error::StartError;
use crate::gateway::Gateway;
use crate::proxy;

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
    mut stopped: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    loop {
        // Room is looked for second: a listener that nobody connects to must not keep a place.
        let next = async {
            let connected = listener.accept().await?;
            let place = Arc::clone(&room).acquire_owned().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>((connected, place))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        match accepted {
            Ok(((stream, peer), place)) => {
                let Some(clients) = gateway.client_limits.connect(peer.ip()) else {
                    gateway.connections.refuse();
                    continue;
                };
                let open = gateway.connections.accept();
                let connection = connection(&gateway, stream, peer);
                let watched = graceful.watch(connection);
                tokio::spawn(async move {
                    if let Err(error) = watched.await {
                        tracing::debug!(%peer, %error, "a client's connection ended");
                    }
                    drop((place, clients, open));
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: let some connections end before the next attempt.
                tracing::warn!(%error, "cannot accept a connection");
                gateway.clock.sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let drain = gateway.config.limits.drain;
    if gateway.clock.timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(?drain, "some connections did not end in time");
    }
}

/// One client's connection, to be driven to its end.
fn connection(
    gateway: &Arc<Gateway>,
    stream: TcpStream,
    peer: SocketAddr,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> + use<> {
    let limits = &gateway.config.limits;
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    // The buffer bounds what a head may take while it arrives, not one that came all at once.
    builder.max_buf_size(limits.header_bytes).max_header_size(limits.header_bytes);
    builder.max_headers(limits.headers);
    // Time-outs of connections are real time: under a virtual clock clients are never slow.
    if gateway.clock.is_virtual() {
        builder.header_read_timeout(None);
    } else {
        builder.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
    }
    let gateway = Arc::clone(gateway);
    let service = service_fn(move |request| {
        let answered = proxy::handle(Arc::clone(&gateway), peer.ip(), request);
        async move { Ok::<_, std::convert::Infallible>(answered.await) }
    });
    builder.serve_connection(TokioIo::new(stream), service)
}
