//! A request's place at a server.

use std::sync::Arc;
use std::time::Duration;

use super::{PoolServer, ServerPool};
use crate::origin::{OriginError, OriginPool};

/// A place at a server, from the moment at which the pool gave it to the end of the exchange. While it
/// lasts the server is not put to sleep.
pub(crate) struct Seat {
    pool: Arc<ServerPool>,
    server: u32,
    /// The server's term: once that is over it has failed, and the pool knows nothing of this seat.
    term: u64,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seat({}, {})", self.at().supervisor.name(), self.term)
    }
}

impl Seat {
    /// The pool's lock may be held.
    pub(super) fn take(pool: &Arc<ServerPool>, server: u32, term: u64) -> Self {
        pool.server(server).supervisor.take();
        Self { pool: Arc::clone(pool), server, term }
    }

    fn at(&self) -> &PoolServer {
        self.pool.server(self.server)
    }

    /// Connections to its server.
    pub(crate) fn origin(&self) -> &Arc<OriginPool> {
        &self.at().origin
    }

    /// Is its server awake for less than that, and can its probe not tell whether it is ready?
    pub(crate) fn may_still_start(&self, within: Duration) -> bool {
        !self.at().probes_http && self.at().supervisor.woke_within(within)
    }

    /// Ends when its server was found to have failed.
    pub(crate) async fn lost(&self) {
        let mut term = self.at().term.subscribe();
        let _ = term.wait_for(|term| *term != self.term).await;
    }

    /// Its server answered.
    pub(crate) fn answered(&self) {
        self.at().answered();
    }

    /// Its server did not answer: it is looked at. One that takes no connections is out of the pool
    /// until it does.
    pub(crate) fn failed(&self, error: &OriginError) {
        match error {
            OriginError::Exhausted(_) => return,
            OriginError::Unreachable(..) => self.pool.with(|state, now| {
                if state.cards[self.server as usize].term == self.term {
                    self.pool.fail(state, now, self.server, "it cannot be connected to");
                }
            }),
            OriginError::Broken(_) | OriginError::TimedOut(_) => {}
        }
        self.at().supervisor.unreachable();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.at().supervisor.release();
        self.pool.with(|state, now| {
            if state.cards[self.server as usize].term == self.term {
                state.pool.complete(now, self.server, &mut state.actions);
            }
        });
    }
}
