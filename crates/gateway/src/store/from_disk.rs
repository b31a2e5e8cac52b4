//! Stored answers that are read back from the disk.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method};
use nightwatt_httpcache::{CacheKey, RequestHead, Rules, Stored, Timestamp};

use super::{Object, Popularity, Requester, Store, VARIANTS};
use crate::disk_cache::SiteDisk;
use crate::disk_cache::index::Variant;
use crate::disk_cache::record::Meta;

impl Store {
    /// The disk behind it, if there is one.
    pub(crate) const fn disk(&self) -> Option<&SiteDisk> {
        self.disk.as_ref()
    }

    /// Whether this very answer is stored.
    pub(crate) fn holds(&self, key: &CacheKey, object: &Arc<Object>) -> bool {
        let entry = self.objects.peek(key);
        entry.is_some_and(|entry| entry.variants.iter().any(|it| Arc::ptr_eq(it, object)))
    }

    /// Whether the disk has more than the memory. All variants of a resource are moved together, so
    /// the disk has no further variants of a resource that is in memory.
    pub(crate) fn is_on_disk_only(&self, key: &CacheKey, now: Timestamp) -> bool {
        let disk = self.disk.as_ref();
        disk.is_some_and(|disk| self.objects.peek(key).is_none() && disk.has(key, now))
    }

    /// Reads a resource from the disk into memory, unless it is forgotten meanwhile. Leaves out what the site's rules
    /// would not store any more; if that is all of it, the disk forgets it.
    pub(crate) async fn bring_up(self: &Arc<Self>, key: &CacheKey, now: Timestamp, rules: &Rules) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_on_disk_only(key, now)) else {
            return;
        };
        // As for a request to the server: if it is forgotten from now on, this is too old.
        let ticket = self.ask(key.clone(), Requester::Renewal);
        let read = disk.read(key).await;
        let is_there = !read.is_empty();
        let objects = read.into_iter().filter_map(|(meta, body, variant)| {
            let stored = restored(key, &meta, disk.rules(), rules)?;
            let mut object = Object::new(stored, body);
            object.popularity = Popularity::again(meta.popularity.max(variant.popularity));
            object.body_on_disk = Some(variant.body);
            is_the_same(&object, &meta, variant).then(|| (variant, Arc::new(object)))
        });
        let mut objects: Vec<_> = objects.collect();
        if is_there && objects.is_empty() {
            drop(disk.forget(std::slice::from_ref(key)));
        }
        let mut state = self.state();
        if state.is_in_time(&ticket) {
            // A newer answer may have come meanwhile, and have left the memory again.
            objects.retain(|(variant, _)| disk.still_has(key, variant));
            let objects = objects.into_iter().map(|(_, object)| object).collect();
            self.restore(&mut state, key, objects);
        }
        drop(state);
    }

    /// What is in memory by now is newer.
    fn restore(&self, state: &mut super::StoreState, key: &CacheKey, objects: Vec<Arc<Object>>) {
        let known = self.objects.peek(key);
        let known: Vec<_> =
            known.iter().flat_map(|it| it.variants.iter()).map(Arc::clone).collect();
        let is_new = |object: &Arc<Object>| {
            known.iter().all(|it| it.stored.selecting() != object.stored.selecting())
        };
        let whole = |object: &Arc<Object>| {
            object.weight <= self.largest() && object.stored.is_whole_with(object.body.len() as u64)
        };
        let mut kept: Vec<_> =
            objects.into_iter().filter(|it| is_new(it) && whole(it)).take(VARIANTS).collect();
        if kept.is_empty() {
            return;
        }
        kept.extend(known);
        self.keep(state, key, kept);
    }
}

/// What was stored under a key, if the present rules permit it.
fn restored(key: &CacheKey, meta: &Meta, fingerprint: u64, rules: &Rules) -> Option<Stored> {
    let (authority, target) = key.as_str().split_at(key.as_str().find('/')?);
    // The rules for keys may have changed since.
    if rules.key.key(authority, target)? != *key {
        return None;
    }
    let mut asked = HeaderMap::new();
    for (name, value) in &meta.selecting {
        if let Some(value) = value {
            asked.insert(name, HeaderValue::from_bytes(value).ok()?);
        }
    }
    let request =
        RequestHead { method: &Method::GET, authority, path_and_query: target, headers: &asked };
    let trusted = meta.rules == fingerprint;
    Stored::restored(&request, meta.basis, trusted, meta.status, &meta.headers, meta.times, rules)
        .ok()
}

/// The fields that selected it are unchanged: `Vary` is among what is stored.
fn is_the_same(object: &Object, meta: &Meta, variant: Variant) -> bool {
    meta.variant() == variant.id
        && crate::disk_cache::record::variant(object.stored.selecting().iter()) == variant.id
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http::StatusCode;
    use nightwatt_clock::Clock;
    use nightwatt_httpcache::{Filler, KeyRules, Purge, Times};
    use nightwatt_policy::admission::ClientClass;

    use super::*;
    use crate::config::DiskConfig;
    use crate::disk_cache::DiskCache;

    const REQUESTER: Requester = Requester::Of(ClientClass::Human);

    const NOW: Timestamp = Timestamp::from_secs(1_767_225_600);

    fn key() -> CacheKey {
        KeyRules::default().key("example.org", "/a").unwrap()
    }

    fn object(bytes: usize) -> Object {
        let mut headers = HeaderMap::new();
        headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
        let asked = HeaderMap::new();
        let request = RequestHead {
            method: &Method::GET,
            authority: "example.org",
            path_and_query: "/a",
            headers: &asked,
        };
        let (status, times, rules) = (StatusCode::OK, Times::at(NOW), Rules::default());
        let filler = Filler::Client;
        let stored = Stored::new(&request, filler, status, &headers, times, &rules).unwrap();
        Object::new(stored, Bytes::from(vec![b'x'; bytes]))
    }

    /// A disk cache that has an answer, and a store that has it too.
    async fn stored(dir: &std::path::Path) -> (Arc<DiskCache>, Arc<Store>) {
        let cache = DiskCache::open(&DiskConfig::default(), dir, &Clock::real()).unwrap();
        let disk = SiteDisk::new(&cache, "blog", &Rules::default());
        let store = Arc::new(Store::new(1 << 20, Some(disk)));
        store.ask(key(), REQUESTER).store(object(1000));
        cache.write_all_of(&store).await;
        assert!(store.disk().unwrap().has(&key(), NOW));
        (cache, store)
    }

    /// Polls until it is so.
    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let clock = Clock::real();
        let deadline = clock.now().mono + Duration::from_secs(30);
        while !is_so() {
            assert!(clock.now().mono < deadline, "not within 30 s: {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_purged_has_left_the_memory_before_the_disk_is_told() {
        let dir = tempfile::tempdir().unwrap();
        Clock::real().runtime().unwrap().block_on(async {
            let (cache, store) = stored(dir.path()).await;
            let purging = {
                // While this is held the disk cannot be told, and the writer may take what is in memory.
                let index = cache.index();
                let store = Arc::clone(&store);
                let there = Arc::clone(&store);
                let purging = std::thread::spawn(move || store.purge(&Purge::All).0);
                eventually("an empty memory", || there.size().0 == 0);
                assert_eq!(index.count(), 1);
                purging
            };
            assert_eq!(purging.join().unwrap(), 1);
            cache.close().await;
        });
    }

    #[test]
    fn what_the_disk_has_forgotten_while_it_was_read_does_not_come_back() {
        let dir = tempfile::tempdir().unwrap();
        Clock::real().runtime().unwrap().block_on(async {
            let (cache, store) = stored(dir.path()).await;
            let (name, rules) = (key(), Rules::default());
            let coming = loop {
                store.objects.remove(&key());
                let mut coming = Box::pin(store.bring_up(&name, NOW, &rules));
                tokio::select! {
                    biased;
                    // Now and then it is read before the test can look.
                    () = &mut coming => {}
                    () = std::future::ready(()) => break coming,
                }
            };
            eventually("it is read", || cache.index().names().all(|(_, all)| all[0].used));
            // A newer one, too large to be kept.
            store.ask(key(), REQUESTER).store(object(1 << 20));
            coming.await;
            assert_eq!(store.size().0, 0);
            cache.close().await;
        });
    }
}
