//! Requests that the gate has let through, as far as this proxy knows of them.

use std::sync::{Arc, Mutex, PoisonError};

use nightwatt_energy::time::Mono;
use tokio::sync::Notify;

use crate::exchange::Exchange;

/// Requests that the gate has let through: their end is unknown.
///
/// All of them are one exchange with the server, which ends when the last one has been let through for a
/// while and none is under way on this machine's connections to the server, which [`gate`](crate::gate) watches. (An
/// exchange for each would be as many as there are requests in that time.)
#[derive(Debug, Default)]
pub(crate) struct Presence {
    state: Mutex<Present>,
    begun: Notify,
}

#[derive(Debug, Default)]
struct Present {
    exchange: Option<Arc<Exchange>>,
    last: Mono,
}

impl Presence {
    /// A request was let through. If there are others, its exchange ends here: the others have one.
    pub(crate) fn add(&self, exchange: Arc<Exchange>, now: Mono) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last = state.last.max(now);
        let spare = state.exchange.replace(exchange);
        drop(state);
        if spare.is_none() {
            self.begun.notify_one();
        }
    }

    /// Returns when a request is let through while there is no other.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// When the last one was let through.
    pub(crate) fn last(&self) -> Mono {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    /// Whether there are any.
    pub(crate) fn is_there(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).exchange.is_some()
    }

    /// Ends all of them, unless another one came after `last`.
    pub(crate) fn end(&self, last: Mono) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let over = if state.last <= last { state.exchange.take() } else { None };
        // Dropping it calls the manager, so not under the lock.
        drop(state);
        over.is_some()
    }
}
