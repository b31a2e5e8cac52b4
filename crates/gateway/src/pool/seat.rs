//! A request's place at a server.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nightwatt_energy::time::Mono;

use super::{PoolServer, ServerPool, State};
use crate::origin::{OriginError, OriginPool};
use crate::supervisor::Supervisor;

/// A place at a server, from when the pool assigned it until the server is done, or the exchange is over. Meanwhile the
/// server is not put to sleep.
pub(crate) struct Seat {
    pool: Arc<ServerPool>,
    server: u32,
    /// The server's term: when it is over, the server has failed, and the pool does not know this seat.
    term: u64,
    takes: Mutex<Takes>,
}

/// What a seat occupies at its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// A place.
    Place,
    /// No place, but it keeps the server awake.
    Tunnel,
    /// Nothing any more.
    Nothing,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seat({}, {})", self.at().supervisor.name(), self.term)
    }
}

impl Seat {
    /// May be called under the pool's lock.
    pub(super) fn take(pool: &Arc<ServerPool>, server: u32, term: u64) -> Self {
        pool.server(server).supervisor.take();
        Self { pool: Arc::clone(pool), server, term, takes: Mutex::new(Takes::Place) }
    }

    fn at(&self) -> &PoolServer {
        self.pool.server(self.server)
    }

    /// The index of its server.
    pub(crate) const fn server(&self) -> u32 {
        self.server
    }

    /// Connections to its server.
    pub(crate) fn origin(&self) -> &Arc<OriginPool> {
        &self.at().origin
    }

    /// Whether its server has been awake for less than this, and its probe cannot tell whether it is ready.
    pub(crate) fn may_still_start(&self, within: Duration) -> bool {
        !self.at().probes_http && self.at().supervisor.woke_within(within)
    }

    /// The supervisor of its server.
    pub(crate) fn supervisor(&self) -> &Arc<Supervisor> {
        &self.at().supervisor
    }

    /// Returns when its server has failed.
    pub(crate) async fn lost(&self) {
        let mut term = self.at().term.subscribe();
        let _ = term.wait_for(|term| *term != self.term).await;
    }

    /// Its server answered.
    pub(crate) fn answered(&self) {
        self.at().answered();
    }

    /// Its server did not answer: probes it. A server that refuses connections, or does not accept one in time twice,
    /// is out of the pool until it answers.
    pub(crate) fn failed(&self, error: &OriginError) {
        match error {
            OriginError::Exhausted(_) | OriginError::Refused => return,
            // It may just be busy: the probe decides, or the next connection that is not accepted.
            OriginError::Unreachable(_, error)
                if error.kind() == ErrorKind::TimedOut && !self.at().shuts_out_again() => {}
            OriginError::Unreachable(..) => self.notify(|state, now| {
                self.pool.fail(state, now, self.server, "it cannot be connected to");
            }),
            OriginError::Distrusted(..) => self.notify(|state, now| {
                self.pool.fail(state, now, self.server, "its certificate is not trusted");
            }),
            OriginError::Malformed(_) => self.notify(|state, now| {
                self.pool.fail(state, now, self.server, "what it answers is no HTTP");
            }),
            OriginError::Broken(_) | OriginError::TimedOut(_) => {}
        }
        self.at().supervisor.unreachable();
    }
}

impl Seat {
    fn now_takes(&self, takes: Takes) -> Takes {
        let mut mine = self.takes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut mine, takes)
    }

    /// Notifies the pool, unless the server's term is over.
    fn notify(&self, what: impl FnOnce(&mut State, Mono)) {
        self.pool.with(|state, now| {
            if state.cards[self.server as usize].term == self.term {
                what(state, now);
            }
        });
    }

    /// Server and client were connected to each other: the place is free, but the server is not put to sleep before the
    /// end.
    pub(crate) fn becomes_tunnel(&self) {
        if self.now_takes(Takes::Tunnel) == Takes::Place {
            self.at().supervisor.tunnel_opened();
            self.notify(|state, now| state.pool.tunnel(now, self.server, &mut state.actions));
        }
    }

    /// The server is done, though the client may not have read the whole answer.
    pub(crate) fn leave(&self) {
        match self.now_takes(Takes::Nothing) {
            Takes::Place => {
                self.at().supervisor.release();
                self.notify(|state, now| state.pool.complete(now, self.server, &mut state.actions));
            }
            Takes::Tunnel => {
                self.at().supervisor.tunnel_closed();
                self.notify(|state, now| {
                    state.pool.tunnel_ended(now, self.server, &mut state.actions);
                });
            }
            Takes::Nothing => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}
