//! What the proxy's cache would have answered, as far as a log can tell.

use std::time::Duration;

use nightwatt_model::policy::admission::Cached;
use nightwatt_model::scenario::CacheRule;
use nightwatt_model::time::Mono;

use crate::shelf::Place;

/// What a request asks for and got, as far as the cache is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// Names it: a hash of its address.
    pub key: u64,
    /// Where caches keep it: its [`Shelf`](crate::Shelf) says.
    pub place: Place,
    /// Asked for by GET or HEAD: may be answered from the cache.
    pub is_read: bool,
    /// The answer may be stored (status and method).
    pub storable: bool,
}

/// How the cache behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// How long answers stay fresh.
    pub ttl: Duration,
    /// How long past that they may be served while the server sleeps.
    pub grace: Duration,
    /// Stored answers are renewed while the server is awake (`cache.warm_up`).
    pub warm_up: bool,
}

impl CacheSettings {
    /// The settings that a scenario describes. With a `ttl` of 0 it says that only RFC 9111's
    /// heuristics make answers fresh; a log does not show `Last-Modified`, so none is fresh then.
    pub const fn of(rule: &CacheRule) -> Self {
        Self { ttl: rule.ttl, grace: rule.grace_asleep, warm_up: true }
    }
}

/// What is kept at a place.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u64,
    fetched: Mono,
}

/// Fetched at no time.
const NOTHING: Entry = Entry { key: 0, fetched: Mono::NEVER };

/// The model: how old each resource's answer is. What fits is for the [`Shelf`](crate::Shelf) to say.
///
/// Exact where the gateway's is, but for what a log does not show: variants, cookies, validators and
/// what the origin says about caching, for which the scenario's rule stands.
#[derive(Debug)]
pub struct CacheModel {
    settings: CacheSettings,
    entries: Vec<Entry>,
    /// The present sleep, or the last one, began.
    slept: Mono,
    /// What was fetched before then has missed its renewal: a sleep was too long.
    missed: Mono,
}

impl CacheModel {
    /// An empty cache.
    pub const fn new(settings: CacheSettings) -> Self {
        Self { settings, entries: Vec::new(), slept: Mono::ZERO, missed: Mono::ZERO }
    }

    /// What there is for a request.
    pub fn lookup(&self, resource: &Resource, now: Mono) -> Cached {
        if !resource.is_read {
            return Cached::Nothing;
        }
        let entry = self.entries.get(resource.place.index()).unwrap_or(&NOTHING);
        if entry.key != resource.key || entry.fetched == Mono::NEVER {
            return Cached::Nothing;
        }
        let age = now.since(self.fetched(entry));
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
        let Resource { key, place, is_read, storable } = *resource;
        if place == Place::NONE || is_read && !storable {
            return;
        }
        if self.entries.len() <= place.index() {
            self.entries.resize(place.index() + 1, NOTHING);
        }
        self.entries[place.index()] = if is_read { Entry { key, fetched: now } } else { NOTHING };
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shelf;

    fn page() -> Resource {
        let place = Shelf::new(1 << 20).place(1, 1000, true);
        Resource { key: 1, place, is_read: true, storable: true }
    }

    fn cache(warm_up: bool) -> CacheModel {
        let (ttl, grace) = (Duration::from_mins(2), Duration::from_hours(1));
        CacheModel::new(CacheSettings { ttl, grace, warm_up })
    }

    fn at(minute: u64) -> Mono {
        Mono::from_secs(minute * 60)
    }

    #[test]
    fn fresh_then_stale_then_nothing() {
        let page = page();
        let mut cache = cache(false);
        assert_eq!(cache.lookup(&page, at(0)), Cached::Nothing);
        cache.answered(&page, at(0));
        assert_eq!(cache.lookup(&page, at(1)), Cached::Fresh);
        assert_eq!(cache.lookup(&page, at(2)), Cached::Stale);
        assert_eq!(cache.lookup(&page, at(62)), Cached::Stale);
        assert_eq!(cache.lookup(&page, at(63)), Cached::Nothing);
    }

    #[test]
    fn a_change_forgets_and_what_may_not_be_stored_is_not() {
        let page = page();
        let mut cache = cache(false);
        cache.answered(&page, at(0));
        cache.answered(&Resource { is_read: false, storable: false, ..page }, at(1));
        assert_eq!(cache.lookup(&page, at(1)), Cached::Nothing);
        cache.answered(&Resource { storable: false, ..page }, at(1));
        assert_eq!(cache.lookup(&page, at(1)), Cached::Nothing);
        let elsewhere = Resource { key: 2, ..page };
        cache.answered(&page, at(1));
        assert_eq!(cache.lookup(&elsewhere, at(1)), Cached::Nothing, "the place's last owner");
        cache.answered(&Resource { place: Place::NONE, ..elsewhere }, at(1));
        assert_eq!(cache.lookup(&page, at(1)), Cached::Fresh);
    }

    #[test]
    fn renewed_answers_last_half_the_grace_into_every_sleep() {
        let page = page();
        let mut cache = cache(true);
        cache.answered(&page, at(0));
        // Awake for five hours: renewed all the while, so 30 minutes of grace are left at least.
        cache.sleeps(at(300));
        assert_eq!(cache.lookup(&page, at(330)), Cached::Stale);
        assert_eq!(cache.lookup(&page, at(331)), Cached::Nothing);
        cache.wakes(at(320));
        cache.sleeps(at(400));
        assert_eq!(cache.lookup(&page, at(430)), Cached::Stale);
        // A sleep too long to renew it: gone for good.
        cache.wakes(at(500));
        cache.sleeps(at(510));
        assert_eq!(cache.lookup(&page, at(511)), Cached::Nothing);
    }
}
