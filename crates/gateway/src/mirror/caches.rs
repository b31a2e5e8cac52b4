//! The mirror and the caches beside it: what it knows holds for their answers too.
//!
//! * A client that has changed something gets from them only what the server itself says is fresh.
//! * A stale answer is given only if it is not older than `max_age` and nothing says that it has changed since.
//! * What a pass removes or replaces, the caches forget.

use std::sync::atomic::Ordering;

use nightwatt_httpcache::{Basis, Stored, Usability};
use nightwatt_mirror::pure::address::Address;

use super::Mirror;

/// A request of a client, for what the caches have.
#[derive(Clone, Copy)]
pub(crate) struct CacheRequest<'a> {
    /// Its path and query, and those of its cache key.
    pub(crate) targets: [&'a str; 2],
    /// Tells clients apart.
    pub(crate) client: u64,
}

impl Mirror {
    /// How a cache may use an answer for a request.
    pub(crate) fn limited(
        &self,
        usability: Usability,
        stored: &Stored,
        request: CacheRequest<'_>,
    ) -> Usability {
        let is_fresh = matches!(usability, Usability::Fresh { .. });
        let may_be_used = if self.is_bypassed(request.client) {
            is_fresh && stored.basis() == Basis::Marked
        } else {
            is_fresh || request.targets.iter().all(|target| self.may_be_stale(stored, target))
        };
        if may_be_used { usability } else { usability.only_confirmed() }
    }

    fn may_be_stale(&self, stored: &Stored, target: &str) -> bool {
        let requested = stored.times().requested;
        if !stored.is_pinned() && self.rules.refresh.is_too_old(requested, self.now()) {
            return false;
        }
        match (self.opened(), Address::new(target)) {
            (Some(open), Some(address)) => open.plan().is_current(&address, stored),
            // Nothing is known of what has no address.
            (Some(_), None) => false,
            // Before the copy is open, it is not known what has changed; it may never be opened.
            (None, _) => {
                let changed = self.bypassing.last_change();
                self.is_homeless.load(Ordering::Relaxed)
                    && changed.is_none_or(|changed| requested > changed)
            }
        }
    }
}
