//! An exchange with the server: as long as it exists, the server is kept awake.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nightwatt_energy::time::{Mono, Now};
use nightwatt_http1::client::Underway;
use nightwatt_httpcache::Timestamp;
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::awake_budget::UNLIMITED;
use nightwatt_policy::lifecycle::Phase;

use crate::body::Watcher;
use crate::origin::Stream;
use crate::pool::Seat;
use crate::request_body::{InFlight, Sending};
use crate::shared_fetches::SharedFetch;
use crate::store::Ticket;
use crate::supervisor::{ExchangeFor, Supervisor};

/// An exchange with the server, which keeps it awake. It ends when the last part that holds it is dropped: the answer
/// was passed on, and the request sent.
#[derive(Debug)]
pub(crate) struct Exchange {
    supervisor: Arc<Supervisor>,
    /// None: it is for the cache, not for a client.
    requester: Option<ExchangeFor>,
    /// Its place, if the site has a pool of servers.
    seat: OnceLock<Seat>,
    /// A request that the fast path has started, until the slow path takes it over.
    begun: Mutex<Option<Begun>>,
}

/// A request that the fast path has admitted to its server.
pub(crate) struct Admitted {
    pub(crate) site: usize,
    pub(crate) class: ClientClass,
    pub(crate) arrived: Now,
    pub(crate) number: u64,
    pub(crate) needs_server: bool,
    pub(crate) exchange: Arc<Exchange>,
}

/// A request that the fast path has sent, or is sending, for the slow path to take over.
pub(crate) struct Begun {
    pub(crate) underway: Underway<Stream>,
    /// When it was sent.
    pub(crate) since: Mono,
    pub(crate) requested: Timestamp,
    pub(crate) ticket: Ticket,
    /// Other requests wait for its answer.
    pub(crate) shared_fetch: Option<SharedFetch>,
}

/// A server that has not begun to answer after this time is probed. The interval doubles with each probe, since some
/// answers are slow.
pub(crate) const SILENT: Duration = Duration::from_secs(5);

/// How long to wait for a probe of a server that could not be reached.
pub(crate) const WORD: Duration = Duration::from_secs(2);

impl std::fmt::Debug for Begun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begun").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins an exchange for a client of this network that may wake the server, if the server is awake.
    pub(crate) fn begin(supervisor: &Arc<Supervisor>, network: u64) -> Option<Arc<Self>> {
        let begun = supervisor.try_begin(network);
        begun.then(|| Self::begun(supervisor, ExchangeFor::Client { network }))
    }

    /// Wraps an exchange that the manager has begun already.
    pub(crate) fn begun(supervisor: &Arc<Supervisor>, requester: ExchangeFor) -> Arc<Self> {
        Self::new(supervisor, Some(requester))
    }

    fn new(supervisor: &Arc<Supervisor>, requester: Option<ExchangeFor>) -> Arc<Self> {
        let (supervisor, begun) = (Arc::clone(supervisor), Mutex::new(None));
        Arc::new(Self { supervisor, requester, seat: OnceLock::new(), begun })
    }

    /// Begins an exchange without a client that does not count as use, if the server is awake and not about to sleep.
    pub(crate) fn begin_background(supervisor: &Arc<Supervisor>) -> Option<Arc<Self>> {
        supervisor.try_begin_background().then(|| Self::new(supervisor, None))
    }

    /// Begins another exchange for the same request, at another server.
    pub(crate) fn at_another_server(&self) -> Arc<Self> {
        let requester = self.requester.unwrap_or(ExchangeFor::Client { network: UNLIMITED });
        self.supervisor.begin_for(requester);
        Self::begun(&self.supervisor, requester)
    }

    /// Stores what the fast path has started.
    pub(crate) fn has_begun(&self, begun: Begun) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }

    /// Takes the shared fetch that the fast path has begun, at most once.
    pub(crate) fn take_shared_fetch(&self) -> Option<SharedFetch> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.as_mut()?.shared_fetch.take()
    }

    /// Takes what the fast path has started, at most once.
    pub(crate) fn take_begun(&self) -> Option<Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sets its place.
    pub(crate) fn sit(&self, seat: Seat) {
        let _ = self.seat.set(seat);
    }

    /// Its place, if the site has a pool of servers and a place was found.
    pub(crate) fn seat(&self) -> Option<&Seat> {
        self.seat.get()
    }

    /// The server has sent its whole answer; its place is free if it has the whole request too.
    pub(crate) fn server_is_done(&self, sending: &Sending) {
        if let Some(seat) = self.seat().filter(|_| sending.is_whole()) {
            seat.leave();
        }
    }

    /// Returns the outcome of `work`, or `None` if its server failed or fell asleep meanwhile.
    pub(crate) async fn unless_lost<T>(
        &self,
        sending: &Sending,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let is_lost = async {
            match self.seat() {
                Some(seat) => seat.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = is_lost => None,
            () = self.is_found_asleep(sending) => None,
        }
    }

    /// Returns when a server that does not answer is found to be asleep. A machine that suspends by itself closes
    /// no connections, so only a probe can tell.
    async fn is_found_asleep(&self, sending: &Sending) {
        let supervisor = self.seat().map_or(&self.supervisor, Seat::supervisor);
        let (clock, mut phase) = (sending.clock(), supervisor.phase());
        if *phase.borrow() != Phase::Awake {
            return std::future::pending().await;
        }
        let mut silent = SILENT;
        loop {
            let due = sending.last() + silent;
            clock.sleep_until(due).await;
            if sending.last() + silent > due {
                continue;
            }
            // This starts a probe.
            supervisor.unreachable();
            let asleep =
                phase.wait_for(|it| matches!(it, Phase::Asleep | Phase::Waking | Phase::Failed));
            if clock.timeout(WORD, asleep).await.is_ok() {
                return;
            }
            silent *= 2;
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match self.requester {
            Some(requester) => self.supervisor.end_for(requester),
            None => self.supervisor.end_background(),
        }
    }
}

impl InFlight for Exchange {}

impl Watcher for Arc<Exchange> {
    fn passes(&mut self, _: &Bytes) {}

    fn ended(&mut self) {}
}
