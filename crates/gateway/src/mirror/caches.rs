//! The mirror and the caches beside it: what it knows holds for their answers too.
//!
//! * A client that has changed something gets from them only what the server itself says is fresh.
//! * A stale answer is given only if it is not older than `max_age` and nothing says that it has changed since.
//! * What a pass removes or replaces, the caches forget.

use nightwatt_httpcache::{Basis, Stored, Usability};
use nightwatt_mirror::pure::address::Address;

use super::Mirror;

impl Mirror {
    /// How a cache may use an answer for a request of this client.
    pub(crate) fn limited(
        &self,
        usability: Usability,
        stored: &Stored,
        target: &str,
        client: u64,
    ) -> Usability {
        let is_fresh = matches!(usability, Usability::Fresh { .. });
        let may_be_used = if self.is_bypassed(client) {
            is_fresh && stored.basis() == Basis::Marked
        } else {
            is_fresh || self.may_be_stale(stored, target)
        };
        if may_be_used { usability } else { usability.only_confirmed() }
    }

    fn may_be_stale(&self, stored: &Stored, target: &str) -> bool {
        let refresh = &self.rules.refresh;
        if !stored.is_pinned() && refresh.is_too_old(stored.times().requested, self.now()) {
            return false;
        }
        match (self.opened(), Address::new(target)) {
            (Some(open), Some(address)) => open.plan().is_current(&address, stored),
            // What has changed is not known before the copy is open, nor of what has no address.
            _ => false,
        }
    }
}
