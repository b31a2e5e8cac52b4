//! Counts the places of each client (connections, held requests), and limits them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nightwatt_policy::connections::ConnectionCounts;

/// How many places each client has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(Arc<Mutex<ConnectionCounts>>);

impl Places {
    /// Acquires a place for `client`, unless it has `most`.
    pub(crate) fn take(&self, client: u64, most: usize) -> Option<Place> {
        lock(self).open(client, most).then(|| Place(Some((self.clone(), client))))
    }
}

/// One of the places that a client may have.
#[derive(Debug)]
pub(crate) struct Place(Option<(Places, u64)>);

impl Place {
    /// A place without a limit.
    pub(crate) const fn unbounded() -> Self {
        Self(None)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((places, client)) = &self.0 {
            lock(places).closed(*client);
        }
    }
}

fn lock(places: &Places) -> MutexGuard<'_, ConnectionCounts> {
    places.0.lock().unwrap_or_else(PoisonError::into_inner)
}
