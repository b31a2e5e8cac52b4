//! The mirror and the caches beside it: what it knows holds for their answers too.
//!
//! * A client that has changed something gets from them only what the server itself says is fresh.
//! * After a change of content, pages and errors from before it are not given, however long they were assumed to be
//!   fresh. What the server itself marks is fresh as long as it says.
//! * A stale answer is given only if it is not older than `max_age` and nothing says that it has changed since.
//! * What a pass removes or replaces, the caches forget.

use std::sync::atomic::Ordering;

use nightwatt_httpcache::{Basis, Stored, Timestamp, Usability};
use nightwatt_mirror::pure::address::Address;

use super::open::OpenMirror;
use super::{Mirror, UNKNOWN};

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
        let mut targets = request.targets.iter();
        let may_be_used = match is_fresh {
            true if stored.basis() == Basis::Marked => true,
            _ if self.is_bypassed(request.client) => false,
            true => !self.may_be_outdated(stored) || targets.all(|it| self.is_current(stored, it)),
            false => targets.all(|target| self.may_be_stale(stored, target)),
        };
        if may_be_used { usability } else { usability.only_confirmed() }
    }

    /// Whether content has changed since this answer was requested, and its server did not say how long it is fresh.
    pub(crate) fn may_be_outdated(&self, stored: &Stored) -> bool {
        let changed = self.last_change.load(Ordering::Relaxed);
        stored.times().requested.as_millis() <= changed && stored.basis() != Basis::Marked
    }

    /// Content has changed.
    pub(super) fn note_change(&self, now: Timestamp) {
        self.last_change.fetch_max(now.as_millis(), Ordering::Relaxed);
    }

    /// The copy is open: it knows when content last changed. `None`: there will be no copy before a client comes.
    pub(super) fn note_opened(&self, open: Option<&OpenMirror>) {
        let known = open.and_then(|it| it.plan().last_change());
        let known = known.max(self.bypassing.last_change()).map_or(0, Timestamp::as_millis);
        // Without a copy, only the first look counts: then changes are noted here.
        let unknown =
            self.last_change.compare_exchange(UNKNOWN, known, Ordering::Relaxed, Ordering::Relaxed);
        if open.is_some() && unknown.is_err() {
            self.last_change.fetch_max(known, Ordering::Relaxed);
        }
    }

    fn may_be_stale(&self, stored: &Stored, target: &str) -> bool {
        let requested = stored.times().requested;
        let is_too_old =
            !stored.is_pinned() && self.rules.refresh.is_too_old(requested, self.now());
        !is_too_old && self.is_current(stored, target)
    }

    /// Whether nothing says that the content of this address has changed since.
    fn is_current(&self, stored: &Stored, target: &str) -> bool {
        let requested = stored.times().requested;
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
