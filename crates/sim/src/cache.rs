//! What the proxy's cache would have answered, as far as a log can tell.

use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_policy::admission::Cached;
use nightwatt_policy::scenario::CacheRule;

use crate::entries::{Entries, Entry};
use crate::resource::Resource;

/// A resource takes no more than this part of the cache, as in the gateway's store.
const LARGEST: u64 = 8;

/// How the cache behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// How long answers stay fresh.
    pub ttl: Duration,
    /// How long past that they may be served while the server sleeps.
    pub grace: Duration,
    /// Bytes of memory.
    pub bytes: u64,
    /// Stored answers are renewed while the server is awake (`cache.warm_up`).
    pub warm_up: bool,
    /// What crawlers were sent away from is fetched too (`cache.warm_up_crawlers`).
    pub prefetches_refused: bool,
}

impl CacheSettings {
    /// The settings that a scenario describes. With a `ttl` of 0 it says that only RFC 9111's
    /// heuristics make answers fresh; a log does not show `Last-Modified`, so none is fresh then.
    pub const fn of(rule: &CacheRule) -> Self {
        Self {
            ttl: rule.ttl,
            grace: rule.grace_asleep,
            bytes: rule.size_mb << 20,
            warm_up: rule.warm_up > 0,
            prefetches_refused: rule.warm_up > 0 && rule.warm_up_crawlers,
        }
    }
}

/// The model: bounded in bytes, with the eviction that the gateway's store has.
///
/// Exact where the gateway's is, except for what a log does not show: variants, cookies, validators and
/// what the origin says about caching, for which the scenario's rule stands.
pub struct CacheModel {
    settings: CacheSettings,
    entries: Entries,
    /// The present sleep, or the last one, began.
    slept: Mono,
    /// What was fetched before then has missed its renewal: a sleep was too long.
    missed: Mono,
}

impl std::fmt::Debug for CacheModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.entries.len();
        f.debug_struct("CacheModel").field("entries", &entries).finish_non_exhaustive()
    }
}

impl CacheModel {
    /// An empty cache.
    pub fn new(settings: CacheSettings) -> Self {
        let entries = Entries::new(settings.bytes);
        Self { settings, entries, slept: Mono::ZERO, missed: Mono::ZERO }
    }

    /// What there is for a request.
    pub fn lookup(&mut self, resource: &Resource, now: Mono) -> Cached {
        if !resource.is_read {
            return Cached::Nothing;
        }
        let Some(entry) = self.entries.get(resource.key, resource.slot) else {
            return Cached::Nothing;
        };
        let age = now.since(self.fetched(&entry));
        let CacheSettings { ttl, grace, .. } = self.settings;
        if age < ttl {
            Cached::Fresh
        } else if age <= ttl.saturating_add(grace) && !grace.is_zero() {
            Cached::Stale
        } else {
            Cached::Nothing
        }
    }

    /// When an entry was fetched or renewed last. Renewal keeps whatever is stored younger than half
    /// of the grace until the server sleeps; so nothing needs to be gone through when that happens.
    fn fetched(&self, entry: &Entry) -> Mono {
        if !self.settings.warm_up || entry.fetched < self.missed {
            return entry.fetched;
        }
        entry.fetched.max(self.slept - self.oldest_at_sleep())
    }

    fn oldest_at_sleep(&self) -> Duration {
        self.settings.ttl + self.settings.grace / 2
    }

    /// The server answered. What may be stored is; a change forgets what it changed.
    pub fn answered(&mut self, resource: &Resource, now: Mono) {
        if !resource.is_read {
            self.entries.remove(resource.key, resource.slot);
        } else if resource.storable && resource.bytes <= self.settings.bytes / LARGEST {
            self.entries.insert(
                resource.key,
                resource.slot,
                Entry { fetched: now, bytes: resource.bytes },
            );
        }
    }

    /// The server was told to sleep.
    pub const fn sleeps(&mut self, now: Mono) {
        self.slept = now;
    }

    /// The server answers again.
    pub fn wakes(&mut self, now: Mono) {
        if now.since(self.slept) > self.settings.grace / 2 {
            self.missed = self.slept;
        }
    }

    /// Is what crawlers were sent away from fetched when the server wakes?
    pub const fn prefetches_refused(&self) -> bool {
        self.settings.prefetches_refused
    }

    /// What is stored.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::Slot;
    use crate::resource::Mirrorable;

    const PAGE: Resource = Resource {
        key: 1,
        slot: Slot::NONE,
        bytes: 1000,
        is_read: true,
        storable: true,
        mirror: Mirrorable::NOTHING,
    };

    fn cache(warm_up: bool) -> CacheModel {
        let (ttl, grace) = (Duration::from_mins(2), Duration::from_hours(1));
        CacheModel::new(CacheSettings {
            ttl,
            grace,
            bytes: 1 << 20,
            warm_up,
            prefetches_refused: false,
        })
    }

    fn at(minute: u64) -> Mono {
        Mono::from_secs(minute * 60)
    }

    #[test]
    fn fresh_then_stale_then_nothing() {
        let mut cache = cache(false);
        assert_eq!(cache.lookup(&PAGE, at(0)), Cached::Nothing);
        cache.answered(&PAGE, at(0));
        assert_eq!(cache.lookup(&PAGE, at(1)), Cached::Fresh);
        assert_eq!(cache.lookup(&PAGE, at(2)), Cached::Stale);
        assert_eq!(cache.lookup(&PAGE, at(62)), Cached::Stale);
        assert_eq!(cache.lookup(&PAGE, at(63)), Cached::Nothing);
    }

    #[test]
    fn a_change_forgets_and_what_may_not_be_stored_is_not() {
        let mut cache = cache(false);
        cache.answered(&PAGE, at(0));
        cache.answered(&Resource { is_read: false, storable: false, ..PAGE }, at(1));
        assert_eq!(cache.lookup(&PAGE, at(1)), Cached::Nothing);
        cache.answered(&Resource { storable: false, ..PAGE }, at(1));
        assert_eq!(cache.lookup(&PAGE, at(1)), Cached::Nothing);
        cache.answered(&Resource { bytes: (1 << 20) / 8 + 1, ..PAGE }, at(1));
        assert_eq!(cache.lookup(&PAGE, at(1)), Cached::Nothing, "too large");
    }

    #[test]
    fn renewed_answers_last_half_the_grace_into_every_sleep() {
        let mut cache = cache(true);
        cache.answered(&PAGE, at(0));
        // Awake for five hours: renewed all the while, so 30 minutes of grace are left at least.
        cache.sleeps(at(300));
        assert_eq!(cache.lookup(&PAGE, at(330)), Cached::Stale);
        assert_eq!(cache.lookup(&PAGE, at(331)), Cached::Nothing);
        cache.wakes(at(320));
        cache.sleeps(at(400));
        assert_eq!(cache.lookup(&PAGE, at(430)), Cached::Stale);
        // A sleep too long to renew it: gone for good.
        cache.wakes(at(500));
        cache.sleeps(at(510));
        assert_eq!(cache.lookup(&PAGE, at(511)), Cached::Nothing);
    }

    #[test]
    fn memory_is_bounded() {
        let mut cache = cache(true);
        for key in 0..100_000 {
            cache.answered(&Resource { key, ..PAGE }, at(key));
        }
        assert!(cache.entries() <= (1 << 20) / (1000 + 2048), "{}", cache.entries());
    }
}
