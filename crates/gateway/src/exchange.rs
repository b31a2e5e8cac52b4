//! An exchange with the server: as long as it lives, the server is kept awake.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use nightwatt_http1::client::Underway;
use nightwatt_httpcache::Timestamp;
use nightwatt_model::policy::admission::ClientClass;
use nightwatt_model::time::Mono;

use crate::body::{Sending, Watcher};
use crate::flights::Flight;
use crate::origin::Stream;
use crate::pool::Seat;
use crate::site::Site;
use crate::store::Ticket;
use crate::supervisor::Supervisor;

/// An exchange with the server, which keeps it awake. Over when the last who takes part in it has
/// dropped it: answer passed on, request sent.
#[derive(Debug)]
pub(crate) struct Exchange {
    supervisor: Arc<Supervisor>,
    sake: ExchangeFor,
    /// Its place, if the site has a pool of servers.
    seat: OnceLock<Seat>,
    /// What the short way has begun, until the long way goes on with it.
    begun: Mutex<Option<Begun>>,
}

/// A request that the short way has sent, or is sending, for the long way to go on with.
pub(crate) struct Begun {
    pub(crate) underway: Underway<Stream>,
    /// When it was sent.
    pub(crate) since: Mono,
    pub(crate) requested: Timestamp,
    pub(crate) ticket: Ticket,
    /// Others wait for its answer.
    pub(crate) flight: Option<Flight>,
}

/// For whom an exchange is.
#[derive(Debug, Clone, Copy)]
enum ExchangeFor {
    /// Somebody who may wake the server: it is used.
    Client,
    /// A crawler, scanner or monitor that found it awake.
    Guest,
    /// Nobody: the cache.
    Background,
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begun").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins one, if the server is awake.
    pub(crate) fn begin(supervisor: &Arc<Supervisor>) -> Option<Arc<Self>> {
        supervisor.try_begin().then(|| Self::new(supervisor, ExchangeFor::Client))
    }

    /// One that the manager has begun by itself, for a client of this class.
    pub(crate) fn begun(supervisor: &Arc<Supervisor>, class: ClientClass) -> Arc<Self> {
        let is_client = class.is_admitted();
        Self::new(supervisor, if is_client { ExchangeFor::Client } else { ExchangeFor::Guest })
    }

    fn new(supervisor: &Arc<Supervisor>, sake: ExchangeFor) -> Arc<Self> {
        let (supervisor, begun) = (Arc::clone(supervisor), Mutex::new(None));
        Arc::new(Self { supervisor, sake, seat: OnceLock::new(), begun })
    }

    /// Begins one that nobody asked for, and that is no use of the server, if that is awake and not
    /// about to sleep.
    pub(crate) fn begin_background(site: &Site) -> Option<Arc<Self>> {
        let supervisor = &site.supervisor;
        let begun = || Self::new(supervisor, ExchangeFor::Background);
        let exchange = supervisor.try_begin_background().then(begun)?;
        if let Some(pool) = &site.pool {
            exchange.sit(pool.spare()?);
        }
        Some(exchange)
    }

    /// Another one for the same request, at another server.
    pub(crate) fn anew(&self) -> Arc<Self> {
        let sake = match self.sake {
            ExchangeFor::Guest => ExchangeFor::Guest,
            _ => ExchangeFor::Client,
        };
        self.supervisor.begin_for(matches!(sake, ExchangeFor::Client));
        Self::new(&self.supervisor, sake)
    }

    /// The short way has begun so much of it.
    pub(crate) fn has_begun(&self, begun: Begun) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }

    /// The flight that has been begun, once.
    pub(crate) fn take_flight(&self) -> Option<Flight> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.as_mut()?.flight.take()
    }

    /// What has been begun, once.
    pub(crate) fn take_begun(&self) -> Option<Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// It has this place from now on.
    pub(crate) fn sit(&self, seat: Seat) {
        let _ = self.seat.set(seat);
    }

    /// Its place, if the site has a pool of servers and it has got one.
    pub(crate) fn seat(&self) -> Option<&Seat> {
        self.seat.get()
    }

    /// The server has answered all; its place is free if it has the whole request too.
    pub(crate) fn server_is_done(&self, sending: &Sending) {
        if let Some(seat) = self.seat().filter(|_| sending.is_whole()) {
            seat.leave();
        }
    }

    /// What comes of `work`, or nothing if its server failed meanwhile.
    pub(crate) async fn unless_lost<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(seat) = self.seat() else { return Some(work.await) };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = seat.lost() => None,
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match self.sake {
            ExchangeFor::Client => self.supervisor.end(),
            ExchangeFor::Guest => self.supervisor.end_as_guest(),
            ExchangeFor::Background => self.supervisor.end_background(),
        }
    }
}

impl Watcher for Arc<Exchange> {
    fn passes(&mut self, _: &Bytes) {}

    fn ended(&mut self) {}
}
