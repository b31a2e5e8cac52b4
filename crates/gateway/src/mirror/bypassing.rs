//! Clients that have changed something: for ten minutes they get the server's own answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nightwatt_httpcache::Timestamp;
use nightwatt_mirror::pure::bypass::{BYPASS, Bypasses};

/// The clients of one site. It is asked for every hit on the fast path.
#[derive(Debug, Default)]
pub(super) struct Bypassing {
    clients: Mutex<Bypasses>,
    /// When the last bypass ends, in milliseconds since 1970.
    until: AtomicU64,
}

impl Bypassing {
    /// This client has changed something.
    pub(super) fn changed(&self, client: u64, now: Timestamp) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).changed(client, now);
        self.until.fetch_max(now.plus(BYPASS).as_millis(), Ordering::Relaxed);
    }

    /// Whether this client bypasses the mirror and the caches. Most sites need no clock for that.
    pub(super) fn is_bypassed(&self, client: u64, now: impl FnOnce() -> Timestamp) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        let now = now();
        now.as_millis() < until
            && self.clients.lock().unwrap_or_else(PoisonError::into_inner).is_bypassed(client, now)
    }

    /// When a client last changed something.
    pub(super) fn last_change(&self) -> Option<Timestamp> {
        let until = self.until.load(Ordering::Relaxed);
        let bypass = u64::try_from(BYPASS.as_millis()).unwrap_or(u64::MAX);
        (until > 0).then(|| Timestamp::from_millis(until.saturating_sub(bypass)))
    }
}
