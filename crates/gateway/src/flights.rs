//! Concurrent requests for the same resource: one goes to the server, the others wait for the cached answer. If the
//! last answer was not cacheable, no request waits.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nightwatt_httpcache::CacheKey;
use tokio::sync::watch;

/// Limit of remembered resources with uncacheable answers; at the limit all are forgotten.
const ALONE: usize = 4096;

/// The resources of a site that are being fetched.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    books: Mutex<Books>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Books {
    under_way: HashMap<CacheKey, watch::Receiver<()>>,
    /// Hashes of keys whose last answers could not be stored. (After a collision, some requests would go to the server
    /// instead of waiting.)
    alone: HashSet<u64>,
}

/// A fetch in progress. It ends when dropped: the answer is stored, or will not be.
#[derive(Debug)]
pub(crate) struct Flight {
    flights: Arc<Flights>,
    key: CacheKey,
    /// Waiting requests wait for this to be dropped.
    _over: watch::Sender<()>,
}

/// How a request for a resource goes to the server.
#[derive(Debug)]
pub(crate) enum Boarding {
    /// Other requests wait for its answer.
    First(Flight),
    /// Another request is under way.
    Other,
    /// It does not wait, and no other request waits for it: the last answer was not cacheable.
    Alone,
}

impl Boarding {
    /// The flight, if it is the first.
    pub(crate) fn first(self) -> Option<Flight> {
        match self {
            Self::First(flight) => Some(flight),
            Self::Other | Self::Alone => None,
        }
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a flight, unless there is one, or the answer is not cacheable.
    pub(crate) fn board(self: &Arc<Self>, key: &CacheKey) -> Boarding {
        let mut books = self.lock();
        if books.under_way.contains_key(key) {
            return Boarding::Other;
        }
        if books.alone.contains(&self.hasher.hash_one(key.as_str())) {
            return Boarding::Alone;
        }
        let (over, waits) = watch::channel(());
        books.under_way.insert(key.clone(), waits);
        Boarding::First(Flight { flights: Arc::clone(self), key: key.clone(), _over: over })
    }

    /// The flight that is under way: an error from `changed` means that it is over.
    pub(crate) fn other(&self, key: &CacheKey) -> Option<watch::Receiver<()>> {
        self.lock().under_way.get(key).cloned()
    }

    /// Notes whether the answer was stored.
    pub(crate) fn note(&self, key: &CacheKey, stored: bool) {
        let (mut books, hash) = (self.lock(), self.hasher.hash_one(key.as_str()));
        if stored {
            books.alone.remove(&hash);
            return;
        }
        if books.alone.len() >= ALONE && !books.alone.contains(&hash) {
            books.alone.clear();
        }
        books.alone.insert(hash);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.lock().under_way.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_httpcache::KeyRules;

    use super::*;

    fn key(target: &str) -> CacheKey {
        KeyRules::default().key("example.org", target).unwrap()
    }

    #[test]
    fn one_flies_and_the_others_wait_until_it_is_known_that_there_is_nothing_to_wait_for() {
        let flights = Arc::new(Flights::default());
        let Boarding::First(first) = flights.board(&key("/a")) else { panic!("nobody was there") };
        assert!(matches!(flights.board(&key("/a")), Boarding::Other));
        assert!(matches!(flights.board(&key("/b")), Boarding::First(_)));
        flights.note(&key("/a"), false);
        // A flight that is under way is still waited for: its answer may be cacheable again.
        assert!(matches!(flights.board(&key("/a")), Boarding::Other));
        drop(first);
        assert!(flights.other(&key("/a")).is_none());
        assert!(matches!(flights.board(&key("/a")), Boarding::Alone));
        flights.note(&key("/a"), true);
        assert!(matches!(flights.board(&key("/a")), Boarding::First(_)));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let flights = Arc::new(Flights::default());
        for number in 0..=ALONE {
            flights.note(&key(&format!("/{number}")), false);
        }
        assert_eq!(flights.lock().alone.len(), 1);
        assert!(matches!(flights.board(&key(&format!("/{ALONE}"))), Boarding::Alone));
    }
}
