//! Requests for the same resource at the same time: one goes to the server, the others wait for what
//! the cache makes of its answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nightwatt_httpcache::CacheKey;
use tokio::sync::watch;

/// The resources of a site that are being fetched.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<HashMap<CacheKey, watch::Receiver<()>>>);

/// One of them. Over when dropped: the answer is stored, or will not be.
#[derive(Debug)]
pub(crate) struct Flight {
    flights: Arc<Flights>,
    key: CacheKey,
    /// Its end is what the others wait for.
    _over: watch::Sender<()>,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<CacheKey, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a flight, unless there is one.
    pub(crate) fn board(self: &Arc<Self>, key: &CacheKey) -> Option<Flight> {
        let mut under_way = self.lock();
        if under_way.contains_key(key) {
            return None;
        }
        let (over, waits) = watch::channel(());
        under_way.insert(key.clone(), waits);
        Some(Flight { flights: Arc::clone(self), key: key.clone(), _over: over })
    }

    /// The flight that is under way: an error from `changed` means that it is over.
    pub(crate) fn other(&self, key: &CacheKey) -> Option<watch::Receiver<()>> {
        self.lock().get(key).cloned()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}
