//! Stored answers that come back from the disk.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method};
use nightwatt_httpcache::{CacheKey, RequestHead, Rules, Stored, Timestamp};

use super::{Object, Popularity, Sake, Store, VARIANTS};
use crate::disk_cache::SiteDisk;
use crate::disk_cache::index::Variant;
use crate::disk_cache::record::Meta;

impl Store {
    /// The disk behind it, if there is one.
    pub(crate) const fn disk(&self) -> Option<&SiteDisk> {
        self.disk.as_ref()
    }

    /// Is this very answer what is kept?
    pub(crate) fn holds(&self, key: &CacheKey, object: &Arc<Object>) -> bool {
        let entry = self.objects.peek(key);
        entry.is_some_and(|entry| entry.variants.iter().any(|it| Arc::ptr_eq(it, object)))
    }

    /// Would a look at the disk give more than what is in memory? All variants of a resource come and go
    /// together, so what is here in part is not there in part.
    pub(crate) fn is_on_disk_only(&self, key: &CacheKey, now: Timestamp) -> bool {
        let disk = self.disk.as_ref();
        disk.is_some_and(|disk| self.objects.peek(key).is_none() && disk.has(key, now))
    }

    /// Takes what the disk has of a resource into memory, unless that is forgotten meanwhile. What the
    /// site's rules would not store any more is left out.
    pub(crate) async fn bring_up(self: &Arc<Self>, key: &CacheKey, now: Timestamp, rules: &Rules) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_on_disk_only(key, now)) else {
            return;
        };
        // As if the server were asked: whatever is forgotten from now on comes too late.
        let ticket = self.ask(key.clone(), Sake::Nobody);
        let read = disk.read(key).await;
        let objects = read.into_iter().filter_map(|(meta, body, variant)| {
            let stored = restored(key, &meta, rules)?;
            let mut object = Object::new(stored, body);
            object.popularity = Popularity::again(meta.popularity.max(variant.popularity));
            object.body_on_disk = Some(variant.body);
            is_the_same(&object, &meta, variant).then(|| Arc::new(object))
        });
        let objects: Vec<_> = objects.collect();
        let mut books = self.books();
        if books.asked.get(&ticket.number).is_some_and(|asked| !asked.too_late) {
            self.restore(&mut books, key, objects);
        }
        drop(books);
    }

    /// What is in memory by now is newer.
    fn restore(&self, books: &mut super::Books, key: &CacheKey, objects: Vec<Arc<Object>>) {
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
        self.keep(books, key, kept);
    }
}

/// What was stored under a key, as the rules are now.
fn restored(key: &CacheKey, meta: &Meta, rules: &Rules) -> Option<Stored> {
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
    Stored::new(&request, meta.status, &meta.headers, meta.times, rules).ok()
}

/// The fields by which it was chosen are what they were: `Vary` is among what is stored.
fn is_the_same(object: &Object, meta: &Meta, variant: Variant) -> bool {
    meta.variant() == variant.id
        && crate::disk_cache::record::variant(object.stored.selecting().iter()) == variant.id
}
