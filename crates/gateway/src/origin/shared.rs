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

/// Requests at once on one connection, unless the server allows fewer: what is beyond would wait in it,
/// unseen. Servers allow so many or more, as RFC 9113 (6.5.2) recommends.
const AT_ONCE: usize = 100;

/// So much of an answer may be here before its client has taken it. Of all together as much as there is:
/// clients that take their answers slowly are not to stop the others.
const WINDOW: u32 = 256 << 10;
const ALL_WINDOWS: u32 = (1 << 31) - 1;

/// Fields of an answer: as many bytes as hyper takes by HTTP/1.1.
const HEADS: u32 = 400 << 10;

/// While it is asked something, a server that is silent for this long is asked whether it is there (`PING`),
/// and has as long to say so.
const ASKED_AFTER: Duration = Duration::from_secs(10);
const SAYS_WITHIN: Duration = Duration::from_secs(20);

/// One connection. References to it are requests that are under way on it.
pub(super) struct Connection {
    sender: SendRequest<Question>,
    /// Requests that the server allows at once, as far as it is known.
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

/// The connections that there are to one server.
#[derive(Default)]
pub(super) struct Shared {
    open: Mutex<Vec<Open>>,
    /// The holder of this connects, and others wait for the result.
    connecting: tokio::sync::Mutex<()>,
    /// The server chose HTTP/1.1: no request waits for another.
    is_refused: AtomicBool,
    /// How often it could not be connected to.
    failures: AtomicUsize,
}

/// What came of an attempt to connect.
#[derive(Clone, Copy)]
pub(super) enum Attempt<'a> {
    /// The server chose HTTP/1.1.
    Http1,
    Http2(&'a Arc<Connection>),
    Failed,
}

/// Leave to connect.
pub(super) struct Turn<'a> {
    shared: &'a Shared,
    /// While there is one, others wait for what comes of it.
    _first: Option<MutexGuard<'a, ()>>,
}

impl Turn<'_> {
    /// What came of it: others may use it, or know that they need not wait.
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
    /// Those who use it, beside this.
    fn under_way(&self) -> usize {
        Arc::strong_count(&self.connection) - 1
    }
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that may take this request.
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

    /// Others may use it too from now on. Unused ones are closed: one is enough for what comes.
    fn add(&self, connection: &Arc<Connection>, now: Mono) {
        let mut open = self.open();
        open.retain(|it| it.under_way() > 0);
        open.push(Open { connection: Arc::clone(connection), used: now });
    }

    /// Something came of it just now.
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

    /// All of them, and what is known of the server.
    pub(super) fn clear(&self) {
        self.open().clear();
        self.is_refused.store(false, Relaxed);
    }

    /// Waits for another request that connects, if any, and says which is next. If the server could not
    /// be connected to meanwhile, no request waits for the next attempt.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let failures = self.failures.load(Relaxed);
        let is_vain = || self.is_refused.load(Relaxed) || self.failures.load(Relaxed) != failures;
        let first = if is_vain() { None } else { Some(self.connecting.lock().await) };
        Turn { shared: self, _first: first.filter(|_| !is_vain()) }
    }
}
