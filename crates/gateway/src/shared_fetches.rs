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
pub(crate) struct SharedFetches {
    table: Mutex<FetchTable>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct FetchTable {
    under_way: HashMap<CacheKey, watch::Receiver<()>>,
    /// Hashes of keys whose last answers could not be stored. (After a collision, some requests would go to the server
    /// instead of waiting.)
    alone: HashSet<u64>,
}

/// A fetch in progress. It ends when dropped: the answer is stored, or will not be.
#[derive(Debug)]
pub(crate) struct SharedFetch {
    shared_fetches: Arc<SharedFetches>,
    key: CacheKey,
    /// Waiting requests wait for this to be dropped.
    _over: watch::Sender<()>,
}

/// How a request for a resource goes to the server.
#[derive(Debug)]
pub(crate) enum FetchRole {
    /// Other requests wait for its answer.
    First(SharedFetch),
    /// Another request is under way.
    Other,
    /// It does not wait, and no other request waits for it: the last answer was not cacheable.
    Alone,
}

impl FetchRole {
    /// The shared fetch, if it is the first.
    pub(crate) fn first(self) -> Option<SharedFetch> {
        match self {
            Self::First(shared_fetch) => Some(shared_fetch),
            Self::Other | Self::Alone => None,
        }
    }
}

impl SharedFetches {
    fn lock(&self) -> MutexGuard<'_, FetchTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a fetch, unless there is one, or the answer is not cacheable.
    pub(crate) fn join(self: &Arc<Self>, key: &CacheKey) -> FetchRole {
        let mut table = self.lock();
        if table.under_way.contains_key(key) {
            return FetchRole::Other;
        }
        if table.alone.contains(&self.hasher.hash_one(key.as_str())) {
            return FetchRole::Alone;
        }
        let (over, waits) = watch::channel(());
        table.under_way.insert(key.clone(), waits);
        FetchRole::First(SharedFetch {
            shared_fetches: Arc::clone(self),
            key: key.clone(),
            _over: over,
        })
    }

    /// The fetch that is under way: an error from `changed` means that it is over.
    pub(crate) fn other(&self, key: &CacheKey) -> Option<watch::Receiver<()>> {
        self.lock().under_way.get(key).cloned()
    }

    /// Notes whether the answer was stored.
    pub(crate) fn note(&self, key: &CacheKey, stored: bool) {
        let (mut table, hash) = (self.lock(), self.hasher.hash_one(key.as_str()));
        if stored {
            table.alone.remove(&hash);
            return;
        }
        if table.alone.len() >= ALONE && !table.alone.contains(&hash) {
            table.alone.clear();
        }
        table.alone.insert(hash);
    }
}

impl Drop for SharedFetch {
    fn drop(&mut self) {
        self.shared_fetches.lock().under_way.remove(&self.key);
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
    fn one_fetches_and_the_others_wait_until_it_is_known_that_there_is_nothing_to_wait_for() {
        let shared_fetches = Arc::new(SharedFetches::default());
        let FetchRole::First(first) = shared_fetches.join(&key("/a")) else {
            panic!("no fetch was under way")
        };
        assert!(matches!(shared_fetches.join(&key("/a")), FetchRole::Other));
        assert!(matches!(shared_fetches.join(&key("/b")), FetchRole::First(_)));
        shared_fetches.note(&key("/a"), false);
        // A fetch that is under way is still waited for: its answer may be cacheable again.
        assert!(matches!(shared_fetches.join(&key("/a")), FetchRole::Other));
        drop(first);
        assert!(shared_fetches.other(&key("/a")).is_none());
        assert!(matches!(shared_fetches.join(&key("/a")), FetchRole::Alone));
        shared_fetches.note(&key("/a"), true);
        assert!(matches!(shared_fetches.join(&key("/a")), FetchRole::First(_)));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let shared_fetches = Arc::new(SharedFetches::default());
        for number in 0..=ALONE {
            shared_fetches.note(&key(&format!("/{number}")), false);
        }
        assert_eq!(shared_fetches.lock().alone.len(), 1);
        assert!(matches!(shared_fetches.join(&key(&format!("/{ALONE}"))), FetchRole::Alone));
    }
}
