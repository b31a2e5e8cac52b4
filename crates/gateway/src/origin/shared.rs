//! Connections by HTTP/2, each of which takes many requests at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use nightwatt_energy::time::Mono;
use tokio::sync::MutexGuard;

use super::{Reuse, Stream};
use crate::request_body::Question;

/// Maximum number of concurrent requests on one connection, unless the server allows fewer: more would queue in it
/// unseen. Servers allow this many or more, as RFC 9113 (6.5.2) recommends.
const AT_ONCE: usize = 100;

/// Bytes of an answer that may be buffered before its client has read them. There is no limit for all together: slow
/// clients must not stop the others.
const WINDOW: u32 = 256 << 10;
const ALL_WINDOWS: u32 = (1 << 31) - 1;

/// Bytes of an answer's fields: as many as hyper accepts over HTTP/1.1.
const HEADS: u32 = 400 << 10;

/// With requests under way, a server that is silent for this long gets a `PING`, and has the same time to answer it.
const ASKED_AFTER: Duration = Duration::from_secs(10);
const SAYS_WITHIN: Duration = Duration::from_secs(20);

/// One connection. References to it are requests under way on it.
pub(super) struct Connection {
    sender: SendRequest<Question>,
    /// Concurrent requests that the server allows, as far as known.
    allowed: Arc<AtomicUsize>,
}

impl Connection {
    pub(super) async fn over(stream: Stream) -> hyper::Result<Self> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(ALL_WINDOWS)
            .max_header_list_size(HEADS)
            .keep_alive_interval(ASKED_AFTER)
            .keep_alive_timeout(SAYS_WITHIN);
        let (sender, mut connection) = builder.handshake(TokioIo::new(stream)).await?;
        let allowed = Arc::new(AtomicUsize::new(AT_ONCE));
        let told = Arc::clone(&allowed);
        let going = poll_fn(move |cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            if polled.is_pending() {
                told.store(connection.current_max_send_streams(), Relaxed);
            }
            polled
        });
        tokio::spawn(async move { note_end(going.await) });
        Ok(Self { sender, allowed })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    pub(super) fn sender(&self) -> SendRequest<Question> {
        self.sender.clone()
    }
}

fn note_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the server ended");
    }
}

/// The connections to one server.
#[derive(Default)]
pub(super) struct Shared {
    open: Mutex<Vec<Open>>,
    /// The holder of this connects, and others wait for the result.
    connecting: tokio::sync::Mutex<()>,
    /// The server chose HTTP/1.1: requests do not wait for each other.
    is_refused: AtomicBool,
    /// How many times connecting failed.
    failures: AtomicUsize,
}

/// The result of an attempt to connect.
#[derive(Clone, Copy)]
pub(super) enum Attempt<'a> {
    /// The server chose HTTP/1.1.
    Http1,
    Http2(&'a Arc<Connection>),
    Failed,
}

/// Permission to connect.
pub(super) struct Turn<'a> {
    shared: &'a Shared,
    /// While this is held, others wait for the result.
    _first: Option<MutexGuard<'a, ()>>,
}

impl Turn<'_> {
    /// Publishes the result: others may use the connection, or know that they need not wait.
    pub(super) fn outcome(self, attempt: Attempt<'_>, now: Mono) {
        let shared = self.shared;
        match attempt {
            Attempt::Http1 => shared.is_refused.store(true, Relaxed),
            Attempt::Http2(connection) => {
                shared.is_refused.store(false, Relaxed);
                shared.add(connection, now);
            }
            Attempt::Failed => {
                shared.failures.fetch_add(1, Relaxed);
            }
        }
    }
}

struct Open {
    connection: Arc<Connection>,
    used: Mono,
}

impl Open {
    /// Requests that use it.
    fn under_way(&self) -> usize {
        Arc::strong_count(&self.connection) - 1
    }
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that this request may use.
    pub(super) fn take(&self, reuse: Reuse, now: Mono) -> Option<Arc<Connection>> {
        let mut open = self.open();
        open.retain(|it| !it.connection.sender.is_closed());
        let takes = |it: &&Open| {
            let most = it.connection.allowed.load(Relaxed).min(AT_ONCE);
            // A broken connection was forgotten together with all older ones, so the rest counts as new.
            it.under_way() < most && (reuse == Reuse::Never || reuse.allows(now.since(it.used)))
        };
        open.iter().rev().find(takes).map(|it| Arc::clone(&it.connection))
    }

    /// Shares a connection. Closes unused ones: one is enough for further requests.
    fn add(&self, connection: &Arc<Connection>, now: Mono) {
        let mut open = self.open();
        open.retain(|it| it.under_way() > 0);
        open.push(Open { connection: Arc::clone(connection), used: now });
    }

    /// It was used just now.
    pub(super) fn was_used(&self, connection: &Arc<Connection>, now: Mono) {
        let mut open = self.open();
        if let Some(it) = open.iter_mut().find(|it| Arc::ptr_eq(&it.connection, connection)) {
            it.used = now;
        }
    }

    /// Removes this connection and those opened before it. Requests in progress on them continue.
    pub(super) fn forget(&self, connection: &Arc<Connection>) {
        let mut open = self.open();
        if let Some(at) = open.iter().position(|it| Arc::ptr_eq(&it.connection, connection)) {
            open.drain(..=at);
        }
    }

    /// Removes all connections, and what is known about the server.
    pub(super) fn clear(&self) {
        self.open().clear();
        self.is_refused.store(false, Relaxed);
    }

    /// Waits for another request that is connecting, if any, and returns what to do next. If connecting failed
    /// meanwhile, no request waits for the next attempt.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let failures = self.failures.load(Relaxed);
        let is_vain = || self.is_refused.load(Relaxed) || self.failures.load(Relaxed) != failures;
        let first = if is_vain() { None } else { Some(self.connecting.lock().await) };
        Turn { shared: self, _first: first.filter(|_| !is_vain()) }
    }
}
