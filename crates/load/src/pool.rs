//! Connections to the server, and how many this machine can hold.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use nightwatt_clock::Clock;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::outcome::ErrorKind;

pub(crate) type Connection = SendRequest<Full<Bytes>>;

/// Descriptors kept for everything else: the log, the output, listeners in the same process.
const DESCRIPTORS_KEPT: u64 = 64;

/// Keep-alive connections to one address.
#[derive(Debug)]
pub(crate) struct Pool {
    address: SocketAddr,
    /// The last one used is the first one reused: it is the least likely to have been closed.
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    /// Requests that had to wait for, or did not get, a connection for want of descriptors.
    pub(crate) limited: AtomicU64,
    pub(crate) opened: AtomicU64,
}

impl Pool {
    /// At most `max_open` connections; as many as the system allows when that is not said.
    pub(crate) fn new(address: SocketAddr, max_open: Option<usize>) -> Self {
        let permits = max_open.unwrap_or_else(allowed_descriptors).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            address,
            idle: Mutex::default(),
            permits: Semaphore::new(permits),
            limited: AtomicU64::new(0),
            opened: AtomicU64::new(0),
        }
    }

    /// A permit to use one connection, for callers that owe bytes: time passes while this waits.
    pub(crate) async fn permit(&self, clock: &Clock) -> Option<SemaphorePermit<'_>> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(permit);
        }
        self.limited.fetch_add(1, Ordering::Relaxed);
        clock.parked(self.permits.acquire()).await.ok()
    }

    /// A connection that was used before and still seems open.
    pub(crate) async fn reuse(&self) -> Option<Connection> {
        loop {
            let last = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut connection = last?;
            if connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    /// A new connection.
    pub(crate) async fn open(&self) -> Result<Connection, ErrorKind> {
        let stream = match TcpStream::connect(self.address).await {
            Ok(stream) => stream,
            Err(error) if is_own_limit(&error) => {
                self.limited.fetch_add(1, Ordering::Relaxed);
                return Err(ErrorKind::ClientLimit);
            }
            Err(_) => return Err(ErrorKind::Connect),
        };
        self.opened.fetch_add(1, Ordering::Relaxed);
        // Only a matter of speed: without it small requests wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|_| ErrorKind::Connect)?;
        // Its errors reach the request that is under way on it.
        tokio::spawn(async move { connection.await.ok() });
        Ok(sender)
    }

    /// Its answer has been read: others may use it.
    pub(crate) fn give_back(&self, connection: Connection) {
        if !connection.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

/// No descriptor, no port, no memory left: it is this machine that cannot go on.
fn is_own_limit(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let own = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| own.contains(&errno))
}

fn allowed_descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let usable = limit.map_or(u64::MAX, |limit| limit.saturating_sub(DESCRIPTORS_KEPT));
    usize::try_from(usable).unwrap_or(usize::MAX)
}
